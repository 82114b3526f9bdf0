"""torch._C._nn: how PyTorch's modules reach their kernels; here the functions of nn.functional, and how `.to` is read."""

from __future__ import annotations

from typing import Any

import flambeau as torch
from flambeau.nn.modules.conversion import parse_to as _parse_to

__all__ = ["_parse_to"]
_FUNCTIONAL = frozenset(
    (
        "adaptive_avg_pool2d", "adaptive_avg_pool3d", "avg_pool2d", "avg_pool3d", "elu", "elu_", "gelu", "glu", "hardswish",
        "hardsigmoid", "hardtanh", "hardtanh_", "leaky_relu", "leaky_relu_", "linear", "one_hot", "pad", "relu6",
        "scaled_dot_product_attention", "silu", "mish", "softplus", "softshrink",
    )
)  # fmt: skip
#: Losses, whose reduction is a number here: their parameters in front of it and behind it.
_LOSSES = {
    "binary_cross_entropy": (("input", "target", "weight"), ()), "huber_loss": (("input", "target"), ("delta",)),
    "l1_loss": (("input", "target"), ()), "mse_loss": (("input", "target"), ()),
    "multi_margin_loss": (("input", "target", "p", "margin", "weight"), ()),
    "multilabel_margin_loss": (("input", "target"), ()), "nll_loss": (("input", "target", "weight"), ("ignore_index",)),
    "nll_loss2d": (("input", "target", "weight"), ("ignore_index",)),
    "nll_loss_nd": (("input", "target", "weight"), ("ignore_index",)),
    "smooth_l1_loss": (("input", "target"), ("beta",)), "soft_margin_loss": (("input", "target"), ()),
}  # fmt: skip
_UPSAMPLED = {
    "upsample_nearest1d": "nearest", "upsample_nearest2d": "nearest", "upsample_nearest3d": "nearest",
    "_upsample_nearest_exact1d": "nearest-exact", "_upsample_nearest_exact2d": "nearest-exact",
    "_upsample_nearest_exact3d": "nearest-exact",
}  # fmt: skip


_PADDED = {
    f"{words}_pad{n}d": mode for words, mode in (("reflection", "reflect"), ("replication", "replicate")) for n in (1, 2, 3)
}


def _padding(name: str) -> Any:
    """nn.functional.pad in one mode."""

    def padded(input: Any, padding: Any) -> Any:
        return torch.nn.functional.pad(input, tuple(padding), _PADDED[name])

    padded.__name__ = padded.__qualname__ = name
    return padded


def _loss(name: str) -> Any:
    """A loss of nn.functional with its reduction as a number: 0 none (and so if left out, as in PyTorch), 1 mean, 2 sum."""
    function = torch.nn.functional.nll_loss if name.startswith("nll_loss") else getattr(torch.nn.functional, name)
    before, behind = _LOSSES[name]

    def loss(*args: Any, reduction: int = 0, **kwargs: Any) -> Any:
        given = dict(zip((*before, "reduction", *behind), args))
        number = given.pop("reduction", reduction)
        return function(**given, **kwargs, reduction=("none", "mean", "sum")[number])

    loss.__name__ = loss.__qualname__ = name
    return loss


def _upsampling(name: str) -> Any:
    """interpolate by one mode, to a size or by factors."""

    def upsample(input: Any, output_size: Any, scale_factors: Any = None, *factors: Any, out: Any = None) -> Any:
        size = tuple(output_size) if output_size is not None else None
        factor = scale_factors if size is None else None
        made = torch.nn.functional.interpolate(input, size, factor, _UPSAMPLED[name])
        return made if out is None else out.resize_(made.shape).copy_(made)

    upsample.__name__ = upsample.__qualname__ = name
    return upsample


def __getattr__(name: str) -> Any:
    if name == "log_sigmoid":
        return torch.nn.functional.logsigmoid
    if name == "pad_sequence":
        return torch.nn.utils.rnn.pad_sequence
    if name in _FUNCTIONAL:
        return getattr(torch.nn.functional, name)
    if name in _LOSSES:
        return _loss(name)
    if name in _PADDED:
        return _padding(name)
    if name in _UPSAMPLED:
        return _upsampling(name)
    operator = None if name.startswith("__") else getattr(torch.ops.aten, name, None)
    if operator is not None:
        return operator
    raise AttributeError(f"module {__name__!r} has no attribute '{name}': flambeau has no native module; use torch.nn.functional")
