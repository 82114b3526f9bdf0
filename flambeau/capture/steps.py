"""Steps of optimizers in a call: counters that are read, and numbers that follow from them and from a group's options.

`optim/update.py` states a step as a formula over tensors and numbers. Numbers are lifted: they are inputs of the program, and
each replay computes them anew, by the optimizer's own function, from what the group says then. So schedulers change what they
like. Stands on rules.py and optim.update; used by calls.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Sequence
from types import FunctionType
from typing import Any

import flambeau as torch
from flambeau.capture.kinds import TENSORS
from flambeau.capture.rules import Rules
from flambeau.codegen.programs import Unfit
from flambeau.core.tensor.tensor import Tensor
from flambeau.optim import update

__all__ = ["Numbers", "Steps"]

_C_TYPES = {torch.float32: ctypes.c_float, torch.float64: ctypes.c_double}


class Step(float):
    """The number of a step that was counted in the call. What depends on it otherwise than by `scalars_of` isn't replayed."""


class Scalars(dict[str, Any]):
    """What `scalars_of` gave; only `apply_updates` may look into it."""


class Counters:
    """Counters that are at the same step: how many steps there were before the call. members: a number that those have which are
    counted together, as a group of parameters is; each step of a group has counters of its own.
    """

    def __init__(self, tensors: Sequence[Tensor], members: int) -> None:
        self.members = members
        self.places: list[tuple[Any, int, int, Any]] = []
        for x in tensors:
            address = x._storage.address + x._offset * x._layout.dtype.itemsize
            cell = _C_TYPES[x._layout.dtype].from_address(address)
            self.places.append((x._storage, x._storage.address, x._storage.nbytes, cell))

    def next(self) -> float:
        """The number of the step that is about to be counted. Unfit if they have several."""
        value: Any = None
        for storage, address, size, cell in self.places:
            if storage.address != address or storage.nbytes != size:
                raise Unfit("a counter of steps has other memory")
            if value is None:
                value = cell.value
            elif cell.value != value:
                raise Unfit("parameters are at different steps")
        return type(cell)(value + 1.0).value


class Numbers:
    """The lifted numbers of a program: compute(group, *steps) for each place where a step's scalars are made."""

    def __init__(self) -> None:
        self.counters: list[Counters] = []
        self.computed: list[tuple[Callable[..., dict[str, Any]], Any, list[int], list[Any]]] = []

    def __bool__(self) -> bool:
        return bool(self.computed or self.counters)

    def now(self) -> list[float]:
        """Their values for a call that begins now. Unfit if they aren't of the kinds that they were."""
        steps = [each.next() for each in self.counters]
        if len({(each.members, step) for each, step in zip(self.counters, steps)}) < len(steps):
            raise Unfit("parameters are at the same step")
        values = []
        for compute, group, numbers, before in self.computed:
            try:
                made = compute(group, *[steps[i] for i in numbers]).values()
            except Exception as error:  # the function itself raises it
                raise Unfit(f"scalars of a step: {error!r}") from None
            for value, known in zip(made, before, strict=True):
                if known is float and type(value) is float:
                    values.append(value)
                elif type(value) is not type(known) or value != known:
                    raise Unfit("a scalar of a step is another number")
        return values


class Steps(Rules):
    """Rules for what optimizers call. `numbers`: what each replay computes."""

    _handed_over: Callable[[Any, FunctionType], None]
    unwatched: Callable[[], Any]

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.numbers = Numbers()
        self._steps: list[Step] = []  # by index of counters

    def touch(self, value: Any) -> Any:
        if type(value) in (Step, Scalars):
            self.refuse("an optimizer computes with the number of a step")
        return super().touch(value)

    def item(self, o: Any, key: Any) -> Any:
        if type(o) is Scalars:
            self.refuse("an optimizer computes with the scalars of a step")
        return super().item(o, key)

    def each(self, o: Any) -> Any:
        return super().each(self.touch(o) if type(o) is Scalars else o)

    def by_step(self, f: FunctionType, members: Any) -> Any:
        """Count a step of each member: [(step, members of it)]."""
        members = list(members)
        counters = [self.item(state, "step") for _, state in members]
        if not all(type(x) is Tensor and x._layout.dtype in _C_TYPES and not x.ndim and id(x) in self.tensors for x in counters):
            self.refuse("a counter of steps is no number of the surroundings")
        if len({id(x) for x in counters}) < len(counters):
            self.refuse("parameters share a counter of steps")
        if self.reason is not None:
            return f(members)
        written = {each._storage.serial for each in counters}
        if any(held.written for serial, held in self.tape._memories.items() if serial in written):
            self.refuse("steps are counted twice in a call")
        groups, first = [], len(self._steps)
        with self.unwatched(), self.tape.reading():
            for step, found in f(members):
                number = Step(step)
                self._steps.append(number)
                self.numbers.counters.append(Counters([state["step"] for _, state in found], first))
                groups.append((number, found))
        return iter(groups)

    def scalars_of(self, f: FunctionType, compute: Any, group: Any, *steps: Any) -> Any:
        """Numbers of a step, which are lifted."""
        own = type(compute) is FunctionType and compute.__module__.startswith("flambeau.optim.")
        if not own or not self.of_environment(group) or id(group) in self.arguments:
            self.refuse("scalars of a step that are not of an optimizer's own")
        if any(table is group for table in self.writes.values()):
            self.refuse("options of a group of parameters are set before they are used")
        for option in _tensors_among(value for name, value in group.items() if name != "params"):
            held = self.tape._memories.get(option._storage.serial)
            if type(option) not in TENSORS or (held is not None and (held.written or not held.outer)):
                self.refuse("an option of a group of parameters is a tensor that the call makes or writes to")
        numbers = [i for step in steps for i, each in enumerate(self._steps) if each is step]
        if len(numbers) < len(steps):
            self.refuse("a step that was not counted in the call")
        if self.reason is not None:
            return f(compute, group, *steps)
        self.guards.function(compute, f"the function {compute.__qualname__}")
        with self.unwatched(), self.tape.reading():  # of options that are tensors, which each replay reads before it begins
            made = compute(group, *map(float, steps))
        scalars, before = Scalars(), []
        for name, value in made.items():
            lifts = type(value) is float
            scalars[name] = self.tape.lift(value) if lifts else value
            before.append(float if lifts else value)
        self.numbers.computed.append((compute, group, numbers, before))
        return scalars

    def apply_updates(self, f: FunctionType, formula: Any, rows: Any, scalars: Any, flags: Any = None) -> None:
        """Parameters are written."""
        rows, lifted = list(rows), dict(scalars)
        if update._whole_tensors(rows, lifted):
            self.refuse("an optimizer's formula is run on whole tensors")
        self._handed_over(scalars if type(scalars) is not Scalars else None, f)
        self.pointwise_updates(f, formula, rows, lifted, flags)

    def pointwise_updates(self, f: FunctionType, formula: Any, rows: Any, scalars: Any, flags: Any) -> None:
        """A formula, which is a function of Python, is applied to rows of tensors."""
        for each in (rows, flags):
            self._handed_over(each, f)
        if type(formula) is FunctionType:
            self.guards.function(formula, f"the function {formula.__qualname__}")
        else:
            self.refuse("a formula that is no function")
        with self.unwatched():
            f(formula, rows, scalars, flags)


def _tensors_among(options: Iterable[Any]) -> list[Tensor]:
    """The tensors among options, of which some are tuples."""
    each = [part for option in options for part in (option if isinstance(option, (tuple, list)) else (option,))]
    return [part for part in each if isinstance(part, Tensor)]
