"""Order: sort, argsort, msort, topk, kthvalue, searchsorted, bucketize, isin.

Stands on codegen.ordering.sorting. Sorts are always stable; NaN counts as larger than everything.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from flambeau.base import memory_order
from flambeau.base.dtype import bool_, int32, int64, promote_types
from flambeau.base.dtype import dtype as DType
from flambeau.base.geometry import wrap_dim
from flambeau.base.layout import Layout, register_cache
from flambeau.base.scalar_range import fits
from flambeau.base.warn import warn_once
from flambeau.codegen.ordering import sorting, ties
from flambeau.core.operator import return_types
from flambeau.core.operator.annotations import Operand
from flambeau.core.operator.define import composite, operator
from flambeau.core.operator.facets import CONSTANT, described, record_of
from flambeau.core.operator.out_argument import deliver
from flambeau.core.operator.out_rules import ALIGNED, DISTINCT, SAME_DEVICE, UNRECORDED, Out, check_early, exact, worded
from flambeau.core.operator.publishing import NAMESPACE
from flambeau.core.tensor import create
from flambeau.core.tensor.tensor import Tensor, tensor_from
from flambeau.core.tensor.without_data import found
from flambeau.ops.creation.copy import contiguous
from flambeau.ops.reduction.selection import rows_along, select

_plans: dict[Any, Callable] = register_cache({})
FEW = 4096  # pairs that isin compares without sorting


def _check(name: str, layout: Layout) -> None:
    if layout.dtype.is_complex:
        raise RuntimeError(f" {'Sort' if name == 'sort' else name} does not support complex dtypes on CPU")


def sort_along(input: Tensor, dim: int, descending: bool) -> tuple[Tensor, Tensor]:
    """Raw: (values, indices)."""
    key = ("sort", input._layout, dim, descending)
    launch = _plans.get(key)
    if launch is None:
        layout = input._layout
        at = wrap_dim(dim, layout.ndim)
        _check("sort", layout)
        out = Layout.of(layout.shape, memory_order.preserved_strides(layout.shape, layout.strides), layout.dtype, layout.device)
        rows = rows_along(layout, out, at)
        if rows is None:  # rows of a copy whose dimensions are ordered as they lie in memory
            order = sorted(range(layout.ndim), key=lambda d: -out.strides[d])
            shape, strides = (tuple([x[d] for d in order]) for x in (layout.shape, layout.strides))
            ordered = Layout.of(shape, strides, layout.dtype, layout.device)
            copied = contiguous(tensor_from(input._storage, input._offset, ordered))
            values, indices = sort_along(copied, order.index(at), descending)
            return (
                tensor_from(values._storage, values._offset, out),
                tensor_from(indices._storage, indices._offset, out.with_dtype(int64)),
            )
        launch = _plans[key] = sorting.sort_plan(layout, (out, out.with_dtype(int64)), rows[0], rows[1], bool(descending))
    return launch(None, None, input)


_INDEX_DTYPE = worded(
    "torch.searchsorted(): output tensor's dtype is wrong, it can only be Int(int32) or Long(int64) depending on "
    "whether out_int32 flag is True, but we got output tensor's dtype {got} and out_int32 flag is False"
)


def _index_dtype(have: DType, got: DType) -> None:
    """searchsorted writes to int32 whatever it was told, bucketize doesn't."""
    if got is not int32:
        _INDEX_DTYPE(have, got)


def _sort_node(arguments: Sequence[Any]) -> str:
    return "SortBackward0" if arguments[3] is None else "SortBackward1"


@operator(method=False, function=False, name="sort", differentiable=1, node=_sort_node)
def _sort(input: Tensor, dim: int, descending: bool, stable: bool | None = None) -> tuple[Tensor, Tensor]:
    """The elements in order along `dim`, and where they were."""
    return sort_along(input, dim, descending)


@_sort.vjp
def _(g, out1, dim, layouts):
    return _spread(g, dim, out1, layouts[0])


def _spread(g: Tensor, dim: int, indices: Tensor, layout: Layout) -> Tensor:
    """The gradient of values chosen along `dim`."""
    zeros = NAMESPACE["zeros"](layout.shape, dtype=g._layout.dtype, device=g._layout.device)
    if not layout.ndim:
        return g.reshape(())
    return zeros.scatter_(dim, indices, g) if g._layout.flavor is None else zeros.scatter(dim, indices, g)


def _named(result: Any, made: type, out: Any, input: Tensor) -> Any:
    return made(result) if out is None else deliver(out, made(result), record_of(made.__name__), (input,))


@described(out=Out(dtype=exact, overlap=ALIGNED))
@composite(name="sort")
def sort(input: Tensor, dim: int = -1, descending: bool = False, stable: bool | None = None, *, out: Any = None) -> Any:
    """The elements in order along `dim` and their positions: a named tuple (values, indices). NaN is the largest.
    Stable."""
    if isinstance(dim, bool):
        dim, descending = -1, dim
    if out is not None:
        check_early(record_of("sort"), out, lambda: (input,) if dim == -1 else (input, dim))
    return _named(_sort(input, dim, bool(descending), stable), return_types.sort, out, input)


@composite(jvp=CONSTANT)
def argsort(input: Tensor, dim: int = -1, descending: bool = False, stable: bool = False) -> Tensor:
    """The positions that sort `input` along `dim`."""
    return sort_along(input, dim, bool(descending))[1]


@composite(out=Out(dtype=exact, step="sort", overlap=ALIGNED))
def msort(input: Tensor) -> Tensor:
    """The elements in order along the first dimension."""
    return _sort(input, 0, False)[0]


@operator(method=False, function=False, name="topk", differentiable=1)
def _topk(input: Tensor, k: int, dim: int, largest: bool) -> tuple[Tensor, Tensor]:
    """The k largest (smallest) elements along `dim` in order, and where they were."""
    key = ("topk", input._layout, k, dim, largest)
    launch = _plans.get(key)
    if launch is None:
        layout = input._layout
        at = wrap_dim(dim, layout.ndim)
        if not 0 <= k <= (layout.shape[at] if layout.ndim else 1):
            raise RuntimeError("selected index k out of range")
        _check("topk", layout)
        if layout.dtype is bool_:
            raise RuntimeError("topk does not support bool dtypes on CPU")
        k = k if layout.ndim else 1
        shape = tuple(k if d == at else n for d, n in enumerate(layout.shape))
        out = Layout.contiguous(shape, layout.dtype, layout.device)
        whole = Layout.of(layout.shape, out.strides, layout.dtype, layout.device)  # only strides matter
        rows = rows_along(layout, whole, at) if k else ((0,) * 8, 0)
        if rows is not None and k:
            after = math.prod(layout.shape[at + 1 :]) if layout.ndim else 1
            outer = k * after
            steps = list(rows[0])
            steps[2:5] = [outer, 1, after]
            rows = (tuple(steps), rows[1])
        if rows is None:
            return _topk(contiguous(tensor_from(input._storage, input._offset, layout)), k, dim, largest)
        if k and rows[0][0] <= ties.SHORT:
            launch = ties.ties_plan(layout, (out, out.with_dtype(int64)), rows[0], rows[1], k, bool(largest))
        else:
            launch = sorting.topk_plan(layout, (out, out.with_dtype(int64)), rows[0], rows[1], k, bool(largest))
        _plans[key] = launch
    return launch(None, None, input)


@_topk.vjp
def _(g, out1, dim, layouts):
    return _spread(g, dim, out1, layouts[0])


@described(out=Out(dtype=exact, device=SAME_DEVICE, overlap=ALIGNED))
@composite(name="topk")
def topk(input: Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True, *, out: Any = None) -> Any:
    """The k largest (or smallest) elements along `dim` in order and their positions: a named tuple (values,
    indices)."""
    if isinstance(k, Tensor):
        k = int(k.item())
    if out is not None:
        check_early(record_of("topk"), out, lambda: (input, k))
    return _named(_topk(input, k, dim, bool(largest)), return_types.topk, out, input)


@operator(method=False, function=False, name="kthvalue", differentiable=1)
def _kthvalue(input: Tensor, k: int, dim: int, keepdim: bool) -> tuple[Tensor, Tensor]:
    """The k-th smallest element along `dim`, and where it was."""
    layout = input._layout
    at = wrap_dim(dim, layout.ndim)
    size = layout.shape[at] if layout.ndim else 1
    if layout.ndim and not size:
        raise IndexError(f"kthvalue(): Expected reduction dim {at} to have non-zero size.")
    if not 1 <= k <= size:
        raise RuntimeError(f"kthvalue(): selected number k out of range for dimension {at}")
    if not layout.ndim:
        return input.clone(), NAMESPACE["zeros"]((), dtype=int64, device=layout.device)
    if layout.dtype.is_complex or layout.dtype is bool_:
        raise NotImplementedError(f"\"kthvalue_cpu\" not implemented for '{layout.dtype.scalar_name}'")
    return select(input, at, keepdim, "place", k - 1)


@_kthvalue.vjp
def _(g, out1, dim, keepdim, layouts):
    if keepdim or not layouts[0].ndim:
        return _spread(g, dim, out1, layouts[0])
    return _spread(g.unsqueeze(dim), dim, out1.unsqueeze(dim), layouts[0])


@described(out=Out(dtype=worded("output indices must be of scalar type {have}"), overlap=DISTINCT))
@composite(name="kthvalue")
def kthvalue(input: Tensor, k: int, dim: int = -1, keepdim: bool = False, *, out: Any = None) -> Any:
    """The k-th smallest element along `dim` and its position: a named tuple (values, indices)."""
    if out is not None:
        check_early(record_of("kthvalue"), out, lambda: (input, k))
    return _named(_kthvalue(input, k, dim, keepdim), return_types.kthvalue, out, input)


# ---------------------------------------------------------------- search


def _beside(value: Any, tensor: Tensor) -> Tensor:
    """A number as a tensor: of the dtype of the tensor that it is compared with, if it is one of its numbers."""
    dtype = tensor._layout.dtype
    suits = dtype.is_floating_point if isinstance(value, float) else isinstance(value, int) and fits(value, dtype)
    return NAMESPACE["tensor"](value, dtype=dtype if suits and dtype is not bool_ else None, device=tensor._layout.device)


def _search(
    name: str, boundaries: Tensor, values: Any, out_int32: bool, right: bool, side: str | None, sorter: Tensor | None
) -> Tensor:
    if not isinstance(values, Tensor):
        values = _beside(values, boundaries)
    if side is not None:
        if side not in ("left", "right"):
            raise RuntimeError(f"torch.searchsorted(): side can only be 'left' or 'right' but got {side}")
        if side == "left" and right:
            raise RuntimeError(
                "torch.searchsorted(): side and right can't be set to opposites, got side of left while right was True"
            )
        right = side == "right"
    mine, theirs = boundaries._layout, values._layout
    if name == "searchsorted" and mine.ndim != 1 and (mine.ndim == 0 or tuple(mine.shape[:-1]) != tuple(theirs.shape[:-1])):
        if mine.ndim == 0:
            raise RuntimeError("torch.searchsorted(): boundaries tensor should have positive dimension, but got 0 dimension")
        raise RuntimeError(
            "torch.searchsorted(): boundaries tensor should be 1 dimension or the first N-1 dimensions of boundaries "
            f"tensor and input value tensor must match, but we got boundaries tensor {list(mine.shape)} and input "
            f"value "
            f"tensor {list(theirs.shape)}"
        )
    if sorter is not None:
        if tuple(sorter._layout.shape) != tuple(mine.shape):
            raise RuntimeError(
                "torch.searchsorted(): boundary and sorter must have the same size, but got boundary tensor "
                f"{list(mine.shape)}and got sorter tensor {list(sorter._layout.shape)}"
            )
        if sorter._layout.dtype is not int64:
            raise RuntimeError(
                f"torch.searchsorted(): sorter must be a tensor of long dtype but got dtype {sorter._layout.dtype.scalar_name}"
            )
        if found((sorter < 0) | (sorter >= mine.shape[-1])):
            raise RuntimeError("torch.searchsorted(): sorter index out of range")
        sorter = contiguous(sorter)
    dtype = promote_types(mine.dtype, theirs.dtype)
    if theirs.numel and (dtype.is_complex or dtype is bool_):
        raise NotImplementedError(f"\"searchsorted_out_cpu\" not implemented for '{dtype.scalar_name}'")
    for name, given in (("boundary", boundaries), ("input value", values)):
        if not given._layout.is_contiguous:
            warn_once(
                f"torch.searchsorted(): {name} tensor is non-contiguous, this will lower the performance due to extra data "
                f"copy when converting non-contiguous tensor to contiguous, please use contiguous {name} tensor if "
                "possible. This message will only appear once per program."
            )
    boundaries, values = contiguous(boundaries.detach().to(dtype)), contiguous(values.detach().to(dtype))
    key = ("search", boundaries._layout, values._layout, out_int32, right, None if sorter is None else sorter._layout)
    launch = _plans.get(key)
    if launch is None:
        out = Layout.contiguous(values._layout.shape, int32 if out_int32 else int64, values._layout.device)
        launch = _plans[key] = sorting.search_plan(
            boundaries._layout, values._layout, out, right, None if sorter is None else sorter._layout
        )
    return launch(None, boundaries, values) if sorter is None else launch(None, boundaries, values, sorter)


def _search_plan(
    sorted_sequence: Tensor, input: Any, *, out_int32: bool, right: bool, side: str | None, sorter: Tensor | None
) -> Callable | None:
    """The plan that served a search, where it took the tensors as they are."""
    if sorter is not None or not isinstance(input, Tensor):
        return None
    return (
        _plans.get(("search", sorted_sequence._layout, input._layout, out_int32, right or side == "right", None))
        if sorted_sequence._layout.dtype is input._layout.dtype
        else None
    )


def _bucket_plan(input: Any, boundaries: Tensor, *, out_int32: bool, right: bool) -> Callable | None:
    launch = _search_plan(boundaries, input, out_int32=out_int32, right=right, side=None, sorter=None)
    return None if launch is None else lambda none, input, boundaries: launch(none, boundaries, input)


@composite(method=False, out=Out(dtype=_index_dtype, graph=UNRECORDED), planned=_search_plan)
def searchsorted(
    sorted_sequence: Tensor,
    input: Operand,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Tensor | None = None,
) -> Tensor:
    """Where each value would be put into its sorted row: before equal elements, or with `right` behind them. int64
    (or int32)."""
    return _search("searchsorted", sorted_sequence, input, out_int32, right, side, sorter)


@composite(method=False, out=Out(dtype=_INDEX_DTYPE, graph=UNRECORDED), planned=_bucket_plan)
def bucketize(input: Operand, boundaries: Tensor, *, out_int32: bool = False, right: bool = False) -> Tensor:
    """The number of the bucket between sorted boundaries that each value falls into."""
    if boundaries._layout.ndim != 1:
        raise RuntimeError(f"boundaries tensor must be 1 dimension, but got dim({boundaries._layout.ndim})")
    return _search("bucketize", boundaries, input, out_int32, right, None, None)


@composite(method=False, out=Out(dtype=exact, graph=UNRECORDED))
def isin(elements: Operand, test_elements: Operand, *, assume_unique: bool = False, invert: bool = False) -> Tensor:
    """Whether each element is one of the test elements (or is not, with `invert`)."""
    if not isinstance(elements, Tensor):
        elements = _beside(elements, test_elements) if isinstance(test_elements, Tensor) else create.make_tensor(elements)
    if not isinstance(test_elements, Tensor):
        test_elements = _beside(test_elements, elements)
    for dtype in (elements._layout.dtype, test_elements._layout.dtype):
        if dtype.is_complex or dtype is bool_:
            raise RuntimeError(f"Unsupported input type encountered for isin(): {dtype.scalar_name}")
    dtype = promote_types(elements._layout.dtype, test_elements._layout.dtype)
    elements, tests = elements.detach().to(dtype), test_elements.detach().to(dtype).reshape(-1)
    if not tests._layout.numel:
        return NAMESPACE["full"](elements._layout.shape, bool(invert), dtype=bool_, device=elements._layout.device)
    if elements._layout.numel * tests._layout.numel <= FEW:
        found = (elements[..., None] == tests).any(-1)
        return found.logical_not() if invert else found
    ordered = sort_along(tests, -1, False)[0]
    at = _search("bucketize", ordered, elements, False, False, None, None)
    at = at.masked_fill(at == tests._layout.numel, 0)
    found = ordered.take(at) == elements
    return found.logical_not() if invert else found
