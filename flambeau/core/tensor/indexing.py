"""`tensor[index]` and `tensor[index] = value`: from an index of any kind to views and gathers.

Ints, slices, None and Ellipsis make a view, found by (layout, kind of index): where ints and slices begin makes no other kind.
Booleans, tensors, lists, ranges and arrays then go, one per dimension, to the operators `index` and `index_put_`, which
ops.indexing.index registers here. Stands on core.operator.view and core.tensor.create.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from flambeau.base import memory_order, scalar_range
from flambeau.base.dtype import bool_, int32, int64, uint8
from flambeau.base.layout import Layout, entered, register_cache
from flambeau.base.tracebacks import filter_traceback
from flambeau.base.warn import warn
from flambeau.core.autograd.inplace import AsStridedBackward0, base_of
from flambeau.core.modes import overrides
from flambeau.core.modes.modes import active, local
from flambeau.core.operator import view as views
from flambeau.core.operator.facets import LINEAR, described
from flambeau.core.tensor import create
from flambeau.core.tensor.tensor import Tensor, empty_layout, view_of
from flambeau.core.tensor.without_data import known

__all__ = [
    "adjacent",
    "broadcast_indices",
    "check_masks",
    "expand_masks",
    "__getitem__",
    "__setitem__",
    "register",
    "register_fill",
]

_WRONG_KIND = "only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are valid indices (got {})"
_WRONG_DTYPE = "tensors used as indices must be long, int, byte or bool tensors"

_gather: Callable[..., Any] | None = None
_scatter: Callable[..., Any] | None = None
_fill_masked: Any = None


def register(index: Callable[..., Any], index_put_: Callable[..., Any]) -> None:
    """Take the operators index(tensor, indices) and index_put_(tensor, indices, value, accumulate) into use.

    indices: per dimension of the tensor a tensor (int64, int32, uint8, or bool over one or more dimensions) or None;
    trailing Nones are left out.
    """
    global _gather, _scatter
    _gather, _scatter = index, index_put_


def register_fill(compute: Callable[..., Any]) -> None:
    """Take compute((tensor, mask, number), (), (), tensor) into use, which overwrites where the mask holds."""
    global _fill_masked
    _fill_masked = compute


# ---------------------------------------------------------------- views by (layout, kind of index)

#: The view's layout, where it begins if the index begins at 0 everywhere, and for each item of the index that may begin elsewhere
#: its place, the end of where it may, and the stride.
_views: dict[Any, tuple[Layout, int, tuple[tuple[int, int, int], ...]]] = register_cache({})
_INT = 0  # stands for any int in the key of an index
_ONE_INT = (_INT,)


def _basic_key(index: Sequence[Any], exact: bool = False) -> Any:
    """A hashable stand-in for an index made of ints, slices, None and Ellipsis; None for any other index.

    Ints are all the same, and slices of one length from anywhere on are, unless it is to be `exact`; other slices are triples.
    """
    key: list[Any] = []
    for item in index:
        kind = item.__class__
        if kind is int:
            key.append(_INT)
        elif item is Ellipsis:
            key.append(item)
        elif kind is slice:
            start, stop, step = item.start, item.stop, item.step
            if start.__class__ is stop.__class__ is int and step is None and 0 <= start <= stop and not exact:
                key.append((stop - start,))
            elif (
                (start is None or start.__class__ is int)
                and (stop is None or stop.__class__ is int)
                and (step is None or step.__class__ is int)
            ):
                key.append((start, stop, step))
            else:
                return None
        elif item is None:
            key.append(())
        else:
            return None
    return tuple(key)


def _known_view(self: Any, key: Any, index: Sequence[Any]) -> Any:
    """The view that an index makes of a tensor without history; None if its kind is new, or it reaches outside."""
    if self._node is not None:
        return None
    found = _views.get((self._layout, key))
    if found is not None:
        layout, offset, begins = found
        for place, end, stride in begins:
            at = index[place]
            if at.__class__ is slice:
                at = at.start
            elif at < 0:
                at += end
            if not 0 <= at < end:
                break
            offset += at * stride
        else:
            return view_of(self, self._offset + offset, layout)
    exact = _basic_key(index, exact=True)
    return None if exact == key else _known_view(self, exact, index)


def _keep(self: Any, index: Sequence[Any], view: Any) -> None:
    """Remember the view that an index made, if it is of ints, slices, None and Ellipsis."""
    if self._node is None and self._layout.answering is None:
        for exact in (False, True):
            key = _basic_key(index, exact)
            if key is not None and (self._layout, key) not in _views:
                _keep_view(self, key, index, view)


def _keep_view(self: Any, key: Any, index: Sequence[Any], view: Any) -> None:
    layout, dim, begins = self._layout, 0, []
    offset = view._offset - self._offset
    for place, item in enumerate(index):
        if item is None:
            continue
        if item is Ellipsis:
            dim += layout.ndim - sum([_consumed(other) for other in index])
            continue
        size, stride = layout.shape[dim], layout.strides[dim]
        if item.__class__ is int:
            begins.append((place, size, stride))
            offset -= (item + size if item < 0 else item) * stride
        elif len(key[place]) == 1:
            if item.stop > size:
                return  # cut off: it is found by its exact key
            begins.append((place, size - key[place][0] + 1, stride))
            offset -= item.start * stride
        dim += 1
    entered()
    _views[layout, key] = (view._layout, offset, tuple(begins))


@described(jvp=LINEAR)
def __getitem__(self: Any, index: Any) -> Any:
    """self[index]: a view for ints, slices, None and Ellipsis, a copy where tensors, lists or booleans take part."""
    try:
        if index.__class__ is Tensor and not active.count and _gather is not None:
            own, chosen = self._layout, index._layout
            if (
                chosen.ndim
                and own.flavor is None
                and chosen.flavor is None
                and ((chosen.dtype is int64 and own.ndim) or (chosen.dtype is bool_ and own.shape[: chosen.ndim] == chosen.shape))
            ):
                return _gather(self, (index,))
        if index.__class__ is int and not active.count:
            if self._node is not None:
                shape = self._layout.shape
                if shape and -shape[0] <= index < shape[0]:
                    return views.select(self, 0, index)
            elif (found := _views.get((self._layout, _ONE_INT))) is not None:
                layout, offset, ((_, size, stride),) = found
                if -size <= index < size:
                    return view_of(self, self._offset + offset + (index + size if index < 0 else index) * stride, layout)
        items = index if index.__class__ is tuple else (index,)
        key = _basic_key(items)
        if key is None or active.count:
            if self._node is None and not active.count:
                tensors = _only_tensors(self, items)
                if tensors is not None:
                    return _gather(self, tensors)  # type: ignore[misc]
            return _general(self, index)
        view = _known_view(self, key, items)
        return _general(self, index) if view is None else view
    except Exception as error:
        filter_traceback(error)
        raise


def _only_tensors(self: Any, index: tuple) -> list[Any] | None:
    """The index as tensors or None by dimension, if it holds whole dimensions and plain tensors of numbers alone."""
    if self._layout.flavor is not None or len(index) > self._layout.ndim or _gather is None:
        return None
    tensors: list[Any] = []
    count = 0
    for item in index:
        if item.__class__ is Tensor:
            layout = item._layout
            if layout.dtype is not int64 or not layout.ndim or layout.flavor is not None:
                return None
            tensors.append(item)
            count = len(tensors)
        elif item.__class__ is slice and item.start is None and item.stop is None and item.step is None:
            tensors.append(None)
        else:
            return None
    return tensors[:count]


def _general(self: Any, index: Any) -> Any:
    asked = (self, *index) if isinstance(index, tuple) else (self, index)
    if overrides.any_override(asked):
        return overrides.dispatch(Tensor.__getitem__, (self, index), {}, asked)
    items = _items(index)
    view, tensors = _apply(self, items)
    if not tensors:
        if view is self:
            view = views.alias(self)
        _keep(self, items, view)
        return view
    if _gather is None:
        raise NotImplementedError("indexing with tensors needs the operator `index`: import flambeau.ops")
    if view._node is not None and local.grad:
        for given in tensors:
            if given is not None and given._storage.inference:
                given._storage.version  # raises: a graph can't keep it, nor the positions of a mask  # noqa: B018
    return _gather(view, tensors)


def _items(index: Any) -> tuple[Any, ...]:
    """The index as a tuple of one item per place."""
    if isinstance(index, tuple):
        return index
    if (
        isinstance(index, list)
        and len(index) < 32
        and any(item is None or item is Ellipsis or isinstance(item, (slice, Tensor, list, tuple, np.ndarray)) for item in index)
    ):
        warn(
            "Using a non-tuple sequence for multidimensional indexing is deprecated and will be changed in pytorch 2.9; use "
            "x[tuple(seq)] instead of x[seq]. In pytorch 2.9 this will be interpreted as tensor index, x[torch.tensor(seq)], "
            "which will result either in an error or a different result"
        )
        return tuple(index)
    return (index,)


def _consumed(item: Any) -> int:
    """How many dimensions of the tensor an item uses up."""
    if item is None or item is Ellipsis or isinstance(item, (bool, np.bool_)):
        return 0
    if isinstance(item, Tensor) and item._layout.dtype in (bool_, uint8):
        return item._layout.ndim
    return item.ndim if isinstance(item, np.ndarray) and item.dtype == np.bool_ else 1


def _apply(self: Any, items: Sequence[Any]) -> tuple[Any, list[Any]]:
    """The view that the ints, slices, Nones and Ellipsis make, and the tensors that are left, by dimension of it."""
    ndim = self._layout.ndim
    used = sum([_consumed(item) for item in items])
    if used > ndim and (ndim or len(items) > 1 or isinstance(items[0], (Tensor, list, tuple, range, np.ndarray))):
        raise IndexError(f"too many indices for tensor of dimension {ndim}")
    view, dim, tensors = self, 0, []
    for place, item in enumerate(items):
        if item.__class__ is int:
            view = _select(view, dim, item, place)
        elif item.__class__ is slice:
            view = _slice(view, dim, item, len(items) == 1)
            dim += 1
        elif item is Ellipsis:
            dim += ndim - used
        elif item is None:
            view = views.unsqueeze(view, dim)
            dim += 1
        elif isinstance(item, (bool, np.bool_)):
            view = views.unsqueeze(view, dim)
            _place(tensors, dim, _truth(bool(item)))
            dim += 1
        else:
            given = _as_tensor(item)
            if given.__class__ is int:
                view = _select(view, dim, given, place)
                continue
            layout = given._layout
            if layout.ndim == 0 and layout.answering is None:
                if layout.dtype in (bool_, uint8):
                    view = views.unsqueeze(view, dim)
                    _place(tensors, dim, _truth(bool(given.item())))
                    dim += 1
                elif layout.dtype.is_floating_point or layout.dtype.is_complex:
                    raise IndexError(_WRONG_DTYPE)
                else:
                    view = _select(view, dim, int(given.item()), place)
                continue
            _place(tensors, dim, given)
            dim += layout.ndim if layout.dtype in (bool_, uint8) else 1
    return view, tensors


def _place(tensors: list[Any], dim: int, given: Any) -> None:
    """Put a tensor at its dimension. A mask over several dimensions stands at the first of them."""
    width = sum(_width(tensor) for tensor in tensors)
    tensors.extend([None] * (dim - width))
    tensors.append(given)


def _width(tensor: Any) -> int:
    return tensor._layout.ndim if tensor is not None and tensor._layout.dtype in (bool_, uint8) else 1


def _truth(value: bool) -> Any:
    """The index that stands for a boolean: position 0 of a new dimension of size 1, or nothing of it."""
    return create.constant(np.zeros(1 if value else 0, dtype=np.int64))


def _as_tensor(item: Any) -> Any:
    """An item that is no view index as a tensor (or an int, for NumPy integers and zero-dim arrays)."""
    if isinstance(item, Tensor):
        dtype = item._layout.dtype
        if dtype not in (int64, int32, uint8, bool_) and item._layout.ndim:
            raise IndexError(_WRONG_DTYPE)
        return item
    if isinstance(item, np.ndarray) and item.ndim:
        return _as_tensor(create.constant(item) if local.dispatch_modes else create.copy_array(item))
    if isinstance(item, (list, tuple, range)):
        made = create.constant(list(item), int64 if not len(item) else None)
        return _as_tensor(made)
    if isinstance(item, str):
        raise TypeError("new(): invalid data type 'str'")
    if hasattr(item, "__index__") and not isinstance(item, float):
        return operator.index(item)
    raise IndexError(_WRONG_KIND.format(type(item).__name__))


def _select(view: Any, dim: int, index: int, place: int) -> Any:
    shape = view._layout.shape
    if not -1 << 63 <= index < 1 << 63:
        raise ValueError("Overflow when unpacking long long")
    if not shape:
        raise IndexError(
            "invalid index of a 0-dim tensor. Use `tensor.item()` in Python or `tensor.item<T>()` in C++ to "
            "convert a 0-dim tensor to a number"
        )
    size = shape[dim]
    if not -size <= index < size:
        raise IndexError(f"index {index} is out of bounds for dimension {place} with size {size}")  # the place in x[...]
    return views.select(view, dim, index)


def _slice(view: Any, dim: int, item: slice, alone: bool) -> Any:
    step = 1 if item.step is None else operator.index(item.step)
    if step == 0:
        raise ValueError("slice step cannot be zero")
    if step < 0:
        raise ValueError("step must be greater than zero")
    shape = view._layout.shape
    if not shape:
        raise IndexError("slice() cannot be applied to a 0-dim tensor.")
    start, stop, _ = item.indices(shape[dim])
    if start == 0 and stop == shape[dim] and step == 1 and not alone:
        return view
    return views.slice_(view, dim, start, stop, step)


# ---------------------------------------------------------------- assignment


def __setitem__(self: Any, index: Any, value: Any) -> None:
    """self[index] = value: numbers fill, tensors are broadcast. Raises IndexError, RuntimeError, TypeError as PyTorch."""
    try:
        if index.__class__ is Tensor and value.__class__ in (float, int, bool) and -65504 <= value <= 65504:  # x[mask] = number
            own, layout = self._layout, index._layout
            if (
                layout.dtype is bool_
                and layout.shape == own.shape
                and own.is_contiguous
                and own.dtype.is_floating_point
                and own.flavor is None
                and self._node is None
                and own.ndim
                and not active.count
                and index._storage is not self._storage
                and own.device is layout.device
                and own.device.type == "cpu"
            ):
                _fill_masked((self, index, value), (), (), self)
                return
        if (
            value.__class__ is Tensor
            and not active.count
            and value._layout.flavor is None
            and _scatter is not None
            and not (local.grad and (self._node is not None or value._node is not None))
        ):
            chosen = _only_tensors(self, index if index.__class__ is tuple else (index,))
            if chosen:
                _scatter(self, chosen, value, False)
                return
        asked = (self, *index, value) if isinstance(index, tuple) else (self, index, value)
        if overrides.any_override(asked):
            overrides.dispatch(Tensor.__setitem__, (self, index, value), {}, asked)
            return
        number = isinstance(value, (int, float, complex, np.number, np.bool_)) or (
            isinstance(value, np.ndarray) and value.ndim == 0
        )
        if not number and not isinstance(value, Tensor):
            raise TypeError(f"can't assign a {_type_name(value)} to a torch.{self._layout.dtype.scalar_name}Tensor")
        if number and not isinstance(value, (int, float, complex)):
            value = value.item()
        if index.__class__ is bool:
            if not index:
                return
            index = None  # the whole tensor, behind a dimension of size 1: a copy, which converts
        items = _items(index)
        key = _basic_key(items) if self._node is None and not active.count else None
        view, tensors = None if key is None else _known_view(self, key, items), []
        if view is None:
            view, tensors = _apply(self, items)
            if key is not None and not tensors:
                _keep(self, items, view)
        if not tensors:
            if number:
                if not view._layout.is_contiguous and memory_order.overlaps_itself(view._layout.shape, view._layout.strides):
                    raise RuntimeError(memory_order.OVERLAPS_ITSELF)
                try:
                    view.fill_(value)
                except RuntimeError:  # of 16 bits, elements may overflow here, as they may not in fill_
                    dtype = view._layout.dtype
                    if not dtype.is_floating_point or isinstance(value, complex) or scalar_range.fits(value, dtype):
                        raise
                    view.fill_(math.copysign(math.inf, value))
            else:
                _copy(view, value)
            return
        if _scatter is None:
            raise NotImplementedError("assigning through tensors needs the operator `index_put_`: import flambeau.ops")
        if number:
            if isinstance(value, complex):
                scalar_range.check(value, view._layout.dtype)
            value = create.constant(value, view._layout.dtype)
        else:
            value = _without_leading_ones(value)
        _scatter(view, tensors, value, False)
    except Exception as error:
        filter_traceback(error)
        raise


def _type_name(value: Any) -> str:
    kind = type(value)
    return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"


def _without_leading_ones(value: Any) -> Any:
    shape = value._layout.shape
    lead = 0
    while lead < len(shape) and shape[lead] == 1:
        lead += 1
    return value.reshape(shape[lead:]) if lead else value


def fitted(view: Any, value: Any) -> Any:
    """The value of an assignment in the shape of the view that it is written to."""
    shape = view._layout.shape
    if value._layout.shape != shape:
        value = _without_leading_ones(value)
        if value._layout.shape != shape:
            value = value.expand(shape)
    return value


def _copy(view: Any, value: Any) -> None:
    if value._storage is view._storage and value._offset == view._offset and _is_written(view, value):
        view._storage.writes += 1
        return
    view.copy_(fitted(view, value))


def _is_written(view: Any, value: Any) -> bool:
    """Whether a value of the view's own memory is what the view shows already, history included: `x[i] += y` updates
    x[i], which is then assigned to itself.
    """
    layout, node = value._layout, value._node
    if layout is not view._layout or layout.answering is not None:
        return False
    if not local.grad or (node is None and view._node is None):
        return True
    base = base_of(value)
    return (
        node.__class__ is AsStridedBackward0
        and base is not None
        and base is base_of(view)
        and node.edges[0] == (base._node, base._index)
    )


# ---------------------------------------------------------------- for those who answer x[...] themselves


def resolve(tensor: Any, index: Any) -> tuple[Any, list[Any]]:
    """The view of `tensor` that the ints, slices, Nones and Ellipsis of an index make, and the index tensors left for it."""
    return _apply(tensor, _items(index))


def gathering() -> Callable[..., Any]:
    """The operator behind x[tensors]: gathering()(view, tensors)."""
    assert _gather is not None
    return _gather


# ---------------------------------------------------------------- what index and index_put_ use


def check_masks(tensor: Any, indices: Sequence[Any]) -> None:
    """Raise IndexError unless every mask among `indices` has the shape of the dimensions it covers."""
    shape, dim = tensor._layout.shape, 0
    for index in indices:
        if index is not None and index._layout.dtype in (bool_, uint8):
            own = index._layout.shape
            if dim + len(own) > len(shape):
                raise IndexError(f"too many indices for tensor of dimension {len(shape)}")
            for place, size in enumerate(own):
                if size != shape[dim + place]:
                    raise IndexError(
                        f"The shape of the mask {list(own)} at index {place} does not match the shape of "
                        f"the indexed tensor {list(shape)} at index {dim + place}"
                    )
            dim += len(own)
        else:
            dim += 1
    if dim > len(shape):
        raise IndexError(f"too many indices for tensor of dimension {len(shape)} (got {dim})")


def expand_masks(indices: Sequence[Any], assumed: int | None = None) -> list[Any]:
    """The indices with every mask replaced by the positions of its true elements, one integer tensor per dimension. Warns of
    masks of bytes. assumed: how many a mask without values is taken to have."""
    expanded: list[Any] = []
    for index in indices:
        if index is not None and index._layout.dtype in (bool_, uint8):
            if index._layout.dtype is uint8:
                warn("indexing with dtype torch.uint8 is now deprecated, please use a dtype torch.bool instead.")
            if assumed is not None and not known(index):
                positions = empty_layout(Layout.contiguous((assumed, index._layout.ndim), int64, index._layout.device))
            else:
                positions = index.nonzero()
            expanded.extend(views.select(positions, 1, dim) for dim in range(index._layout.ndim))
        else:
            expanded.append(index)
    return expanded


def broadcast_indices(indices: Sequence[Any]) -> tuple[int, ...]:
    """The common shape of the index tensors. Raises IndexError if they don't broadcast."""
    shapes = [index._layout.shape for index in indices if index is not None]
    if not shapes:
        raise RuntimeError("at least one index must be given")
    ndim = max(map(len, shapes))
    result = [1] * ndim
    for shape in shapes:
        for dim in range(-1, -1 - len(shape), -1):
            if shape[dim] != 1:
                if result[dim] not in (1, shape[dim]):
                    raise IndexError(
                        "shape mismatch: indexing tensors could not be broadcast together with shapes "
                        + ", ".join(str(list(shape)) for shape in shapes)
                    )
                result[dim] = shape[dim]
    return tuple(result)


def adjacent(indices: Sequence[Any]) -> bool:
    """Whether the index tensors stand side by side: their dimensions then stay in place, otherwise they come first."""
    places = [place for place, index in enumerate(indices) if index is not None]
    return places[-1] - places[0] + 1 == len(places)
