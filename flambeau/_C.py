"""torch._C: the few names of PyTorch's native module that programs reach for."""

from __future__ import annotations

from typing import Any

import flambeau as torch
from flambeau.core import absent as _absent
from flambeau.core.overrides import DisableTorchFunction, DisableTorchFunctionSubclass, disabled, mode_on
from flambeau.core.tensor import Tensor as TensorBase

_disabled_torch_function_impl = disabled
_NO_DISPATCHER = "flambeau has no dispatcher; override functions with __torch_function__"
OpOverload = _absent.kind("_C.OpOverload", _NO_DISPATCHER)
OpOverloadPacket = _absent.kind("_C.OpOverloadPacket", _NO_DISPATCHER)

__all__ = [
    "DisableTorchFunction",
    "DisableTorchFunctionSubclass",
    "OpOverload",
    "OpOverloadPacket",
    "TensorBase",
    "_disabled_torch_function_impl",
]


def _get_tracing_state() -> None:
    """None: nothing is traced."""


def _is_torch_function_enabled() -> bool:
    """Whether classes override calls in this thread."""
    from flambeau.core.modes import local

    return local.overrides


def _is_torch_function_mode_enabled() -> bool:
    """Whether a mode sees the calls of this thread."""
    return mode_on()


def _get_default_device() -> str:
    """The type of the default device."""
    return str(torch.get_default_device())


def __getattr__(name: str) -> Any:
    if name in ("Generator", "Size", "dtype", "device", "layout", "memory_format", "FloatTensor", "LongTensor"):
        return getattr(torch, name)
    raise AttributeError(
        f"module 'flambeau._C' has no attribute '{name}': flambeau has no native module; use the public function"
    )
