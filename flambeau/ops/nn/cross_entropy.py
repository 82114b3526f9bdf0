"""nll_loss and cross_entropy.

cross_entropy over class indices is one kernel over rows: maximum, sum of exponentials, and the row's loss while the row
is in cache; its gradient is another. Class weights and the picked class are read by index inside the kernels. Stands on
core.operator.row_program and ops.reduction.softmax.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from flambeau.base.dtype import dtype as DType
from flambeau.base.dtype import float64, int64, uint8
from flambeau.base.layout import Layout, register_cache
from flambeau.base.warn import warn
from flambeau.core.autograd import engine
from flambeau.core.autograd.node import one_step, refuse_gradient
from flambeau.core.modes import modes
from flambeau.core.modes.autocast import single
from flambeau.core.operator.annotations import Planned
from flambeau.core.operator.define import operator
from flambeau.core.operator.facets import described
from flambeau.core.operator.publishing import explained
from flambeau.core.operator.row_program import FULL, KEPT, Rows
from flambeau.core.tensor.create import array_of
from flambeau.core.tensor.tensor import Tensor, empty_layout, tensor_from
from flambeau.ir import scalar as s
from flambeau.ir.loops import Loop, Row, folded, pick, position
from flambeau.ir.scalar import cast, compute_dtype, constant
from flambeau.ops.reduction.extrema import shift
from flambeau.ops.reduction.softmax import log_softmax
from flambeau.ops.reduction.sum import adding, wide

REDUCTIONS = ("none", "mean", "sum")


def reduction_of(reduction: str, size_average: bool | None = None, reduce: bool | None = None) -> str:
    """The reduction that a call asks for, by the current or the old arguments. Raises ValueError for an unknown one."""
    if size_average is not None or reduce is not None:
        size_average = True if size_average is None else size_average
        reduce = True if reduce is None else reduce
        meant = "none" if not reduce else "mean" if size_average else "sum"
        warn(f"size_average and reduce args will be deprecated, please use reduction='{meant}' instead.")
        return meant
    if reduction not in REDUCTIONS:
        raise ValueError(f"{reduction} is not a valid value for reduction")
    return reduction


# ---------------------------------------------------------------- kernels


def _totals(loss: Any, weight: Any, dtype: DType, mean: bool) -> tuple:
    """The sum of losses, or their mean by weight; and the total weight."""
    result = folded("loss", loss.dtype)
    if mean:
        result = result / folded("weight", loss.dtype)
    return (
        Loop((adding("loss", loss), adding("weight", weight))),
        Row(((0, cast(result, dtype)), (1, cast(folded("weight", loss.dtype), dtype)))),
    )


# Over rows: inputs are x, x again (picked), target, weight


def _target(elements: tuple, numbers: tuple) -> tuple[Any, Any, Any]:
    """(target, whether it is ignored, an index that is safe to pick)."""
    target = cast(elements[2], int64)
    ignored = target == cast(numbers[0], int64)
    return target, ignored, s.where(ignored, 0, target)


def _class_weight(index: Any, ignored: Any, dtype: DType, weighted: bool, storage: DType | None) -> Any:
    weight = cast(pick(3, index, storage), dtype) if weighted else constant(1, dtype)
    return s.where(ignored, 0, weight)


def _nll_stages(elements: tuple, numbers: tuple, storage: DType, weighted: DType | None, reduction: str) -> tuple:
    """-x[target] * weight[target] of every target, and that weight; or their sums (the sum of losses by that of weights).

    Inputs are the targets, which are what the loop runs over, x and the weights of the classes, both picked by them.
    """
    target = cast(elements[0], int64)
    ignored = target == cast(numbers[0], int64)
    index = s.where(ignored, 0, target)
    dtype = elements[1].dtype
    weight = constant(1, dtype) if weighted is None else cast(pick(2, index, weighted), dtype)
    loss = s.where(ignored, 0, -pick(1, index, storage) * weight)
    weight = s.where(ignored, 0, weight)
    if reduction == "none":
        return (Loop((), ((0, loss), (1, weight))),)
    total = wide(dtype)
    return _totals(cast(loss, total), cast(weight, total), dtype, reduction == "mean")


def _nll_outputs(dtypes: Sequence[DType], storage: DType, weighted: DType | None, reduction: str) -> list:
    form = FULL if reduction == "none" else KEPT
    return [(dtypes[1], form), (compute_dtype(dtypes[1]), form)]


_NLL = Rows("nll_loss", _nll_stages, _nll_outputs, number_dtype=lambda dtypes: int64)


def _loss_outputs(dtypes: Sequence[DType], *statics: Any) -> list:
    return [(dtypes[0], KEPT), (compute_dtype(dtypes[0]), KEPT)]


def _cross_entropy_stages(elements: tuple, numbers: tuple, storage: DType, weighted: DType | None, smooth: bool) -> tuple:
    """Per row: loss, weight of the target, logarithm of the sum of exponentials."""
    x = elements[0]
    dtype = x.dtype
    _, ignored, index = _target(elements, numbers)
    weight = _class_weight(index, ignored, dtype, weighted is not None, weighted)
    largest = folded("largest", dtype)
    first = Loop((shift("largest", x),))
    folds = [adding("total", s.exp_normal(x - largest))]
    if smooth:
        own = cast(elements[4], dtype) if weighted is not None else constant(1, dtype)
        folds += [adding("weights", own), adding("values", own * x)]
    log_sum = s.log(folded("total", dtype)) + largest
    loss = (log_sum - pick(1, index, storage)) * weight
    if smooth:
        smoothing, share = cast(numbers[1], dtype), cast(numbers[2], dtype)
        loss = loss * (1 - smoothing) + share * (folded("weights", dtype) * log_sum - folded("values", dtype))
    return first, Loop(tuple(folds)), Row(((0, s.where(ignored, 0, loss)), (1, weight), (2, log_sum)))


_CROSS_ENTROPY = Rows(
    "cross_entropy",
    _cross_entropy_stages,
    lambda dtypes, *statics: [*_loss_outputs(dtypes), (compute_dtype(dtypes[0]), KEPT)],
    number_dtype=lambda dtypes: float64,
    ordered=True,
)


def _gradient_stages(
    elements: tuple, numbers: tuple, storage: DType, weighted: DType | None, smooth: bool, logits: bool, mean: bool
) -> tuple:
    """The gradient of x from g (per row, or one number) and, for the mean, the total weight."""
    x = elements[0]
    dtype = x.dtype
    rest = list(elements[3:] if weighted is None else elements[4:])
    target, ignored, index = _target(elements, numbers)
    weight = _class_weight(index, ignored, dtype, weighted is not None, weighted)
    scale = cast(rest.pop(0), dtype)
    if mean:
        scale = scale / cast(rest.pop(0), dtype)
    hit = target == position()
    stages: list[Any] = []
    if not logits:
        out = s.where(hit, -weight * scale, 0)
        out = s.where(ignored, 0, out)
    else:
        likely = s.exp_normal(x - cast(rest.pop(0), dtype))
        if smooth:
            smoothing, share = cast(numbers[1], dtype), cast(numbers[2], dtype)
            own = cast(rest.pop(0), dtype) if weighted is not None else constant(1, dtype)
            stages.append(Loop((adding("weights", own),)))
            picked = weight * (1 - smoothing)
            out = (picked + share * folded("weights", dtype)) * likely - s.where(hit, picked, 0) - share * own
        else:
            out = (likely - s.where(hit, constant(1, dtype), constant(0, dtype))) * weight
        out = s.where(ignored, 0, out * scale)
    return (*stages, Loop((), ((0, out),)))


_GRADIENT = Rows(
    "cross_entropy_backward",
    _gradient_stages,
    lambda dtypes, *statics: [(dtypes[0], FULL)],
    number_dtype=lambda dtypes: float64,
    ordered=True,
)


def _finish_stages(elements: tuple, numbers: tuple, mean: bool) -> tuple:
    loss, weight = elements
    total = wide(loss.dtype)
    return _totals(cast(loss, total), cast(weight, total), loss.dtype, mean)


_FINISH = Rows("loss_total", _finish_stages, lambda dtypes, mean: [(dtypes[0], KEPT), (dtypes[1], KEPT)])


# ---------------------------------------------------------------- calls


def _with_class(x: Tensor, axis: int) -> Tensor:
    """A per-row tensor with the class dimension, of size 1, put back; without a graph."""
    layout = x._layout
    made = _with_class_layouts.get((layout, axis))
    if made is None:
        shape, strides = list(layout.shape), list(layout.strides)
        shape.insert(axis, 1)
        strides.insert(axis, 1)
        made = _with_class_layouts[layout, axis] = Layout.of(tuple(shape), tuple(strides), layout.dtype, layout.device)
    return tensor_from(x._storage, x._offset, made)


_with_class_layouts: dict[Any, Layout] = register_cache({})


def _check(input: Tensor, target: Tensor, weight: Tensor | None) -> int:
    """Shapes and dtypes in PyTorch's words; returns the class dimension."""
    own, other = tuple(input._layout.shape), tuple(target._layout.shape)
    if not own:
        raise ValueError("Expected 1 or more dimensions (got 0)")
    axis = 0 if len(own) == 1 else 1
    if axis == 1:
        if not other or own[0] != other[0]:
            raise ValueError(f"Expected input batch_size ({own[0]}) to match target batch_size ({other[0] if other else 1}).")
        if len(own) == 2 and len(other) > 1:
            raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
        if own[2:] != other[1:]:
            raise RuntimeError(f"Expected target size {[own[0], *own[2:]]}, got {list(other)}")
    elif len(other) > 1:
        raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
    elif other not in ((), (1,)):
        raise ValueError(f"For 1D input, 1D target must have size 1, but got target size: {other[0]}")
    if target._layout.dtype not in (int64, uint8):
        raise RuntimeError(f"expected target dtype to be Long or Byte, but got {target._layout.dtype.scalar_name}")
    if weight is not None:
        if tuple(weight._layout.shape) != (own[axis],):
            if len(own) > 2:
                raise RuntimeError("weight tensor should be defined either for all or no classes")
            raise RuntimeError(
                f"weight tensor should be defined either for all {own[axis]} classes or no classes but got weight "
                f"tensor of shape: {list(weight._layout.shape)}"
            )
        if weight._layout.dtype is not input._layout.dtype:
            raise RuntimeError(
                f"expected scalar type {input._layout.dtype.scalar_name} but found {weight._layout.dtype.scalar_name}"
            )
    if not input._layout.dtype.is_floating_point:
        raise NotImplementedError(f"\"nll_loss_out_frame\" not implemented for '{input._layout.dtype.scalar_name}'")
    return axis


def class_axis(input: Tensor) -> int:
    return 0 if input._layout.ndim == 1 else 1


def _target_rows(target: Tensor, input: Tensor, axis: int) -> Tensor:
    if input._layout.ndim == 1:
        layout = target._layout
        return tensor_from(target._storage, target._offset, Layout.of((1,), (1,), layout.dtype, layout.device))
    return _with_class(target, axis)


def _weight_view(weight: Tensor, input: Tensor, axis: int) -> Tensor:
    """The class weights as they broadcast over the input."""
    layout = weight._layout
    after = input._layout.ndim - 1 - axis
    wide_layout = Layout.of((*layout.shape, *(1,) * after), (*layout.strides, *(1,) * after), layout.dtype, layout.device)
    return tensor_from(weight._storage, weight._offset, wide_layout)


def _numbers(input: Tensor, axis: int, ignore_index: int, smoothing: float) -> tuple:
    return (ignore_index, smoothing, smoothing / max(input._layout.shape[axis], 1)) if smoothing else (ignore_index,)


def _launcher(
    rows: Rows,
    input: Tensor,
    target: Tensor,
    weight: Tensor | None,
    axis: int,
    numbers: tuple,
    statics: tuple,
    extra: Sequence[Tensor],
) -> Callable:
    """The plan of a row program over the classes: launch(results, input, input, target, weight, extra, numbers)."""
    inputs = [input, input, _target_rows(target, input, axis)]
    picks = ((1, axis),)
    if weight is not None:
        inputs.append(weight)
        picks += ((3, 0),)
    weighted = None if weight is None else weight._layout.dtype
    return rows.launcher([*inputs, *extra], (axis,), numbers, (input._layout.dtype, weighted, *statics), picks)


def _out_of_bounds(input: Tensor, target: Tensor, ignore_index: int) -> IndexError:
    values = array_of(target)
    bad = values[(values != ignore_index) & ((values < 0) | (values >= input._layout.shape[class_axis(input)]))].reshape(-1)[0]
    return IndexError(f"Target {bad} is out of bounds.")


def _nll_node(arguments: Sequence[Any]) -> str:
    return "NllLoss2DBackward0" if arguments[0]._layout.ndim > 2 else "NllLossBackward0"


@operator(
    function=False,
    method=False,
    node=_nll_node,
    name="nll_loss",
    differentiable=1,
    planned=True,
    autocast=single,
    underneath="nll_loss_nd",
)
def fused_nll_loss(input: Tensor, target: Tensor, weight: Tensor | None, reduction, ignore_index) -> Any:
    """(loss, total weight) of log-probabilities and class indices."""
    axis = _check(input, target, weight)
    own = input._layout
    rows = _target_rows(target, input, axis)
    weights = () if weight is None else (weight,)
    losses = _NLL.launcher(
        (rows, input, *weights),
        () if reduction == "none" else tuple(range(own.ndim)),
        (ignore_index,),
        (own.dtype, None if weight is None else weight._layout.dtype, reduction),
        ((1, axis), (2, 0))[: 1 + len(weights)],
    )
    shape = target._layout.shape if own.ndim > 1 else ()
    layouts = [Layout.contiguous(shape, dtype, own.device) for dtype in (own.dtype, compute_dtype(own.dtype))]

    def launch(_: None, input: Tensor, target: Tensor, *weight: Tensor) -> tuple[Tensor, ...]:
        results = losses(None, None, target, input, *weight, ignore_index)
        if reduction != "none":
            return results
        return tuple([tensor_from(x._storage, 0, layout) for x, layout in zip(results, layouts)])

    return launch


@fused_nll_loss.kernel_error
def _(input, target, weight, reduction, ignore_index):
    return _out_of_bounds(input, target, ignore_index)


@fused_nll_loss.vjp
def _(g, out1, input, target, weight, reduction, ignore_index):
    return _nll_gradient(g, out1, input, target, weight, reduction, ignore_index), None, None


@operator(function=False, method=False, node="NllLossBackwardBackward0", planned=True)
def _nll_gradient(
    g: Tensor, total: Tensor, input: Tensor, target: Tensor, weight: Tensor | None, reduction, ignore_index
) -> Planned:
    axis, mean = _check(input, target, weight), reduction == "mean"
    scales = [_with_class(g, axis) if g._layout.ndim else g, *((total,) if mean else ())]
    gradient = _launcher(_GRADIENT, input, target, weight, axis, (ignore_index,), (False, False, mean), scales)

    def launch(_: None, g: Tensor, total: Tensor, input: Tensor, target: Tensor, *weight: Tensor) -> Tensor:
        return gradient(None, input, input, target, *weight, *((g, total) if mean else (g,)), ignore_index)

    return launch


@_nll_gradient.kernel_error
def _(g, total, input, target, weight, reduction, ignore_index):
    return _out_of_bounds(input, target, ignore_index)


@_nll_gradient.vjp
def _(g, target, weight, reduction, ignore_index):
    """The gradient is linear in g: its derivative is the loss of the gradient's gradient."""
    return fused_nll_loss(g, target, weight, reduction, ignore_index)[0], None, None, None, None


def _cross_entropy_node(arguments: Sequence[Any]) -> str:
    return "AddBackward0" if arguments[5] else _nll_node(arguments)


@operator(
    function=False,
    method=False,
    node=_cross_entropy_node,
    name="cross_entropy_loss",
    differentiable=1,
    planned=True,
    autocast=single,
)
def fused_cross_entropy(input: Tensor, target: Tensor, weight: Tensor | None, reduction, ignore_index, smoothing) -> Any:
    """(loss, total weight, logarithms of the sums of exponentials) of scores and class indices."""
    axis = _check(input, target, weight)
    again = 1 if smoothing else 0  # whether the weights are read for all classes as well as for the target
    numbers = _numbers(input, axis, ignore_index, smoothing)
    of_rows = _launcher(
        _CROSS_ENTROPY,
        input,
        target,
        weight,
        axis,
        numbers,
        (smoothing > 0,),
        () if weight is None or not again else (_weight_view(weight, input, axis),),
    )
    own = input._layout
    shape = (*own.shape[:axis], *own.shape[axis + 1 :])
    losses, weights = (empty_layout(Layout.contiguous(shape, x, own.device)) for x, _ in _loss_outputs((own.dtype,)))
    total = (
        None if reduction == "none" else _FINISH.launcher((losses, weights), tuple(range(len(shape))), (), (reduction == "mean",))
    )

    def launch(_: None, input: Tensor, target: Tensor, *weight: Tensor) -> tuple[Tensor, ...]:
        loss, weights, log_sums = of_rows(None, None, None, input, input, target, *weight, *weight[:again], *numbers)
        return (loss, weights, log_sums) if total is None else (*total(None, None, loss, weights), log_sums)

    return launch


@fused_cross_entropy.kernel_error
def _(input, target, weight, reduction, ignore_index, smoothing):
    return _out_of_bounds(input, target, ignore_index)


@fused_cross_entropy.vjp
def _(g, out1, out2, input, target, weight, reduction, ignore_index, smoothing):
    if modes.local.grad or g._layout.flavor is not None:
        return _gradient_by_operators(g, input, target, weight, reduction, ignore_index, smoothing), None, None
    return _gradient_of_scores(g, out1, out2, input, target, weight, reduction, ignore_index, smoothing), None, None


@operator(function=False, method=False, planned=True)
def _gradient_of_scores(
    g: Tensor,
    total: Tensor,
    log_sums: Tensor,
    input: Tensor,
    target: Tensor,
    weight: Tensor | None,
    reduction,
    ignore_index,
    smoothing,
) -> Planned:
    axis = _check(input, target, weight)
    again, mean = 1 if smoothing else 0, reduction == "mean"
    numbers = _numbers(input, axis, ignore_index, smoothing)
    extra = [_with_class(g, axis) if g._layout.ndim else g, *((total,) if mean else ()), _with_class(log_sums, axis)]
    if weight is not None and again:
        extra.append(_weight_view(weight, input, axis))
    gradient = _launcher(_GRADIENT, input, target, weight, axis, numbers, (smoothing > 0, True, mean), extra)

    def launch(_: None, g: Tensor, total: Tensor, log_sums: Tensor, input: Tensor, target: Tensor, *weight: Tensor) -> Tensor:
        scales = (g, total, log_sums) if mean else (g, log_sums)
        return gradient(None, input, input, target, *weight, *scales, *weight[:again], *numbers)

    return launch


@_gradient_of_scores.kernel_error
def _(g, total, log_sums, input, target, weight, reduction, ignore_index, smoothing):
    return _out_of_bounds(input, target, ignore_index)


def _gradient_by_operators(
    g: Tensor, input: Tensor, target: Tensor, weight: Tensor | None, reduction: str, ignore_index: int, smoothing: float
) -> Tensor:
    """The gradient in differentiable operators, for gradients of gradients."""
    with modes.enable_grad():
        loss = by_operators(input, target, weight, reduction, ignore_index, smoothing)
        return engine.grad(loss, [input], [g], create_graph=True)[0]


def by_operators(
    input: Tensor, target: Tensor, weight: Tensor | None, reduction: str, ignore_index: int, smoothing: float
) -> Tensor:
    axis = class_axis(input)
    logs = log_softmax(input, axis)
    loss = fused_nll_loss(logs, target, weight, reduction, ignore_index)[0]
    if not smoothing:
        return loss
    return loss * (1 - smoothing) + _smooth_part(logs, target, weight, reduction, ignore_index, axis) * (
        smoothing / input._layout.shape[axis]
    )


def _smooth_part(logs: Tensor, target: Tensor, weight: Tensor | None, reduction: str, ignore_index: int, axis: int) -> Tensor:
    weighted = logs if weight is None else logs * weight.reshape(-1, *(1,) * (logs.dim() - 1 - axis))
    ignored = target.reshape(()) == ignore_index if logs.dim() == 1 else target == ignore_index
    smooth = (-weighted.sum(axis)).masked_fill(ignored, 0)
    if reduction == "none":
        return smooth
    if reduction == "sum":
        return smooth.sum()
    if weight is None:
        return smooth.sum() / ignored.logical_not().sum()
    safe = target.masked_fill(target == ignore_index, 0)
    weights = weight.index_select(0, safe.reshape(-1)).masked_fill(ignored.reshape(-1), 0)
    return smooth.sum() / weights.sum()


@explained
def nll_loss(input, target, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction="mean"):
    """Negative log-likelihood: -weight[target] * input[target] per row, of log-probabilities and class indices.

    input: (C,), (N, C) or (N, C, ...); target: int64 (), (N,) or (N, ...); weight: (C,). Targets equal to ignore_index
    count nothing. reduction "mean" divides the sum by the sum of the weights. Raises IndexError for a target out of
    bounds.
    """
    if size_average is not None or reduce is not None or reduction not in REDUCTIONS:
        reduction = reduction_of(reduction, size_average, reduce)
    if weight is not None:
        _refuse_weight(input, weight)
    return fused_nll_loss(input, target, weight, reduction, ignore_index)[0]


@described(autocast=single, underneath="cross_entropy_loss")
@explained
def cross_entropy(
    input, target, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction="mean", label_smoothing=0.0
):
    """nll_loss of log_softmax: the cross entropy of scores against class indices or class probabilities.

    input: (C,), (N, C) or (N, C, ...); target: int64 without the class dimension, or probabilities of input's shape;
    weight: (C,). label_smoothing (0 to 1) mixes the target with the uniform distribution. Raises IndexError for a
    target out of bounds.
    """
    if size_average is not None or reduce is not None or reduction not in REDUCTIONS:
        reduction = reduction_of(reduction, size_average, reduce)
    if not 0.0 <= label_smoothing <= 1.0:
        raise RuntimeError(f"label_smoothing must be between 0.0 and 1.0. Got: {label_smoothing:g}")
    if target._layout.shape == input._layout.shape:
        return _of_probabilities(input, target, weight, reduction, ignore_index, label_smoothing)
    if weight is not None:
        _refuse_weight(input, weight)
    return fused_cross_entropy(input, target, weight, reduction, ignore_index, label_smoothing)[0]


def _refuse_weight(input: Tensor, weight: Tensor) -> None:
    refuse_gradient("nll_loss2d_forward" if input._layout.ndim > 2 else "nll_loss_forward", weight=weight)


def _of_probabilities(
    input: Tensor, target: Tensor, weight: Tensor | None, reduction: str, ignore_index: int, smoothing: float
) -> Tensor:
    if not target._layout.dtype.is_floating_point:
        raise RuntimeError(
            f"Expected floating point type for target with class probabilities, got {target._layout.dtype.scalar_name}"
        )
    if ignore_index >= 0:
        raise RuntimeError("ignore_index is not supported for floating point target")
    axis = class_axis(input)
    shape = input._layout.shape
    classes = shape[axis]
    if smoothing:
        target = target * (1 - smoothing) + smoothing / max(classes, 1)
    logs = log_softmax(input, axis)
    terms = logs * target
    if weight is not None:
        terms = terms * weight.reshape(-1, *(1,) * (input.dim() - 1 - axis))
    if reduction == "none":
        return -terms.sum(axis)
    total = -terms.sum()
    return _averaged(total, math.prod(shape) // max(classes, 1)) if reduction == "mean" else total


@one_step("DivBackward1")
def _averaged(total: Tensor, count: int) -> Tensor:
    return total / count
