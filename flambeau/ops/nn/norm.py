"""Normalisation: layer, RMS and group norm, local response normalisation, and the kernels that batch norm shares.

Each is one fused kernel over rows that computes the statistics and the result while a row is in cache, and one for the
gradient of the input; gradients of weight and bias are column reductions. When gradients of gradients are wanted, the
rules run on ordinary operators instead. Stands on core.operator.row_program; used by ops.nn.batch_norm and nn.functional.
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Sequence
from typing import Any

from flambeau.base import dtype as dtypes
from flambeau.base import memory_order
from flambeau.base.dtype import dtype as DType
from flambeau.base.dtype import float32, float64
from flambeau.base.layout import Layout, Size, register_cache
from flambeau.base.naming import named
from flambeau.core.modes import modes
from flambeau.core.modes.autocast import single
from flambeau.core.operator.arguments import refused
from flambeau.core.operator.define import composite, operator
from flambeau.core.operator.facets import described
from flambeau.core.operator.publishing import NAMESPACE
from flambeau.core.operator.row_program import FULL, KEEPDIM, KEPT, Rows
from flambeau.core.tensor.tensor import Tensor, empty_layout, tensor_from, within_memory
from flambeau.ir import scalar as s
from flambeau.ir.loops import Loop, Row, folded
from flambeau.ir.scalar import cast, compute_dtype, constant
from flambeau.ops.nn.average_pool import kind_of_means
from flambeau.ops.reduction.sum import adding, wide

# ---------------------------------------------------------------- kernels


ROUNDED = 2.0**-49  # a variance that is such a part of the mean square, or less, is that of equal numbers, rounded


def _normalize_stages(elements: tuple, numbers: tuple, weight: bool, bias: bool, running: bool, root_mean: bool) -> tuple:
    """out, mean, 1 / deviation (and running mean, running variance) of rows; root_mean: no mean is subtracted (RMS norm)."""
    rest = list(elements[1:])
    x = elements[0]
    total = wide(x.dtype)
    count, eps = numbers[0], numbers[1]
    stages: list[Any] = []
    mean, delta, own = None, x, cast(x, total)
    count = cast(count, total)
    if not root_mean:
        mean = cast(folded("sum", total) / count, x.dtype)
        delta = x - mean
    if root_mean or total is x.dtype:
        if not root_mean:
            stages.append(Loop((adding("sum", own),)))
        stages.append(Loop((adding("m2", cast(delta * delta, total)),)))
        variance = folded("m2", total) / count
    else:  # squares of narrower numbers are exact in `total`: one pass is enough
        stages.append(Loop((adding("sum", own), adding("square", own * own))))
        square, center = folded("square", total) / count, folded("sum", total) / count
        variance = square - center * center
        variance = s.where(variance < square * ROUNDED, 0, variance)
    scale = cast(1 / s.sqrt(variance + cast(eps, total)), x.dtype)
    out = delta * scale
    if weight:
        out = out * cast(rest.pop(0), x.dtype)
    if bias:
        out = out + cast(rest.pop(0), x.dtype)
    stages.append(Loop((), ((0, out),)))
    stores = [(1, scale)] if mean is None else [(1, mean), (2, scale)]
    if running:
        before_mean, before_variance = rest
        momentum, unbias = numbers[2], numbers[3]
        stores.append((3, before_mean + cast(momentum, before_mean.dtype) * (cast(mean, before_mean.dtype) - before_mean)))
        fresh = cast(variance * cast(unbias, total), before_variance.dtype)
        stores.append((4, before_variance + cast(momentum, before_variance.dtype) * (fresh - before_variance)))
    stages.append(Row(tuple(stores)))
    return tuple(stages)


def _normalize_outputs(dtypes: Sequence[DType], weight: bool, bias: bool, running: bool, root_mean: bool) -> list:
    saved = compute_dtype(dtypes[0])
    outputs = [(dtypes[0], FULL), *[(saved, KEEPDIM)] * (1 if root_mean else 2)]
    if running:
        outputs += [(dtypes[-2], KEPT), (dtypes[-1], KEPT)]
    return outputs


# Running statistics are all that is given for a result. That they move must not make another call's graph stale, whose
# gradient in training doesn't read them: a network is used on several inputs before the backward pass.
NORMALIZE, NORMALIZE_IMAGES = [
    Rows("normalize", _normalize_stages, _normalize_outputs, number_dtype=lambda dtypes: float64, format=order, counted=False)
    for order in (None, memory_order.format_strides)
]


def _gradient_stages(elements: tuple, numbers: tuple, weight: bool, sums: bool, root_mean: bool, frozen: bool) -> tuple:
    """The gradient of the input; with `sums` also those of weight and bias, where they run over the same dimensions."""
    rest = list(elements)
    x, g = rest.pop(0), rest.pop(0)
    g = cast(g, x.dtype)
    mean = None if root_mean else cast(rest.pop(0), x.dtype)
    scale = cast(rest.pop(0), x.dtype)
    total = wide(x.dtype) if sums else x.dtype  # sums of many numbers are results only then
    normal = (x if mean is None else x - mean) * scale
    factor = cast(rest.pop(0), x.dtype) if weight else None
    count = cast(numbers[0], total)
    if sums:
        folds = (adding("g", cast(g, total)), adding("gx", cast(g * normal, total)))
        part, parallel = folded("g", total), folded("gx", total)
        if weight:
            part, parallel = part * cast(factor, total), parallel * cast(factor, total)
    else:
        scaled = g if factor is None else g * factor
        folds = (adding("gx", cast(scaled * normal, total)),)
        parallel = folded("gx", total)
        if not root_mean:
            folds = (adding("g", cast(scaled, total)), *folds)
            part = folded("g", total)
    scaled = g if factor is None else g * factor
    if frozen:
        inner = scaled
    else:
        inner = scaled - normal * cast(parallel / count, x.dtype)
        if not root_mean:
            inner = inner - cast(part / count, x.dtype)
    stages: list[Any] = [Loop(folds), Loop((), ((0, inner * scale),))]
    if sums:
        stages.append(Row(((1, cast(folded("gx", total), x.dtype)), (2, cast(folded("g", total), x.dtype)))))
    return tuple(stages)


GRADIENT, GRADIENT_IMAGES = [
    Rows(
        "normalize_backward",
        _gradient_stages,
        lambda dtypes, weight, sums, root_mean, frozen: [
            (dtypes[0], FULL),
            *([(compute_dtype(dtypes[0]), KEPT)] * 2 if sums else []),
        ],
        number_dtype=lambda dtypes: float64,
        format=order,
    )
    for order in (None, memory_order.suggested_strides)
]


def _affine_stages(elements: tuple, numbers: tuple, root_mean: bool) -> tuple:
    """Gradients of weight and bias over the dimensions that they are broadcast along."""
    x, g = elements[0], cast(elements[1], elements[0].dtype)
    mean = None if root_mean else cast(elements[2], x.dtype)
    normal = (x if mean is None else x - mean) * cast(elements[-1], x.dtype)
    folds = [adding("gx", g * normal)]  # of many rows, chunk by chunk
    stores = [(0, folded("gx", x.dtype))]
    if not root_mean:
        folds.append(adding("g", g))
        stores.append((1, folded("g", x.dtype)))
    return Loop(tuple(folds)), Row(tuple(stores))


_AFFINE = Rows(
    "normalize_affine_backward",
    _affine_stages,
    lambda dtypes, root_mean: [(compute_dtype(dtypes[0]), KEPT)] * (1 if root_mean else 2),
)


def reshaped(x: Tensor, layout: Layout) -> Tensor:
    """The elements of a tensor in another layout over the same memory, without a graph."""
    return tensor_from(x._storage, x._offset, layout)


def column(vector: Tensor | None, after: int) -> Tensor | None:
    """A vector (C,) as (C, 1, ..., 1) with `after` dimensions of size 1, without a graph."""
    if vector is None or not after:
        return vector
    layout = vector._layout
    ones = (1,) * after
    return reshaped(vector, Layout.of((*layout.shape, *ones), (*layout.strides, *ones), layout.dtype, layout.device))


def check_floating(kernel: str, x: Tensor) -> None:
    if not x._layout.dtype.is_floating_point:
        raise NotImplementedError(f"\"{kernel}\" not implemented for '{x._layout.dtype.scalar_name}'")


def check_parameters(x: Tensor, *parameters: Tensor | None) -> None:
    """RuntimeError unless the parameters have the input's dtype, or are all float32 beside an input of half the precision."""
    dtype = x._layout.dtype
    if not x._layout.numel:
        return
    for p in parameters:
        if p is not None and p._layout.dtype is not dtype:
            break
    else:
        return
    given = [p._layout.dtype for p in parameters if p is not None]
    if given[0] is dtype:
        other = next(p for p in given if p is not dtype)
        raise RuntimeError(f"expected scalar type {dtype.scalar_name} but found {other.scalar_name}")
    if any(p is not float32 for p in given):
        raise RuntimeError("mixed dtype (CPU): expect parameter to have scalar type of Float")
    if dtype.itemsize != 2:
        raise RuntimeError("mixed dtype (CPU): all inputs must share same datatype.")


# ---------------------------------------------------------------- layer norm


_layer_plans: dict[Any, Any] = register_cache({})


def _check_normalized_shape(input: Tensor, shape: tuple, weight: Tensor | None, bias: Tensor | None, star: str = "[*, ") -> None:
    if not shape:
        raise RuntimeError(
            "Expected normalized_shape to be at least 1-dimensional, i.e., containing at least one element, "
            "but got normalized_shape = []"
        )
    for name, p in (("weight", weight), ("bias", bias)):
        if p is not None and tuple(p._layout.shape) != shape:
            raise RuntimeError(
                f"Expected {name} to be of same shape as normalized_shape, but got {name} of shape "
                f"{list(p._layout.shape)} and normalized_shape = {list(shape)}"
            )
    own = tuple(input._layout.shape)
    if len(own) < len(shape) or own[len(own) - len(shape) :] != shape:
        raise RuntimeError(
            f"Given normalized_shape={list(shape)}, expected input with shape {star}"
            f"{', '.join(map(str, shape))}], but got input of size{list(own)}"
        )


def _specialize_layer_norm(input: Tensor, shape: Any, weight: Tensor | None, bias: Tensor | None) -> Any:
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    _check_normalized_shape(input, shape, weight, bias)
    check_floating("LayerNormKernelImpl", input)
    check_parameters(input, weight, bias)
    layout = input._layout
    dims = tuple(range(layout.ndim - len(shape), layout.ndim))
    count = float(math.prod(shape))
    given = [p for p in (weight, bias) if p is not None]
    launch = NORMALIZE.launcher((input, *given), dims, (count, 1e-5), (weight is not None, bias is not None, False, False))
    return launch, count


@operator(method=False, differentiable=1, underneath="layer_norm")
def native_layer_norm(input: Tensor, normalized_shape, weight: Tensor | None, bias: Tensor | None, eps):
    """(layer norm, mean, 1 / standard deviation) over the last dimensions; the statistics keep those with size 1."""
    key = (input._layout, normalized_shape, None if weight is None else weight._layout, None if bias is None else bias._layout)
    try:
        launch, count = _layer_plans[key]
    except (KeyError, TypeError):
        launch = None
    if launch is None:
        launch, count = made = _specialize_layer_norm(input, normalized_shape, weight, bias)
        if normalized_shape.__class__ in (tuple, Size):
            _layer_plans[key] = made
    if weight is None:
        return launch(None, None, None, input, count, eps) if bias is None else launch(None, None, None, input, bias, count, eps)
    if bias is None:
        return launch(None, None, None, input, weight, count, eps)
    return launch(None, None, None, input, weight, bias, count, eps)


@native_layer_norm.vjp
def _(g, out1, out2, input, normalized_shape, weight, eps, need):
    size = 1 if isinstance(normalized_shape, int) else len(normalized_shape)
    ndim = input._layout.ndim
    over, along = tuple(range(ndim - size, ndim)), tuple(range(ndim - size))
    if modes.local.grad or g._layout.flavor is not None:
        return gradients_by_operators(g, input, over, along, weight, eps, need)
    mean, scale = out1, out2
    dx = dw = db = None
    if need["input"]:
        factor = () if weight is None else (weight,)
        dx = GRADIENT(
            (input, g, mean, scale, *factor), over, (float(values_in(input, over)),), (weight is not None, False, False, False)
        )
    if need["weight"] or need["bias"]:
        dw, db = _AFFINE((input, g, mean, scale), along, (), (False,))
    return dx, dw if need["weight"] else None, db if need["bias"] else None


def values_in(x: Tensor, dims: Sequence[int]) -> int:
    """The number of elements over which each statistic is taken."""
    return math.prod([x._layout.shape[d] for d in dims])


def gradients_by_operators(g, input, over, along, weight, eps, need, root_mean=False) -> tuple:
    """The gradients of a norm over `over` with affine parameters broadcast along `along`, in differentiable operators."""
    mean = None if root_mean else input.mean(over, True)
    delta = input if mean is None else input - mean
    scale = ((delta * delta).mean(over, True) + eps).rsqrt()
    normal = delta * scale
    dx = dw = db = None
    if need["input"]:
        scaled = g if weight is None else g * weight
        dx = scaled - normal * (scaled * normal).mean(over, True)
        if mean is not None:
            dx = dx - scaled.mean(over, True)
        dx = dx * scale
    if need["weight"]:
        dw = (g * normal).sum(along, True) if along else g * normal
    if need.get("bias"):
        db = g.sum(along, True) if along else g
    return dx, dw, db


def layer_norm(input, normalized_shape, weight=None, bias=None, eps=1e-5):
    """Normalise over the last dimensions (those of `normalized_shape`) to mean 0 and variance 1, then scale and shift.

    weight, bias: of shape `normalized_shape`, or None. Returns a tensor of the shape and dtype of input.
    Raises RuntimeError if the shapes don't fit.
    """
    if normalized_shape.__class__ is int:
        raise refused("layer_norm", "normalized_shape", "tuple of ints", normalized_shape, 2)
    if normalized_shape.__class__ is not tuple:
        normalized_shape = tuple(normalized_shape)
    return native_layer_norm(input, normalized_shape, weight, bias, eps)[0]


# ---------------------------------------------------------------- RMS norm


def _rms_node(arguments: Sequence[Any]) -> str:
    return "ToCopyBackward0" if arguments[0]._layout.dtype.itemsize < 4 else "MulBackward0"


@operator(function=False, method=False, node=_rms_node, differentiable=1)
def fused_rms_norm(input: Tensor, shape, weight: Tensor | None, eps):
    """(RMS norm, 1 / root mean square) over the last dimensions."""
    layout = input._layout
    over = tuple(range(layout.ndim - len(shape), layout.ndim))
    given = () if weight is None else (weight,)
    return NORMALIZE_IMAGES((input, *given), over, (float(math.prod(shape)), eps), (weight is not None, False, False, True))


@fused_rms_norm.vjp
def _(g, out1, input, shape, weight, eps, need):
    ndim = input._layout.ndim
    over, along = tuple(range(ndim - len(shape), ndim)), tuple(range(ndim - len(shape)))
    if modes.local.grad or g._layout.flavor is not None:
        return gradients_by_operators(g, input, over, along, weight, eps, need, root_mean=True)[:2]
    factor = () if weight is None else (weight,)
    dx = (
        GRADIENT_IMAGES((input, g, out1, *factor), over, (float(math.prod(shape)),), (weight is not None, False, True, False))
        if need["input"]
        else None
    )
    return dx, _AFFINE((input, g, out1), along, (), (True,)) if need["weight"] else None


@composite(method=False)
def rms_norm(input: Tensor, normalized_shape, weight: Tensor | None = None, eps=None) -> Tensor:
    """input / sqrt(mean of its squares over the last dimensions + eps), times weight; eps None: that of the dtype.

    weight: of shape `normalized_shape`, or None. Raises RuntimeError if the shapes don't fit.
    """
    if isinstance(normalized_shape, int):
        raise refused("rms_norm", "normalized_shape", "tuple of ints", normalized_shape, 2)
    shape = tuple(normalized_shape)
    _check_normalized_shape(input, shape, weight, None, star="[*")
    dtype = input._layout.dtype
    if not (dtype.is_complex or dtype.is_floating_point):
        check_floating("rms_norm", input)
    if eps is None:
        eps = dtypes.finfo(compute_dtype(dtype)).eps
    if dtype.is_complex:
        along = tuple(range(-len(shape), 0))
        made = input * (input * input).mean(along, True).add(float(eps)).rsqrt()
        return made if weight is None else made * weight
    out = fused_rms_norm(input, shape, weight, float(eps))[0]
    if weight is not None and weight._layout.dtype is not dtype:
        return out.to(dtypes.promote_types(weight._layout.dtype, dtype))
    return out


# ---------------------------------------------------------------- group norm


def _grouped(input: Tensor, groups: int) -> tuple[Tensor, int]:
    """(contiguous input as (N, groups, channels of a group, elements), channels), without a graph."""
    if not input._layout.is_contiguous:
        input = input.contiguous()
    layout = input._layout
    n, c = layout.shape[:2]
    shape = (n, groups, c // groups, math.prod(layout.shape[2:]))
    return reshaped(input, Layout.contiguous(shape, layout.dtype, layout.device)), c


def _by_group(vector: Tensor | None, groups: int) -> Tensor | None:
    """A vector (C,) as (groups, channels of a group, 1), without a graph."""
    if vector is None:
        return None
    layout = vector._layout
    per, step = layout.shape[0] // groups, layout.strides[0]
    return reshaped(vector, Layout.of((groups, per, 1), (per * step, step, 1), layout.dtype, layout.device))


@operator(function=False, method=False, node="NativeGroupNorm", name="native_group_norm", differentiable=1)
def fused_group_norm(input: Tensor, weight: Tensor | None, bias: Tensor | None, groups, eps):
    """(group norm, mean, 1 / standard deviation); the statistics are (N, groups)."""
    key = (input._layout, None if weight is None else weight._layout, None if bias is None else bias._layout, groups)
    known = _group_plans.get(key)
    if known is not None:
        launch, count, layouts = known
        given = [p for p in (weight, bias) if p is not None]
        results = launch(None, None, None, input, *given, count, float(eps))
        return tuple([tensor_from(x._storage, x._offset, layout) for x, layout in zip(results, layouts)])
    check_floating("GroupNormKernelImpl", input)
    check_parameters(input, weight, bias)
    x, _ = _grouped(input, groups)
    given = [_by_group(p, groups) for p in (weight, bias) if p is not None]
    numbers = (float(values_in(x, (2, 3))), float(eps))
    statics = (weight is not None, bias is not None, False, False)
    out, mean, scale = NORMALIZE((x, *given), (2, 3), numbers, statics)
    flat = Layout.contiguous(x._layout.shape[:2], mean._layout.dtype, x._layout.device)
    made = reshaped(out, Layout.contiguous(input._layout.shape, out._layout.dtype, out._layout.device))
    strides = memory_order.suggested_strides(input._layout.shape, input._layout.strides)
    if strides != made._layout.strides:
        made = empty_layout(Layout.of(made._layout.shape, strides, made._layout.dtype, made._layout.device)).copy_(made)
    elif input._layout.is_contiguous and all(y._layout.flavor is None for y in (input, *given)):
        _group_plans[key] = (NORMALIZE.launcher((x, *given), (2, 3), numbers, statics), numbers[0], (made._layout, flat, flat))
    return made, reshaped(mean, flat), reshaped(scale, flat)


_group_plans: dict[Any, tuple] = register_cache({})


@fused_group_norm.vjp
def _(g, out1, out2, input, weight, groups, eps, need):
    if modes.local.grad or g._layout.flavor is not None:
        n, c, *spatial = input._layout.shape
        split = (n, groups, c // groups, math.prod(spatial))
        wide_weight = None if weight is None else weight.reshape(groups, -1, 1)
        dx, dw, db = gradients_by_operators(g.reshape(split), input.reshape(split), (2, 3), (0, 3), wide_weight, eps, need)
        return (
            None if dx is None else dx.reshape(input._layout.shape),
            None if dw is None else dw.reshape(-1),
            None if db is None else db.reshape(-1),
        )
    (x, c), (g, _) = _grouped(input, groups), _grouped(g, groups)
    shape, own, device = x._layout.shape, out1._layout.dtype, x._layout.device
    statistic = Layout.contiguous((shape[0], groups, 1, 1), own, device)
    mean, scale = reshaped(out1, statistic), reshaped(out2, statistic)
    g_sums, gx_sums = _CHANNEL_SUMS((x, g, mean, scale), (3,))  # (N, groups, channels of a group)
    vector = Layout.contiguous((c,), own, device)
    factor = () if weight is None else (reshaped(weight, _rows_of_groups(weight, groups)),)
    dx = dw = db = None
    if need["input"]:
        centers = _GROUP_MEANS((g_sums, gx_sums, *factor), (2,), (float(values_in(x, (2, 3))),), (own, weight is not None))
        centers = [reshaped(y, statistic) for y in centers]
        factor = () if weight is None else (_by_group(weight, groups),)
        dx = _GROUP_GRADIENT((x, g, mean, scale, *centers, *factor), (), (), (weight is not None,))
        dx = reshaped(dx, Layout.contiguous(input._layout.shape, dx._layout.dtype, device))
    if need["weight"] or need["bias"]:
        dw, db = (reshaped(d, vector) for d in _BATCH_SUMS((gx_sums, g_sums), (0,), (), (own,)))
    return dx, dw if need["weight"] else None, db if need["bias"] else None


def _rows_of_groups(weight: Tensor, groups: int) -> Layout:
    """A vector (C,) as (groups, channels of a group)."""
    layout = weight._layout
    per, step = layout.shape[0] // groups, layout.strides[0]
    return Layout.of((groups, per), (per * step, step), layout.dtype, layout.device)


def _channel_sum_stages(elements: tuple, numbers: tuple) -> tuple:
    """The sums of g, and of g times what was normalised, over a channel of a sample."""
    x, g, mean, scale = elements
    total = wide(x.dtype)
    g = cast(g, x.dtype)
    normal = (x - cast(mean, x.dtype)) * cast(scale, x.dtype)
    return (
        Loop((adding("g", cast(g, total)), adding("gx", cast(g * normal, total)))),
        Row(((0, folded("g", total)), (1, folded("gx", total)))),
    )


def _group_mean_stages(elements: tuple, numbers: tuple, dtype: DType, weight: bool) -> tuple:
    """The means of g and of g times what was normalised over a group, channels scaled by their weights."""
    factor = cast(elements[2], elements[0].dtype) if weight else constant(1, elements[0].dtype)
    names = ("g", "gx")
    total = elements[0].dtype
    return (
        Loop(tuple(adding(name, x * factor) for name, x in zip(names, elements))),
        Row(tuple((i, cast(folded(name, total) / cast(numbers[0], total), dtype)) for i, name in enumerate(names))),
    )


def _group_gradient_stages(elements: tuple, numbers: tuple, weight: bool) -> tuple:
    x, g, mean, scale, g_mean, gx_mean = [cast(e, elements[0].dtype) for e in elements[:6]]
    normal = (x - mean) * scale
    scaled = g * cast(elements[6], x.dtype) if weight else g
    return (Loop((), ((0, (scaled - normal * gx_mean - g_mean) * scale),)),)


def _batch_sum_stages(elements: tuple, numbers: tuple, dtype: DType) -> tuple:
    return (
        Loop(tuple(adding(str(i), x) for i, x in enumerate(elements))),
        Row(tuple((i, cast(folded(str(i), x.dtype), dtype)) for i, x in enumerate(elements))),
    )


_CHANNEL_SUMS = Rows("group_norm_sums", _channel_sum_stages, lambda dtypes: [(wide(compute_dtype(dtypes[0])), KEPT)] * 2)
_GROUP_MEANS = Rows(
    "group_norm_means", _group_mean_stages, lambda dtypes, dtype, weight: [(dtype, KEPT)] * 2, number_dtype=lambda dtypes: float64
)
_GROUP_GRADIENT = Rows("group_norm_backward", _group_gradient_stages, lambda dtypes, weight: [(dtypes[0], FULL)])
_BATCH_SUMS = Rows("group_norm_batch_sums", _batch_sum_stages, lambda dtypes, dtype: [(dtype, KEPT)] * 2)


def _check_group_norm(input: Tensor, groups: int, weight: Tensor | None, bias: Tensor | None) -> None:
    shape = list(input._layout.shape)
    if len(shape) < 2:
        raise RuntimeError(f"Expected at least 2 dimensions for input tensor but received {len(shape)}")
    if groups <= 0:
        raise RuntimeError(f"Expected num groups to be greater than 0, got {groups}")
    if shape[1] % groups:
        raise RuntimeError(
            "Expected number of channels in input to be divisible by num_groups, but got input of shape "
            f"{shape} and num_groups={groups}"
        )
    for name, p in (("weight", weight), ("bias", bias)):
        if p is not None and tuple(p._layout.shape) != (shape[1],):
            raise RuntimeError(
                f"Expected {name} to be a vector of size equal to the number of channels in input, but got {name} "
                f"of shape {list(p._layout.shape)} and input of shape {shape}"
            )


@composite(method=False)
def group_norm(
    input: Tensor, num_groups: int, weight: Tensor | None = None, bias: Tensor | None = None, eps=1e-5, cudnn_enabled=True
) -> Tensor:
    """Normalise each group of channels of each sample, then scale and shift per channel.

    input: (N, C, ...); weight, bias: (C,) or None. Raises RuntimeError unless num_groups divides C.
    """
    _check_group_norm(input, num_groups, weight, bias)
    return fused_group_norm(input, weight, bias, num_groups, eps)[0]


@named("group_norm")
def functional_group_norm(
    input: Tensor, num_groups: int, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5
) -> Tensor:
    """nn.functional.group_norm: see group_norm. Raises ValueError when there is one value per group."""
    shape = input.size()
    if len(shape) < 2:
        raise RuntimeError(f"Expected at least 2 dimensions for input tensor but received {len(shape)}")
    if shape[0] * shape[1] // num_groups * math.prod(shape[2:]) == 1:
        raise ValueError(
            "Expected more than 1 value per channel when training, got input size "
            f"{[shape[0] * shape[1] // num_groups, num_groups, *shape[2:]]}"
        )
    return group_norm(input, num_groups, weight, bias, eps)


# ---------------------------------------------------------------- local response


@described(autocast=single, asks="dim")
def local_response_norm(input, size, alpha=1e-4, beta=0.75, k=1.0):
    """input / (k + alpha * mean of the squares of `size` neighbouring channels) ** beta; input: (N, C, ...) with 3
    dimensions at least.
    """
    if input.dim() < 3:
        raise ValueError(f"Expected 3D or higher dimensionality                          input (got {input.dim()} dimensions)")
    if input.numel() == 0:
        return input
    squares = input * input
    kind_of_means(2 if input.dim() == 3 else 3, squares.dtype)  # PyTorch makes the means by pooling
    channels = input.size(1)
    if size > 2 * channels:  # PyTorch pads the channels with size - 1 others: refuse what it has no memory for
        padded = (input.numel() // channels, channels + size - 1)
        within_memory(Layout.contiguous(padded, input.dtype, input.device))
    total = squares
    for shift in [d for d in range(max(-(size // 2), 1 - channels), min((size - 1) // 2 + 1, channels)) if d]:
        moved = NAMESPACE["zeros_like"](squares.narrow(1, 0, builtins.abs(shift)))
        rest = channels - builtins.abs(shift)
        parts = [squares.narrow(1, shift, rest), moved] if shift > 0 else [moved, squares.narrow(1, 0, rest)]
        total = total + NAMESPACE["cat"](parts, 1)
    mean = total / size if total.is_floating_point() or total.is_complex() else total // size  # PyTorch's pooling of integers
    return input / (mean * alpha + k).pow(beta)


@composite(method=False, name="layer_norm")
def _torch_layer_norm(
    input: Tensor, normalized_shape, weight: Tensor | None = None, bias: Tensor | None = None, eps=1e-5, cudnn_enable=True
) -> Tensor:
    """torch.layer_norm: see nn.functional.layer_norm."""
    return layer_norm(input, normalized_shape, weight, bias, eps)


@operator(method=False)
def native_group_norm(input: Tensor, weight: Tensor | None, bias: Tensor | None, N, C, HxW, group, eps):
    """(group norm, mean, 1 / standard deviation) with the sizes given; the statistics are (N, group) and differentiable."""
    _check_group_norm(input, group, weight, bias)
    return fused_group_norm(input, weight, bias, group, eps)


@native_group_norm.vjp
def _(gs, input, weight, group, eps, need):
    g, g_mean, g_scale = gs
    n, c = input._layout.shape[:2]
    split = (n, group, c // group, math.prod(input._layout.shape[2:]))
    x = input.reshape(split)
    dx = dw = db = None
    if g is not None:
        wide_weight = None if weight is None else weight.reshape(group, c // group, 1)
        dx, dw, db = gradients_by_operators(g.reshape(split), x, (2, 3), (0, 3), wide_weight, eps, need)
    if need["input"] and (g_mean is not None or g_scale is not None):
        count = values_in(x, (2, 3))
        delta = x - x.mean((2, 3), True)
        part = NAMESPACE["zeros_like"](x) if dx is None else dx
        if g_mean is not None:
            part = part + g_mean.reshape(n, group, 1, 1) / count
        if g_scale is not None:
            scale = ((delta * delta).mean((2, 3), True) + eps).rsqrt()
            part = part - g_scale.reshape(n, group, 1, 1) * scale.pow(3) * delta / count
        dx = part
    return (
        None if dx is None else dx.reshape(input._layout.shape),
        None if dw is None else dw.reshape(-1),
        None if db is None else db.reshape(-1),
    )
