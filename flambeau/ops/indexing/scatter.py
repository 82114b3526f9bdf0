"""Elementwise gather and scatter along a dimension, and writes into a view of a copy (select_scatter and its siblings).

Stands on ops.indexing.gather_plans; reducing scatters share ops.indexing.index's way of starting and finishing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flambeau.base.dtype import bfloat16, bool_, float16, float32
from flambeau.base.dtype import dtype as DType
from flambeau.base.geometry import wrap_dim
from flambeau.base.layout import Layout
from flambeau.base.memory_order import overlaps_itself
from flambeau.base.warn import warn_once
from flambeau.codegen.gather_scatter.move import Move
from flambeau.core.modes import modes
from flambeau.core.operator.annotations import Operand, Planned
from flambeau.core.operator.define import operator
from flambeau.core.operator.facets import LINEAR, TOGETHER
from flambeau.core.operator.out_rules import ALIGNED, BEFORE_DATA, BEFORE_DTYPE, DISTINCT, OUT_ONLY, SAME_DEVICE, Out, exact
from flambeau.core.operator.publishing import NAMESPACE
from flambeau.core.tensor.tensor import Tensor, tensor_from
from flambeau.ops.creation.copy import clone_raw, copy_raw
from flambeau.ops.indexing.gather_plans import INDEX_TYPES, KernelCheck, along, filling, first_bad, make_plan, plans
from flambeau.ops.indexing.index_select import differentiated_once, reduce_into
from flambeau.ops.indexing.mutating import mutating


def _out_of_range(index: Tensor, dim: int, layout: Layout) -> RuntimeError:
    extent = layout.shape[dim] if layout.ndim else 1
    return RuntimeError(f"index {first_bad(index, extent, False)} is out of bounds for dimension {dim} with size {extent}")


def _shape_or_one(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(shape) or (1,)


@operator(out=Out(dtype=exact, device=SAME_DEVICE, overlap=DISTINCT, fitted=BEFORE_DATA), planned=True, jvp=LINEAR)
def gather(input: Tensor, dim: int, index: Tensor, *, sparse_grad: bool = False) -> Planned:
    """out[i][j] = input[index[i][j]][j] (for dim 0): elements chosen along `dim`, in the shape of `index` (int64 or
    int32)."""
    layout, chosen = input._layout, index._layout
    at = wrap_dim(dim, layout.ndim)
    if chosen.numel and chosen.dtype not in INDEX_TYPES:
        raise RuntimeError("gather(): Expected dtype int32/int64 for index")
    mine, theirs = _shape_or_one(layout.shape), _shape_or_one(chosen.shape)
    if chosen.numel:
        if len(mine) != len(theirs):
            raise RuntimeError("Index tensor must have the same number of dimensions as input tensor")
        for d, (a, b) in enumerate(zip(mine, theirs)):
            if d != at and b > a:
                raise RuntimeError(
                    f"Size does not match at dimension {d} expected index {list(chosen.shape)} to be no larger "
                    f"than self {list(layout.shape)} apart from dimension {at}"
                )
    out = Layout.contiguous(chosen.shape, layout.dtype, layout.device)
    moves = [along(at, layout, chosen, out, (1, 0, 2))] if chosen.numel else []
    return make_plan(moves, [out], [layout, chosen])


@gather.kernel_error
def _(input, dim, index, sparse_grad=False):
    return _out_of_range(index, wrap_dim(dim, input._layout.ndim), input._layout)


@gather.vjp
def _(g, dim, index, sparse_grad, layouts):
    if sparse_grad:
        from flambeau.ops.sparse import gradients

        shape = layouts[0].shape
        return (gradients.of_elements(g, wrap_dim(dim, len(shape)), index, shape),)
    zeros = NAMESPACE["zeros"](layouts[0].shape, dtype=g._layout.dtype, device=g._layout.device)
    return zeros.scatter_add(dim, index, g)


def _check(input: Tensor, dim: int, index: Tensor, source: Tensor | None) -> int:
    layout, chosen = input._layout, index._layout
    at = wrap_dim(dim, layout.ndim)
    if chosen.numel and chosen.dtype not in INDEX_TYPES:
        raise RuntimeError("scatter(): Expected dtype int32/int64 for index")
    if source is not None and source._layout.dtype is not layout.dtype:
        raise RuntimeError("scatter(): Expected self.dtype to be equal to src.dtype")
    if not chosen.numel:
        return at
    mine, theirs = _shape_or_one(layout.shape), _shape_or_one(chosen.shape)
    if len(mine) != len(theirs):
        raise RuntimeError("Index tensor must have the same number of dimensions as self tensor")
    other = None if source is None else _shape_or_one(source._layout.shape)
    if other is not None and len(other) != len(theirs):
        raise RuntimeError("Index tensor must have the same number of dimensions as src tensor")
    if any(d != at and b > a for d, (a, b) in enumerate(zip(mine, theirs))) or (
        other is not None and any(b > a for a, b in zip(other, theirs))
    ):
        tail = f" and to be no larger size than src {list(source._layout.shape)}" if source is not None else ""
        raise RuntimeError(
            f"Expected index {list(chosen.shape)} to be no larger than self {list(layout.shape)} apart from dimension {at}{tail}"
        )
    return at


def _scatter(input: Tensor, dim: int, index: Tensor, source: Tensor, combine: str | None) -> None:
    """Raw scatter; a zero-dim source goes everywhere."""
    layout, chosen = input._layout, index._layout
    if not chosen.numel:
        return
    if source._storage is input._storage:
        source = clone_raw(source)
    if index._storage is input._storage:
        index = clone_raw(index)
        chosen = index._layout
    if _rounds_once(layout, combine):
        wide = tensor_from(input._storage, input._offset, layout).to(float32)
        _scatter(wide, dim, index, source.detach().to(float32), combine)
        copy_raw(input, wide)
        return
    key = ("scatter", layout, dim, chosen, source._layout, combine)
    launch = plans.get(key)
    if launch is None:
        launch = plans[key] = make_plan(_moves(layout, dim, chosen, source._layout, combine), [layout], [source._layout, chosen])
    try:
        launch(input, source, index)
    except KernelCheck:
        raise _out_of_range(index, dim, layout) from None


def _rounds_once(layout: Layout, combine: str | None) -> bool:
    """Whether sums and products at one place are of 16 bits: as in PyTorch they are made in float32 and rounded at the end."""
    return layout.dtype in (float16, bfloat16) and combine in ("add", "mul")


def _moves(
    layout: Layout, dim: int, chosen: Layout, source: Layout, combine: str | None, slots: tuple[int, int, int] = (0, 1, 2)
) -> list[Move]:
    """A scatter as moves; slots: of what is written, the source and the index."""
    if not chosen.numel:
        return []
    other = source if source.ndim == chosen.ndim else Layout.of(chosen.shape, (0,) * chosen.ndim, layout.dtype, layout.device)
    return [along(dim, layout, chosen, other, slots, True, combine)]


def _moved(layout: Layout, input: Tensor, dim: int, index: Tensor, source: Tensor, combine: str | None) -> list[Move] | None:
    """What a scatter from a tensor, which is checked, moves into a fresh tensor of a layout; None if moves alone don't do it."""
    if _rounds_once(layout, combine):
        return None
    at = _check(input, dim, index, source)
    return _moves(layout, at, index._layout, source._layout, combine, (0, 2, 1))


def _kernel_error(input: Tensor, dim: int, index: Tensor, *others: Any) -> RuntimeError:
    return _out_of_range(index, wrap_dim(dim, input._layout.ndim), input._layout)


_COMBINED = {None: None, "add": "add", "multiply": "mul"}
_REDUCED = {"sum": "add", "prod": "mul", "amax": "max", "amin": "min"}


def _scatter_node(arguments: Sequence[Any]) -> str:
    number = not isinstance(arguments[3], Tensor)
    return f"ScatterBackward{int(number) + 2 * (arguments[4] is not None)}"


def _scatter_moved(
    layout: Layout, input: Tensor, dim: int, index: Tensor, src: Any, *, reduce: str | None, value: Any
) -> list[Move] | None:
    if reduce is not None or src is None:
        return None
    if isinstance(src, Tensor):
        return _moved(layout, input, dim, index, src, None)
    at = _check(input, dim, index, None)
    return _moves(layout, at, index._layout, Layout.of((), (), layout.dtype, layout.device), None, (0, 2, 1))


@mutating(
    node=_scatter_node,
    apart=("index", "src"),
    moved=_scatter_moved,
    out=Out(dtype=exact, device=SAME_DEVICE, overlap=ALIGNED, fitted=BEFORE_DATA),
)
def scatter(input: Tensor, dim: int, index: Tensor, src: Operand = None, *, reduce: str | None = None, value: Any = None) -> None:
    """input with input[index[i][j]][j] = src[i][j] (for dim 0); src a tensor or a number; reduce: "add" or
    "multiply"."""
    if src is None:
        src = value
    if reduce is not None and reduce not in ("add", "multiply"):
        raise RuntimeError("reduce argument must be either add or multiply.")
    if not isinstance(src, Tensor):
        if src is None:
            raise TypeError(
                "scatter() received an invalid combination of arguments - got (Tensor, int, Tensor), but expected "
                "one of:\n"
                " * (int dim, Tensor index, Tensor src)\n * (int dim, Tensor index, Number value)"
            )
        at = _check(input, dim, index, None)
        src = filling(src, input._layout.dtype, input._layout.device)
    else:
        if reduce is not None:
            warn_once(
                "The reduce argument of torch.scatter with Tensor src is deprecated and will be removed in a "
                "future PyTorch "
                "release. Use torch.scatter_reduce instead for more reduction options."
            )
        at = _check(input, dim, index, src)
    _scatter(input, at, index, src, _COMBINED[reduce])


scatter.kernel_error(_kernel_error)


@scatter.vjp
def _(g, dim, index, reduce, need, layouts):
    if reduce == "multiply":
        raise NotImplementedError(
            "the derivative of scatter with reduce='multiply' is not implemented; use scatter_reduce with 'prod'"
        )
    mine = (g if reduce == "add" else g.scatter(dim, index, 0)) if need["input"] else None
    return mine, None, _to_source(g, dim, index, layouts[2]) if need["src"] else None


def _to_source(g: Tensor, dim: int, index: Tensor, layout: Layout) -> Tensor:
    """g at the scattered places, in the shape of the source, which may be larger than the index."""
    taken = g.gather(dim, index)
    if tuple(layout.shape) == tuple(taken._layout.shape):
        return taken
    return NAMESPACE["constant_pad_nd"](
        taken, [x for a, b in reversed(list(zip(layout.shape, taken._layout.shape))) for x in (0, a - b)]
    )


@mutating(
    apart=("index", "src"),
    moved=lambda layout, input, dim, index, src: _moved(layout, input, dim, index, src, "add"),
    out=Out(dtype=exact, device=SAME_DEVICE, overlap=ALIGNED, fitted=BEFORE_DATA),
)
def scatter_add(input: Tensor, dim: int, index: Tensor, src: Tensor) -> None:
    """input with src[i][j] added to input[index[i][j]][j] (for dim 0), and so for the other dimensions."""
    _scatter(input, _check(input, dim, index, src), index, src, "add")


scatter_add.kernel_error(_kernel_error)


@scatter_add.vjp
def _(g, dim, index, need, layouts):
    return g, None, _to_source(g, dim, index, layouts[2]) if need["src"] else None


def _refuse_dtype(reduce: str, index: Tensor, dtype: DType) -> None:
    """NotImplementedError where something is to be reduced of a dtype that PyTorch doesn't."""
    if index._layout.numel and ((dtype.is_complex and reduce in ("amax", "amin")) or (dtype is bool_ and reduce == "mean")):
        raise NotImplementedError(f"\"scatter_gather_tensor_cpu_reduce_{reduce}\" not implemented for '{dtype.scalar_name}'")


def _reduce_moved(
    layout: Layout, input: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, *, include_self: bool
) -> list[Move] | None:
    _refuse_dtype(reduce, index, layout.dtype)
    return _moved(layout, input, dim, index, src, _REDUCED[reduce]) if include_self and reduce in _REDUCED else None


@mutating(
    node="ScatterReduceBackward0",
    apart=("index", "src"),
    moved=_reduce_moved,
    real_gradients="scatter_reduce",
    out=Out(dtype=exact, device=SAME_DEVICE, overlap=ALIGNED),
)
def scatter_reduce(input: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, *, include_self: bool = True) -> None:
    """input with the elements of `src` reduced (sum, prod, mean, amax, amin) into the places that `index` names along
    `dim`."""
    if reduce not in ("sum", "prod", "mean", "amax", "amin"):
        raise RuntimeError(f"reduce argument must be either sum, prod, mean, amax or amin, got {reduce}")
    at = _check(input, dim, index, src)
    _refuse_dtype(reduce, index, input._layout.dtype)
    if not index._layout.numel:
        return
    reduce_into(reduce, include_self, input, lambda target, other, combine: _scatter(target, at, index, other, combine), src)


scatter_reduce.kernel_error(_kernel_error)


@scatter_reduce.vjp
def _(g, input, dim, index, src, reduce, include_self, out, need):
    untouched = g.scatter(dim, index, 0) if need["input"] and not include_self else None
    zeros, ones = NAMESPACE["zeros_like"], NAMESPACE["ones_like"]
    part = src
    for d, n in enumerate(index._layout.shape):
        part = part.narrow(d, 0, n)
    mine = theirs = None
    if reduce == "sum":
        mine, theirs = g if include_self else untouched, g.gather(dim, index) if need["src"] else None
    elif reduce == "mean":
        count = (ones(g) if include_self else zeros(g)).scatter_add(dim, index, ones(part)).clamp(min=1)
        mine, theirs = g / count if include_self else untouched, (g / count).gather(dim, index)
    elif reduce in ("amax", "amin"):
        mine = (input == out).to(g._layout.dtype)
        hit = (part == out.gather(dim, index)).to(g._layout.dtype)
        shared = g / (mine if include_self else zeros(mine)).scatter_add(dim, index, hit).clamp(min=1)
        mine, theirs = mine * shared if include_self else untouched, hit * shared.gather(dim, index)
    else:
        if need["input"]:
            mine = g * ones(input).scatter_reduce(dim, index, part, "prod") if include_self else untouched
        if need["src"]:
            start = input if include_self else input.scatter(dim, index, 1)
            zero = part == 0
            count = zeros(g).scatter_add(dim, index, zero.to(g._layout.dtype)).gather(dim, index)
            safe = part.masked_fill(zero, 1)
            others = (g * start.scatter_reduce(dim, index, safe, "prod")).gather(dim, index)
            theirs = NAMESPACE["where"](zero & (count == 1), others, (g * out).gather(dim, index) / safe)
            if modes.local.grad and bool((zero & (count > 1)).any()):
                theirs = differentiated_once(
                    theirs,
                    "scatter_reduce(): Double backward is unsupported for src when >1 zeros in "
                    "src are scattered to the same position in self",
                )
    if theirs is not None and tuple(theirs._layout.shape) != tuple(src._layout.shape):
        theirs = NAMESPACE["constant_pad_nd"](
            theirs, [x for a, b in reversed(list(zip(src._layout.shape, theirs._layout.shape))) for x in (0, a - b)]
        )
    return mine, None, theirs


# ---------------------------------------------------------------- a view of a copy, overwritten


def _into(result: Tensor, view: Tensor, src: Tensor) -> Tensor:
    if tuple(view._layout.shape) != tuple(src._layout.shape):
        raise RuntimeError(
            f"expected src to have a size equal to the slice of self. src size = {list(src._layout.shape)}, "
            f"slice size = {list(view._layout.shape)}"
        )
    copy_raw(view, src)
    result._storage.writes = 0
    return result


def _copy_in_place(input: Tensor) -> Tensor:
    """A copy with the strides of `input` and its place in a storage as large; a dense one where elements coincide."""
    layout = input._layout
    if overlaps_itself(layout.shape, layout.strides):
        return clone_raw(input)
    whole = input.untyped_storage().nbytes() // layout.dtype.itemsize
    memory = clone_raw(input.as_strided((whole,), (1,), 0))
    return tensor_from(memory._storage, input._offset, layout)


@operator(out=True, real_gradients="select_scatter")
def select_scatter(input: Tensor, src: Tensor, dim: int, index: int) -> Tensor:
    """A copy of `input` with `src` at position `index` of dimension `dim`."""
    result = _copy_in_place(input)
    return _into(result, result.select(dim, index), src)


@select_scatter.vjp
def _(g, dim, index, need, layouts):
    mine = None
    if need["input"]:
        mine = select_scatter(g, NAMESPACE["zeros_like"](g.select(dim, index)), dim, index)
    return mine, g.select(dim, index) if need["src"] else None


def _sliced(x: Tensor, dim: int, start: int | None, end: int | None, step: int) -> Tensor:
    return x[(slice(None),) * wrap_dim(dim, x._layout.ndim) + (slice(start, end, step),)]


@operator(out=Out(dtype=exact, graph=OUT_ONLY, fitted=BEFORE_DTYPE), real_gradients="slice_scatter")
def slice_scatter(
    input: Tensor, src: Tensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Tensor:
    """A copy of `input` with `src` at the slice start:end:step of dimension `dim`."""
    result = _copy_in_place(input)
    return _into(result, _sliced(result, dim, start, end, step), src)


@slice_scatter.vjp
def _(g, dim, start, end, step, need):
    part = _sliced(g, dim, start, end, step)
    mine = slice_scatter(g, NAMESPACE["zeros_like"](part), dim, start, end, step) if need["input"] else None
    return mine, part if need["src"] else None


@operator()
def diagonal_scatter(input: Tensor, src: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """A copy of `input` with `src` on a diagonal of the dimensions dim1 and dim2."""
    result = _copy_in_place(input)
    return _into(result, result.diagonal(offset, dim1, dim2), src)


@diagonal_scatter.vjp
def _(g, offset, dim1, dim2, need):
    part = g.diagonal(offset, dim1, dim2)
    mine = diagonal_scatter(g, NAMESPACE["zeros_like"](part), offset, dim1, dim2) if need["input"] else None
    return mine, part if need["src"] else None


@operator(out=False, jvp=TOGETHER)
def as_strided_scatter(
    input: Tensor, src: Tensor, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None
) -> Tensor:
    """A copy of `input` with `src` in the elements that as_strided(size, stride, storage_offset) shows.

    The copy has the strides of `input` and its place in a storage as large as that of `input`. RuntimeError unless `src` has
    this size, and for an input that requires a gradient and isn't contiguous. The gradient of `input` is PyTorch's: that of
    the elements shown, and zero for all others.
    """
    if input._node is not None and not input.is_contiguous():
        raise RuntimeError("as_strided_scatter is currently only supported for contiguous inputs")
    result = _copy_in_place(input)
    return _into(result, result.as_strided(size, stride, storage_offset), src)


@as_strided_scatter.vjp
def _(g, size, stride, storage_offset, need):
    g = g.contiguous()
    part = g.as_strided(size, stride, storage_offset)
    mine = as_strided_scatter(NAMESPACE["zeros_like"](g), part, size, stride, storage_offset) if need["input"] else None
    return mine, part if need["src"] else None
