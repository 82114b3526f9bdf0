"""torch._C._nn: how PyTorch's modules reach their kernels; here the functions of nn.functional, and how `.to` is read."""

from __future__ import annotations

from typing import Any

import flambeau as torch
from flambeau.nn.modules.conversion import parse_to as _parse_to

__all__ = ["_parse_to"]
_FUNCTIONAL = frozenset(
    (
        "adaptive_avg_pool2d", "adaptive_avg_pool3d", "avg_pool2d", "avg_pool3d", "elu_", "gelu", "hardswish", "hardsigmoid",
        "hardtanh_", "leaky_relu", "leaky_relu_", "linear", "one_hot", "pad", "scaled_dot_product_attention", "silu", "mish",
        "softplus", "softshrink",
    )
)  # fmt: skip


def __getattr__(name: str) -> Any:
    if name == "log_sigmoid":
        return torch.nn.functional.logsigmoid
    if name in _FUNCTIONAL:
        return getattr(torch.nn.functional, name)
    raise AttributeError(
        f"module {__name__!r} has no attribute '{name}': flambeau has no native module; use torch.nn.functional"
    )
