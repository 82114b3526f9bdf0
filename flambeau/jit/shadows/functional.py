# mypy: ignore-errors
"""torch.nn.functional for programs: the functions that are no operators. Compiled in the place of those of the same name."""

import math
from typing import List, Optional

import flambeau as torch
from flambeau import Tensor
from flambeau.jit.annotations import BroadcastingList2


def relu(input: Tensor, inplace: bool = False) -> Tensor:
    if inplace:
        result = torch.relu_(input)
    else:
        result = torch.relu(input)
    return result


def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    if inplace:
        result = torch.clamp_(input, 0, 6)
    else:
        result = torch.clamp(input, 0, 6)
    return result


def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    if inplace:
        result = torch.ops.aten.leaky_relu_(input, negative_slope)
    else:
        result = torch.ops.aten.leaky_relu(input, negative_slope)
    return result


def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    if inplace:
        result = torch.ops.aten.elu_(input, alpha)
    else:
        result = torch.ops.aten.elu(input, alpha)
    return result


def selu(input: Tensor, inplace: bool = False) -> Tensor:
    if inplace:
        result = torch.selu_(input)
    else:
        result = torch.selu(input)
    return result


def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    if inplace:
        result = torch.ops.aten.celu_(input, alpha)
    else:
        result = torch.ops.aten.celu(input, alpha)
    return result


def silu(input: Tensor, inplace: bool = False) -> Tensor:
    if inplace:
        result = torch.ops.aten.silu_(input)
    else:
        result = torch.ops.aten.silu(input)
    return result


def mish(input: Tensor, inplace: bool = False) -> Tensor:
    if inplace:
        result = torch.ops.aten.mish_(input)
    else:
        result = torch.ops.aten.mish(input)
    return result


def hardtanh(input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Tensor:
    if inplace:
        result = torch.ops.aten.hardtanh_(input, min_val, max_val)
    else:
        result = torch.ops.aten.hardtanh(input, min_val, max_val)
    return result


def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    if inplace:
        result = torch.ops.aten.hardswish_(input)
    else:
        result = torch.ops.aten.hardswish(input)
    return result


def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    if inplace:
        result = torch.ops.aten.hardsigmoid_(input)
    else:
        result = torch.ops.aten.hardsigmoid(input)
    return result


def sigmoid(input: Tensor) -> Tensor:
    return input.sigmoid()


def tanh(input: Tensor) -> Tensor:
    return input.tanh()


def tanhshrink(input: Tensor) -> Tensor:
    return input - input.tanh()


def softsign(input: Tensor) -> Tensor:
    return input / (input.abs() + 1)


def glu(input: Tensor, dim: int = -1) -> Tensor:
    if input.dim() == 0:
        raise RuntimeError("glu does not support scalars because halving size must be even")
    return torch.ops.aten.glu(input, dim)


def threshold(input: Tensor, threshold: float, value: float, inplace: bool = False) -> Tensor:
    if inplace:
        result = torch.ops.aten.threshold_(input, threshold, value)
    else:
        result = torch.ops.aten.threshold(input, threshold, value)
    return result


def _softmax_dim(name: str, ndim: int) -> int:
    if ndim == 0 or ndim == 1 or ndim == 3:
        ret = 0
    else:
        ret = 1
    return ret


def softmax(input: Tensor, dim: Optional[int] = None, _stacklevel: int = 3, dtype: Optional[int] = None) -> Tensor:
    if dim is None:
        dim = _softmax_dim("softmax", input.dim())
    if dtype is None:
        ret = input.softmax(dim)
    else:
        ret = input.softmax(dim, dtype=dtype)
    return ret


def softmin(input: Tensor, dim: Optional[int] = None, _stacklevel: int = 3, dtype: Optional[int] = None) -> Tensor:
    if dim is None:
        dim = _softmax_dim("softmin", input.dim())
    if dtype is None:
        ret = (-input).softmax(dim)
    else:
        ret = (-input).softmax(dim, dtype=dtype)
    return ret


def log_softmax(input: Tensor, dim: Optional[int] = None, _stacklevel: int = 3, dtype: Optional[int] = None) -> Tensor:
    if dim is None:
        dim = _softmax_dim("log_softmax", input.dim())
    if dtype is None:
        ret = input.log_softmax(dim)
    else:
        ret = input.log_softmax(dim, dtype=dtype)
    return ret


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    if p < 0.0 or p > 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
    if inplace:
        result = torch.ops.aten.dropout_(input, p, training)
    else:
        result = torch.ops.aten.dropout(input, p, training)
    return result


def alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    if p < 0.0 or p > 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
    if inplace:
        result = torch.ops.aten.alpha_dropout_(input, p, training)
    else:
        result = torch.ops.aten.alpha_dropout(input, p, training)
    return result


def dropout2d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    if p < 0.0 or p > 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
    if inplace:
        result = torch.ops.aten.feature_dropout_(input, p, training)
    else:
        result = torch.ops.aten.feature_dropout(input, p, training)
    return result


def layer_norm(
    input: Tensor, normalized_shape: List[int], weight: Optional[Tensor] = None, bias: Optional[Tensor] = None, eps: float = 1e-5
) -> Tensor:
    return torch.layer_norm(input, normalized_shape, weight, bias, eps, True)


def group_norm(
    input: Tensor, num_groups: int, weight: Optional[Tensor] = None, bias: Optional[Tensor] = None, eps: float = 1e-5
) -> Tensor:
    return torch.group_norm(input, num_groups, weight, bias, eps, True)


def batch_norm(
    input: Tensor,
    running_mean: Optional[Tensor],
    running_var: Optional[Tensor],
    weight: Optional[Tensor] = None,
    bias: Optional[Tensor] = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    return torch.batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps, True)


def embedding(
    input: Tensor,
    weight: Tensor,
    padding_idx: Optional[int] = None,
    max_norm: Optional[float] = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    if padding_idx is not None:
        if padding_idx > 0:
            assert padding_idx < weight.size(0), "Padding_idx must be within num_embeddings"
        elif padding_idx < 0:
            assert padding_idx >= -weight.size(0), "Padding_idx must be within num_embeddings"
            padding_idx = weight.size(0) + padding_idx
    else:
        padding_idx = -1
    if max_norm is not None:
        input = input.contiguous()
        torch.ops.aten.embedding_renorm_(weight.detach(), input, max_norm, norm_type)
    return torch.embedding(weight, input, padding_idx, scale_grad_by_freq, sparse)


def _reduction(name: str) -> int:
    if name == "none":
        ret = 0
    elif name == "mean":
        ret = 1
    elif name == "sum":
        ret = 2
    else:
        ret = -1
        raise ValueError(f"{name} is not a valid value for reduction")
    return ret


def mse_loss(
    input: Tensor,
    target: Tensor,
    size_average: Optional[bool] = None,
    reduce: Optional[bool] = None,
    reduction: str = "mean",
    weight: Optional[Tensor] = None,
) -> Tensor:
    expanded_input, expanded_target = torch.broadcast_tensors([input, target])
    if weight is not None:
        weighted = torch.pow(expanded_input - expanded_target, 2) * weight
        if reduction == "none":
            return weighted
        elif reduction == "sum":
            return torch.sum(weighted)
        return torch.sum(weighted) / torch.sum(weight)
    return torch.ops.aten.mse_loss(expanded_input, expanded_target, _reduction(reduction))


def l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: Optional[bool] = None,
    reduce: Optional[bool] = None,
    reduction: str = "mean",
    weight: Optional[Tensor] = None,
) -> Tensor:
    expanded_input, expanded_target = torch.broadcast_tensors([input, target])
    if weight is not None:
        weighted = torch.abs(expanded_input - expanded_target) * weight
        if reduction == "none":
            return weighted
        elif reduction == "sum":
            return torch.sum(weighted)
        return torch.sum(weighted) / torch.sum(weight)
    return torch.ops.aten.l1_loss(expanded_input, expanded_target, _reduction(reduction))


def smooth_l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: Optional[bool] = None,
    reduce: Optional[bool] = None,
    reduction: str = "mean",
    beta: float = 1.0,
) -> Tensor:
    expanded_input, expanded_target = torch.broadcast_tensors([input, target])
    if beta == 0.0:
        return torch.ops.aten.l1_loss(expanded_input, expanded_target, _reduction(reduction))
    return torch.ops.aten.smooth_l1_loss(expanded_input, expanded_target, _reduction(reduction), beta)


def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Optional[Tensor] = None,
    size_average: Optional[bool] = None,
    ignore_index: int = -100,
    reduce: Optional[bool] = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    return torch.ops.aten.cross_entropy_loss(input, target, weight, _reduction(reduction), ignore_index, label_smoothing)


def nll_loss(
    input: Tensor,
    target: Tensor,
    weight: Optional[Tensor] = None,
    size_average: Optional[bool] = None,
    ignore_index: int = -100,
    reduce: Optional[bool] = None,
    reduction: str = "mean",
) -> Tensor:
    return torch.ops.aten.nll_loss_nd(input, target, weight, _reduction(reduction), ignore_index)


def binary_cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Optional[Tensor] = None,
    size_average: Optional[bool] = None,
    reduce: Optional[bool] = None,
    reduction: str = "mean",
) -> Tensor:
    return torch.ops.aten.binary_cross_entropy(input, target, weight, _reduction(reduction))


def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: Optional[Tensor] = None,
    size_average: Optional[bool] = None,
    reduce: Optional[bool] = None,
    reduction: str = "mean",
    pos_weight: Optional[Tensor] = None,
) -> Tensor:
    return torch.ops.aten.binary_cross_entropy_with_logits(input, target, weight, pos_weight, _reduction(reduction))


def kl_div(
    input: Tensor,
    target: Tensor,
    size_average: Optional[bool] = None,
    reduce: Optional[bool] = None,
    reduction: str = "mean",
    log_target: bool = False,
) -> Tensor:
    if reduction == "batchmean":
        reduced = torch.ops.aten.kl_div(input, target, 2, log_target=log_target)
        if input.dim() != 0:
            reduced = reduced / input.size(0)
        return reduced
    return torch.ops.aten.kl_div(input, target, _reduction(reduction), log_target=log_target)


def normalize(input: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12, out: Optional[Tensor] = None) -> Tensor:
    denom = input.norm(p, dim, keepdim=True).clamp_min(eps).expand_as(input)
    return input / denom


def max_pool1d(
    input: Tensor,
    kernel_size: List[int],
    stride: Optional[List[int]] = None,
    padding: List[int] = [0],
    dilation: List[int] = [1],
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Tensor:
    if stride is None:
        stride = torch.jit.annotate(List[int], [])
    return torch.max_pool1d(input, kernel_size, stride, padding, dilation, ceil_mode)


def max_pool2d(
    input: Tensor,
    kernel_size: BroadcastingList2[int],
    stride: Optional[BroadcastingList2[int]] = None,
    padding: BroadcastingList2[int] = 0,
    dilation: BroadcastingList2[int] = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Tensor:
    if stride is None:
        stride = torch.jit.annotate(List[int], [])
    return torch.max_pool2d(input, kernel_size, stride, padding, dilation, ceil_mode)


def adaptive_avg_pool2d(input: Tensor, output_size: BroadcastingList2[int]) -> Tensor:
    return torch.ops.aten.adaptive_avg_pool2d(input, output_size)


def adaptive_max_pool2d(input: Tensor, output_size: BroadcastingList2[int], return_indices: bool = False) -> Tensor:
    return torch.ops.aten.adaptive_max_pool2d(input, output_size)[0]


def pad(input: Tensor, pad: List[int], mode: str = "constant", value: Optional[float] = None) -> Tensor:
    return torch.ops.aten.pad(input, pad, mode, value)


def split(tensor: Tensor, split_size_or_sections: int, dim: int = 0) -> List[Tensor]:
    return tensor.split(split_size_or_sections, dim)


@torch.jit._overload
def interpolate(  # noqa: F811
    input: Tensor,
    size: Optional[int] = None,
    scale_factor: Optional[List[float]] = None,
    mode: str = "nearest",
    align_corners: Optional[bool] = None,
    recompute_scale_factor: Optional[bool] = None,
    antialias: bool = False,
) -> Tensor:
    pass


@torch.jit._overload
def interpolate(  # noqa: F811
    input: Tensor,
    size: Optional[List[int]] = None,
    scale_factor: Optional[List[float]] = None,
    mode: str = "nearest",
    align_corners: Optional[bool] = None,
    recompute_scale_factor: Optional[bool] = None,
    antialias: bool = False,
) -> Tensor:
    pass


@torch.jit._overload
def interpolate(  # noqa: F811
    input: Tensor,
    size: Optional[int] = None,
    scale_factor: Optional[float] = None,
    mode: str = "nearest",
    align_corners: Optional[bool] = None,
    recompute_scale_factor: Optional[bool] = None,
    antialias: bool = False,
) -> Tensor:
    pass


@torch.jit._overload
def interpolate(  # noqa: F811
    input: Tensor,
    size: Optional[List[int]] = None,
    scale_factor: Optional[float] = None,
    mode: str = "nearest",
    align_corners: Optional[bool] = None,
    recompute_scale_factor: Optional[bool] = None,
    antialias: bool = False,
) -> Tensor:
    pass


def interpolate(  # noqa: F811
    input, size=None, scale_factor=None, mode="nearest", align_corners=None, recompute_scale_factor=None, antialias=False
):
    sizes: Optional[List[int]] = None
    factors: Optional[List[float]] = None
    if (size is None) == (scale_factor is None):
        raise ValueError("exactly one of size or scale_factor should be defined")
    if size is not None:
        if isinstance(size, (list, tuple)):
            sizes = size
        else:
            sizes = [size for _ in range(input.dim() - 2)]
    if scale_factor is not None:
        if isinstance(scale_factor, (list, tuple)):
            factors = scale_factor
        else:
            factors = [scale_factor for _ in range(input.dim() - 2)]
    recomputed = mode == "area" or (recompute_scale_factor is not None and recompute_scale_factor)
    if factors is not None and recomputed:
        sizes = [int(math.floor(float(input.size(i + 2)) * factors[i])) for i in range(input.dim() - 2)]
        factors = None
    corners = False
    if align_corners is not None:
        corners = align_corners
    if mode == "area" and sizes is not None:
        if input.dim() == 3:
            return torch.ops.aten.adaptive_avg_pool1d(input, sizes)
        if input.dim() == 4:
            return torch.ops.aten.adaptive_avg_pool2d(input, sizes)
        if input.dim() == 5:
            return torch.ops.aten.adaptive_avg_pool3d(input, sizes)
    if mode == "nearest-exact" and input.dim() == 3:
        return torch.ops.aten._upsample_nearest_exact1d(input, sizes, factors)
    if mode == "nearest-exact" and input.dim() == 4:
        return torch.ops.aten._upsample_nearest_exact2d(input, sizes, factors)
    if mode == "nearest-exact" and input.dim() == 5:
        return torch.ops.aten._upsample_nearest_exact3d(input, sizes, factors)
    if antialias and mode == "bilinear" and input.dim() == 4:
        return torch.ops.aten._upsample_bilinear2d_aa(input, sizes, corners, factors)
    if antialias and mode == "bicubic" and input.dim() == 4:
        return torch.ops.aten._upsample_bicubic2d_aa(input, sizes, corners, factors)
    if antialias:
        raise ValueError("Anti-alias option is restricted to bilinear and bicubic modes and requires a 4-D tensor as input")
    if mode == "nearest" and input.dim() == 4:
        return torch.ops.aten.upsample_nearest2d(input, sizes, factors)
    if mode == "nearest" and input.dim() == 3:
        return torch.ops.aten.upsample_nearest1d(input, sizes, factors)
    if mode == "nearest" and input.dim() == 5:
        return torch.ops.aten.upsample_nearest3d(input, sizes, factors)
    if mode == "bilinear" and input.dim() == 4:
        return torch.ops.aten.upsample_bilinear2d(input, sizes, corners, factors)
    if mode == "bicubic" and input.dim() == 4:
        return torch.ops.aten.upsample_bicubic2d(input, sizes, corners, factors)
    if mode == "linear" and input.dim() == 3:
        return torch.ops.aten.upsample_linear1d(input, sizes, corners, factors)
    if mode == "trilinear" and input.dim() == 5:
        return torch.ops.aten.upsample_trilinear3d(input, sizes, corners, factors)
    raise NotImplementedError(f"{input.dim()}D tensors can't be resized by {mode} in a program")
