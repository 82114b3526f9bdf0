"""Sizes that may differ between calls, as a traced program gets them: ints that know where they come from.

A SizeInt is an int wherever Python takes one; what is made of it by arithmetic is one too. A call that is given one is recorded
with where it comes from in the place of its value, so that one graph holds for all values. What goes another way (a branch,
range, a float) gives plain numbers, which are part of what a graph is found by. Stands on core; used by tracer and graphs.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from flambeau.base.layout import Size
from flambeau.base.locks import short_lock
from flambeau.core.modes.modes import local
from flambeau.core.tensor.tensor import Tensor

__all__ = ["Looking", "Recorded", "SizeInt", "ended", "numel_of", "pattern", "plain", "size_ints", "size_of"]


def size_of(tensor: Tensor, dim: int) -> int:
    """The size of a dimension: what calls that read one are recorded as."""
    return tensor._layout.shape[dim]


def numel_of(tensor: Tensor) -> int:
    """The number of elements."""
    return tensor._layout.numel


class Recorded(NamedTuple):
    """A tensor that a call gave, without keeping it alive: its number in a segment."""

    segment: Any
    number: int


class SizeInt(int):
    """An int. origin: (function, arguments) that give it, among these other SizeInts, tensors from outside and Recorded ones; or
    the expression by which the program reaches it; None once the call that it was made in has ended: it is a number then.
    call: all that were made in the same call. segment, number: where it was last recorded.
    """

    is_symbolic_size = True  # Size keeps it as it is
    origin: Any
    call: list[SizeInt]
    segment: Any = None
    number: int = -1

    @staticmethod
    def made(value: int, origin: Any, call: list[SizeInt]) -> SizeInt:
        """The int of this value and origin, in a call."""
        found = SizeInt(value)
        found.origin, found.call = origin, call
        call.append(found)
        return found

    def reads(self, tensor: Any) -> bool:
        """Whether it is read from a tensor, which may be Recorded."""
        return self.origin.__class__ is tuple and self.origin[0] in _READ and self.origin[1][0] == tensor

    def stale(self) -> bool:
        """Whether it was read from a tensor from outside that has become another since."""
        if self.origin.__class__ is not tuple or not isinstance(self.origin[1][0], Tensor):
            return False
        function, (tensor, *dims) = self.origin
        return max(dims, default=-1) >= tensor._layout.ndim or function(tensor, *dims) != self

    def __reduce__(self) -> Any:
        return int, (int(self),)

    def __copy__(self) -> int:
        return int(self)

    def __deepcopy__(self, memo: Any) -> int:
        return int(self)


def _arithmetic(name: str, function: Callable[..., Any]) -> None:
    own, reflected = getattr(int, f"__{name}__"), getattr(int, f"__r{name}__")

    def forward(self: SizeInt, other: Any) -> Any:
        value = own(self, other)
        return (
            value if self.origin is None or value.__class__ is not int else self.made(value, (function, (self, other)), self.call)
        )

    def backward(self: SizeInt, other: Any) -> Any:
        value = reflected(self, other)
        return (
            value if self.origin is None or value.__class__ is not int else self.made(value, (function, (other, self)), self.call)
        )

    setattr(SizeInt, f"__{name}__", forward)
    setattr(SizeInt, f"__r{name}__", backward)


_ARITHMETIC = {name: getattr(operator, name) for name in ("add", "sub", "mul", "floordiv", "mod")}
for _name, _function in _ARITHMETIC.items():
    _arithmetic(_name, _function)

_READ = frozenset((size_of, numel_of))

#: What calls that make sizes are recorded as.
SIZES = frozenset((*_READ, *_ARITHMETIC.values()))


def ended(call: list[SizeInt]) -> None:
    """The ints of a call are numbers from here on, and hold nothing of it alive."""
    for given in call:
        given.origin = given.segment = None
    call.clear()


def plain(given: Any) -> Any:
    """The same with plain ints, in lists, tuples, dicts and slices too."""
    kind = given.__class__
    if kind is SizeInt:
        return int(given)
    if kind in (list, tuple):
        return kind([plain(x) for x in given]) if _any(given) else given
    if kind is Size:
        return tuple.__new__(Size, [int(x) for x in given])
    if kind is dict:
        return {key: plain(x) for key, x in given.items()} if _any(given.values()) else given
    if kind is slice:
        return slice(plain(given.start), plain(given.stop), plain(given.step))
    return given


def _any(values: Any) -> bool:
    """Whether there is one among values, or may be in what they hold."""
    return any(x.__class__ in (SizeInt, list, tuple, Size, dict, slice) for x in values)


def pattern(tensor: Tensor, dynamic: frozenset[int], symbols: dict[Any, int], distinct: bool = False) -> tuple[Any, ...]:
    """What a graph assumes of a tensor some of whose dimensions are dynamic: sizes and strides with symbols in their places.

    symbols: the number of the symbol of each size that was met before; equal sizes are one symbol, or distinct ones.
    """
    layout = tensor._layout
    sizes: list[Any] = list(layout.shape)
    for dim in sorted(dynamic):
        sizes[dim] = "s", symbols.setdefault((len(symbols),) if distinct else int(sizes[dim]), len(symbols))
    strides: list[Any] = list(layout.strides)
    expected = 1
    for dim in sorted(range(layout.ndim), key=lambda d: (layout.strides[d], layout.shape[d])):
        follows = layout.strides[dim] == expected  # the dimension before it, without a gap
        strides[dim] = "next" if follows else layout.strides[dim]
        expected = layout.strides[dim] * layout.shape[dim]
    order = tuple(sorted(range(layout.ndim), key=lambda d: (layout.strides[d], layout.shape[d])))
    return tuple(sizes), tuple(strides), order, layout.dtype, layout.device, layout.flavor, layout.pending


# ---------------------------------------------------------------- Tensor.shape while somebody looks


_SHAPE: Any = Tensor.__dict__["shape"]


class Looking:
    """Context: `Tensor.shape` asks this thread's tracer, which may give SizeInts."""

    _count = 0
    _lock = short_lock()

    def __enter__(self) -> None:
        with self._lock:
            Looking._count += 1
            if Looking._count == 1:
                Tensor.shape = property(_asked, doc=_SHAPE.__doc__)  # type: ignore[assignment, method-assign]

    def __exit__(self, *exception: object) -> None:
        with self._lock:
            Looking._count -= 1
            if not Looking._count:
                Tensor.shape = _SHAPE  # type: ignore[method-assign]


def _asked(tensor: Tensor) -> Any:
    observer = local.observer
    sizes = getattr(observer, "sizes_of", None)
    return tensor._layout.shape if sizes is None else sizes(tensor)


def size_ints(given: Any) -> Iterator[SizeInt]:
    """Those among values, and in their lists, tuples, dicts and slices."""
    for x in given:
        if x.__class__ is SizeInt:
            yield x
        elif isinstance(x, (list, tuple)):
            yield from size_ints(x)
        elif x.__class__ is dict:
            yield from size_ints(x.values())
