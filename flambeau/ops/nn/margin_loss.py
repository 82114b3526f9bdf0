"""multi_margin_loss and multilabel_margin_loss: margins between the scores of target classes and the other classes.

Each loss is one kernel over the rows and a sum, its gradient another kernel (codegen.losses.margins). What a call's layouts
decide is checked once, when its plan is made; targets are checked by the kernels. Used by nn.functional.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from flambeau.base.dtype import float32, float64
from flambeau.base.layout import Layout, register_cache
from flambeau.codegen.losses import margins as kernels
from flambeau.codegen.plan import Phase, Plan
from flambeau.codegen.runtime.messages import KernelCheck
from flambeau.codegen.targets import lowered
from flambeau.core.modes import modes
from flambeau.core.modes.autocast import single
from flambeau.core.operator.define import operator
from flambeau.core.operator.pointwise import RELEASE_FROM
from flambeau.core.operator.publishing import explained
from flambeau.core.tensor.tensor import Tensor
from flambeau.ops.creation.copy import contiguous
from flambeau.ops.nn.cross_entropy import REDUCTIONS, reduction_of

UNIT = 16384  # scores compared that are worth waking another thread for

_plans: dict[Any, Callable] = register_cache({})


def _check_double_or_float(kernel: str, layout: Layout) -> None:
    if layout.dtype not in (float32, float64):
        raise NotImplementedError(f"\"{kernel}\" not implemented for '{layout.dtype.scalar_name}'")


def _check_scalar_type(wanted: str, layout: Layout) -> None:
    if layout.dtype.scalar_name != wanted:
        raise RuntimeError(f"expected scalar type {wanted} but found {layout.dtype.scalar_name}")


def _rows_of(layout: Layout) -> tuple[int, int]:
    """(rows, classes) of scores."""
    return (layout.shape[0], layout.shape[1]) if layout.ndim == 2 else (1, layout.numel)


def _per_row(layout: Layout, rows: int, work: int, reduction: str) -> tuple[int, int, int]:
    """(grain, divisor, pitch of gradients) of a kernel over rows."""
    classes = _rows_of(layout)[1]
    divisor = classes * (max(rows, 1) if reduction == "mean" else 1)
    return max(1, rows * UNIT // max(work, 1)), divisor, int(reduction == "none")


def _loss_plan(
    inputs: Sequence[Tensor], kernel: Callable, shape: tuple[int, ...], chosen: bool, scalars: str, work: int, reduction: str
) -> Callable:
    """launch(*inputs, *numbers) of a loss: the kernel over the rows and, where it is reduced, the sum. chosen: which classes are
    targets is a second result.
    """
    layout = inputs[0]._layout
    rows, classes = _rows_of(layout)
    grain, divisor, pitch = _per_row(layout, rows, work, reduction)
    reduced = reduction != "none"
    phases = [Phase(kernel(reduced=reduced), rows, grain, [classes, divisor, pitch])]
    if reduced:
        phases.append(Phase(kernels.total_kernel(layout.dtype), 1, 1, [rows]))
    outputs = [Layout.contiguous(() if reduced else shape, layout.dtype, layout.device)]
    if chosen:
        outputs.append(Layout.contiguous(layout.shape, layout.dtype, layout.device))
    return _of_dense(inputs, phases, outputs, scalars, rows * 8 if reduced else 0, work)


def _gradient_plan(inputs: Sequence[Tensor], kernel: Callable, scalars: str, work: int, reduction: str) -> Callable:
    """launch(gradient of the losses, scores, ...) of a gradient."""
    layout = inputs[1]._layout
    rows, classes = _rows_of(layout)
    grain, divisor, pitch = _per_row(layout, rows, work, reduction)
    phases = [Phase(kernel(), rows, grain, [classes, divisor, pitch])]
    return _of_dense(inputs, phases, [Layout.contiguous(layout.shape, layout.dtype, layout.device)], scalars, 0, work)


def _of_dense(
    inputs: Sequence[Tensor], phases: list[Phase], outputs: list[Layout], scalars: str, scratch: int, work: int
) -> Callable:
    """A launcher of phases that want contiguous inputs."""
    launch = lowered(Plan(phases, outputs, [contiguous(x)._layout for x in inputs], scalars, scratch, work >= RELEASE_FROM))
    nothing, count = (None,) * len(outputs), len(inputs)
    if all(x._layout.is_contiguous for x in inputs):
        return lambda *given: launch(*nothing, *given)
    return lambda *given: launch(*nothing, *map(contiguous, given[:count]), *given[count:])


# ---------------------------------------------------------------- one target class a row


def _specialize_single(key: Any, input: Tensor, target: Tensor, weight: Tensor | None, p: int, reduction: str) -> Callable:
    layout, own = input._layout, target._layout
    if layout.ndim > 2 or not (layout.numel or (layout.ndim == 2 and layout.shape[1])):
        raise RuntimeError(f"Expected non-empty vector or matrix with optional 0-dim batch size, but got: {list(layout.shape)}")
    rows, classes = _rows_of(layout)
    if own.ndim > 1 or own.numel != rows:
        raise RuntimeError(
            "multi_margin_loss: target tensor should be 1-D with size equal to the number of input samples (batch "
            f"size). Expected target size [{rows}], but got {list(own.shape)}. "
            f"Input has shape {list(layout.shape)}."
        )
    if weight is not None and weight._layout.numel != classes:
        raise RuntimeError(f"inconsistent weight size, expected {classes} but got {list(weight._layout.shape)}")
    _check_double_or_float("multi_margin_loss_cpu_kernel", layout)
    _check_scalar_type("Long", own)
    inputs = [input, target]
    if weight is not None:
        _check_scalar_type(layout.dtype.scalar_name, weight._layout)
        inputs.append(weight)

    def kernel(reduced: bool) -> int:
        return kernels.single_kernel(layout.dtype, p, weight is not None, reduced)

    shape = () if own.ndim == 0 else (rows,)
    launch = _plans[key] = _loss_plan(inputs, kernel, shape, False, "f", layout.numel, reduction)
    return launch


@operator(function=False, method=False, name="multi_margin_loss", autocast=single)
def fused_multi_margin_loss(input: Tensor, target: Tensor, weight: Tensor | None, p, margin, reduction):
    """The loss of scores (N, C) or (C,) and target classes (N,) or ()."""
    key = (input._layout, target._layout, None if weight is None else weight._layout, p, reduction)
    try:
        launch = _plans[key]
    except KeyError:
        launch = None
    if launch is None:
        launch = _specialize_single(key, input, target, weight, p, reduction)
    try:
        return launch(input, target, margin) if weight is None else launch(input, target, weight, margin)
    except KernelCheck:
        raise RuntimeError("target out of range") from None


@fused_multi_margin_loss.vjp
def _(g, input, target, weight, p, margin, reduction):
    return _single_gradient(g, input, target, weight, p, margin, reduction), None, None


@operator(function=False, method=False, name="multi_margin_loss_backward")
def _single_gradient(g: Tensor, input: Tensor, target: Tensor, weight: Tensor | None, p, margin, reduction):
    """The gradient of the scores."""
    given = (g, input, target) if weight is None else (g, input, target, weight)
    key = ("gradient", p, reduction, *[x._layout for x in given])
    launch = _plans.get(key)
    if launch is None:
        dtype = input._layout.dtype
        launch = _plans[key] = _gradient_plan(
            given, lambda: kernels.single_gradient_kernel(dtype, p, weight is not None), "f", input._layout.numel, reduction
        )
    try:
        return launch(*given, margin)
    except KernelCheck:
        raise RuntimeError("target out of range") from None


@_single_gradient.vjp
def _(g):
    raise RuntimeError("derivative for aten::multi_margin_loss_backward is not implemented")


@explained
def multi_margin_loss(input, target, p=1, margin=1.0, weight=None, size_average=None, reduce=None, reduction="mean"):
    """Per row: the sum over the other classes of max(0, margin - input[target] + input[c])^p / C, times weight[target].

    input: (N, C) or (C,); target: int64 (N,) or (). Raises ValueError for p other than 1 and 2, RuntimeError for a target that
    is no class.
    """
    if size_average is not None or reduce is not None or reduction not in REDUCTIONS:
        reduction = reduction_of(reduction, size_average, reduce)
    if p not in (1, 2):
        raise ValueError("only p == 1 and p == 2 supported")
    if weight is not None:
        if weight.dim() != 1:
            raise ValueError("weight must be one-dimensional")
        if weight._node is not None and modes.local.grad:
            raise RuntimeError(
                "The function 'multi_margin_loss' is not differentiable with respect to argument 'weight'. This "
                "input cannot have requires_grad True."
            )
    return fused_multi_margin_loss(input, target, weight, int(p), margin, reduction)


# ---------------------------------------------------------------- any number of target classes a row


def _specialize_several(key: Any, input: Tensor, target: Tensor, reduction: str) -> Callable:
    layout = input._layout
    if layout.ndim > 2 or (layout.ndim and not layout.shape[-1]):
        raise RuntimeError(f"Expected non-empty vector or matrix with optional 0-dim batch size, but got: {list(layout.shape)}")
    if layout.shape != target._layout.shape:
        raise RuntimeError(f"inconsistent target size: {list(target._layout.shape)} for input of size: {list(layout.shape)}")
    _check_double_or_float("multilabel_margin_loss_forward_out_frame", layout)
    _check_scalar_type("Long", target._layout)

    def kernel(reduced: bool) -> int:
        return kernels.several_kernel(layout.dtype, reduced)

    launch = _plans[key] = _loss_plan((input, target), kernel, layout.shape[:-1], True, "", _several_work(layout), reduction)
    return launch


def _several_work(layout: Layout) -> int:
    """Comparisons, if a quarter of the classes are targets."""
    return layout.numel * (1 + _rows_of(layout)[1] // 4)


@operator(function=False, method=False, name="multilabel_margin_loss", differentiable=1, autocast=single)
def fused_multilabel_margin_loss(input: Tensor, target: Tensor, reduction):
    """(the loss, which classes are targets: 1 or 0) of scores (N, C) or (C,) and target classes of that shape."""
    key = (input._layout, target._layout, reduction)
    try:
        launch = _plans[key]
    except KeyError:
        launch = None
    if launch is None:
        launch = _specialize_several(key, input, target, reduction)
    try:
        return launch(input, target)
    except KernelCheck:
        raise RuntimeError("argument #2 'target' is out of range") from None


@fused_multilabel_margin_loss.vjp
def _(g, out1, input, target, reduction):
    return _several_gradient(g, input, target, out1, reduction), None


@operator(function=False, method=False, name="multilabel_margin_loss_backward")
def _several_gradient(g: Tensor, input: Tensor, target: Tensor, chosen: Tensor, reduction):
    """The gradient of the scores."""
    given = (g, input, target, chosen)
    key = ("gradient", reduction, *[x._layout for x in given])
    launch = _plans.get(key)
    if launch is None:
        dtype = input._layout.dtype
        launch = _plans[key] = _gradient_plan(
            given, lambda: kernels.several_gradient_kernel(dtype), "", _several_work(input._layout), reduction
        )
    try:
        return launch(*given)
    except KernelCheck:
        raise RuntimeError("argument #2 'target' is out of range") from None


@_several_gradient.vjp
def _(g):
    raise RuntimeError("derivative for aten::multilabel_margin_loss_backward is not implemented")


@explained
def multilabel_margin_loss(input, target, size_average=None, reduce=None, reduction="mean"):
    """Per row: the sum over target classes t and the others c of max(0, 1 - (input[t] - input[c])) / C; targets end at
    the first -1.

    input: (N, C) or (C,); target: int64 of that shape. Raises RuntimeError for a target that is neither a class nor -1.
    """
    if size_average is not None or reduce is not None or reduction not in REDUCTIONS:
        reduction = reduction_of(reduction, size_average, reduce)
    return fused_multilabel_margin_loss(input, target, reduction)[0]
