"""FLAMBEAU_COMPILE=check: every replay is compared with the function itself, bit by bit.

    replayed, then all that it wrote is put back, then the function runs as it is: its result, and what it wrote, are the call's

Compared are results (structure, classes, values, layouts, which share memory with what), tensors that were written to, counts of
writes, random generators, entries of dicts, and gradients. Where something differs, launches are compared one by one, so that the
error names the first that does. Stands on codegen.programs; used by entry.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from types import MemberDescriptorType
from typing import TYPE_CHECKING, Any

import numpy as np

from flambeau.base import rng
from flambeau.base.layout import Layout
from flambeau.codegen.programs import Busy, Replay
from flambeau.codegen.programs.program import EXTERNAL, FRESH, OUTPUT, Program, Result, Unfit
from flambeau.codegen.programs.recording import Launched
from flambeau.codegen.programs.replay import GENERATOR_BYTES, SPARE_BYTES
from flambeau.codegen.runtime import memory, state
from flambeau.core.autograd.node import held_gradient
from flambeau.core.tensor.tensor import Tensor

if TYPE_CHECKING:
    from flambeau.capture.arguments import Arguments
    from flambeau.capture.entry import Entry

__all__ = ["ReplayDiffers", "check_gradients", "checked"]

_ABSENT: Any = object()


class ReplayDiffers(RuntimeError):
    """A replay did something else than the function: a fault of flambeau's, or of a function whose calls can't be told apart."""


def checked(entry: Entry, arguments: Arguments, function: Callable[..., Any], args: Any, kwargs: dict[str, Any]) -> Any:
    """What the function gives, having compared it with the entry's answer. Unfit, if it has none; ReplayDiffers."""
    program, tensors = entry.replay.program, arguments.tensors
    owners = [tensors[x] if x.__class__ is int else x for x, _ in entry.gradients]
    inputs, numbers = entry.inputs(tensors), entry.numbers.now()

    def state_now() -> _State:
        return _State(program, entry, arguments, inputs, owners)

    before = state_now()
    answer = entry.answer(arguments)
    replayed = state_now()
    kept = [value for _, _, value in replayed.entries]
    values = {id(x): _elements(x) for x in _tensors_in([answer, replayed.gradients, kept], set())}
    before.restore()
    heard = _Heard()
    with heard:
        try:
            result = function(*args, **kwargs)
        except Exception as error:
            raise ReplayDiffers(f"{_name(function)} raises {error!r}, but a replay gave a result") from error
    comparison = _Comparison(values, inputs)
    reason = comparison.differs(answer, result, "the result") or comparison.differs_in_state(replayed, state_now())
    if reason:
        after = state_now()
        before.restore()
        launch = _first_difference(program, [*inputs, *numbers], heard, before)
        after.restore()
        raise ReplayDiffers(f"a replay of {_name(function)} differs from the function: {reason}; {launch}")
    # with its own graph a replay's result is as good, and the replay of that graph is checked as well
    return answer if entry.attach is not None and not entry.gradients and not entry.effects else result


def check_gradients(name: str, replayed: list[Any], arrived: list[Any], inputs: list[Any]) -> list[Any]:
    """What the engine brought to where a graph ends; ReplayDiffers if a replay of its steps brought something else."""
    values = {id(x): _elements(x) for x in replayed if x is not None}
    reason = _Comparison(values, inputs).differs(replayed, arrived, "the gradients")
    if reason:
        raise ReplayDiffers(f"a replay of the backward pass of {name} differs from its steps: {reason}")
    return arrived


def _name(function: Any) -> str:
    return getattr(function, "__qualname__", None) or type(function).__qualname__


def _elements(x: Any, layout: Layout | None = None) -> bytes:
    """The bytes of a tensor's elements in order, read past all that notes who reads."""
    layout = layout or x._layout
    size = layout.dtype.itemsize
    if not layout.numel or x._storage.size_class == memory.META:
        return b""
    at = x._storage.address + x._offset * size
    spanned = (ctypes.c_char * (1 + sum((n - 1) * step for n, step in zip(layout.shape, layout.strides))) * size).from_address(at)
    strides = [step * size for step in layout.strides]
    return np.ndarray(tuple(layout.shape), np.dtype((np.void, size)), spanned, 0, strides).tobytes()


def _tensors_in(value: Any, seen: set[int]) -> Iterator[Any]:
    """The plain tensors in a result."""
    if id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, Tensor):
        if value._layout.flavor is None:
            yield value
        return
    for _, part in _parts(value):
        yield from _tensors_in(part, seen)


def _parts(value: Any) -> list[tuple[str, Any]]:
    """What an object is made of, with its place in the object."""
    if isinstance(value, dict):
        return [(f"[{key!r}]", each) for key, each in dict.items(value)] + _own(value)
    if isinstance(value, (list, tuple)) or type(value).__name__ == "deque":
        return [(f"[{i}]", each) for i, each in enumerate(value)] + _own(value)
    return [] if isinstance(value, (type, Tensor)) or callable(value) else _own(value)


def _own(value: Any) -> list[tuple[str, Any]]:
    own = getattr(value, "__dict__", None)
    slots = {
        name: getattr(value, name)
        for base in type(value).__mro__
        for name, each in vars(base).items()
        if type(each) is MemberDescriptorType and hasattr(value, name)
    }
    return [(f".{name}", each) for name, each in {**slots, **(own if type(own) is dict else {})}.items()]


class _State:
    """What a call may write to: storages with their counts, generators, entries of dicts, gradients; `restore` puts it back.

    tensors: the inputs of the program; owners: those to which the call gives gradients.
    """

    def __init__(self, program: Program, entry: Entry, arguments: Arguments, tensors: list[Tensor], owners: list[Tensor]) -> None:
        written, self.blocks = set(), {}
        for buffer in program.buffers:
            if buffer.kind == EXTERNAL:
                block = tensors[buffer.input]._storage if buffer.input is not None else buffer.block()
                if block is not None:
                    self.blocks[id(block)] = block
                    written |= {id(block)} if buffer.written else set()
        for version in program.versions:
            block = tensors[version.input]._storage if version.input is not None else version.block and version.block()
            if block is not None:
                self.blocks[id(block)] = block
        for x in tensors:
            self.blocks[id(x._storage)] = x._storage
        self.bytes = {key: ctypes.string_at(self.blocks[key].address, self.blocks[key].capacity) for key in written}
        self.writes = {key: block.writes for key, block in self.blocks.items()}
        self.generators = {}
        for generator in {id(g): g for g in (rng.default_generator, *(g for g, _ in program.generators))}.values():
            self.generators[generator.state_address] = ctypes.string_at(generator.state_address, GENERATOR_BYTES)
            self.generators[generator.spare_address] = ctypes.string_at(generator.spare_address, SPARE_BYTES)
        tables = [(arguments.objects[table] if table.__class__ is int else table, key) for table, key, _ in entry.effects]
        self.entries = [(table, key, table.get(key, _ABSENT)) for table, key in tables]
        self.owners, self.gradients = owners, [held_gradient(x) for x in owners]

    def restore(self) -> None:
        """Put it all back."""
        for key, held in self.bytes.items():
            ctypes.memmove(self.blocks[key].address, held, len(held))
            self.blocks[key].mark = min(self.blocks[key].mark, 0)
        for key, block in self.blocks.items():
            if block.writes != self.writes[key]:
                block.writes = self.writes[key]
        for address, held in self.generators.items():
            ctypes.memmove(address, held, len(held))
        for table, key, value in self.entries:
            if value is _ABSENT:
                table.pop(key, None)
            else:
                table[key] = value
        for owner, gradient in zip(self.owners, self.gradients):
            owner._grad = gradient


class _Comparison:
    """Of what a replay gave and what the function gave; which objects and storages of theirs stand for each other is noted."""

    def __init__(self, values: dict[int, bytes], tensors: list[Tensor]) -> None:
        self.values = values
        self.twins = {id(x): x for x in tensors}  # by identity of a replay's object or storage: the function's
        self.twins.update((id(x._storage), x._storage) for x in tensors)
        self.originals = {id(x): x for x in self.twins.values()}

    def _one_for_one(self, a: Any, b: Any) -> bool:
        """Whether two things have stood for each other so far, or for nothing."""
        return self.twins.setdefault(id(a), b) is b and self.originals.setdefault(id(b), a) is a

    def differs(self, a: Any, b: Any, where: str) -> str:
        """How a replay's value is another one than the function's; "" if it isn't."""
        if type(a) is not type(b):
            return f"{where} is a {type(a).__name__}, and not a {type(b).__name__}"
        if isinstance(a, Tensor):
            return self._tensors_differ(a, b, where)
        if a is b:
            return ""
        if isinstance(a, (int, float, complex, str, bytes, set, frozenset, range, slice)):
            return "" if repr(a) == repr(b) or a == b != 0 else f"{where} is {a!r}, and not {b!r}"
        if id(a) in self.twins or id(b) in self.originals:
            return "" if self._one_for_one(a, b) else f"{where} is another object than elsewhere in the result"
        self._one_for_one(a, b)
        ours, theirs = _parts(a), _parts(b)
        if [name for name, _ in ours] != [name for name, _ in theirs]:
            return f"{where} has other parts: {[name for name, _ in ours]}, and not {[name for name, _ in theirs]}"
        if not ours and type(a).__eq__ is not object.__eq__ and a != b:
            return f"{where} is {a!r}, and not {b!r}"
        return next(filter(None, (self.differs(x, y, where + name) for (name, x), (_, y) in zip(ours, theirs))), "")

    def _tensors_differ(self, a: Any, b: Any, where: str) -> str:
        if a._layout is not b._layout or a._offset != b._offset:
            return f"{where} has the layout {a._layout} at {a._offset}, and not {b._layout} at {b._offset}"
        if (a.requires_grad, a.is_leaf) != (b.requires_grad, b.is_leaf):
            return f"{where} wants a gradient, or is a leaf, where the function's doesn't or isn't"
        if not (self._one_for_one(a, b) and self._one_for_one(a._storage, b._storage)):
            return f"{where} is, or shares memory with, another tensor than the function's"
        if a._layout.flavor is None:
            return _bytes_differ(self.values[id(a)], _elements(b), b._layout.dtype.itemsize, where)
        return ""

    def differs_in_state(self, a: _State, b: _State) -> str:
        """How what a replay left behind is something else than what the function left behind."""
        if a.generators != b.generators:
            return "random generators have other states"
        for key, block in b.blocks.items():
            if a.writes[key] != b.writes[key]:
                return f"a tensor of {block.capacity} bytes counts {a.writes[key]} writes, and not {b.writes[key]}"
            if key in b.bytes:
                told = _bytes_differ(a.bytes[key], b.bytes[key], 1, f"a tensor of {block.capacity} bytes that is written to")
                if told:
                    return told
        for (_, key, ours), (_, _, theirs) in zip(a.entries, b.entries):
            told = self.differs(ours, theirs, f"what is kept as {key!r}")
            if told:
                return told
        return self.differs(a.gradients, b.gradients, "the gradients")


def _bytes_differ(a: bytes, b: bytes, size: int, where: str) -> str:
    if a == b:
        return ""
    each = np.dtype((np.void, size))
    other = np.flatnonzero(np.frombuffer(a, each) != np.frombuffer(b, each))
    return f"{where} has other bits in {len(other)} of {len(b) // size} elements, first at {other[0]}"


# ---------------------------------------------------------------- which launch it was


class _Heard:
    """The launches of a call that runs as it is, with what they gave, for `with`; of calls of the function's thread only."""

    def __init__(self) -> None:
        self.launches: list[tuple[Any, list[int]]] = []

    def __enter__(self) -> None:
        self._own = not state.words[state.TAPE]
        if self._own:
            state.words[state.TAPE] = id(self)

    def __exit__(self, *exception: Any) -> None:
        if self._own:
            state.words[state.TAPE] = 0

    def __call__(self, *event: Any) -> None:
        if len(event) == 3:
            words, _, results = event
            launched = Launched.of(words)
            if not launched.idle:
                given = zip(results, launched.plan.outputs)
                self.launches.append((launched.plan, [hash(_elements(x, layout)) for x, layout in given]))


def _first_difference(program: Program, arguments: list[Any], heard: _Heard, before: _State) -> str:
    """Which launch of a program is the first that gives something else than the function's own."""
    for i, step in enumerate(program.steps):
        place = f"launch {i + 1} of {len(program.steps)}"
        if i == len(heard.launches):
            return f"the function ends before {place}, {_line(step.plan)}"
        plan, given = heard.launches[i]
        if str(plan) != str(step.plan):
            return f"{place} is {_line(step.plan)}, where the function launches {_line(plan)}"
        results = tuple(Result(operand) for operand in step.written)
        shown = {operand.buffer for operand in step.written}
        buffers = tuple(
            b._replace(kind=OUTPUT if at in shown else FRESH) if b.kind in (FRESH, OUTPUT) else b
            for at, b in enumerate(program.buffers)
        )
        part = program._replace(buffers=buffers, steps=program.steps[: i + 1], outputs=results, versions=())
        try:
            made = Replay(part, improved=False)(*arguments)
        except (Unfit, Busy) as reason:
            return f"{place} can't be repeated: {reason}"
        found = [hash(_elements(x)) for x in made]
        before.restore()
        if found != given:
            return f"{place} is the first that does: {_line(step.plan)}"
    if len(heard.launches) > len(program.steps):
        return f"the function launches {len(heard.launches)}, beginning with {_line(heard.launches[len(program.steps)][0])}"
    return "its launches give the same, each for itself"


def _line(plan: Any) -> str:
    return " then ".join(str(step) for step in plan.steps)
