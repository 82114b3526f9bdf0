"""Whole slices and flat positions: index_select, index_add, index_copy, index_fill, index_reduce, take, put, take_along_dim.

Stands on ops.indexing.gather_plans; `reduce_into` also serves ops.indexing.scatter, ops.views.pad and ops.nn.embedding.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flambeau.base import geometry
from flambeau.base.dtype import bfloat16, bool_, float16, float32, iinfo, int32, int64
from flambeau.base.geometry import wrap_dim
from flambeau.base.layout import Layout
from flambeau.base.warn import warn_once
from flambeau.codegen.gather_scatter.move import Buffer, Index, Move
from flambeau.core.modes import modes
from flambeau.core.modes.autocast import widest
from flambeau.core.modes.settings import alert
from flambeau.core.operator.annotations import Operand, Planned
from flambeau.core.operator.define import composite, operator
from flambeau.core.operator.facets import LINEAR
from flambeau.core.operator.out_rules import ALIGNED, BEFORE_DATA, DISTINCT, SAME_DEVICE, Out, exact, worded
from flambeau.core.operator.publishing import NAMESPACE
from flambeau.core.tensor.tensor import Tensor, tensor_from
from flambeau.core.tensor.without_data import found, known
from flambeau.ops.creation.copy import clone_raw, contiguous, copy_raw
from flambeau.ops.indexing.gather_plans import (
    INDEX_TYPES,
    KernelCheck,
    checking_alone,
    filling,
    first_bad,
    make_plan,
    plans,
    rows,
    zeros_for,
)
from flambeau.ops.indexing.mutating import mutating

# ---------------------------------------------------------------- slices along one dimension


def _vector(name: str, index: Tensor, dtypes: Sequence = (int64, int32)) -> None:
    if index._layout.ndim > 1:
        raise IndexError(f"{name}(): Index is supposed to be a vector")
    if index._layout.dtype not in dtypes:
        raise RuntimeError(
            f"{name}(): Expected dtype int32 or int64 for index"
            if len(dtypes) > 1
            else f"{name}(): Expected dtype int64 for index."
        )


_INDEX_SELECT_DTYPE = worded("index_select(): self and result must have the same scalar type")


@operator(planned=True, out=Out(dtype=_INDEX_SELECT_DTYPE, overlap=DISTINCT, fitted=BEFORE_DATA), jvp=LINEAR)
def index_select(input: Tensor, dim: int, index: Tensor) -> Planned:
    """The slices of `input` along `dim` at the positions `index` (a vector of int64 or int32). IndexError out of
    range."""
    layout = input._layout
    at = wrap_dim(dim, layout.ndim)
    _vector("index_select", index)
    if not layout.ndim:
        if index._layout.numel != 1:
            raise RuntimeError(f"index_select(): Index to scalar can have only 1 value, got {index._layout.numel} value(s)")
        flat = Layout.of((1,), (1,), layout.dtype, layout.device)
        out = Layout.contiguous((), layout.dtype, layout.device)
        return make_plan([rows(0, flat, index._layout, flat, (1, 0, 2))], [out], [layout, index._layout])
    if not layout.shape[at] and index._layout.numel:
        raise RuntimeError("index_select(): self indexing axis dim should be positive")
    shape = tuple(index._layout.numel if d == at else n for d, n in enumerate(layout.shape))
    out = Layout.contiguous(shape, layout.dtype, layout.device)
    made = make_plan([rows(at, layout, index._layout, out, (1, 0, 2))], [out], [layout, index._layout])
    return made if out.numel else checking_alone(made, index._layout, layout.shape[at])


@index_select.kernel_error
def _(input, dim, index):
    layout = input._layout
    at = wrap_dim(dim, layout.ndim) if layout.ndim else 0
    if layout.ndim > 1 and (at == 1 or not layout.numel):  # there PyTorch's other kernel says it
        extent = layout.shape[at]
        return RuntimeError(f"INDICES element is out of DATA bounds, id={first_bad(index, extent, False)} axis_dim={extent}")
    return IndexError("index out of range in self")


@index_select.vjp
def _(g, dim, index, layouts):
    zeros = zeros_for(layouts[0], g)
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
        launch = plans[key] = make_plan(
            _row_moves(layout, dim, index._layout, source._layout, combine, wraps), [layout], [source._layout, index._layout]
        )
    launch(input, source, index)


def _row_moves(
    layout: Layout,
    dim: int,
    index: Layout,
    source: Layout,
    combine: str | None,
    wraps: bool = False,
    slots: tuple[int, int, int] = (0, 1, 2),
) -> list[Move]:
    """Writes of slices as moves; slots: of what is written, the source and the index."""
    own, other = layout, source
    if not layout.ndim:  # a row of one element; many sources may be written to it
        own = Layout.of((1,), (1,), layout.dtype, layout.device)
        other = Layout.of((index.numel,), source.strides or (0,), layout.dtype, layout.device)
    if layout.ndim and not source.ndim:
        shape = tuple(index.numel if d == wrap_dim(dim, layout.ndim) else n for d, n in enumerate(layout.shape))
        other = Layout.of(shape, (0,) * layout.ndim, layout.dtype, layout.device)
    return [rows(wrap_dim(dim, own.ndim), own, index, other, slots, True, combine, wraps)]


def _refuse_shapes(input: Tensor, source: Tensor) -> None:
    raise RuntimeError(
        "source tensor shape must match self tensor shape, excluding the specified dimension. Got self.shape = "
        f"{list(input._layout.shape)} source.shape = {list(source._layout.shape)}"
    )


def _check_source(name: str, input: Tensor, dim: int, index: Tensor, source: Tensor) -> None:
    """Raise unless `source` is like `input` but for dimension `dim`, where it has a slice for each index."""
    mine, theirs, number = input._layout.shape, source._layout.shape, index._layout.numel
    count = theirs[dim] if theirs else 1
    if number != count:
        if not theirs:
            raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions")
        raise RuntimeError(
            f"{name}_(): Number of indices ({number}) should be equal to source.size(dim): ({count}), for dim: {dim}"
        )
    if len(mine) != len(theirs) or any(a != b for d, (a, b) in enumerate(zip(mine, theirs)) if d != dim):
        _refuse_shapes(input, source)


def _check_copied(input: Tensor, dim: int, index: Tensor, source: Tensor) -> None:
    """The same for index_copy, which also takes a number for a slice of one element, and slices for a number."""
    mine, theirs, number = input._layout.shape, source._layout.shape, index._layout.numel
    if not theirs and number != 1:
        raise IndexError(f"index_copy_(): When source is scalar, index should have one element (got {number})")
    if mine and theirs and len(mine) != len(theirs):
        raise IndexError(
            "index_copy_(): When source and destination are not scalars, their dimensionality must match. Source "
            f"dimensionality ({len(theirs)}), destination dimensionality ({len(mine)})"
        )
    own, other = ([n for d, n in enumerate(shape) if d != dim] for shape in (mine, theirs))
    if own != other:
        raise RuntimeError(
            "index_copy_(): Source/destination tensor must have same slice shapes. Destination slice shape: "
            f"{' '.join(map(str, own))} at dimension {dim} and source slice shape: {' '.join(map(str, other))} at dimension 0."
        )
    count = theirs[dim] if theirs else 1
    if number != count:
        raise IndexError(f"index_copy_(): Number of indices ({number}) should be equal to source.size(dim) ({count})")


def _same_device(input: Tensor, index: Tensor, source: Tensor, name: str = "index_copy") -> None:
    mine, chosen, theirs = (x._layout.device for x in (input, index, source))
    if mine is not chosen or mine is not theirs:
        raise RuntimeError(
            f"{name}(): self, index and source expected to be in the same device, but got (self) {mine}, "
            f"(index) {chosen}, and (source) {theirs}"
        )


def _check_add(input: Tensor, dim: int, index: Tensor, source: Tensor) -> int:
    """The dimension of an index_add, whose arguments are looked at."""
    at = wrap_dim(dim, input._layout.ndim)
    if index._layout.ndim > 1:
        raise IndexError(
            "index_add_(): Index is supposed to be a vector, but got dim: "
            f"{index._layout.ndim} with type: {index._layout.dtype.scalar_name} and size: {list(index._layout.shape)}"
        )
    if index._layout.dtype not in INDEX_TYPES:
        raise RuntimeError("index_add_(): Expected dtype int32/int64 for index but got: " + index._layout.dtype.scalar_name)
    if source._layout.dtype is not input._layout.dtype:
        raise RuntimeError(
            f"index_add_(): self ({input._layout.dtype.scalar_name}) and source "
            f"({source._layout.dtype.scalar_name}) must have the same scalar type"
        )
    _check_source("index_add", input, at, index, source)
    _same_device(input, index, source, "index_add")
    return at


def _add_moved(layout: Layout, input: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: Any) -> list[Move] | None:
    if not _is_one(alpha) or layout.dtype in (float16, bfloat16):
        return None
    return _row_moves(layout, _check_add(input, dim, index, source), index._layout, source._layout, "add", slots=(0, 2, 1))


def _is_one(alpha: Any) -> bool:
    return (alpha.__class__ is int or alpha.__class__ is float) and alpha == 1


@mutating(apart=("index", "source"), moved=_add_moved, out=Out(dtype=exact, overlap=ALIGNED, fitted=BEFORE_DATA))
def index_add(input: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: Any = 1) -> None:
    """input with alpha * (slices of `source` along `dim`) added at the positions `index` (a vector; repeats add up)."""
    at = _check_add(input, dim, index, source)
    if not _is_one(alpha):
        source = source * filling(alpha, input._layout.dtype, input._layout.device)
    try:
        if input._layout.dtype in (float16, bfloat16) and input._layout.ndim > 1:
            # summed in float32, so that repeated positions round once; PyTorch's sums of single elements don't
            wide = tensor_from(input._storage, input._offset, input._layout).to(float32)
            _write_rows("index_add", wide, at, index, source.detach().to(float32), "add")
            copy_raw(input, wide)
        else:
            _write_rows("index_add", input, at, index, source, "add")
    except KernelCheck:
        raise _add_kernel_error(input, at, index) from None


@index_add.kernel_error
def _add_kernel_error(input: Tensor, dim: int, index: Tensor, *others: Any) -> Exception:
    at = wrap_dim(dim, input._layout.ndim)
    if input._layout.ndim < 2:
        return IndexError("index out of range in self")
    extent = input._layout.shape[at]
    return RuntimeError(f"index {first_bad(index, extent, False)} is out of bounds for dimension {at} with size {extent}")


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


def _check_copy(input: Tensor, dim: int, index: Tensor, source: Tensor) -> int:
    """The dimension of an index_copy, whose arguments are looked at."""
    at = wrap_dim(dim, input._layout.ndim)
    if index._layout.ndim > 1:
        raise IndexError(f"index_copy_(): Index should have dimension 1 or 0 (got {index._layout.ndim})")
    if index._layout.dtype is not int64:
        raise RuntimeError(f"index_copy_(): Expected a long tensor for index, but got {index._layout.dtype.scalar_name}")
    if source._layout.dtype is not input._layout.dtype:
        raise RuntimeError(
            "index_copy_(): self and source expected to have the same dtype, but got (self) "
            f"{input._layout.dtype.scalar_name} and (source) {source._layout.dtype.scalar_name}"
        )
    _check_copied(input, at, index, source)
    _same_device(input, index, source)
    return at


def _copy_moved(layout: Layout, input: Tensor, dim: int, index: Tensor, source: Tensor) -> list[Move]:
    return _row_moves(layout, _check_copy(input, dim, index, source), index._layout, source._layout, None, slots=(0, 2, 1))


@mutating(
    apart=("index", "source"), moved=_copy_moved, autocast=widest, out=Out(dtype=exact, overlap=ALIGNED, fitted=BEFORE_DATA)
)
def index_copy(input: Tensor, dim: int, index: Tensor, source: Tensor) -> None:
    """input with the slices of `source` along `dim` written at the positions `index` (an int64 vector)."""
    at = _check_copy(input, dim, index, source)
    try:
        _write_rows("index_copy", input, at, index, source, None)
    except KernelCheck:
        raise _copy_kernel_error(input, at, index) from None


@index_copy.kernel_error
def _copy_kernel_error(input: Tensor, dim: int, index: Tensor, *others: Any) -> IndexError:
    at = wrap_dim(dim, input._layout.ndim)
    extent = input._layout.shape[at] if input._layout.ndim else 1
    return IndexError(
        f"index_copy_(): index {first_bad(index, extent, False)} is out of bounds for dimension {at} with size {extent}"
    )


@index_copy.vjp
def _(g, dim, index, need, layouts):
    source = None
    if need["source"]:
        source = g.index_select(dim, index)
        if not layouts[2].ndim:
            source = source.reshape(())
    return g.index_fill(dim, index, 0) if need["input"] else None, None, source


def _fill_moved(layout: Layout, input: Tensor, dim: int, index: Tensor, value: Any) -> list[Move] | None:
    _refuse_complex(input, value)
    if isinstance(value, Tensor):
        return None
    at = _check_fill(input, dim, index)
    return _row_moves(layout, at, index._layout, Layout.of((), (), layout.dtype, layout.device), None, True, slots=(0, 2, 1))


def _refuse_complex(input: Tensor, value: Any) -> None:
    if not input._layout.dtype.is_complex and (value.is_complex() if isinstance(value, Tensor) else isinstance(value, complex)):
        raise RuntimeError("index_fill_(): Converting complex Scalar to non-complex type is not supported")


def _check_fill(input: Tensor, dim: int, index: Tensor, *others: Any) -> int:
    """The dimension of an index_fill, whose arguments are looked at."""
    if index._layout.ndim > 1:
        raise IndexError("Index has to be a vector/scalar")
    if index._layout.dtype is not int64:
        raise IndexError("index_fill_(): Expected dtype int64 for index.")
    _same_device(input, index, *(others or (input,)))
    return wrap_dim(dim, input._layout.ndim)


@mutating(
    out=False,
    keep_order=True,
    expanded="tensor[mask] = scalar",
    moved=_fill_moved,
    apart=("index",),
    node=lambda arguments: f"IndexFillBackward{int(isinstance(arguments[3], Tensor))}",
)
def index_fill(input: Tensor, dim: int, index: Tensor, value: Operand) -> None:
    """input with the slices along `dim` at the positions `index` (an int64 vector) filled with `value`."""
    at, given = wrap_dim(dim, input._layout.ndim), value
    _refuse_complex(input, value)
    if isinstance(value, Tensor):
        if value._layout.ndim:
            raise RuntimeError(
                f"index_fill_ only supports a 0-dimensional value tensor, but got tensor with {value._layout.ndim} dimension(s)."
            )
        value = value.detach().to(input._layout.dtype)
    else:
        value = filling(value, input._layout.dtype, input._layout.device)
    _check_fill(input, at, index, given if isinstance(given, Tensor) else input)
    try:
        _write_rows("index_fill", input, at, index, value, None, True)
    except KernelCheck:
        raise _fill_kernel_error(input, at, index) from None


@index_fill.kernel_error
def _fill_kernel_error(input: Tensor, dim: int, index: Tensor, *others: Any) -> IndexError:
    at = wrap_dim(dim, input._layout.ndim)
    extent = input._layout.shape[at] if input._layout.ndim else 1
    return IndexError(f"index {first_bad(index, extent, True)} is out of bounds for dimension {at} with size {extent}")


@index_fill.vjp
def _(g, dim, index, need):
    mine = g.index_fill(dim, index, 0) if need["input"] else None
    return mine, None, g.index_select(dim, NAMESPACE["unique"](index) if known(index) else index).sum() if need["value"] else None


@mutating(node="IndexReduceBackward0", out=Out(dtype=exact, device=SAME_DEVICE, overlap=ALIGNED))
def index_reduce(input: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str, *, include_self: bool = True) -> None:
    """Slices of `source` along `dim` reduced (prod, mean, amax, amin) into the positions `index` of input."""
    warn_once("index_reduce() is in beta and the API may change at any time.")
    if reduce not in ("prod", "mean", "amax", "amin"):
        raise RuntimeError(f"index_reduce(): Expected reduce to be one of prod, mean, amax or amin but got {reduce}.")
    at = wrap_dim(dim, input._layout.ndim)
    if index._layout.ndim > 1:
        raise IndexError("index_reduce_(): Index is supposed to be a vector")
    if source._layout.dtype is not input._layout.dtype:
        raise RuntimeError("index_reduce_(): self and source must have the same scalar type")
    if index._layout.dtype not in INDEX_TYPES:
        raise RuntimeError("index_reduce_(): Expected dtype int32/int64 for index")
    _check_source("index_reduce", input, at, index, source)
    dtype = input._layout.dtype
    kernel = None
    if dtype.is_complex or dtype is bool_:
        kernel = "index_reduce_func_exclude_input_init" if not include_self else "index_func_" if input._layout.ndim < 2 else None
    if kernel is None and dtype.is_complex and reduce in ("amax", "amin") and index._layout.numel:
        kernel = "maximum_cpu" if reduce == "amax" else "minimum_cpu"
    if kernel is not None:
        raise NotImplementedError(f"\"{kernel}\" not implemented for '{dtype.scalar_name}'")
    try:
        reduce_into(
            reduce,
            include_self,
            input,
            lambda target, other, combine: _write_rows("index_reduce", target, at, index, other, combine),
            source,
        )
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
        counts = NAMESPACE["ones" if include_self else "zeros"](shape, dtype=int64, device=input._layout.device)
        write(counts, filling(1, int64, input._layout.device), "add")
        counts = counts.clamp(min=1)
        if dtype.is_floating_point or dtype.is_complex:
            input.div_(counts.to(dtype))
        else:
            input.div_(counts.to(dtype), rounding_mode="floor")


@operator(method=False, function=False, name="differentiated_once")
def differentiated_once(input: Tensor, words: str) -> Tensor:
    """A gradient that can't be differentiated: RuntimeError with these words then."""
    return clone_raw(input)


@differentiated_once.vjp
def _(g, words):
    raise RuntimeError(words)


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
        if modes.local.grad and found(zero & (count > 1)):
            theirs = differentiated_once(
                theirs,
                "index_reduce(): Double backward is unsupported for source when >1 zeros in "
                "source are scattered to the same position in self",
            )
    return mine, None, theirs


# ---------------------------------------------------------------- flat positions


def _flat(layout: Layout) -> tuple[int, ...] | None:
    return geometry.reshape_strides(layout.shape, layout.strides, (layout.numel,)) if layout.numel else (1,)


_TAKE_DTYPE = worded("take(): self and out expected to have the same dtype, but got self.dtype = {have} and out.dtype = {got}")


@operator(out=Out(dtype=_TAKE_DTYPE, overlap=DISTINCT, fitted=BEFORE_DATA), jvp=LINEAR)
def take(input: Tensor, index: Tensor) -> Tensor:
    """The elements of `input`, seen as one row, at the positions `index` (int64, any shape; negative ones count from
    the end)."""
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
        out = Layout.contiguous(index._layout.shape, layout.dtype, layout.device)
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
    return zeros_for(layouts[0], g).put(index, g, True)


@mutating(out=False, keep_order=True, apart=("index", "source"))
def put(input: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> None:
    """input, seen as one row, with `source` written (accumulate: added) at the positions `index`."""
    layout = input._layout
    if layout.device.type != "meta" and "meta" in (index._layout.device.type, source._layout.device.type):
        raise NotImplementedError("Cannot inplace into non-meta tensor with meta tensor argument")
    if index._layout.dtype is not int64:
        raise RuntimeError(f"put_(): Expected a long tensor for index, but got {index._layout.dtype.scalar_name}")
    if source._layout.dtype is not layout.dtype:
        raise RuntimeError(
            "put_(): self and source expected to have the same dtype, but got self.dtype = "
            f"{layout.dtype.scalar_name} and source.dtype = {source._layout.dtype.scalar_name}"
        )
    if index._layout.numel != source._layout.numel:
        raise IndexError(
            "put_(): Expected source and index to have the same number of elements, but got source.numel() = "
            f"{source._layout.numel}, index.numel() = {index._layout.numel}"
        )
    if not layout.numel and index._layout.numel:
        raise IndexError("put_(): Tried to put elements into an empty tensor")
    if not accumulate:
        alert("put_")
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
        mine = g if accumulate else g.put(index, NAMESPACE["zeros"](index.shape, dtype=g._layout.dtype, device=g._layout.device))
    theirs = g.take(index).reshape(layouts[2].shape) if need["source"] else None
    return mine, None, theirs


@composite(out=Out(dtype=exact, step="gather", overlap=DISTINCT))
def take_along_dim(input: Tensor, indices: Tensor, dim: int | None = None) -> Tensor:
    """gather with broadcasting of `input` and `indices` (int64) in the other dimensions; without dim, positions in
    the flattened input. Positions along dim count round and round, as PyTorch takes them."""
    device, dtype = input._layout.device, indices._layout.dtype
    if indices._layout.device is not device:
        raise RuntimeError(
            f"Expected tensor to have {device} Device, but got tensor with {indices._layout.device} Device "
            "(while checking arguments for torch.take_along_dim():)"
        )
    if dim is None:
        if dtype.is_floating_point or dtype.is_complex:
            raise RuntimeError(f"torch.take_along_dim(): dtype of indices should be Long but got {dtype.scalar_name}")
        return input.reshape(-1).gather(0, indices.reshape(-1))
    if dtype is not int64:
        raise RuntimeError(f"torch.take_along_dim(): dtype of indices should be Long but got {dtype.scalar_name}")
    if input._layout.ndim != indices._layout.ndim:
        raise RuntimeError(
            "torch.take_along_dim(): input and indices should have the same number of dimensions, but got "
            f"{input._layout.ndim} dimensions for input, and {indices._layout.ndim} dimensions for indices"
        )
    at = wrap_dim(dim, input._layout.ndim)
    if not input._layout.ndim:
        raise IndexError(f"Dimension specified as {at} but tensor has no dimensions")
    mine, theirs = list(input._layout.shape), list(indices._layout.shape)
    own, chosen = mine[at], theirs[at]
    indices = indices.remainder(own)
    mine[at] = theirs[at] = 1
    shape = list(geometry.broadcast(tuple(mine), tuple(theirs)))
    return input.expand(*shape[:at], own, *shape[at + 1 :]).gather(at, indices.expand(*shape[:at], chosen, *shape[at + 1 :]))
