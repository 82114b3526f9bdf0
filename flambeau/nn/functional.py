"""flambeau.nn.functional: the functions behind the layers, with PyTorch's names, argument order and defaults.

The operators are those of flambeau.ops; what is written here are arguments that only this face has (`training`, `inplace`).
Used by flambeau.nn.modules and by programs as `F`.
"""

from __future__ import annotations

import warnings
from importlib import import_module
from types import FunctionType
from typing import Any

from flambeau.base.layout import contiguous_format
from flambeau.base.naming import adopt
from flambeau.base.tracebacks import filter_traceback
from flambeau.core.modes import autocast, interception, overrides
from flambeau.core.operator import facets, unsupported
from flambeau.core.operator.publishing import NAMESPACE, renamed
from flambeau.core.tensor.tensor import Tensor
from flambeau.nn.functional_activation import *
from flambeau.nn.functional_activation import threshold as _threshold
from flambeau.ops.aten.internals import conv_tbc
from flambeau.ops.linalg.cdist import pdist
from flambeau.ops.linalg.distance import cosine_similarity, pairwise_distance
from flambeau.ops.linalg.einsum import bilinear
from flambeau.ops.linalg.grouped_mm import grouped_mm
from flambeau.ops.linalg.linear import linear
from flambeau.ops.nn import dropout as _dropout
from flambeau.ops.nn.adaptive_pool import (
    adaptive_avg_pool1d,
    adaptive_avg_pool2d,
    adaptive_avg_pool3d,
    adaptive_max_pool1d,
    adaptive_max_pool1d_with_indices,
    adaptive_max_pool2d,
    adaptive_max_pool2d_with_indices,
    adaptive_max_pool3d,
    adaptive_max_pool3d_with_indices,
)
from flambeau.ops.nn.attention import multi_head_attention_forward, scaled_dot_product_attention
from flambeau.ops.nn.average_pool import avg_pool1d, avg_pool2d, avg_pool3d
from flambeau.ops.nn.batch_norm import batch_norm, instance_norm
from flambeau.ops.nn.conv import conv1d, conv2d, conv3d, conv_transpose1d, conv_transpose2d, conv_transpose3d
from flambeau.ops.nn.cross_entropy import cross_entropy, nll_loss
from flambeau.ops.nn.ctc_loss import ctc_loss
from flambeau.ops.nn.embedding import embedding, one_hot
from flambeau.ops.nn.embedding_bag import embedding_bag
from flambeau.ops.nn.fractional_pool import (
    fractional_max_pool2d,
    fractional_max_pool2d_with_indices,
    fractional_max_pool3d,
    fractional_max_pool3d_with_indices,
    lp_pool1d,
    lp_pool2d,
    lp_pool3d,
    max_unpool1d,
    max_unpool2d,
    max_unpool3d,
)
from flambeau.ops.nn.grid_sample import affine_grid, grid_sample
from flambeau.ops.nn.interpolate import interpolate, upsample, upsample_bilinear, upsample_nearest
from flambeau.ops.nn.loss import (
    binary_cross_entropy,
    binary_cross_entropy_with_logits,
    cosine_embedding_loss,
    gaussian_nll_loss,
    hinge_embedding_loss,
    huber_loss,
    kl_div,
    l1_loss,
    margin_ranking_loss,
    mse_loss,
    multilabel_soft_margin_loss,
    poisson_nll_loss,
    smooth_l1_loss,
    soft_margin_loss,
    triplet_margin_loss,
    triplet_margin_with_distance_loss,
)
from flambeau.ops.nn.margin_loss import multi_margin_loss, multilabel_margin_loss
from flambeau.ops.nn.max_pool import (
    max_pool1d,
    max_pool1d_with_indices,
    max_pool2d,
    max_pool2d_with_indices,
    max_pool3d,
    max_pool3d_with_indices,
)
from flambeau.ops.nn.norm import functional_group_norm as group_norm
from flambeau.ops.nn.norm import layer_norm, local_response_norm, rms_norm
from flambeau.ops.reduction.softmax import functional_log_softmax as log_softmax
from flambeau.ops.reduction.softmax import functional_softmax as softmax
from flambeau.ops.reduction.softmax import softmin
from flambeau.ops.views.fold import channel_shuffle, fold, pixel_shuffle, pixel_unshuffle, unfold
from flambeau.ops.views.pad import pad

# ---------------------------------------------------------------- dropout


def _probability(p: float) -> None:
    try:
        if p < 0.0 or p > 1.0:
            raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
    except Exception as error:
        filter_traceback(error)
        raise


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Zeros each element with probability p and scales the others by 1 / (1 - p); the input itself unless training."""
    _probability(p)
    return _dropout.dropout_(input, p, training) if inplace else _dropout.dropout(input, p, training)


def alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """Dropout that keeps mean and variance of SELU activations."""
    _probability(p)
    return _dropout.alpha_dropout_(input, p, training) if inplace else _dropout.alpha_dropout(input, p, training)


def feature_alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """`alpha_dropout` of whole channels of (N, C, *)."""
    _probability(p)
    if inplace:
        return _dropout.feature_alpha_dropout_(input, p, training)
    return _dropout.feature_alpha_dropout(input, p, training)


def _channel_dropout(input: Tensor, p: float, training: bool, inplace: bool, batched: bool) -> Tensor:
    _probability(p)
    if not batched:
        input = input.unsqueeze_(0) if inplace else input.unsqueeze(0)
    made = _dropout.feature_dropout_(input, p, training) if inplace else _dropout.feature_dropout(input, p, training)
    if not batched:
        made = made.squeeze_(0) if inplace else made.squeeze(0)
    return made


def dropout1d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Zeros whole channels of (N, C, L) or (C, L) with probability p."""
    ndim = input.dim()
    if 0.0 <= p <= 1.0 and ndim not in (2, 3):
        raise RuntimeError(
            f"dropout1d: Expected 2D or 3D input, but received a {ndim}D input. Note that dropout1d exists to provide "
            "channel-wise dropout on inputs with 1 spatial dimension, a channel dimension, and an optional batch dimension "
            "(i.e. 2D or 3D inputs)."
        )
    return _channel_dropout(input, p, training, inplace, ndim == 3)


def _warn_rank(name: str, ndim: int, spatial: int) -> None:
    warnings.warn(
        f"{name}: Received a {ndim}-D input to {name}, which is deprecated and will result in an error in a future release. To "
        f"retain the behavior and silence this warning, please use dropout instead. Note that {name} exists to provide "
        f"channel-wise dropout on inputs with {spatial} spatial dimensions, a channel dimension, and an optional batch dimension "
        f"(i.e. {spatial + 1}D or {spatial + 2}D inputs).",
        stacklevel=3,
    )


def dropout2d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Zeros whole channels of (N, C, H, W) with probability p."""
    ndim = input.dim()
    if 0.0 <= p <= 1.0:
        if ndim not in (3, 4):
            _warn_rank("dropout2d", ndim, 2)
        elif ndim == 3:
            warnings.warn(
                "dropout2d: Received a 3D input to dropout2d and assuming that channel-wise 1D dropout behavior is desired - "
                "input is interpreted as shape (N, C, L), where C is the channel dim. This behavior will change in a future "
                "release to interpret the input as one without a batch dimension, i.e. shape (C, H, W). To maintain the 1D "
                "channel-wise dropout behavior, please switch to using dropout1d instead.",
                stacklevel=2,
            )
    return _channel_dropout(input, p, training, inplace, True)


def dropout3d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Zeros whole channels of (N, C, D, H, W) or (C, D, H, W) with probability p."""
    ndim = input.dim()
    if 0.0 <= p <= 1.0 and ndim not in (4, 5):
        _warn_rank("dropout3d", ndim, 3)
    return _channel_dropout(input, p, training, inplace, ndim == 5)


# ---------------------------------------------------------------- others


def normalize(input: Tensor, p: float = 2.0, dim: Any = 1, eps: float = 1e-12, out: Tensor | None = None) -> Tensor:
    """input divided by its p-norm along dim (at least eps)."""
    if out is None:
        return input / input.norm(p, dim, keepdim=True).clamp_min(eps).expand_as(input)
    return NAMESPACE["div"](input, input.norm(p, dim, keepdim=True).clamp_min_(eps).expand_as(input), out=out)


def gumbel_softmax(logits: Tensor, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1) -> Tensor:
    """Samples of the Gumbel-softmax distribution; hard: one-hot, with the gradient of the soft sample."""
    if eps != 1e-10:
        warnings.warn("`eps` parameter is deprecated and has no effect.", stacklevel=2)
    noise = (
        -NAMESPACE["empty_like"](logits if not isinstance(logits, Tensor) else logits.detach(), memory_format=contiguous_format)
        .exponential_()
        .log()
    )
    soft = softmax((logits + noise) / tau, dim)
    if not hard:
        return soft
    chosen = NAMESPACE["zeros_like"](logits.detach()).scatter_(dim, soft.detach().argmax(dim, keepdim=True), 1.0)
    return chosen - soft.detach() + soft


@facets.described(autocast=autocast.lower)
def linear_cross_entropy(
    input: Tensor,
    linear_weight: Tensor,
    target: Tensor,
    *,
    linear_bias: Tensor | None = None,
    weight: Tensor | None = None,
    reduction: str = "mean",
    ignore_index: int | None = None,
    label_smoothing: float = 0.0,
    options: Any = None,
) -> Tensor:
    """cross_entropy(linear(input), target). input (N, E) or (E), linear_weight (classes, *features, E).

    RuntimeError for other shapes, or for an ignore_index beside probabilities.
    """
    if linear_weight.dim() < 2:
        raise RuntimeError(f"expected linear_weight with dimensionality at least 2, got {linear_weight.dim()}")
    if input.dim() not in (1, 2):
        raise RuntimeError(f"expected input with dimensionality 1 or 2, got {input.dim()}")
    if input.shape[-1] != linear_weight.shape[-1]:
        raise RuntimeError(
            "expected equal input and linear_weight last dimensions (in_features), got "
            f"{input.shape[-1]} and {linear_weight.shape[-1]}, respectively"
        )
    if linear_bias is not None and linear_bias.shape != linear_weight.shape[:-1]:
        raise RuntimeError(f"expected linear_bias shape {tuple(linear_weight.shape[:-1])}, got {tuple(linear_bias.shape)}")
    if ignore_index is not None and target.is_floating_point():
        raise RuntimeError("ignore_index cannot be specified when target contains probabilities")
    shape = linear_weight.shape[:-1]
    logits = linear(input, linear_weight.flatten(0, -2), None if linear_bias is None else linear_bias.flatten())
    if len(shape) > 1:
        logits = logits.unflatten(-1, tuple(shape))
    return cross_entropy(
        logits,
        target,
        weight,
        ignore_index=-100 if ignore_index is None else ignore_index,
        reduction=reduction,
        label_smoothing=label_smoothing,
    )


native_channel_shuffle = channel_shuffle


# ---------------------------------------------------------------- names that PyTorch's module offers beside its functions


GRID_SAMPLE_INTERPOLATION_MODES = {"bilinear": 0, "nearest": 1, "bicubic": 2}
GRID_SAMPLE_PADDING_MODES = {"zeros": 0, "border": 1, "reflection": 2}


class _BroadcastingList:
    """Annotation of a number that stands for a list: BroadcastingList2[int]."""

    def __getitem__(self, types: Any) -> None:
        return None


BroadcastingList1, BroadcastingList2, BroadcastingList3 = (_BroadcastingList() for _ in range(3))


def __getattr__(name: str) -> Any:
    if name == "grad":  # of convolutions: few programs ask for it
        return import_module("flambeau.nn.grad")
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")


def assert_int_or_pair(arg: Any, arg_name: str, message: str) -> None:
    """AssertionError unless arg is a number or has two elements."""
    assert isinstance(arg, int) or len(arg) == 2, message.format(arg_name)


def boolean_dispatch(
    arg_name: str, arg_index: int, default: bool, if_true: Any, if_false: Any, module_name: str, func_name: str
) -> Any:
    """A function that hands on to if_true or if_false by the argument of that name or place."""

    def chosen(*args: Any, **kwargs: Any) -> Any:
        flag = kwargs.get(arg_name, args[arg_index] if arg_index < len(args) else default)
        return (if_true if flag else if_false)(*args, **kwargs)

    chosen.__name__, chosen.__module__, chosen.__doc__ = func_name, module_name, if_true.__doc__ or if_false.__doc__
    return chosen


globals().update(
    unsupported.all_of(
        "nn.functional.",
        "float8 products with scales per block are not there; use torch._scaled_mm, or grouped_mm of bfloat16",
        "scaled_grouped_mm scaled_mm",
        "ScalingType SwizzleType",
    )
)


# Those that autocast concerns, and those that look at values; the others are made of operators.
_LOOKING = ("embedding_bag", "gaussian_nll_loss", "multi_margin_loss", "multilabel_margin_loss")
overrides.ask_everywhere(
    globals(), only=[*_LOOKING, *(name for name, record in facets.RECORDS.items() if record.autocast is not None)]
)
for _name in ("max_pool1d", "max_pool2d", "max_pool3d", "rms_norm"):  # torch has functions of the same names
    globals()[_name] = renamed(globals()[_name], _name)
_HELPERS = (adopt, filter_traceback, import_module, renamed)
_PUBLIC = [
    name for name, thing in globals().items() if isinstance(thing, FunctionType) and name[0] != "_" and thing not in _HELPERS
]
adopt(globals(), _PUBLIC)
interception.provide(lambda: [globals()[name] for name in _PUBLIC])
