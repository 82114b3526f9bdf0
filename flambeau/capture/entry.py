"""A captured function: calls that a program can answer are replayed, all others run as they are.

    captured = Captured(function)
    captured(*args)     # the first call of its kind runs as it is, the second is recorded, later ones are guards and a replay

A call's *kind* is the key of its arguments, with the layouts of their tensors, and the modes of the thread. Stands on arguments,
recorder, results and codegen.programs.
"""

from __future__ import annotations

import enum
import functools
import logging
from collections.abc import Callable
from types import BuiltinFunctionType, FunctionType
from typing import Any

from flambeau.base.flags import flags
from flambeau.capture.arguments import Arguments, Unknown
from flambeau.capture.check import checked
from flambeau.capture.conditions import special, thread_modes
from flambeau.capture.kinds import is_a
from flambeau.capture.recorder import Recorder
from flambeau.capture.results import NoRecipe, Recipe
from flambeau.codegen.programs import Busy, Refusal, Replay, Tape, Unfit
from flambeau.codegen.programs.program import KEPT
from flambeau.codegen.runtime import guards
from flambeau.core.autograd.node import held_gradient
from flambeau.core.tensor.tensor import Tensor

__all__ = ["Captured", "Entry"]

log = logging.getLogger("torch._dynamo.recompiles")  # shown by TORCH_LOGS=recompiles
MOST_MISSES = 32  # captures in a row that no later call could use: the function is left alone from then on
MOST_ENTRIES = 8  # of one kind
MOST_KINDS = 256  # of calls: those that are replayed least leave; if none is, the function is left alone from then on
MOST_BYTES = 64 << 20  # of the memory of a function's programs and guards: those that were used least leave
BYTES_OF_GUARD = 256  # with its reason and what it holds, about
MOST_REFUSALS = 3  # of one kind, after which its calls run as they are
MOST_PINNING = 8  # kinds of calls whose entries hold arguments
_LASTING = (FunctionType, BuiltinFunctionType, type, enum.Enum)  # arguments that are held without harm


class Entry:
    """A program, and what must hold for it to answer a call."""

    def __init__(self, recorder: Recorder, replay: Replay, recipe: Recipe, arguments: Arguments) -> None:
        self.guards = recorder.guards
        self.look = recorder.guards.finish()
        self.searched = 0  # how often entries of dicts were not where they had been
        self.replay, self.attach, self.build = replay, recipe.attach, recipe.build
        self.pinned = frozenset(key for key in recorder.tensors if key not in recorder.arguments)
        self.numbers = recorder.numbers
        tensors = arguments.tensors
        at: dict[int, Any] = {id(x): i for i, x in enumerate(arguments.objects)}  # arguments are found by their number
        self.effects = [(at.get(id(table), table), key, part) for table, key, part in recipe.effects]
        self.around = frozenset(recorder.environment.keys() - recorder.arguments.keys() if arguments.objects else ())
        self.returned = [(place, at[place]) for place in recipe.returned]
        at = {id(x): i for i, x in enumerate(tensors)}
        self.owners = [at.get(id(x), x) for x in recorder.owners]  # whose gradients are inputs, too
        self.gradients = [(at.get(id(x), x), part) for x, part in recipe.gradients]  # that the call gives
        self.without, self.unhooked = ([at[id(x)] for x in each] for each in (recorder.without, recorder.unhooked))
        self.bare = [i for i, x in enumerate(tensors) if id(x) in recorder.bare]
        self.backwards = recipe.backwards
        self.hits = 0
        self.hits_before = 0  # when there was no room for others at last

    @property
    def nbytes(self) -> int:
        """About how many bytes it keeps between calls."""
        programs = self.replay.nbytes + sum(each.nbytes for each in self.backwards)
        return programs + BYTES_OF_GUARD * len(self.guards)

    def answer(self, arguments: Arguments) -> Any:
        """The call's result. Unfit, with the reason, where the program can't give it; nothing has happened then."""
        check, reasons = self.look
        tensors = arguments.tensors
        try:
            failed = check()
        except Exception as error:  # of a question in Python: a set that another thread changes, say
            raise Unfit(f"a look failed: {error!r}") from None
        if failed >= 0:
            raise Unfit(reasons[failed])
        if failed == guards.BY_SEARCH:
            self.searched += 1
            if not self.searched & (self.searched - 1):  # rarely, if they are moved again and again
                self.look = self.guards.finish()
        if not self.pinned.isdisjoint(map(id, tensors)):
            raise Unfit("an argument is a tensor of the surroundings")
        if self.bare and any(tensors[i].__dict__ for i in self.bare):
            raise Unfit("an argument has attributes of its own")
        if self.around and not self.around.isdisjoint(map(id, arguments.objects)):
            raise Unfit("an argument is an object of the surroundings")
        given = self.inputs(tensors) if self.owners or self.without or self.unhooked else tensors
        made = self.replay(*given, *self.numbers.now()) if self.numbers else self.replay(*given)
        if self.attach is not None:
            self.attach(made)
        self.hits += 1
        objects: dict[int, Any] = {place: arguments.objects[i] for place, i in self.returned} if self.returned else {}
        for owner, gradient in self.gradients:
            (tensors[owner] if owner.__class__ is int else owner)._grad = gradient(made, objects)
        result = self.build(made, objects)
        for table, key, part in self.effects:
            if table.__class__ is int:
                table = arguments.objects[table]
            if part is None:
                table.pop(key, None)
            else:
                table[key] = part(made, objects)
        return result

    def inputs(self, tensors: list[Tensor]) -> list[Tensor]:
        """The inputs of the program: arguments, and gradients that were there before. Unfit where they aren't as they were."""
        if any(held_gradient(tensors[i]) is not None for i in self.without):
            raise Unfit("an argument has a gradient")
        if any(tensors[i]._node.extras is not None for i in self.unhooked):
            raise Unfit("an argument whose gradient is computed has hooks")
        found = [held_gradient(tensors[x] if x.__class__ is int else x) for x in self.owners]
        for x in found:
            if x.__class__ is not Tensor or x._node is not None or x.__dict__:
                raise Unfit("a gradient is none, or no plain tensor")
        if not self.pinned.isdisjoint(map(id, found)) or not {*map(id, tensors)}.isdisjoint(map(id, found)):
            raise Unfit("a gradient is found elsewhere in the surroundings")
        return [*tensors, *found]


class Captured:
    """A function that is recorded and replayed; `refusals` are the reasons why calls were not, with how often.

    The results of replays are those of the function, to the last bit. exporting: what `local.exporting` is when it is called.
    """

    def __init__(self, function: Callable[..., Any], exporting: str = "") -> None:
        self.function, self.exporting = function, exporting
        functools.update_wrapper(self, function, updated=())
        self.entries: dict[Any, list[Entry]] = {}
        self.calls: dict[Any, int] = {}  # by kind: recordings that were refused, or MOST_REFUSALS if no more are to be made
        self.pinning: dict[Any, None] = {}  # kinds of calls whose entries hold arguments, those used last at the end
        self.classes: dict[type, Any] = {}  # how arguments of each class are taken
        self.refusals: dict[str, int] = {}
        self.hits_before: dict[Any, int] = {}  # by kind, when there were too many of them at last
        self.misses = 0
        self.retired = not guards.available()

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        if self.retired or special(self.exporting):
            return self.function(*args, **kwargs)
        arguments = Arguments(self.classes)
        try:
            key = arguments.key(args, kwargs), thread_modes()
            entries = self.entries.get(key)
        except (Unknown, TypeError, RuntimeError) as reason:  # that are too deep, or are changed by another thread meanwhile
            self._refused(str(reason))
            return self.function(*args, **kwargs)
        if arguments.changed:
            for each in [*self.pinning]:
                self._drop(each)
        for entry in entries or ():
            try:
                if flags.compile == "check":
                    return checked(entry, arguments, self.function, args, kwargs)
                return entry.answer(arguments)
            except Unfit as reason:
                self._refused(str(reason))
        if len(self.calls) > MOST_KINDS and not self._make_room_for_kinds():
            self.retire()
            return self.function(*args, **kwargs)
        refused = self.calls.setdefault(key, -1)
        if refused < 0 or refused >= MOST_REFUSALS:
            self.calls[key] = max(refused, 0)
            return self.function(*args, **kwargs)
        return self._record(key, arguments, args, kwargs)

    def forget(self) -> None:
        """Forget what was recorded."""
        self.entries.clear()
        self.calls.clear()
        self.pinning.clear()
        self.classes.clear()
        self.hits_before.clear()
        self.misses, self.retired = 0, not guards.available()

    def retire(self) -> None:
        """Have all calls run as they are from now on."""
        self.forget()
        self.retired = True

    def _refused(self, reason: str) -> None:
        log.debug("%s: %s", getattr(self.function, "__qualname__", type(self.function).__qualname__), reason)
        self.refusals[reason] = self.refusals.get(reason, 0) + 1

    def _drop(self, key: Any) -> None:
        """Forget a kind of calls."""
        self.entries.pop(key, None)
        self.calls.pop(key, None)
        self.pinning.pop(key, None)

    def _record(self, key: Any, arguments: Arguments, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The call, recorded; an entry is made of it if nothing was refused."""
        made = self.entries.get(key)
        if made and not any(entry.hits for entry in made):
            self.misses += 1
            if self.misses > MOST_MISSES:
                self.retire()
                return self.function(*args, **kwargs)
        tape = Tape(arguments.tensors)
        recorder = Recorder(tape)
        before = thread_modes()
        try:
            tape.begin()
        except Busy:
            return self.function(*args, **kwargs)
        self.calls[key] += 1  # unless it comes to an entry
        try:
            result = recorder.run(self.function, args, kwargs, arguments)
        finally:
            tape.end()
        if thread_modes() != before:
            recorder.refuse("modes are others after the call")
        self._keep(key, recorder, tape, arguments, result)
        return result

    def _keep(self, key: Any, recorder: Recorder, tape: Tape, arguments: Arguments, result: Any) -> None:
        recorder.look_back()
        if recorder.reason is None:
            try:
                recipe = Recipe(result, recorder)
                program = tape.finish([*arguments.tensors, *recorder.found], recipe.tensors)
                if isinstance(program, Refusal):
                    recorder.refuse(program.reason)
                elif any(buffer.kind == KEPT for buffer in program.buffers):
                    recorder.refuse("a tensor that was made in the call is kept somewhere")
                else:
                    entries = self.entries.setdefault(key, [])
                    entries.insert(0, Entry(recorder, Replay(program), recipe, arguments))
                    del entries[MOST_ENTRIES:]
                    if not all(is_a(each, _LASTING) for each in arguments.pinned):
                        self.pinning.pop(key, None)
                        self.pinning[key] = None
                        if len(self.pinning) > MOST_PINNING:
                            self._drop(next(iter(self.pinning)))
                    self._make_room(entries[0])
                    self.calls[key] -= 1
                    self.misses = 0 if any(entry.hits for entry in entries) else self.misses
            except (NoRecipe, NotImplementedError) as reason:
                recorder.refuse(str(reason))
        if recorder.reason is not None:
            self._refused(recorder.reason)

    def _make_room_for_kinds(self) -> bool:
        """Forget all kinds of calls but those that were replayed most since this was done at last. False if there are none."""
        hits = {key: sum(entry.hits for entry in entries) for key, entries in list(self.entries.items())}
        since = {key: count - self.hits_before.get(key, 0) for key, count in hits.items()}
        used = sorted((key for key in since if since[key]), key=since.__getitem__, reverse=True)[: MOST_KINDS // 2]
        for key in self.calls.keys() - used:
            self._drop(key)
        self.hits_before = hits
        return bool(used)

    def _make_room(self, newest: Entry) -> None:
        """Have entries leave that were used least since this was done at last, until the others take no more than they may."""
        every = [(entry, entries) for entries in list(self.entries.values()) for entry in entries]
        total = sum(entry.nbytes for entry, _ in every)
        if total <= MOST_BYTES:
            return
        for entry, entries in sorted(every, key=lambda each: each[0].hits - each[0].hits_before):
            if total > MOST_BYTES and entry is not newest:
                total -= entry.nbytes
                entries.remove(entry)
            entry.hits_before = entry.hits
