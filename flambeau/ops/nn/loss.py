"""Losses, element by element and by margins, with their reductions.

An element loss is a scalar body; its mean or sum is one pass over both tensors, its gradient one kernel, both derived
from the body. The others are written in operators. nll_loss and cross_entropy are in ops.nn.cross_entropy, margins between
classes in ops.nn.margin_loss, distances in ops.linalg.distance, ctc_loss in ops.nn.ctc_loss.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

from flambeau.base import geometry
from flambeau.base.dtype import bool_, get_default_dtype, promote_types
from flambeau.base.dtype import dtype as DType
from flambeau.base.layout import register_cache
from flambeau.base.warn import warn
from flambeau.core.autograd.node import one_step, refuse_gradient
from flambeau.core.modes.autocast import single
from flambeau.core.operator.annotations import Number
from flambeau.core.operator.define import composite, operator
from flambeau.core.operator.facets import described
from flambeau.core.operator.out_argument import convertible
from flambeau.core.operator.pointwise import IDENTITY, ZERO, Pointwise, call
from flambeau.core.operator.publishing import NAMESPACE, explained
from flambeau.core.operator.row_program import KEPT, Rows
from flambeau.core.operator.variants import pointwise
from flambeau.core.tensor.tensor import Tensor
from flambeau.ir import scalar as s
from flambeau.ir.loops import Loop, Row, folded
from flambeau.ir.scalar import cast, compute_dtype
from flambeau.ops.elementwise.activation import logsigmoid
from flambeau.ops.elementwise.arithmetic import NEGATES_BOOL, SUBTRACTS_BOOL, SUBTRACTS_BOOLS
from flambeau.ops.linalg.distance import pairwise_distance, raised
from flambeau.ops.nn.cross_entropy import REDUCTIONS, reduction_of
from flambeau.ops.reduction.extrema import aminmax
from flambeau.ops.reduction.sum import adding, wide


class ElementLoss:
    """A loss of two tensors of one shape, from its scalar body: elementwise, summed or averaged.

    body(x, y, *numbers); rule(g, x, y, *numbers) gives both gradients where the derived ones are not what PyTorch's
    conventions say. types, kernel, real_gradients: as Pointwise's.
    """

    def __init__(
        self,
        name: str,
        body: Callable,
        numbers: dict[str, float] | None = None,
        rule: Callable | None = None,
        node: str | None = None,
        total_node: Any = None,
        types: str = "bifc",
        kernel: str | None = None,
        real_gradients: str | None = None,
    ):
        self.numbers = tuple(numbers or {})
        title = node or "".join(part.capitalize() for part in name.split("_"))
        self.point = Pointwise(
            name, body, ["input", "target"], numbers, node=title, types=types, kernel=kernel, real_gradients=real_gradients
        )
        self.point.rule = rule
        self.rows = Rows(
            name,
            self._stages,
            lambda dtypes, dtype, mean: [(dtype, KEPT)],
            number_dtype=lambda dtypes: compute_dtype(promote_types(*dtypes)),
        )
        self.plans: dict[Any, Any] = register_cache({})

        @operator(
            function=False, method=False, node=total_node or title, name=name, real_gradients=real_gradients, autocast=single
        )
        def total(input: Tensor, target: Tensor, mean, numbers):
            key = (input._layout, target._layout, mean)
            launch = self.plans.get(key)
            if launch is None:
                dtype = promote_types(input._layout.dtype, target._layout.dtype)
                self.check_type(dtype)
                count = float(input._layout.numel)
                over = tuple(range(input._layout.ndim))
                launch = self.rows.launcher((input, target), over, (*numbers, count), (dtype, mean)), count
                self.plans[key] = launch
            return launch[0](None, input, target, *numbers, launch[1])

        @total.vjp
        def _(g, input, target, mean, numbers, need):
            wanted = (need["input"], need["target"])
            recipe = self.point.recipe((input, target), numbers, (), wanted)
            sources = (input, target, *numbers)
            if mean:
                g = g / input._layout.numel
            return tuple(self._gradient(part, g, sources, recipe.saves) for part in recipe.gradients)

        total.operator.point = self.point  # for those who need the losses of the elements
        self.total = total

    def check_type(self, dtype: DType) -> None:
        """NotImplementedError where the loss is not defined for the operands' common dtype."""
        if self.point.types == "f" and not dtype.is_floating_point:
            raise NotImplementedError(f"\"{self.point.kernel}\" not implemented for '{dtype.scalar_name}'")

    def _stages(self, elements: tuple, numbers: tuple, dtype: DType, mean: bool) -> tuple:
        common = compute_dtype(dtype)
        value = s.as_expr(self.point.body(*(cast(x, common) for x in elements), **dict(zip(self.numbers, numbers))))
        sum_dtype = wide(common)
        result = folded("loss", sum_dtype)
        if mean:
            result = result / cast(numbers[-1], sum_dtype)
        return Loop((adding("loss", cast(value, sum_dtype)),)), Row(((0, cast(result, common)),))

    @staticmethod
    def _gradient(part: Any, g: Tensor, sources: tuple, saves: tuple) -> Any:
        if part is None:
            return None
        if part is ZERO:
            return NAMESPACE["zeros_like"](sources[0])
        if part is IDENTITY:
            return g.expand(sources[0]._layout.shape)
        return call(part.operator, [g, *[sources[saves[k]] for k in part.arguments]])

    def __call__(self, input: Tensor, target: Tensor, reduction: str, numbers: tuple = ()) -> Tensor:
        """The loss of two tensors, broadcast to each other."""
        if reduction == "none":
            return call(self.point, [input, target], numbers)
        if input._layout.shape != target._layout.shape:
            shape = geometry.broadcast(input._layout.shape, target._layout.shape)
            input, target = input.expand(shape), target.expand(shape)
        return self.total(input, target, reduction == "mean", numbers)


def _reduced(x: Tensor, reduction: str) -> Tensor:
    return x.mean() if reduction == "mean" else x.sum() if reduction == "sum" else x


def _checked(input: Tensor, target: Tensor, size_average: Any, reduce: Any, reduction: str) -> str:
    """The reduction, after the warning about tensors that only fit by broadcasting."""
    if input._layout.shape != target._layout.shape:
        warn(
            f"Using a target size ({target.size()}) that is different to the input size ({input.size()}). This "
            "will likely lead to incorrect results due to broadcasting. Please ensure they have the same size."
        )
    if size_average is not None or reduce is not None or reduction not in REDUCTIONS:
        return reduction_of(reduction, size_average, reduce)
    return reduction


# ---------------------------------------------------------------- element losses


def _smooth_l1(x: Any, y: Any, beta: Any) -> Any:
    d = s.abs(x - y)
    return s.where(d < beta, 0.5 * d * d / beta, d - 0.5 * beta)


def _smooth_l1_rule(g: Any, input: Any, target: Any, beta: Any) -> tuple:
    d = input - target
    slope = g * s.where(s.abs(d) >= beta, s.sign(d), d / beta)  # which a NaN stays in, unlike in its sign
    return slope, -slope


def _huber(x: Any, y: Any, delta: Any) -> Any:
    d = s.abs(x - y)
    return s.where(d <= delta, 0.5 * d * d, delta * (d - 0.5 * delta))


def _huber_rule(g: Any, input: Any, target: Any, delta: Any) -> tuple:
    d = input - target
    slope = g * s.where(s.abs(d) > delta, delta * s.sign(d), d)
    return slope, -slope


def _l1_rule(g: Any, input: Any, target: Any) -> tuple:
    slope = g * s.sign(input - target)
    return slope, -slope


def _log_at_least(x: Any) -> Any:
    log = s.log(x)
    return s.where(log < -100, -100, log)


def _binary(x: Any, y: Any) -> Any:
    complement = s.log1p(-x)
    return (y - 1) * s.where(complement < -100, -100, complement) - y * _log_at_least(x)


def _binary_rule(g: Any, input: Any, target: Any) -> tuple:
    spread = (1 - input) * input
    return (
        g * (input - target) / s.where(spread < 1e-12, 1e-12, spread),
        g * (s.where(s.log1p(-input) < -100, -100, s.log1p(-input)) - _log_at_least(input)),
    )


def _logits(x: Any, y: Any) -> Any:
    return (1 - y) * x + s.log1p(s.exp(-s.abs(x))) + s.where(x < 0, -x, 0)


def _logits_rule(g: Any, input: Any, target: Any) -> tuple:
    return g * (s.sigmoid(input) - target), g * -input  # whose derivative, unlike a quotient's, is never inf / inf


def _soft_margin(x: Any, y: Any) -> Any:
    return s.log1p(s.exp(-y * x))


def _soft_margin_rule(g: Any, input: Any, target: Any) -> tuple:
    z = s.exp(-target * input)
    share = z / (1 + z)
    return g * -target * share, g * -input * share


MSE = ElementLoss("mse_loss", lambda input, target: (input - target) * (input - target), types="f", kernel="mse_cpu")
L1 = ElementLoss(
    "l1_loss",
    lambda input, target: s.abs(input - target),
    rule=_l1_rule,
    node="Abs",
    total_node=lambda arguments: "MeanBackward0" if arguments[2] else "SumBackward0",
)
SMOOTH_L1 = ElementLoss(
    "smooth_l1_loss",
    lambda input, target, beta: _smooth_l1(input, target, beta),
    {"beta": 1.0},
    _smooth_l1_rule,
    node="SmoothL1Loss",
    types="f",
    kernel="smooth_l1_cpu",
)
HUBER = ElementLoss(
    "huber_loss",
    lambda input, target, delta: _huber(input, target, delta),
    {"delta": 1.0},
    _huber_rule,
    types="f",
    kernel="huber_cpu",
)
BINARY = ElementLoss(
    "binary_cross_entropy",
    lambda input, target: _binary(input, target),
    rule=_binary_rule,
    types="f",
    kernel="binary_cross_entropy",
)
LOGITS = ElementLoss("binary_cross_entropy_with_logits", lambda input, target: _logits(input, target), rule=_logits_rule)
_SOFTPLUS_OF_NEGATIVE = Pointwise(
    "softplus_of_negative",
    lambda input: s.log1p(s.exp(-s.abs(input))) + s.where(input < 0, -input, 0),
    ["input"],
    node="LogSigmoid",
)
_SOFTPLUS_OF_NEGATIVE.rule = lambda g, input: -g * s.sigmoid(-input)
SOFT_MARGIN = ElementLoss(
    "soft_margin_loss",
    lambda input, target: _soft_margin(input, target),
    rule=_soft_margin_rule,
    real_gradients="soft_margin_loss",
)


def _check_logits(dtype: DType) -> None:
    if not dtype.is_floating_point:
        raise NotImplementedError(f"\"log_sigmoid_cpu\" not implemented for '{dtype.scalar_name}'")


def _complex_logits(input: Tensor, target: Tensor, weight: Tensor | None = None, pos_weight: Tensor | None = None) -> Tensor:
    """The elements of binary_cross_entropy_with_logits with complex targets, which no kernel of real logarithms takes."""
    positive = target * logsigmoid(input)
    loss = -((positive if pos_weight is None else positive * pos_weight) + (1 - target) * logsigmoid(-input))
    return loss if weight is None else loss * weight


def _check_written(dtype: DType, *operands: Tensor) -> None:
    """RuntimeError where a result of the operands' common dtype can't be written to a tensor of `dtype`."""
    convertible(functools.reduce(promote_types, [x._layout.dtype for x in operands]), dtype)


def _weighted(
    loss: ElementLoss, input: Tensor, target: Tensor, weight: Tensor | None, reduction: str, numbers: tuple = ()
) -> Tensor:
    if weight is None:
        return loss(input, target, reduction, numbers)
    return _reduced(loss(input, target, "none", numbers) * weight, reduction)


def _weighted_mean(
    loss: ElementLoss, input: Tensor, target: Tensor, weight: Tensor, reduction: str, numbers: tuple = ()
) -> Tensor:
    """With weights, where the mean divides by their sum."""
    if weight._layout.shape != input._layout.shape:
        raise ValueError("Inputs and weight must have the same size.")
    weighted = loss(input, target, "none", numbers) * weight
    return weighted.sum() / weight.sum() if reduction == "mean" else _reduced(weighted, reduction)


@described(asks="size")
@explained
def mse_loss(input, target, size_average=None, reduce=None, reduction="mean", weight=None):
    """(input - target) squared: per element ("none"), summed or averaged. Shapes broadcast, with a warning."""
    reduction = _checked(input, target, size_average, reduce, reduction)
    return MSE(input, target, reduction) if weight is None else _weighted_mean(MSE, input, target, weight, reduction)


@described(asks="size")
@explained
def l1_loss(input, target, size_average=None, reduce=None, reduction="mean", weight=None):
    """|input - target|: per element ("none"), summed or averaged. Shapes broadcast, with a warning."""
    reduction = _checked(input, target, size_average, reduce, reduction)
    if not (input._layout.dtype.is_floating_point and target._layout.dtype.is_floating_point):
        return _reduced((input - target).abs(), reduction)
    return L1(input, target, reduction) if weight is None else _weighted_mean(L1, input, target, weight, reduction)


@described(asks="size")
@explained
def smooth_l1_loss(input, target, size_average=None, reduce=None, reduction="mean", beta=1.0):
    """d^2 / (2 beta) where d = |input - target| < beta, else d - beta / 2. Raises RuntimeError for a negative beta."""
    reduction = _checked(input, target, size_average, reduce, reduction)
    if beta < 0:
        raise RuntimeError("smooth_l1_loss does not support negative values for beta.")
    return L1(input, target, reduction) if beta == 0 else SMOOTH_L1(input, target, reduction, (float(beta),))


@described(asks="size")
@explained
def huber_loss(input, target, reduction="mean", delta=1.0, weight=None):
    """d^2 / 2 where d = |input - target| <= delta, else delta (d - delta / 2). Raises RuntimeError unless delta is positive."""
    reduction = _checked(input, target, None, None, reduction)
    if delta <= 0:
        raise RuntimeError("huber_loss does not support non-positive values for delta.")
    numbers = (float(delta),)
    if input._layout.dtype is not target._layout.dtype:
        _check_written(input._layout.dtype, input, target)
        return huber_loss(input, target.to(input._layout.dtype), reduction, delta, weight)
    if weight is not None:
        return _weighted_mean(HUBER, input, target, weight, reduction, numbers)
    return HUBER(input, target, reduction, numbers)


def _reduction(size_average: Any, reduce: Any, reduction: str) -> str:
    if size_average is not None or reduce is not None or reduction not in REDUCTIONS:
        return reduction_of(reduction, size_average, reduce)
    return reduction


@described(asks="size")
@explained
@one_step("BinaryCrossEntropyBackward0")
def binary_cross_entropy(input, target, weight=None, size_average=None, reduce=None, reduction="mean"):
    """-(target log input + (1 - target) log(1 - input)) of probabilities; logarithms are at least -100.

    Raises ValueError unless the shapes are equal, RuntimeError for an input or a target outside [0, 1].
    """
    reduction = _reduction(size_average, reduce, reduction)
    if target.size() != input.size():
        raise ValueError(
            f"Using a target size ({target.size()}) that is different to the input size ({input.size()}) is "
            "deprecated. Please ensure they have the same size."
        )
    if target._layout.dtype is not input._layout.dtype:
        raise RuntimeError(f"Found dtype {target._layout.dtype.scalar_name} but expected {input._layout.dtype.scalar_name}")
    BINARY.check_type(input._layout.dtype)
    if input._layout.numel and input._layout.device.type == "cpu" and input._layout.flavor is None:
        for name, given in (("input", input), ("target", target)):
            low, high = aminmax(given.detach())
            if not (low.item() >= 0 and high.item() <= 1):
                raise RuntimeError(f"all elements of {name} should be between 0 and 1")
    if weight is not None:
        refuse_gradient("binary_cross_entropy", weight=weight)
    return _weighted(BINARY, input, target, weight, reduction)


@described(asks="size")
@explained
@one_step("BinaryCrossEntropyWithLogitsBackward0")
def binary_cross_entropy_with_logits(
    input, target, weight=None, size_average=None, reduce=None, reduction="mean", pos_weight=None
):
    """binary_cross_entropy of sigmoid(input), without its rounding. pos_weight multiplies the first term (broadcast).

    Raises ValueError unless the shapes are equal.
    """
    reduction = _reduction(size_average, reduce, reduction)
    if target.size() != input.size():
        raise ValueError(f"Target size ({target.size()}) must be the same as input size ({input.size()})")
    if input._layout.dtype is not target._layout.dtype or not input._layout.dtype.is_floating_point:
        _check_logits(input._layout.dtype)
        _check_written(target._layout.dtype, input, target)
        if target._layout.dtype.is_complex:
            return _reduced(_complex_logits(input, target, weight, pos_weight), reduction)
        input = input.to(target._layout.dtype)
    if weight is not None or pos_weight is not None:
        refuse_gradient("binary_cross_entropy_with_logits", weight=weight, pos_weight=pos_weight)
    if pos_weight is None:
        return _weighted(LOGITS, input, target, weight, reduction)
    log_weight = (pos_weight - 1) * target + 1
    loss = (1 - target) * input + log_weight * call(_SOFTPLUS_OF_NEGATIVE, [input])
    return _reduced(loss if weight is None else loss * weight, reduction)


@described(autocast=single)
@explained
def kl_div(input, target, size_average=None, reduce=None, reduction="mean", log_target=False):
    """target (log target - input), of log-probabilities `input`; 0 where target is 0. reduction "batchmean" divides by
    input.size(0).
    """
    if size_average is not None or reduce is not None:
        reduction = reduction_of(reduction, size_average, reduce)
    elif reduction == "mean":
        warn(
            "reduction: 'mean' divides the total loss by both the batch size and the support size.'batchmean' divides "
            "only by the batch size, and aligns with the KL div math definition.'mean' will be changed to "
            "behave the same as "
            "'batchmean' in the next major release."
        )
    elif reduction not in ("none", "sum", "batchmean"):
        raise ValueError(f"{reduction} is not a valid value for reduction")
    for dtype in (input._layout.dtype, target._layout.dtype):
        if not dtype.is_floating_point:
            raise RuntimeError(f"kl_div: {'Complex' if dtype.is_complex else 'Integral'} inputs not supported.")
    if log_target:
        loss = target.exp() * (target - input)
    else:
        loss = NAMESPACE["xlogy"](target, target) - target * input
    if reduction == "batchmean":
        return loss.sum() / input.size(0) if input.dim() else loss.sum()
    return _reduced(loss, reduction)


@described(autocast=single)
@explained
def poisson_nll_loss(input, target, log_input=True, full=False, size_average=None, eps=1e-8, reduce=None, reduction="mean"):
    """exp(input) - target input (log_input), or input - target log(input + eps); full: with Stirling's term where target > 1."""
    if size_average is not None or reduce is not None:
        reduction = reduction_of(reduction, size_average, reduce)
    if reduction not in REDUCTIONS:
        raise ValueError(f"{reduction} is not a valid value for reduction")
    if not isinstance(target, Tensor):
        raise TypeError("poisson_nll_loss(): argument 'target' must be Tensor")
    if input._layout.dtype is bool_ and (not log_input or target._layout.dtype is bool_):
        raise RuntimeError(SUBTRACTS_BOOL)
    return _reduced(_poisson(input, target, eps, log_input=bool(log_input), full=bool(full)), reduction)


@pointwise(
    kind="float", method=False, function=False, inplace=False, node=lambda operands, statics: "Add" if statics[1] else "Sub"
)
def _poisson(input: Tensor, target: Tensor, eps: Number = 1e-8, log_input=True, full=False):
    loss = s.exp(input) - target * input if log_input else input - target * s.log(input + eps)
    if not full:
        return loss
    stirling = target * s.log(target) - target + 0.5 * s.log(2 * math.pi * target)
    return loss + s.where(target <= 1, 0, stirling)


@described(asks="size")
@explained
def gaussian_nll_loss(input, target, var, full=False, eps=1e-6, reduction="mean"):
    """(log var + (input - target)^2 / var) / 2 with var at least eps; full: with the constant log(2 pi) / 2.

    var: of input's shape, or with the last dimension of size 1 or missing, or a number. Raises ValueError for negative variances.
    """
    if isinstance(var, (int, float)) and not isinstance(var, bool):
        if var < 0:
            raise ValueError("var has negative entry/entries")
        var = var * NAMESPACE["ones_like"](input)
    elif (var < 0).any().item():
        raise ValueError("var has negative entry/entries")
    if var.size() != input.size():
        if input.size()[:-1] == var.size():
            var = var.unsqueeze(-1)
        elif input.dim() != var.dim() or not all(b in (a, 1) for a, b in zip(input.size(), var.size())):
            raise ValueError("var is of incorrect size")
    if reduction not in REDUCTIONS:
        raise ValueError(reduction + " is not valid")
    if not var._layout.dtype.is_floating_point:
        raise RuntimeError(f"result type Float can't be cast to the desired output type {var._layout.dtype.c_name}")
    var = raised(var, float(eps))
    if full:
        return _reduced(_full_gaussian(input, target, var, 0.5 * math.log(2 * math.pi)), reduction)
    return _reduced(_gaussian(input, target, var), reduction)


@pointwise(kind="float", method=False, function=False, inplace=False, node="Mul")
def _gaussian(input: Tensor, target: Tensor, var: Tensor, constant: Number = 0.0):
    return 0.5 * (s.log(var) + s.square(input - target) / var) + constant


_full_gaussian = one_step("AddBackward0")(_gaussian)


# ---------------------------------------------------------------- margins


@described(autocast=single)
@explained
def hinge_embedding_loss(input, target, margin=1.0, size_average=None, reduce=None, reduction="mean"):
    """input where target is 1, max(0, margin - input) where it is -1 (both where it is something else)."""
    reduction = _reduction(size_average, reduce, reduction)
    if not (input._layout.dtype.is_floating_point or input._layout.dtype.is_complex):
        margin = int(margin)
    if input._layout.dtype is bool_:
        raise RuntimeError(SUBTRACTS_BOOLS)
    if input._layout.dtype.is_complex:
        raise NotImplementedError("clamp is not supported for complex types")
    return _reduced(_hinge(input, target, margin), reduction)


@pointwise(method=False, function=False, inplace=False, undecided=("target",), node="Add")
def _hinge(input: Tensor, target: Tensor, margin: Number = 1.0):
    return s.where(target == -1, 0, input) + s.where(target == 1, 0, s.clamp(margin - input, 0))


@described(autocast=single, asks="dim")
@explained
def margin_ranking_loss(input1, input2, target, margin=0, size_average=None, reduce=None, reduction="mean"):
    """max(0, -target (input1 - input2) + margin). Raises RuntimeError unless all have the same number of dimensions."""
    reduction = _reduction(size_average, reduce, reduction)
    if not input1.dim() == input2.dim() == target.dim():
        raise RuntimeError(
            "margin_ranking_loss : All input tensors should have same dimension but got sizes: input1: "
            f"{input1.size()}, input2: {input2.size()}, target: {target.size()} "
        )
    return broadcast_margin_ranking_loss(input1, input2, target, margin, reduction)


@composite(method=False, function=False, autocast=single)
def broadcast_margin_ranking_loss(input1, input2, target, margin=0.0, reduction="mean"):
    """margin_ranking_loss of tensors that broadcast, as torch.margin_ranking_loss takes them."""
    return _reduced((-target * (input1 - input2) + float(margin)).clamp_min(0), reduction)


@described(autocast=single)
@explained
def cosine_embedding_loss(input1, input2, target, margin=0, size_average=None, reduce=None, reduction="mean"):
    """1 - cos(input1, input2) where target is 1, max(0, cos - margin) where it is -1. inputs: (N, D) or (D,); target:
    (N,) or ().
    """
    reduction = _reduction(size_average, reduce, reduction)
    if target.dim() > 1:
        raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
    if not target.dim() + 1 == input1.dim() == input2.dim():
        raise RuntimeError(
            f"{target.dim()}D target tensor expects {target.dim() + 1}D input tensors, but found inputs with "
            f"sizes {list(input1.size())} and {list(input2.size())}."
        )
    axis = target.dim()
    eps = 1e-12
    sums = [(a * b).sum(axis) for a, b in ((input1, input2), (input1, input1), (input2, input2))]
    return _reduced(_cosine_loss(*sums, target, margin, eps), reduction)


@pointwise(kind="float", method=False, function=False, inplace=False, undecided=("target",), node="Add")
def _cosine_loss(product: Tensor, square: Tensor, other_square: Tensor, target: Tensor, margin: Number = 0.0, eps: Number = 0.0):
    cosine = product / s.sqrt((square + eps) * (other_square + eps))
    return s.where(target == 1, 1 - cosine, 0) + s.where(target == -1, s.clamp(cosine - margin, 0), 0)


@explained
def soft_margin_loss(input, target, size_average=None, reduce=None, reduction="mean"):
    """log(1 + exp(-target input)), per element, summed or averaged."""
    reduction, shape = _reduction(size_average, reduce, reduction), input._layout.shape
    if shape != target._layout.shape and geometry.broadcast(shape, target._layout.shape) != shape:
        broadcast = list(geometry.broadcast(shape, target._layout.shape))
        raise RuntimeError(f"output with shape {list(shape)} doesn't match the broadcast shape {broadcast}")
    if input._layout.dtype is not target._layout.dtype:
        _check_written(input._layout.dtype, input, target)
    dtype = input._layout.dtype
    if not (dtype.is_floating_point or dtype.is_complex):
        if dtype is bool_:
            raise RuntimeError(NEGATES_BOOL)
        convertible(get_default_dtype(), dtype)  # of logarithms that are written to a tensor of the input's dtype
    refuse_gradient("soft_margin_loss", target=target)
    return SOFT_MARGIN(input, target, reduction)


@one_step("DivBackward0")
def _class_mean(loss: Tensor, dim: int, classes: int) -> Tensor:
    """Over the input's last dimension, which a target of another shape may have made another one, or longer."""
    return loss.mean(dim) if loss._layout.shape[dim] == classes else loss.sum(dim) / classes


@explained
def multilabel_soft_margin_loss(input, target, weight=None, size_average=None, reduce=None, reduction="mean"):
    """binary_cross_entropy_with_logits averaged over the classes (the input's last dimension), then reduced."""
    reduction = _reduction(size_average, reduce, reduction)
    _check_logits(input.dtype)
    if target.dtype.is_complex:
        loss = _complex_logits(input, target)
    else:
        loss = LOGITS(input, target.to(input.dtype) if target.dtype is bool_ else target, "none")
    if not input.dim():
        raise IndexError("Dimension specified as -1 but tensor has no dimensions")
    return _reduced(_class_mean(loss if weight is None else loss * weight, input.dim() - 1, input.shape[-1]), reduction)


@described(autocast=single)
@explained
def triplet_margin_loss(
    anchor, positive, negative, margin=1.0, p=2, eps=1e-6, swap=False, size_average=None, reduce=None, reduction="mean"
):
    """max(0, d(anchor, positive) - d(anchor, negative) + margin) with p-norm distances; swap: the nearer of two
    negative distances.
    """
    return _triplet(
        anchor,
        positive,
        negative,
        lambda a, b: pairwise_distance(a, b, p, eps),
        margin,
        swap,
        _reduction(size_average, reduce, reduction),
    )


def _triplet(anchor, positive, negative, distance, margin, swap, reduction):
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    if not anchor.dim() == positive.dim() == negative.dim():
        raise RuntimeError(
            "The anchor, positive, and negative tensors are expected to have the same number of "
            "dimensions, but got: anchor "
            f"{anchor.dim()}D, positive {positive.dim()}D, and negative {negative.dim()}D inputs"
        )
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = NAMESPACE["minimum"](far, distance(positive, negative))
    return _reduced((near - far + margin).clamp_min(0), reduction)


def triplet_margin_with_distance_loss(
    anchor, positive, negative, *, distance_function=None, margin=1.0, swap=False, reduction="mean"
):
    """triplet_margin_loss with a distance of one's own (a function of two tensors; pairwise_distance by default)."""
    if reduction not in REDUCTIONS:
        raise ValueError(f"{reduction} is not a valid value for reduction")
    return _triplet(anchor, positive, negative, distance_function or pairwise_distance, margin, swap, reduction)
