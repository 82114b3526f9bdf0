"""Advanced indexing and whole-slice operators: index, index_put, index_select, index_add, index_copy, index_fill, take, put, ...

Stands on ops.gathering (kernels that move elements through index tensors) and core.indexing, whose `x[...]` lands here.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from flambeau.base import geometry
from flambeau.base.dtype import bool_, iinfo, int32, int64, uint8
from flambeau.base.layout import Layout, register_cache
from flambeau.codegen.move import Buffer, Index, Move
from flambeau.core import indexing
from flambeau.core.create import make_tensor
from flambeau.core.declare import composite, operator
from flambeau.core.derive import NAMESPACE
from flambeau.core.modes import active, local
from flambeau.core.tensor import Tensor, tensor_from, wrap_dim
from flambeau.ops.copy import clone_raw, contiguous
from flambeau.ops.gathering import INDEX_TYPES, KernelCheck, first_bad, make_plan, plans, rows
from flambeau.ops.mutating import mutating
from flambeau.ops.positions import positions

# ---------------------------------------------------------------- x[indices] and x[indices] = values


def _selection(layout: Layout, indices: Sequence[Any]) -> tuple[list, list, list, tuple[Index, ...]]:
    """(sizes, strides of the tensor, dimensions of the tensor per axis or None, indices) of the axes of x[indices]."""
    shape = indexing.broadcast_indices(indices)
    given = [(d, i) for d, i in enumerate(indices) if i is not None]
    free = [d for d in range(layout.ndim) if d >= len(indices) or indices[d] is None]
    at = given[0][0] if indexing.adjacent(indices) else 0
    axes: list[int | None] = [*free[:at], *[None] * len(shape), *free[at:]]
    sizes = [*(layout.shape[d] for d in free[:at]), *shape, *(layout.shape[d] for d in free[at:])]
    strides = [0 if d is None else layout.strides[d] for d in axes]
    found = []
    for k, (d, i) in enumerate(given):
        own = geometry.broadcast_strides(i._layout.shape, i._layout.strides, shape)
        spread = (*[0] * at, *own, *[0] * (len(axes) - at - len(shape)))
        found.append(Index(Buffer(2 + k, 0, spread), INDEX_TYPES[i._layout.dtype], layout.strides[d], layout.shape[d]))
    return sizes, strides, axes, tuple(found)


def _expanded(input: Tensor, indices: Sequence[Any]) -> tuple:
    """The indices with masks as positions, all of them int64 or int32; IndexError where they don't fit the tensor."""
    made = list(indices)
    for i in made:
        if i is not None and i._layout.dtype not in (int64, int32):
            if i._layout.dtype not in (bool_, uint8):
                raise IndexError("tensors used as indices must be long, int, byte or bool tensors")
            indexing.check_masks(input, indices)
            made = indexing.expand_masks(indices)
            break
    if len(made) > input._layout.ndim:
        raise IndexError(f"too many indices for tensor of dimension {input._layout.ndim} (got {len(made)})")
    return tuple(made)


def _bad_index(input: Tensor, indices: Sequence[Any]) -> Exception:
    for d, i in enumerate(indices):
        if i is not None:
            extent = input._layout.shape[d]
            bad = first_bad(i, extent, True)
            if bad is not None:
                return IndexError("index is out of bounds for dimension with size 0") if not extent else IndexError(
                    f"index {bad} is out of bounds for dimension {d} with size {extent}")
    return IndexError("index out of range")


@operator(function=False, method=False, name="index")
def _index(input: Tensor, indices: Sequence[Any]) -> Tensor:
    """The elements at the positions that the index tensors name, one per dimension (None: all of it)."""
    key = ("index", input._layout, *[None if i is None else i._layout for i in indices])
    launch = plans.get(key)
    given = [i for i in indices if i is not None]
    if launch is None:
        layout = input._layout
        sizes, strides, _, found = _selection(layout, indices)
        shape = tuple(sizes)
        order = geometry.elementwise_strides(
            shape, [(shape, tuple(strides)), *[(shape, i.buffer.strides) for i in found]]
        )
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


@_index.vjp
def _(g, indices, layouts):
    return _zeros(layouts[0], g).index_put(indices, g, True)


def _zeros(layout: Layout, g: Tensor) -> Tensor:
    return NAMESPACE["zeros"](layout.shape, dtype=g._layout.dtype, device=g._layout.device)


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
    """The elements at the positions that the index tensors name, one per dimension (None: all of it; masks: their true ones)."""
    if input._node is None and len(indices) == 1:
        chosen = indices[0]
        if chosen is not None and chosen._layout.dtype is bool_ and input._layout.is_contiguous:
            count = chosen._layout.ndim
            shape = input._layout.shape
            if count and chosen._layout.shape == shape[:count] and chosen._layout.is_contiguous:
                flat = _leading(input._layout, count)
                return _index(input if flat is input._layout else tensor_from(input._storage, input._offset, flat),
                              (positions(chosen, flat=True),))
        launch = plans.get(("index", input._layout, chosen._layout)) if chosen is not None else None
        if launch is not None:
            try:
                return launch(None, input, chosen)
            except KernelCheck:
                raise _bad_index(input, indices) from None
    made = _expanded(input, indices)
    if all([i is None for i in made]):
        return input.clone()
    return _index(input, made)


@mutating(name="index_put", function=False, method=False, out=False, keep_order=True)
def _index_put(input: Tensor, indices: Sequence[Any], values: Tensor, accumulate: bool = False) -> None:
    """Write `values` (broadcast) to the positions that the index tensors name; accumulate: add to what is there."""
    layout, other = input._layout, values._layout
    if other.dtype is not layout.dtype:
        indexing.broadcast_indices(indices)
        raise RuntimeError(
            "Index put requires the source and destination dtypes match, got "
            f"{layout.dtype.scalar_name} for the destination and {other.dtype.scalar_name} for the source."
        )
    if values._storage is input._storage:
        values = clone_raw(values)
        other = values._layout
    if any([i is not None and i._storage is input._storage for i in indices]):
        indices = [None if i is None else clone_raw(i) for i in indices]
    key = ("index_put", layout, other, bool(accumulate), *[None if i is None else i._layout for i in indices])
    launch = plans.get(key)
    given = [i for i in indices if i is not None]
    if launch is None:
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
        spread = geometry.broadcast_strides(own, other.strides[len(other.shape) - len(own):], shape)
        launch = plans[key] = make_plan(
            [
                Move(
                    layout.dtype,
                    shape,
                    Buffer(0, 0, tuple(strides)),
                    Buffer(1, 0, spread),
                    found,
                    True,
                    "add" if accumulate else None,
                )
            ],
            [layout],
            [other, *[i._layout for i in given]],
        )
    try:
        launch(input, values, *given)
    except KernelCheck:
        raise _bad_index(input, indices) from None


@_index_put.vjp
def _(g, indices, accumulate, layouts, need):
    mine = None
    if need["input"]:
        mine = (
            g
            if accumulate
            else _index_put(g, indices, NAMESPACE["zeros"]((), dtype=g._layout.dtype, device=g._layout.device))
        )
    return mine, _index(g, indices) if need["values"] else None


def index_put(input: Tensor, indices: Sequence[Any], values: Tensor, accumulate: bool = False) -> Tensor:
    """A copy of `input` with `values` (broadcast) at input[indices]; accumulate: added there."""
    return _index_put(input, _expanded(input, indices), values, accumulate)


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
        elif (
            dtype is bool_
            and not accumulate
            and not values._layout.ndim
            and values._layout.dtype is input._layout.dtype
        ):
            lead, shape = chosen._layout.shape, input._layout.shape
            if len(lead) == len(shape):
                if lead == shape:
                    return input.masked_fill_(chosen, values)
            elif lead == shape[:len(lead)]:
                return input.masked_fill_(chosen.reshape((*lead, *[1] * (len(shape) - len(lead)))), values)
    made = _expanded(input, indices)
    if all([i is None for i in made]):
        return input.add_(values) if accumulate else input.copy_(values)
    return _index_put.in_place(input, made, values, accumulate)


for _function in (index_put, index_put_):
    NAMESPACE[_function.__name__] = _function
    setattr(Tensor, _function.__name__, _function)
indexing.register(index, index_put_)

# ---------------------------------------------------------------- slices along one dimension


def _vector(name: str, index: Tensor, dtypes: Sequence = (int64, int32)) -> None:
    if index._layout.ndim > 1:
        raise IndexError(f"{name}(): Index is supposed to be a vector")
    if index._layout.dtype not in dtypes:
        raise RuntimeError(f"{name}(): Expected dtype int32 or int64 for index" if len(dtypes) > 1 else
                           f"{name}(): Expected dtype int64 for index.")


@operator(out=True)
def index_select(input: Tensor, dim: int, index: Tensor) -> Tensor:
    """The slices of `input` along `dim` at the positions `index` (a vector of int64 or int32). IndexError out of range."""
    key = ("index_select", input._layout, dim, index._layout)
    launch = plans.get(key)
    if launch is None:
        layout = input._layout
        at = wrap_dim(dim, layout.ndim)
        _vector("index_select", index)
        if not layout.ndim:
            if index._layout.numel != 1:
                raise RuntimeError("index_select(): Index to scalar can have only 1 value, got "
                                   f"{index._layout.numel} value(s)")
            flat = Layout.of((1,), (1,), layout.dtype, layout.device)
            out = Layout.contiguous((), layout.dtype, layout.device)
            launch = make_plan([rows(0, flat, index._layout, flat, (1, 0, 2))], [out], [layout, index._layout])
        else:
            shape = tuple(index._layout.numel if d == at else n for d, n in enumerate(layout.shape))
            out = Layout.contiguous(shape, layout.dtype, layout.device)
            launch = make_plan([rows(at, layout, index._layout, out, (1, 0, 2))], [out], [layout, index._layout])
        plans[key] = launch
    try:
        return launch(None, input, index)
    except KernelCheck:
        raise IndexError("index out of range in self") from None


@index_select.vjp
def _(g, dim, index, layouts):
    zeros = _zeros(layouts[0], g)
    return zeros.index_add(dim, index, g) if layouts[0].ndim else g.reshape(())


def _write_rows(
    kind: str, input: Tensor, dim: int, index: Tensor, source: Tensor, combine: str | None, wraps: bool = False
) -> None:
    """Write (or combine) slices of `source` into `input`; source may have stride 0 everywhere."""
    if source._storage is input._storage:
        source = clone_raw(source)
    if index._storage is input._storage:
        index = clone_raw(index)
    layout = input._layout
    key = (kind, layout, dim, index._layout, source._layout, combine)
    launch = plans.get(key)
    if launch is None:
        own, other = (layout, source._layout) if layout.ndim else (
            Layout.of((1,), (1,), layout.dtype, layout.device), Layout.of((1,), (1,), layout.dtype, layout.device))
        if layout.ndim and not source._layout.ndim:
            shape = tuple(
                index._layout.numel if d == wrap_dim(dim, layout.ndim) else n for d, n in enumerate(layout.shape)
            )
            other = Layout.of(shape, (0,) * layout.ndim, layout.dtype, layout.device)
        launch = plans[key] = make_plan(
            [rows(wrap_dim(dim, own.ndim), own, index._layout, other, (0, 1, 2), True, combine, wraps)],
            [layout],
            [source._layout, index._layout],
        )
    launch(input, source, index)


def _check_source(name: str, input: Tensor, dim: int, index: Tensor, source: Tensor) -> None:
    mine, theirs = input._layout.shape, source._layout.shape
    if len(mine) and len(theirs) and (len(mine) != len(theirs) or any(
            a != b for d, (a, b) in enumerate(zip(mine, theirs)) if d != dim)):
        raise RuntimeError(
            f"{name}_(): Source/destination tensor must have same slice shapes. Destination slice shape: "
            f"{' '.join(str(n) for d, n in enumerate(mine) if d != dim)} at dimension {dim} and source slice shape: "
            f"{' '.join(str(n) for d, n in enumerate(theirs) if d != dim)} at dimension 0."
            if name == "index_copy"
            else f"source tensor shape must match self tensor shape, excluding the specified dimension. Got self.shape = "
            f"{list(mine)} source.shape = {list(theirs)}"
        )


@mutating()
def index_add(input: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: Any = 1) -> None:
    """input with alpha * (slices of `source` along `dim`) added at the positions `index` (a vector; repeats add up)."""
    at = wrap_dim(dim, input._layout.ndim)
    if index._layout.ndim > 1:
        raise IndexError(
            "index_add_(): Index is supposed to be a vector, but got dim: "
            f"{index._layout.ndim} with type: {index._layout.dtype.scalar_name} and size: {list(index._layout.shape)}"
        )
    if index._layout.dtype not in INDEX_TYPES:
        raise RuntimeError(
            "index_add_(): Expected dtype int32/int64 for index but got: " + index._layout.dtype.scalar_name
        )
    if source._layout.dtype is not input._layout.dtype:
        raise RuntimeError(f"index_add_(): self ({input._layout.dtype.scalar_name}) and source "
                           f"({source._layout.dtype.scalar_name}) must have the same scalar type")
    count = source._layout.shape[at] if source._layout.ndim else 1
    if index._layout.numel != count:
        raise RuntimeError(
            f"index_add_(): Number of indices ({index._layout.numel}) should be equal to source.size(dim): "
            f"({count}), for dim: {at}"
        )
    _check_source("index_add", input, at, index, source)
    if alpha != 1:
        source = source * alpha
    try:
        _write_rows("index_add", input, at, index, source, "add")
    except KernelCheck:
        extent = input._layout.shape[at] if input._layout.ndim else 1
        raise RuntimeError(
            f"index {first_bad(index, extent, False)} is out of bounds for dimension {at} with size {extent}"
        ) from None


@index_add.vjp
def _(g, dim, index, alpha, need, layouts):
    source = None
    if need["source"]:
        source = g.index_select(dim, index)
        if not layouts[2].ndim:
            source = source.reshape(())
        if alpha != 1:
            source = source * alpha
    return g, None, source


@mutating()
def index_copy(input: Tensor, dim: int, index: Tensor, source: Tensor) -> None:
    """input with the slices of `source` along `dim` written at the positions `index` (an int64 vector)."""
    at = wrap_dim(dim, input._layout.ndim)
    if index._layout.ndim > 1:
        raise IndexError(f"index_copy_(): Index should have dimension 1 or 0 (got {index._layout.ndim})")
    if index._layout.dtype is not int64:
        raise RuntimeError(
            f"index_copy_(): Expected a long tensor for index, but got {index._layout.dtype.scalar_name}"
        )
    if source._layout.dtype is not input._layout.dtype:
        raise RuntimeError("index_copy_(): self and source expected to have the same dtype, but got (self) "
                           f"{input._layout.dtype.scalar_name} and (source) {source._layout.dtype.scalar_name}")
    count = source._layout.shape[at] if source._layout.ndim else 1
    if index._layout.numel != count:
        raise IndexError(
            f"index_copy_(): Number of indices ({index._layout.numel}) should be equal to source.size(dim) ({count})"
        )
    _check_source("index_copy", input, at, index, source)
    try:
        _write_rows("index_copy", input, at, index, source, None)
    except KernelCheck:
        extent = input._layout.shape[at] if input._layout.ndim else 1
        raise IndexError(
            f"index_copy_(): index {first_bad(index, extent, False)} is out of bounds for dimension {at} with size "
            f"{extent}"
        ) from None


@index_copy.vjp
def _(g, dim, index, need, layouts):
    source = None
    if need["source"]:
        source = g.index_select(dim, index)
        if not layouts[2].ndim:
            source = source.reshape(())
    return g.index_fill(dim, index, 0) if need["input"] else None, None, source


@mutating(
    out=False, keep_order=True, node=lambda arguments: f"IndexFillBackward{int(isinstance(arguments[3], Tensor))}"
)
def index_fill(input: Tensor, dim: int, index: Tensor, value: Operand) -> None:  # noqa: F821
    """input with the slices along `dim` at the positions `index` (an int64 vector) filled with `value`."""
    at = wrap_dim(dim, input._layout.ndim)
    if isinstance(value, Tensor):
        if value._layout.ndim:
            raise RuntimeError("index_fill_ only supports a 0-dimensional value tensor, but got tensor with "
                               f"{value._layout.ndim} dimension(s).")
        value = value.detach().to(input._layout.dtype)
    else:
        value = filling(value, input._layout.dtype, input._layout.device)
    if index._layout.ndim > 1:
        raise IndexError("Index has to be a vector/scalar")
    if index._layout.dtype is not int64:
        raise IndexError("index_fill_(): Expected dtype int64 for index.")
    try:
        _write_rows("index_fill", input, at, index, value, None, True)
    except KernelCheck:
        extent = input._layout.shape[at] if input._layout.ndim else 1
        raise IndexError(
            f"index {first_bad(index, extent, True)} is out of bounds for dimension {at} with size {extent}"
        ) from None


@index_fill.vjp
def _(g, dim, index, need, value):
    mine = g.index_fill(dim, index, 0) if need["input"] else None
    return mine, None, g.index_select(dim, NAMESPACE["unique"](index)).sum() if need["value"] else None


_fillings: dict[Any, Tensor] = {}


def filling(value: Any, dtype: Any, device: Any) -> Tensor:
    """A number as a zero-dim tensor of a dtype, not to be written to; RuntimeError in PyTorch's words where it can't be one."""
    found = _fillings.get((value, value.__class__, dtype)) if value else None
    if found is not None:
        return found
    if isinstance(value, complex) and not dtype.is_complex:
        raise RuntimeError(f"value cannot be converted to type {_C_NAMES.get(dtype.name, dtype.name)} without overflow")
    made = make_tensor(value)
    made = made if made._layout.dtype is dtype else made.to(dtype)
    if value:   # 0.0 and -0.0 are equal, so zeros are made anew
        if len(_fillings) >= 256:
            _fillings.clear()
        _fillings[value, value.__class__, dtype] = made
    return made


_C_NAMES = {
    "float32": "float",
    "float64": "double",
    "int64": "int64_t",
    "int32": "int",
    "int16": "int16_t",
    "int8": "int8_t",
    "uint8": "uint8_t",
    "float16": "at::Half",
    "bfloat16": "at::BFloat16",
}
_warned: set[str] = set()


@mutating(node="IndexReduceBackward0")
def index_reduce(
    input: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str, *, include_self: bool = True
) -> None:
    """Slices of `source` along `dim` reduced (prod, mean, amax, amin) into the positions `index` of input."""
    if "index_reduce" not in _warned:
        _warned.add("index_reduce")
        warnings.warn("index_reduce() is in beta and the API may change at any time.", UserWarning, stacklevel=3)
    if reduce not in ("prod", "mean", "amax", "amin"):
        raise RuntimeError(f"index_reduce(): Expected reduce to be one of prod, mean, amax or amin but got {reduce}.")
    at = wrap_dim(dim, input._layout.ndim)
    if index._layout.ndim > 1:
        raise IndexError("index_reduce_(): Index is supposed to be a vector")
    if source._layout.dtype is not input._layout.dtype:
        raise RuntimeError("index_reduce_(): self and source must have the same scalar type")
    _check_source("index_reduce", input, at, index, source)
    try:
        reduce_into(reduce, include_self, input, lambda target, other, combine: _write_rows(
            "index_reduce", target, at, index, other, combine), source)
    except KernelCheck:
        raise IndexError("index out of range in self") from None


def reduce_into(reduce: str, include_self: bool, input: Tensor, write: Any, source: Tensor) -> None:
    """A reducing scatter: `write(target, source, combine)` does the moves."""
    dtype = input._layout.dtype
    if not include_self:
        start = {"sum": 0, "mean": 0, "prod": 1}.get(reduce)
        if start is None:
            low = reduce == "amax"
            if dtype.is_floating_point:
                start = float("-inf") if low else float("inf")
            elif dtype is bool_:
                start = not low
            else:
                info = iinfo(dtype)
                start = info.min if low else info.max
        write(input, filling(start, dtype, input._layout.device), None)
    write(input, source, {"sum": "add", "mean": "add", "prod": "mul", "amax": "max", "amin": "min"}[reduce])
    if reduce == "mean":
        shape = input._layout.shape
        counts = NAMESPACE["ones" if include_self else "zeros"](shape, dtype=int64)
        write(counts, filling(1, int64, input._layout.device), "add")
        counts = counts.clamp(min=1)
        if dtype.is_floating_point or dtype.is_complex:
            input.div_(counts.to(dtype))
        else:
            input.div_(counts.to(dtype), rounding_mode="floor")


@index_reduce.vjp
def _(g, input, dim, index, source, reduce, include_self, out, need):
    untouched = g.index_fill(dim, index, 0) if need["input"] and not include_self else None
    zeros, ones = NAMESPACE["zeros_like"], NAMESPACE["ones_like"]
    if reduce in ("amax", "amin"):
        mine = (input == out).to(g._layout.dtype)
        theirs = (source == out.index_select(dim, index)).to(g._layout.dtype)
        shared = g / (mine if include_self else zeros(mine)).index_add(dim, index, theirs).clamp(min=1)
        return mine * shared if include_self else untouched, None, theirs * shared.index_select(dim, index)
    if reduce == "mean":
        count = (ones(g) if include_self else zeros(g)).index_add(dim, index, ones(source)).clamp(min=1)
        return g / count if include_self else untouched, None, (g / count).index_select(dim, index)
    mine = theirs = None
    if need["input"]:
        mine = g * ones(input).index_reduce(dim, index, source, "prod") if include_self else untouched
    if need["source"]:
        start = input if include_self else input.index_fill(dim, index, 1)
        zero = source == 0
        count = zeros(g).index_add(dim, index, zero.to(g._layout.dtype)).index_select(dim, index)
        safe = source.masked_fill(zero, 1)
        others = (g * start.index_reduce(dim, index, safe, "prod")).index_select(dim, index)
        product = (g * out).index_select(dim, index)
        theirs = NAMESPACE["where"](zero & (count == 1), others, product / safe)
    return mine, None, theirs


# ---------------------------------------------------------------- flat positions


def _flat(layout: Layout) -> tuple[int, ...] | None:
    return geometry.reshape_strides(layout.shape, layout.strides, (layout.numel,)) if layout.numel else (1,)


@operator(out=True)
def take(input: Tensor, index: Tensor) -> Tensor:
    """The elements of `input`, seen as one row, at the positions `index` (int64, any shape; negative ones count from the end)."""
    if index._layout.dtype is not int64:
        raise RuntimeError(f"take(): Expected a long tensor for index, but got {index._layout.dtype.scalar_name}")
    if _flat(input._layout) is None:
        input = contiguous(input.detach())
    key = ("take", input._layout, index._layout)
    launch = plans.get(key)
    if launch is None:
        layout = input._layout
        if not layout.numel and index._layout.numel:
            raise IndexError("take(): tried to take from an empty tensor")
        out = Layout.of(
            index._layout.shape,
            geometry.preserved_strides(index._layout.shape, index._layout.strides),
            layout.dtype,
            layout.device,
        )
        i = Index(Buffer(2, 0, index._layout.strides), "i64", _flat(layout)[0], layout.numel)
        launch = plans[key] = make_plan(
            [Move(layout.dtype, out.shape, Buffer(1, 0, (0,) * out.ndim), Buffer(0, 0, out.strides), (i,))],
            [out],
            [layout, index._layout],
        )
    try:
        return launch(None, input, index)
    except KernelCheck:
        n = input._layout.numel
        raise IndexError(
            f"out of range: tried to access index {first_bad(index, n, True)} on a tensor of {n} elements."
        ) from None


@take.vjp
def _(g, index, layouts):
    return _zeros(layouts[0], g).put(index, g, True)


@mutating(out=False, keep_order=True)
def put(input: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> None:
    """input, seen as one row, with `source` written (accumulate: added) at the positions `index`."""
    layout = input._layout
    if index._layout.dtype is not int64:
        raise RuntimeError(f"put_(): Expected a long tensor for index, but got {index._layout.dtype.scalar_name}")
    if source._layout.dtype is not layout.dtype:
        raise RuntimeError("put_(): self and source expected to have the same dtype, but got self.dtype = "
                           f"{layout.dtype.scalar_name} and source.dtype = {source._layout.dtype.scalar_name}")
    if index._layout.numel != source._layout.numel:
        raise IndexError(
            "put_(): Expected source and index to have the same number of elements, but got source.numel() = "
            f"{source._layout.numel}, index.numel() = {index._layout.numel}"
        )
    if not layout.numel and index._layout.numel:
        raise IndexError("put_(): tried to put elements into an empty tensor")
    step = _flat(layout)
    if step is None:
        whole = contiguous(input.detach())
        put.write(whole, index, source, accumulate)
        input.detach().copy_(whole)
        return
    source = source.detach().reshape(index._layout.shape)
    if source._storage is input._storage:
        source = clone_raw(source)
    if index._storage is input._storage:
        index = clone_raw(index)
    key = ("put", layout, index._layout, source._layout, bool(accumulate))
    launch = plans.get(key)
    if launch is None:
        i = Index(Buffer(2, 0, index._layout.strides), "i64", step[0], layout.numel)
        zeros = (0,) * index._layout.ndim
        launch = plans[key] = make_plan(
            [
                Move(
                    layout.dtype,
                    index._layout.shape,
                    Buffer(0, 0, zeros),
                    Buffer(1, 0, source._layout.strides),
                    (i,),
                    True,
                    "add" if accumulate else None,
                )
            ],
            [layout],
            [source._layout, index._layout],
        )
    try:
        launch(input, source, index)
    except KernelCheck:
        n = layout.numel
        raise IndexError(
            f"out of range: tried to access index {first_bad(index, n, True)} on a tensor of {n} elements."
        ) from None


@put.vjp
def _(g, index, accumulate, need, layouts):
    mine = None
    if need["input"]:
        mine = g if accumulate else g.put(index, NAMESPACE["zeros"](index.shape, dtype=g._layout.dtype))
    theirs = g.take(index).reshape(layouts[2].shape) if need["source"] else None
    return mine, None, theirs


@composite(out=True)
def take_along_dim(input: Tensor, indices: Tensor, dim: int | None = None) -> Tensor:
    """gather with broadcasting of `input` and `indices` in the other dimensions; without dim, positions in the flattened input."""
    if indices._layout.dtype not in INDEX_TYPES:
        raise RuntimeError(
            f"torch.take_along_dim(): dtype of indices should be Long but got {indices._layout.dtype.scalar_name}"
        )
    if dim is None:
        return input.reshape(-1).gather(0, indices.reshape(-1))
    if input._layout.ndim != indices._layout.ndim:
        raise RuntimeError(
            "torch.take_along_dim(): input and indices should have the same number of dimensions, but got "
            f"{input._layout.ndim} dimensions for input, and {indices._layout.ndim} dimensions for indices"
        )
    at = wrap_dim(dim, input._layout.ndim)
    mine, theirs = list(input._layout.shape), list(indices._layout.shape)
    own, chosen = mine[at], theirs[at]
    indices = NAMESPACE["where"](indices < 0, indices + own, indices)
    mine[at] = theirs[at] = 1
    shape = list(geometry.broadcast(tuple(mine), tuple(theirs)))
    return input.expand(*shape[:at], own, *shape[at + 1 :]).gather(
        at, indices.expand(*shape[:at], chosen, *shape[at + 1 :])
    )
