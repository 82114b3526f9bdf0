"""A segment: the calls of public functions that a program made on tensors without data, and that are still to be computed.

Tensors are numbers in it: those that came from outside, in the order of their first use, and those that calls gave. Stands on
values; used by tracer, which fills and settles it, and by graphs.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Sequence
from types import CodeType
from typing import Any, NamedTuple

from flambeau._dynamo.segments import environment
from flambeau._dynamo.segments.sizes import SIZES, SizeInt, pattern
from flambeau._dynamo.segments.values import thawed, values_in, with_numbers
from flambeau.codegen.runtime.memory import OWNED_ELSEWHERE
from flambeau.core.modes.modes import local
from flambeau.core.tensor import fakes, storage
from flambeau.core.tensor.tensor import Tensor

__all__ = ["Body", "Call", "Place", "Segment", "run_calls"]

#: Where a value is in a call's result: () for the result itself, (1,) for its second item.
Path = tuple[int, ...]


class Place(NamedTuple):
    """Where a frame of the program stands: its code, the instruction, its globals, and the module whose forward it runs."""

    code: CodeType
    instruction: int
    scope: dict[str, Any]
    module: Any


class Call(NamedTuple):
    """One call. made: the numbers of the tensors in its result, with their places, those of arguments that it gives back;
    grad: whether gradients are recorded; environment: the thread's state, None where it is the segment's.
    """

    function: Callable[..., Any]
    args: Any
    kwargs: Any
    made: tuple[tuple[Path, int], ...]
    grad: bool
    places: tuple[Place, ...]
    environment: tuple[Any, ...] | None = None

    def key(self) -> tuple[Any, ...]:
        """What it computes, wherever it stands."""
        return self.function, self.args, self.kwargs, self.made, self.grad, self.environment


class Body:
    """Calls as a function of the values with the numbers `inputs`: a graph within a graph. Equal ones compute the same.

    outputs: values that it gives, as `frozen` has them. grad, environment: what is on around it. likes: the numbers of values
    that inputs which aren't known yet, gradients, are like.
    """

    def __init__(
        self,
        inputs: Sequence[int],
        calls: Sequence[Call],
        outputs: Any,
        grad: bool,
        environment: tuple[Any, ...] | None,
        likes: dict[int, int] | None = None,
    ) -> None:
        self.inputs, self.calls, self.outputs, self.likes = tuple(inputs), tuple(calls), outputs, likes or {}
        self.grad, self.environment = grad, environment
        self._key = self.inputs, tuple([call.key() for call in calls]), outputs, grad, environment

    def __call__(self, *given: Any) -> Any:
        values: dict[int, Any] = dict(zip(self.inputs, given, strict=True))
        run_calls(self.calls, values, self.grad)
        return thawed(self.outputs, values.__getitem__)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Body) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)


def run_calls(calls: Sequence[Call], values: dict[int, Any], grad: bool) -> None:
    """Compute calls that were recorded, whose results join `values`; grad: the mode that was on around them."""
    before = local.grad
    try:
        for call in calls:
            args, kwargs = thawed(call.args, values.__getitem__), thawed(call.kwargs, values.__getitem__)
            with contextlib.nullcontext() if call.environment is None else environment.switched(call.environment):
                local.grad = before if call.grad is grad else call.grad
                result = call.function(*args, **kwargs)
            for path, number in call.made:
                value = result
                for at in path:
                    value = value[at]
                values[number] = value
    finally:
        local.grad = before


class _Known(NamedTuple):
    """A tensor of a segment, weakly unless it comes from outside, and its number."""

    tensor: Callable[[], Any]
    number: int


class Segment:
    """Calls on tensors without data."""

    def __init__(self, state: tuple[Any, ...], follows: bool) -> None:
        self._follows = follows  # another, so that it may have begun inside the engine, under the engine's grad mode
        self.environment = state
        self.grad = local.grad
        self.calls: list[Call] = []
        #: (number, tensor, its fake) of those from outside; the version of its memory when the segment first saw it
        self.outside: list[tuple[int, Tensor, Tensor, int]] = []
        self.fakes: dict[int, Tensor] = {}  # the tensor from outside that a fake, by its identity, stands for
        self.ints: list[tuple[int, SizeInt]] = []  # numbers from outside that may differ between calls
        self.dynamic: dict[int, frozenset[int]] = {}  # dimensions that may, by the number of a tensor from outside
        self._before: list[int] = []  # the counts of writes of their fakes, when the segment first saw them
        self._arrays: list[tuple[Tensor, int]] = []  # fakes of those on memory of NumPy's, with their counts of writes
        self.within: set[int] = set()  # the numbers of what calls made that are now within one
        self._known: dict[int, _Known] = {}
        self._count = 0
        self._made: list[_Known] = []

    def next_number(self) -> int:
        """A number for one more tensor."""
        self._count += 1
        return self._count - 1

    def number_of(self, tensor: Tensor) -> int | None:
        """The number of a tensor, or None if the segment doesn't know it."""
        found = self._known.get(id(tensor))
        return found.number if found is not None and found.tensor() is tensor else None

    def number_of_view(self, tensor: Tensor) -> int | None:
        """The number of what a call gave that a tensor without data is another object for: the same memory, all of it."""
        for known in self._made:
            made = known.tensor()
            if made is not None and made._storage is tensor._storage:
                if made._offset == tensor._offset and made._layout == tensor._layout:
                    return known.number
        return None

    def requires_grad(self, number: int) -> bool:
        """Whether the tensor with this number does, or may."""
        given = [tensor for n, tensor, _, _ in self.outside if n == number]
        made = [known.tensor() for known in self._made if known.number == number]
        return any(tensor is None or tensor._node is not None for tensor in (*given, *made))

    def put_within(self, first: int) -> None:
        """Values whose numbers are these or greater are those of calls within one, or of none, but for those from outside."""
        outside = {number for number, *_ in self.outside} | {number for number, _ in self.ints}
        self.within |= set(range(first, self._count)) - outside

    def add_outside(self, tensor: Tensor, fake: Tensor) -> int:
        """A tensor that comes from outside."""
        number = self.next_number()
        self._known[id(tensor)] = _Known(lambda: tensor, number)
        self.outside.append((number, tensor, fake, tensor._storage.writes))
        self._before.append(fake._storage.writes)
        self.fakes[id(fake)] = tensor
        if tensor._storage.size_class == OWNED_ELSEWHERE:
            self._arrays.append((fake, fake._storage.writes))
        return number

    def add_int(self, given: SizeInt) -> None:
        """A number that comes from outside."""
        given.segment, given.number = self, self.next_number()
        self.ints.append((given.number, given))

    def add_made(self, tensor: Tensor, number: int) -> None:
        """A tensor that a call gave."""
        known = self._known[id(tensor)] = _Known(weakref.ref(tensor), number)
        self._made.append(known)

    def begins(self, grad: bool) -> None:
        """The first call is under this grad mode, if there is none yet."""
        if self._follows and not self.calls:
            self.grad = grad

    def add(self, call: Call) -> None:
        """One more call."""
        self.begins(call.grad)
        now = environment.current()
        self.calls.append(call if now == self.environment else call._replace(environment=now))

    def concerns(self, tensor: Tensor, writes: bool) -> bool:
        """Whether what uses a tensor, or writes to it, must wait for the calls."""
        if not self.calls:
            return False
        if fakes.is_fake(tensor._layout):
            return self.number_of(tensor) is not None
        memory = storage.root(tensor._storage)
        return any(
            storage.root(known._storage) is memory and (writes or fake._storage.writes != before)
            for (_, known, fake, _), before in zip(self.outside, self._before)
        )

    def writes_to_arrays(self) -> bool:
        """Whether a call writes to memory that is somebody else's, who may look there."""
        return any(fake._storage.writes != before for fake, before in self._arrays)

    def key(self, distinct: bool = False) -> tuple[Any, ...]:
        """What the segment is found by among those that were compiled: equal segments compute the same.

        distinct: as if no two sizes that may differ between calls were equal, which a graph for different ones doesn't ask for.
        """
        symbols: dict[Any, int] = {}
        dynamic = self.dynamic
        inputs = tuple(
            [
                (n, pattern(t, dynamic[n], symbols, distinct) if n in dynamic else t._layout, t._node is not None, t.__class__)
                for n, t, _, _ in self.outside
            ]
        )
        calls = tuple([call.key() for call in self.calls])
        return self.environment, self.grad, inputs, tuple([n for n, _ in self.ints]), calls

    def specialize(self) -> None:
        """Sizes and numbers that may differ between calls are those of this one from here on."""
        self.dynamic.clear()
        numbers = {number: int(given) for number, given in self.ints}
        self.ints, calls, self.calls = [], self.calls, []
        for call in calls:
            args = with_numbers(call.args, numbers)
            if call.function in SIZES and not values_in(args):
                numbers[call.made[0][1]] = call.function(*thawed(args, numbers.__getitem__))
            else:
                self.calls.append(call._replace(args=args, kwargs=with_numbers(call.kwargs, numbers)))

    def inputs(self) -> list[Any]:
        """The values from outside, tensors before numbers."""
        return [*[tensor for _, tensor, _, _ in self.outside], *[int(given) for _, given in self.ints]]

    def use(self) -> None:
        """Forget the tensors from outside that only a call wanted that was then not recorded."""
        used = {n for call in self.calls for given in (call.args, call.kwargs) for n in values_in(given)}
        self.outside = [known for known in self.outside if known[0] in used]
        self.ints = [known for known in self.ints if known[0] in used]

    def living(self) -> list[tuple[Tensor, int]]:
        """The tensors that calls gave and that the program still holds, with their numbers.

        They lose their place in the graph, which would hold others, and get that of what they become.
        """
        for _, _, fake, _ in self.outside:
            fake._node = None
        for known in self._made:
            alive = known.tensor()
            if alive is not None:
                alive._node = None
                if hasattr(alive, "_root"):
                    del alive._root
        alive = None
        held = [(known.tensor(), known.number) for known in self._made]
        return [(tensor, number) for tensor, number in held if tensor is not None]

    def run(self, inputs: Sequence[Tensor], numbers: Sequence[int]) -> list[Any]:
        """The values with these numbers, computed call by call."""
        given = [*[number for number, *_ in self.outside], *[number for number, _ in self.ints]]
        values: dict[int, Any] = dict(zip(given, inputs, strict=True))
        run_calls(self.calls, values, self.grad)
        return [values[number] for number in numbers]
