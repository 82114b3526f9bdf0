"""Dropout, norms, resampling and products, as exported graphs have them."""

from __future__ import annotations

import math
from typing import Any

from flambeau.base import dtype as dtypes
from flambeau.base.device import cpu
from flambeau.base.layout import strided
from flambeau.core.operator.publishing import NAMESPACE
from flambeau.dispatcher.aten.composites.registry import aten, composite, in_graphs

__all__: list[str] = []


@in_graphs("dropout.default")
def dropout(input: Any, p: float, train: bool) -> Any:
    return aten.native_dropout.default(input, p, True)[0] if train and p else aten.clone.default(input)


@in_graphs("dropout_.default")
def dropout_(self: Any, p: float, train: bool) -> Any:
    return aten.copy_.default(self, dropout(self, p, train)) if train and p else self


@composite("norm_except_dim.default")
def norm_except_dim(v: Any, pow: int = 2, dim: int = 0) -> Any:
    if dim == -1:
        return aten.linalg_vector_norm.default(v, pow)
    return aten.linalg_vector_norm.default(v, pow, [d for d in range(v.dim()) if d != dim % v.dim()], True)


@composite("_weight_norm.default")
def _weight_norm(v: Any, g: Any, dim: int = 0) -> Any:
    return aten.mul.Tensor(v, aten.div.Tensor(g, norm_except_dim(v, 2, dim)))


@composite("batch_norm.default")
def batch_norm(
    input: Any,
    weight: Any,
    bias: Any,
    running_mean: Any,
    running_var: Any,
    training: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool,
) -> Any:
    aten.empty.memory_format([0], dtype=dtypes.uint8, layout=strided, device=cpu)  # what cuDNN would keep
    return aten.native_batch_norm.default(input, weight, bias, running_mean, running_var, training, momentum, eps)[0]


@composite("instance_norm.default")
def instance_norm(
    input: Any,
    weight: Any,
    bias: Any,
    running_mean: Any,
    running_var: Any,
    use_input_stats: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool,
) -> Any:
    count, channels, *rest = input.shape

    def each(x: Any) -> Any:
        return None if x is None else aten.repeat.default(x, [count])

    own = [each(x) for x in (weight, bias, running_mean, running_var)]
    flat = input.contiguous().view(1, count * channels, *rest)
    made = batch_norm(flat, *own, use_input_stats, momentum, eps, cudnn_enabled)
    for x, written in ((running_mean, own[2]), (running_var, own[3])):
        if x is not None:
            aten.copy_.default(aten.alias.default(x), written.view(count, channels).mean(0, False))
    return made.view(input.shape)


@in_graphs("rms_norm.default")
def rms_norm(input: Any, normalized_shape: Any, weight: Any = None, eps: float | None = None) -> Any:
    eps = dtypes.finfo(input.dtype).eps if eps is None else eps
    low = input.dtype in (dtypes.float16, dtypes.bfloat16)
    x = aten._to_copy.default(input, dtype=dtypes.float32) if low else input
    dims = [input.dim() - len(normalized_shape) + i for i in range(len(normalized_shape))]
    mean = aten.mean.dim(aten.pow.Tensor_Scalar(x, 2), dims, True)
    made = aten.mul.Tensor(x, aten.rsqrt.default(aten.add.Scalar(mean, eps)))
    if weight is not None:
        made = aten.mul.Tensor(made, weight)
    return aten._to_copy.default(made, dtype=input.dtype) if low else made


@composite("prelu.default")
def prelu(self: Any, weight: Any) -> Any:
    if weight.dim() != self.dim():
        shape = [1] * self.dim()
        if self.dim() > 1:
            shape[1] = weight.numel()
        elif self.dim() == 1:
            shape[0] = weight.numel()
        weight = weight.reshape(shape)
    return aten._prelu_kernel.default(self, weight)


@composite("one_hot.default")
def one_hot(self: Any, num_classes: int = -1) -> Any:
    if num_classes == -1:
        return NotImplemented
    for compare, bound, words in (
        (aten.ge.Scalar, 0, "non-negative."),
        (aten.lt.Scalar, num_classes, "smaller than num_classes."),
    ):
        known = aten.all.default(compare(self, bound))
        aten._assert_async.msg(known, f"one_hot: Class values must be {words}")
    column = aten.unsqueeze.default(self, -1)
    return aten.eq.Tensor(column, NAMESPACE["arange"](num_classes, dtype=dtypes.int64)).to(dtypes.int64)


@composite("adaptive_avg_pool3d.default")
def adaptive_avg_pool3d(self: Any, output_size: Any) -> Any:
    if list(output_size) == [1, 1, 1]:
        return aten.mean.dim(self, [-1, -2, -3], True)
    return aten._adaptive_avg_pool3d.default(self, list(output_size))


@composite("adaptive_max_pool1d.default")
def adaptive_max_pool1d(self: Any, output_size: Any) -> Any:
    values, places = aten.adaptive_max_pool2d.default(aten.unsqueeze.default(self, -2), [1, *output_size])
    places = aten.squeeze.dim(places, -2)
    return aten.squeeze.dim(values, -2), places


@in_graphs("feature_dropout.default")
def feature_dropout(input: Any, p: float, train: bool) -> Any:
    if not train or not p:
        return input
    size = [*input.shape[:2], *[1] * (input.dim() - 2)]
    noise = aten.empty.memory_format(size, dtype=input.dtype, layout=strided, device=input.device, pin_memory=False)
    kept = aten.bernoulli.p(noise, 1 - p)
    return aten.mul.Tensor(input, aten.div.Scalar(kept, 1 - p))


@in_graphs("feature_alpha_dropout.default")
def feature_alpha_dropout(input: Any, p: float, train: bool) -> Any:
    return NotImplemented if train and p else input


@in_graphs("alpha_dropout.default")
def alpha_dropout(input: Any, p: float, train: bool) -> Any:
    if not train or not p:
        return input
    alpha = 1.7580993408473766
    a = 1 / math.sqrt((alpha * alpha * p + 1) * (1 - p))
    kept = aten.bernoulli.p(aten.empty_like.default(input), 1 - p)
    shift = aten.add.Scalar(aten.mul.Scalar(aten.add.Scalar(kept, -1), alpha * a), alpha * a * p)
    return aten.add.Tensor(aten.mul.Tensor(input, aten.mul.Scalar(kept, a)), shift)


# ---------------------------------------------------------------- resampling


def _sizes(input: Any, output_size: Any, scale_factors: Any) -> tuple[list[int], list[Any]]:
    """The sizes of a resampled image, and the factors that it is told."""
    if output_size is not None:
        return list(output_size), [None] * len(output_size)
    return [math.floor(n * f) for n, f in zip(input.shape[2:], scale_factors)], list(scale_factors)


def _resampled(name: str) -> None:
    def function(input: Any, output_size: Any, *args: Any) -> Any:
        *corners, factors = args
        sizes, given = _sizes(input, output_size, factors)
        return getattr(aten, name).default(input, sizes, *corners, *given)

    in_graphs(f"{name}.vec")(function)


for _name in ("linear1d", "bicubic2d", "bilinear2d", "trilinear3d", "nearest1d", "nearest2d", "nearest3d"):
    _resampled(f"upsample_{_name}")
for _name in ("nearest_exact1d", "nearest_exact2d", "nearest_exact3d"):
    _resampled(f"_upsample_{_name}")


@composite("grid_sampler.default")
def grid_sampler(input: Any, grid: Any, interpolation_mode: int, padding_mode: int, align_corners: bool) -> Any:
    sample = aten.grid_sampler_2d.default if input.dim() == 4 else aten.grid_sampler_3d.default
    return sample(input, grid, interpolation_mode, padding_mode, align_corners)
