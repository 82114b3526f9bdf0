"""Advanced indexing and whole-slice operators: index, index_put, index_select, index_add, index_copy, index_fill,
take, put, ...

Stands on ops.indexing.gather_plans (kernels that move elements through index tensors) and core.tensor.indexing, whose
`x[...]` lands here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flambeau.base import memory_order, scalar_range
from flambeau.base.dtype import bool_, int32, int64, uint8
from flambeau.base.layout import Layout, register_cache
from flambeau.codegen.gather_scatter.move import Buffer, Index, Move
from flambeau.core.autograd import inplace
from flambeau.core.modes import overrides
from flambeau.core.modes.modes import active, local
from flambeau.core.operator.define import operator
from flambeau.core.operator.facets import LINEAR
from flambeau.core.operator.publishing import NAMESPACE, explained
from flambeau.core.tensor import indexing
from flambeau.core.tensor.tensor import Tensor, tensor_from
from flambeau.core.tensor.without_data import known
from flambeau.ops.creation.copy import clone_raw
from flambeau.ops.indexing.gather_plans import (
    INDEX_TYPES,
    KernelCheck,
    copy_and_move,
    first_bad,
    make_plan,
    plans,
    zeros_and_move,
    zeros_for,
)
from flambeau.ops.indexing.mutating import mutating
from flambeau.ops.indexing.nonzero import compressed, positions

# ---------------------------------------------------------------- x[indices] and x[indices] = values


def _selection(layout: Layout, indices: Sequence[Any]) -> tuple[list, list, list, tuple[Index, ...]]:
    """(sizes, strides of the tensor, dimensions of the tensor per axis or None, indices) of the axes of x[indices]."""
    shape = indexing.broadcast_indices(indices)
    given = [(d, i) for d, i in enumerate(indices) if i is not None]
    if 0 not in shape and any([layout.shape[d] == 0 for d, _ in given]):
        raise IndexError("index is out of bounds for dimension with size 0")
    free = [d for d in range(layout.ndim) if d >= len(indices) or indices[d] is None]
    at = given[0][0] if indexing.adjacent(indices) else 0
    axes: list[int | None] = [*free[:at], *[None] * len(shape), *free[at:]]
    sizes = [*(layout.shape[d] for d in free[:at]), *shape, *(layout.shape[d] for d in free[at:])]
    strides = [0 if d is None else layout.strides[d] for d in axes]
    found = []
    for k, (d, i) in enumerate(given):
        own = memory_order.broadcast_strides(i._layout.shape, i._layout.strides, shape)
        spread = (*[0] * at, *own, *[0] * (len(axes) - at - len(shape)))
        found.append(Index(Buffer(2 + k, 0, spread), INDEX_TYPES[i._layout.dtype], layout.strides[d], layout.shape[d]))
    return sizes, strides, axes, tuple(found)


def _expanded(input: Tensor, indices: Sequence[Any], assumed: int | None = None) -> tuple:
    """The indices with masks as positions, all of them int64 or int32; IndexError where they don't fit the tensor. assumed: how
    many positions a mask without values is taken to have."""
    made = list(indices)
    for i in made:
        if i is not None and i._layout.dtype not in (int64, int32):
            if i._layout.dtype not in (bool_, uint8):
                raise IndexError("tensors used as indices must be long, int, byte or bool tensors")
            indexing.check_masks(input, indices)
            made = indexing.expand_masks(indices, assumed)
            break
    if len(made) > input._layout.ndim:
        raise IndexError(f"too many indices for tensor of dimension {input._layout.ndim} (got {len(made)})")
    return tuple(made)


def _written(input: Tensor, indices: Sequence[Any], values: Tensor) -> tuple:
    """The indices of a write, `_expanded`; a mask without values has as many positions as there are values for."""
    made = _expanded(input, indices, 1)
    if any([i is not None and i._layout.dtype in (bool_, uint8) and not known(i) for i in indices]):
        sizes, _, axes, _ = _selection(input._layout, made)
        last = max(d for d, axis in enumerate(axes) if axis is None)
        other = values._layout.shape
        if sizes[last] == 1 and len(other) >= len(sizes) - last:
            made = _expanded(input, indices, other[last - len(sizes)])
    return made


def _bad_index(input: Tensor, indices: Sequence[Any]) -> Exception:
    for d, i in enumerate(indices):
        if i is not None:
            extent = input._layout.shape[d]
            bad = first_bad(i, extent, True)
            if bad is not None:
                return (
                    IndexError("index is out of bounds for dimension with size 0")
                    if not extent
                    else IndexError(f"index {bad} is out of bounds for dimension {d} with size {extent}")
                )
    return IndexError("index out of range")


@operator(function=False, method=False, name="index", written_in_python=True, jvp=LINEAR)
def gather_index(input: Tensor, indices: Sequence[Tensor | None]) -> Tensor:
    """The elements at the positions that the index tensors name, one per dimension (None: all of it)."""
    key = ("index", input._layout, *[None if i is None else i._layout for i in indices])
    launch = plans.get(key)
    given = [i for i in indices if i is not None]
    if launch is None:
        layout = input._layout
        sizes, strides, _, found = _selection(layout, indices)
        shape = tuple(sizes)
        order = memory_order.elementwise_strides(shape, [(shape, tuple(strides)), *[(shape, i.buffer.strides) for i in found]])
        out = Layout.of(shape, order, layout.dtype, layout.device)
        launch = plans[key] = make_plan(
            [Move(layout.dtype, tuple(sizes), Buffer(1, 0, tuple(strides)), Buffer(0, 0, out.strides), found)],
            [out],
            [layout, *[i._layout for i in given]],
        )
    try:
        return launch(None, input, *given)
    except KernelCheck:
        raise _bad_index(input, indices) from None


@gather_index.vjp
def _(g, indices, layouts):
    if g._layout.flavor is not None or any(i is not None and i._layout.flavor is not None for i in indices):
        return zeros_for(layouts[0], g).index_put(indices, g, True)
    return _index_sums(g, indices, layouts[0])


@operator(function=False, method=False, name="index_sums", node="IndexPutBackward0")
def _index_sums(g: Tensor, indices: Sequence[Any], layout: Layout) -> Tensor:
    """Zeros of the layout's shape with `g` added at the positions that the index tensors name."""
    key = ("index_sums", g._layout, layout, *[None if i is None else i._layout for i in indices])
    launch = plans.get(key)
    given = [i for i in indices if i is not None]
    if launch is None:
        out = layout.dense().with_dtype(g._layout.dtype)
        sizes, strides, _, found = _selection(out, indices)
        sums = Move(out.dtype, tuple(sizes), Buffer(0, 0, tuple(strides)), Buffer(1, 0, g._layout.strides), found, True, "add")
        launch = plans[key] = zeros_and_move(out, [g._layout, *[i._layout for i in given]], [sums])
    try:
        return launch(None, g, *given)
    except KernelCheck:
        raise _bad_index(tensor_from(g._storage, g._offset, layout), indices) from None


@_index_sums.vjp
def _(g, indices):
    return gather_index(g, indices)


@operator(function=False, method=False, name="index_flat", node="IndexBackward0")
def _gather_flat(input: Tensor, places: Tensor, count: int) -> Tensor:
    """The elements of a contiguous tensor at places along its first `count` dimensions taken as one."""
    return gather_index(tensor_from(input._storage, input._offset, _leading(input._layout, count)), (places,))


@_gather_flat.vjp
def _(g, places, count, layouts):
    return _index_sums(g, (places,), _leading(layouts[0].dense(), count)).reshape(layouts[0].shape)


def _leading(layout: Layout, count: int) -> Layout:
    """A contiguous layout with its first dimensions as one."""
    if count == 1:
        return layout
    found = _merged.get((layout, count))
    if found is None:
        rows = 1
        for n in layout.shape[:count]:
            rows *= n
        found = _merged[layout, count] = Layout.contiguous((rows, *layout.shape[count:]), layout.dtype, layout.device)
    return found


_merged: dict[Any, Layout] = register_cache({})


def index(input: Tensor, indices: Sequence[Any]) -> Tensor:
    """The elements at the positions that the index tensors name, one per dimension (None: all of it; masks: their
    true ones)."""
    if len(indices) == 1 and indices[0] is not None:
        chosen = indices[0]
        layout = chosen._layout
        recorded = input._node is not None and local.grad
        if recorded and chosen._storage.inference:
            chosen._storage.version  # raises: a graph can't keep it, nor the positions of a mask  # noqa: B018
        launch = plans.get(("index", input._layout, layout))
        if (
            launch is None
            and layout.dtype is bool_
            and input._layout.is_contiguous
            and layout.is_contiguous
            and not input._layout.pending
        ):
            count = layout.ndim
            if count and layout.shape == input._layout.shape[:count] and layout.flavor is None:
                if (
                    not recorded
                    and count == input._layout.ndim
                    and input._layout.flavor is None
                    and input._layout.dtype.itemsize <= 8
                ):
                    return compressed(input, chosen)
                flat = _leading(input._layout, count)
                places = positions(chosen, flat=True)
                launch = plans.get(("index", flat, places._layout))
                if launch is not None and not recorded:
                    return launch(None, input, places)
                return gather_index(input, (places,)) if flat is input._layout else _gather_flat(input, places, count)
        elif launch is not None:
            try:
                made = launch(None, input, chosen)
            except KernelCheck:
                raise _bad_index(input, indices) from None
            if recorded:
                gather_index.operator.record((input, (chosen,)), made)
            return made
    made = _expanded(input, indices)
    if all(i is None for i in made):
        return input.clone()
    return gather_index(input, made)


def _put(layout: Layout, other: Layout, indices: Sequence[Any], accumulate: bool) -> Move:
    """The writes of an index_put: to a tensor (slot 0) from values (slot 1), by indices. RuntimeError where shapes don't fit."""
    sizes, strides, _, found = _selection(layout, indices)
    shape = tuple(sizes)
    own = other.shape
    while len(own) > len(shape) and own[0] == 1:
        own = own[1:]
    if len(own) > len(shape) or any(a != b and a != 1 for a, b in zip(reversed(own), reversed(shape))):
        raise RuntimeError(
            f"shape mismatch: value tensor of shape {list(other.shape)} cannot be broadcast to indexing result "
            f"of shape {list(shape)}"
        )
    spread = memory_order.broadcast_strides(own, other.strides[len(other.shape) - len(own) :], shape)
    combine = "add" if accumulate else None
    return Move(layout.dtype, shape, Buffer(0, 0, tuple(strides)), Buffer(1, 0, spread), found, True, combine)


@mutating(
    name="index_put",
    function=False,
    method=False,
    out=False,
    keep_order=True,
    apart=("values",),
    expanded="tensor[indices] = tensor",
)
def _index_put(input: Tensor, indices: Sequence[Tensor | None], values: Tensor, accumulate: bool = False) -> None:
    """Write `values` (broadcast) to the positions that the index tensors name; accumulate: add to what is there."""
    layout, other = input._layout, values._layout
    if other.dtype is not layout.dtype:
        _put(layout, other, indices, accumulate)  # shapes that don't fit are told first
        raise RuntimeError(
            "Index put requires the source and destination dtypes match, got "
            f"{layout.dtype.scalar_name} for the destination and {other.dtype.scalar_name} for the source."
        )
    if values._storage is input._storage:
        values = clone_raw(values)
        other = values._layout
    if any(i is not None and i._storage is input._storage for i in indices):
        for i in indices:
            inplace.refuse_shared(input, i)
        indices = [None if i is None else clone_raw(i) for i in indices]
    key = ("index_put", layout, other, bool(accumulate), *[None if i is None else i._layout for i in indices])
    launch = plans.get(key)
    given = [i for i in indices if i is not None]
    if launch is None:
        launch = plans[key] = make_plan(
            [_put(layout, other, indices, accumulate)], [layout], [other, *[i._layout for i in given]]
        )
    try:
        launch(input, values, *given)
    except KernelCheck:
        raise _bad_index(input, indices) from None


@_index_put.vjp
def _(g, indices, accumulate, layouts, need):
    mine = None
    if need["input"]:
        mine = g if accumulate else _index_put(g, indices, NAMESPACE["zeros"]((), dtype=g._layout.dtype, device=g._layout.device))
    return mine, gather_index(g, indices) if need["values"] else None


def _filling(input: Tensor, indices: Sequence[Any], values: Tensor, accumulate: bool) -> Tensor:
    """The values to write. One number that is written where one mask holds is cast, as masked_fill casts it; RuntimeError if
    that is a mask of bytes, or if the number doesn't fit."""
    masks = [i for i in indices if i is not None]
    if accumulate or len(masks) != 1 or values._layout.numel != 1 or masks[0]._layout.dtype not in (bool_, uint8):
        return values
    if masks[0]._layout.dtype is uint8:
        indexing.check_masks(input, indices)
        raise RuntimeError("masked_fill_ only supports boolean masks, but got mask with dtype unsigned char")
    own = input._layout.dtype
    if values._layout.dtype is own:
        return values
    if values._layout.flavor is None and values._layout.device.type == "cpu":
        scalar_range.check(values.item(), own)
    return values.to(own)


@explained
def index_put(input: Tensor, indices: Sequence[Any], values: Tensor, accumulate: bool = False) -> Tensor:
    """A copy of `input` with `values` (broadcast) at input[indices]; accumulate: added there."""
    if len(indices) == 1 and not active.count and indices[0].__class__ is Tensor:
        chosen = indices[0]
        launch = plans.get(("index_put copy", input._layout, values._layout, bool(accumulate), chosen._layout))
        if launch is not None and (not local.grad or (input._node is None and values._node is None)):
            try:
                return launch(None, input, values, chosen)
            except KernelCheck:
                raise _bad_index(input, indices) from None
        if (
            launch is None
            and chosen._layout.dtype in INDEX_TYPES
            and input._layout.is_contiguous
            and all(x._layout.flavor is None and x._layout.device.type == "cpu" for x in (input, values, chosen))
        ):
            made = _index_put(input, _written(input, indices, values), values, accumulate)  # raises where the call is wrong
            own, other = input._layout, values._layout
            plans["index_put copy", own, other, bool(accumulate), chosen._layout] = copy_and_move(
                own, own, [other, chosen._layout], [_put(own, other, indices, accumulate)]
            )
            return made
    if overrides.any_override(indices):
        return overrides.dispatch(index_put, (input, indices, values, accumulate), None, indices)
    values = _filling(input, indices, values, accumulate)
    return _index_put(input, _written(input, indices, values), values, accumulate)


@explained
def index_put_(input: Tensor, indices: Sequence[Any], values: Tensor, accumulate: bool = False) -> Tensor:
    """Write `values` (broadcast) to input[indices]; accumulate: add them to what is there. Returns the tensor."""
    if (
        not active.count
        and (not local.grad or (input._node is None and values._node is None))
        and len(indices) == 1
        and indices[0] is not None
    ):
        chosen = indices[0]
        dtype = chosen._layout.dtype
        if dtype in INDEX_TYPES:
            launch = plans.get(("index_put", input._layout, values._layout, bool(accumulate), chosen._layout))
            if launch is not None and values._storage is not input._storage and chosen._storage is not input._storage:
                try:
                    launch(input, values, chosen)
                except KernelCheck:
                    raise _bad_index(input, indices) from None
                return input
        elif dtype is bool_ and not accumulate and not values._layout.ndim and values._layout.dtype is input._layout.dtype:
            lead, shape = chosen._layout.shape, input._layout.shape
            if len(lead) == len(shape):
                if lead == shape:
                    return input.masked_fill_(chosen, values)
            elif lead == shape[: len(lead)]:
                return input.masked_fill_(chosen.reshape((*lead, *[1] * (len(shape) - len(lead)))), values)
    if overrides.any_override(indices):
        return overrides.dispatch(index_put_, (input, indices, values, accumulate), None, indices)
    values = _filling(input, indices, values, accumulate)
    made = _written(input, indices, values)
    if all(i is None for i in made):
        return input.add_(values) if accumulate else input.copy_(values)
    return _index_put.in_place(input, made, values, accumulate)


for _function in (index_put, index_put_):
    NAMESPACE[_function.__name__] = _function
    setattr(Tensor, _function.__name__, _function)
indexing.register(index, index_put_)
