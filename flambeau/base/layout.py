"""How elements lie in storage: `Size`, the interned `Layout`, and the markers `strided`, `channels_last`, ...

A Layout is shape, strides, dtype and device in one object that exists once: equal layouts are the same object, so
operators find their plan by identity. Used by every layer; the algebra on shapes and strides is in `geometry`.
"""

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Iterable, Sequence
from itertools import accumulate, count
from typing import Any, SupportsIndex, TypeVar, overload

from flambeau.base.device import COMPUTING, without_index
from flambeau.base.device import device as Device
from flambeau.base.dtype import asked_for as _dtype_asked_for
from flambeau.base.dtype import dtype as DType
from flambeau.base.dtype import when_default_changes
from flambeau.base.locks import short_lock
from flambeau.base.naming import PACKAGE

__all__ = [
    "CONJUGATE",
    "NEGATIVE",
    "Layout",
    "Size",
    "channels_last",
    "channels_last_3d",
    "contiguous_format",
    "layout",
    "memory_format",
    "entered",
    "preserve_format",
    "register_cache",
    "strided",
]


class Size(tuple[int, ...]):
    """A shape: a tuple of ints whose slices and sums are Sizes."""

    __slots__ = ()
    __module__ = PACKAGE

    def __new__(cls, sizes: Iterable[Any] = ()) -> Size:
        if type(sizes) is Size:
            return sizes
        made = tuple.__new__(cls, sizes)
        for position, item in enumerate(made):
            if type(item) is not int:
                return tuple.__new__(cls, _as_ints(made, position))
        return made

    def numel(self) -> int:
        """The number of elements."""
        return math.prod(self)

    @overload  # type: ignore[override]
    def __getitem__(self, key: SupportsIndex) -> int: ...
    @overload
    def __getitem__(self, key: slice) -> Size: ...
    def __getitem__(self, key: Any) -> Any:
        found = tuple.__getitem__(self, key)
        return tuple.__new__(Size, found) if type(key) is slice else found

    def __add__(self, other: object) -> Size:  # type: ignore[override]
        if not isinstance(other, tuple):
            raise TypeError(f"can only concatenate tuple (not {type(other).__name__}) to torch.Size")
        return Size(tuple.__add__(self, other))

    def __radd__(self, other: object) -> Size:
        if not isinstance(other, tuple):
            return NotImplemented
        return Size(tuple.__add__(other, self))

    def __mul__(self, times: SupportsIndex) -> Size:
        return tuple.__new__(Size, tuple.__mul__(self, times))

    __rmul__ = __mul__

    def __repr__(self) -> str:
        return f"torch.Size([{', '.join(map(repr, self))}])"

    def __reduce__(self) -> tuple[Any, ...]:
        return Size, (tuple(self),)


def _as_ints(items: tuple[Any, ...], position: int) -> list[int]:
    """The items as ints: whatever has `__index__` counts, except that floats never do; a torch.SymInt stays one."""
    made: list[int] = list(items[:position])
    for number, item in enumerate(items[position:], position):
        try:
            made.append(item if getattr(item, "is_symbolic_size", False) is True else item.__index__())
        except (AttributeError, TypeError):
            raise TypeError(f"torch.Size() takes an iterable of 'int' (item {number} is '{type(item).__name__}')") from None
    return made


CONJUGATE, NEGATIVE = 1, 2  # what may be pending of the elements in memory: the bits of `Layout.pending`


class Pending:
    """The flavor of layouts of tensors whose elements are the conjugates, or the negatives, of what lies in memory: the `bits`,
    and the class of the tensors if that answers operator calls itself. Equal ones are the same object.
    """

    __slots__ = ("bits", "cls")
    bits: int
    cls: Any


_pending: dict[tuple[int, Any], Pending] = {}


def _flavored(bits: int, cls: Any) -> Any:
    """The flavor with these pending bits for tensors of this class."""
    if not bits:
        return cls
    found = _pending.get((bits, cls))
    if found is None:
        made = Pending()
        made.bits, made.cls = bits, cls
        found = _pending.setdefault((bits, cls), made)
    return found


class Layout:
    """Shape, strides (in elements), dtype and device of a tensor. Make one with `Layout.of` or `Layout.contiguous`.

    numel: number of elements; nbytes: numel * itemsize; is_contiguous: C order without gaps; ndim; flavor: None, or the
    class of the tensors that have it, if that class answers operator calls itself, or a `Pending`; pending: 0, or what the
    elements are of those in memory (CONJUGATE, NEGATIVE, or both). tensor_class: of the tensors that are made with this layout,
    unset where that is Tensor itself.
    """

    __slots__ = (
        "__weakref__",
        "device",
        "dtype",
        "flavor",
        "is_contiguous",
        "nbytes",
        "ndim",
        "numel",
        "pending",
        "shape",
        "strides",
        "tensor_class",
    )
    shape: Size
    strides: tuple[int, ...]
    dtype: DType
    device: Device
    numel: int
    nbytes: int
    is_contiguous: bool
    ndim: int
    flavor: Any
    pending: int
    tensor_class: type

    @staticmethod
    def of(shape: Sequence[int], strides: Sequence[int], dtype: DType, device: Device, flavor: Any = None) -> Layout:
        """The one Layout with these properties. Shape and strides are tuples of ints."""
        found = _table.get((shape, strides, dtype, device, flavor))
        if found is None:
            if dtype.__class__ is type and (known := _dtype_asked_for(dtype)) is not dtype:
                return Layout.of(shape, strides, known, device, flavor)
            if device.index is not None and device.type in COMPUTING:
                return Layout.of(shape, strides, dtype, without_index(device), flavor)
            found = _enter(Size(shape), tuple(strides), dtype, device, flavor)
        return found

    @staticmethod
    def contiguous(shape: Sequence[int], dtype: DType, device: Device) -> Layout:
        """The layout of a fresh tensor of this shape, in C order."""
        found = _contiguous.get((shape, dtype, device))
        if found is None:
            if dtype.__class__ is type and (known := _dtype_asked_for(dtype)) is not dtype:
                return Layout.contiguous(shape, known, device)
            size = Size(shape)
            found = Layout.of(size, contiguous_strides(size), dtype, device)
            _contiguous[size, dtype, device] = found
        return found

    def with_dtype(self, dtype: DType) -> Layout:
        """The same shape, strides and device with elements of another type."""
        return self if dtype is self.dtype and self.flavor is None else Layout.of(self.shape, self.strides, dtype, self.device)

    def with_device(self, device: Device) -> Layout:
        """The same shape, strides and dtype on another device."""
        return self if device is self.device and self.flavor is None else Layout.of(self.shape, self.strides, self.dtype, device)

    def with_flavor(self, cls: Any) -> Layout:
        """The same geometry, dtype and device, and what is pending, for tensors of a class that answers operator calls itself
        (None: of one that doesn't); the other `with_` methods give layouts without flavor.
        """
        flavor = _flavored(self.pending, cls)
        return self if flavor is self.flavor else Layout.of(self.shape, self.strides, self.dtype, self.device, flavor)

    @property
    def answering(self) -> Any:
        """The class that answers operator calls itself, or None."""
        return self.flavor.cls if self.pending else self.flavor

    def with_pending(self, bits: int) -> Layout:
        """The same layout of tensors that have just this pending."""
        if bits == self.pending:
            return self
        return Layout.of(self.shape, self.strides, self.dtype, self.device, _flavored(bits, self.answering))

    def in_memory(self) -> Layout:
        """The layout, without flavor, of what lies in memory as it is."""
        return self if self.flavor is None else Layout.of(self.shape, self.strides, self.dtype, self.device)

    def dense(self) -> Layout:
        """The contiguous layout of this shape, dtype and device; dimensions of size 0 and 1 have the strides of C order too."""
        usual = self.is_contiguous and self.flavor is None and 1 not in self.shape and 0 not in self.shape
        return self if usual else Layout.contiguous(self.shape, self.dtype, self.device)

    def __repr__(self) -> str:
        return f"Layout({list(self.shape)}, strides={self.strides}, {self.dtype}, '{self.device}')"

    def __reduce__(self) -> tuple[Any, ...]:
        return _remade, (self.shape, self.strides, self.dtype, self.device, self.answering, self.pending)


def _remade(shape: Sequence[int], strides: Sequence[int], dtype: DType, device: Device, cls: Any, bits: int) -> Layout:
    return Layout.of(shape, strides, dtype, device, _flavored(bits, cls))


def contiguous_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Strides of `shape` in C order; dimensions of size 0 count as 1."""
    strides: list[int] = []
    step = 1
    for size in reversed(shape):
        strides.append(step)
        step *= size or 1
    strides.reverse()
    return tuple(strides)


def contiguous(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether the elements lie in C order without gaps; the stride of a dimension of size 1 doesn't matter."""
    step = 1
    for size, stride in zip(reversed(shape), reversed(strides), strict=True):
        if size != 1:
            if size == 0:
                return True
            if stride != step:
                return 0 in shape
            step *= size
    return True


# Interning. Hits take no lock. A layout leaves the table only when nothing outside refers to it, so that two equal
# layouts never exist side by side; caches keyed on layouts register themselves and are emptied first.

_table: dict[tuple[Any, ...], Layout] = {}
_contiguous: dict[tuple[Any, ...], Layout] = {}
_caches: list[dict[Any, Any]] = [_contiguous]
_lock = short_lock()
_examined: dict[tuple[Any, ...], Layout] = {}  # the one layout that `_sweep` has taken out to count who refers to it
_LEAST_LIMIT = 1 << 15
_limit = _LEAST_LIMIT


Cache = TypeVar("Cache", bound=dict[Any, Any])


def register_cache(cache: Cache) -> Cache:
    """Have `cache`, which may be emptied at any time, emptied when the table of layouts is full. Returns it."""
    _caches.append(cache)
    return cache


_EVERY, _LONGEST = 1 << 12, 1 << 13
_entries = count(1)


def entered() -> None:
    """Called for what is entered into a registered cache. Its keys may be of no end: the places of slices in a long tensor, the
    lengths of sequences that are joined. So now and then the caches that have become long are emptied.
    """
    if not next(_entries) % _EVERY:
        for cache in _caches:
            if len(cache) > _LONGEST:
                cache.clear()


def clear_caches() -> None:
    """Empty every registered cache."""
    for cache in _caches:
        cache.clear()


when_default_changes.append(clear_caches)


def _enter(shape: Size, strides: tuple[int, ...], dtype: DType, device: Device, flavor: Any) -> Layout:
    key = (shape, strides, dtype, device, flavor)
    if (count := math.prod(shape)) * dtype.itemsize >= 1 << 63:
        if contiguous(shape, strides):
            raise RuntimeError(f"Storage size calculation overflowed with sizes={list(shape)}")
        if count >= 1 << 63:
            raise RuntimeError("numel: integer multiplication overflow")
    if not count and max(accumulate(shape, operator.mul)) >= 1 << 64:
        raise RuntimeError(f"Storage size calculation overflowed with sizes={list(shape)}")
    if strides and max(strides) >= 1 << 63:  # of no elements; kernels and PyTorch hold a stride in 64 bits
        raise RuntimeError("Stride calculation overflowed")
    made = object.__new__(Layout)
    made.shape, made.strides, made.dtype, made.device, made.flavor = key
    made.pending = flavor.bits if flavor.__class__ is Pending else 0
    made.ndim = len(shape)
    made.numel = count
    made.nbytes = count * dtype.itemsize
    made.is_contiguous = contiguous(shape, strides)
    if device.stand_ins is not None:
        made.tensor_class = device.stand_ins.tensor_class
    if len(_table) >= _limit:
        _sweep()
    # Nothing is allocated here that could set the collector, and with it anybody's destructor, to work.
    with _lock:
        return _table.setdefault(key, _examined.get(key, made))


def _sweep() -> None:
    """Drop the layouts nobody uses."""
    global _limit
    _limit = 2 * len(_table)  # whoever comes meanwhile needs not sweep as well
    clear_caches()
    for key in list(_table):
        with _lock:
            # Taken out before it is counted: nobody can then reach it through the table while we decide. A handler that comes
            # in between, for which this thread's lock is open, finds it where it is and puts it back. It is in a list, as
            # references of variables aren't all counted from Python 3.14 on.
            if key in _table:
                candidate = [_table[key]]
                _examined[key] = candidate[0]
                _table.pop(key, None)
                if sys.getrefcount(candidate[0]) > 3:
                    _table.setdefault(key, candidate[0])
                _examined.pop(key, None)
    _limit = max(_LEAST_LIMIT, 2 * len(_table))


# ---------------------------------------------------------------- markers of the public namespace


class layout:
    """A storage scheme marker."""

    __slots__ = ("name",)
    name: str
    __module__ = PACKAGE

    def __new__(cls, *args: object) -> layout:
        raise TypeError("cannot create 'torch.layout' instances")

    def __repr__(self) -> str:
        return f"torch.{self.name}"

    def __reduce__(self) -> str:
        return self.name

    def __deepcopy__(self, memo: dict[int, Any]) -> layout:
        return self


class memory_format:
    """An order of dimensions in memory: contiguous_format, channels_last, channels_last_3d, preserve_format."""

    __slots__ = ("name",)
    name: str
    __module__ = PACKAGE

    def __new__(cls, *args: object) -> memory_format:
        raise TypeError("cannot create 'torch.memory_format' instances")

    def __repr__(self) -> str:
        return f"torch.{self.name}"

    def __reduce__(self) -> str:
        return self.name

    def __deepcopy__(self, memo: dict[int, Any]) -> memory_format:
        return self


Marker = TypeVar("Marker", layout, memory_format)


def _marker(kind: type[Marker], name: str) -> Marker:
    made = object.__new__(kind)
    made.name = name
    return made


strided = _marker(layout, "strided")
sparse_coo = _marker(layout, "sparse_coo")
sparse_csr = _marker(layout, "sparse_csr")
sparse_csc = _marker(layout, "sparse_csc")
sparse_bsr = _marker(layout, "sparse_bsr")
sparse_bsc = _marker(layout, "sparse_bsc")
jagged = _marker(layout, "jagged")
_mkldnn = _marker(layout, "_mkldnn")  # of oneDNN's tensors, which are not here: no tensor has it
contiguous_format = _marker(memory_format, "contiguous_format")
channels_last = _marker(memory_format, "channels_last")
channels_last_3d = _marker(memory_format, "channels_last_3d")
preserve_format = _marker(memory_format, "preserve_format")
legacy_contiguous_format = contiguous_format
