"""The older names of autocast and GradScaler, fixed to one device: torch.cpu.amp and torch.cuda.amp.

Stands on core.modes.autocast and amp.grad_scaler through the package itself. Used by flambeau.cpu.amp and flambeau.cuda.amp.
"""

from __future__ import annotations

import warnings
from typing import Any

import flambeau as torch
from flambeau.base.naming import public_module


def names_for(device: str, half: Any) -> tuple[type, type]:
    """(autocast, GradScaler) of torch.<device>.amp; `half` is the dtype that its autocast uses by default."""

    def warn(name: str) -> None:
        warnings.warn(
            f"`torch.{device}.amp.{name}(args...)` is deprecated. Please use `torch.amp.{name}('{device}', args...)` instead.",
            FutureWarning,
            stacklevel=3,
        )

    class autocast(torch.amp.autocast):
        def __init__(self, enabled: bool = True, dtype: Any = half, cache_enabled: bool = True):
            warn("autocast")
            super().__init__(device, enabled=enabled, dtype=dtype, cache_enabled=cache_enabled)

    class GradScaler(torch.amp.GradScaler):
        def __init__(
            self,
            init_scale: float = 2.0**16,
            growth_factor: float = 2.0,
            backoff_factor: float = 0.5,
            growth_interval: int = 2000,
            enabled: bool = True,
        ):
            warn("GradScaler")
            super().__init__(device, init_scale, growth_factor, backoff_factor, growth_interval, enabled)

    for made in (autocast, GradScaler):
        made.__module__, made.__qualname__ = public_module(f"{device}.amp"), made.__name__
        made.__doc__ = f'torch.amp.{made.__name__}("{device}", ...), which says so.'
    return autocast, GradScaler
