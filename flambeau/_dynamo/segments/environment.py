"""What a thread's state says of how operators compute, beside grad mode: a segment is computed under that of its calls.

Stands on core.modes; used by tracer.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from flambeau.base import device as devices
from flambeau.base import dtype as dtypes
from flambeau.core.modes import modes
from flambeau.core.modes.modes import local

__all__ = ["current", "restored"]


def current() -> tuple[Any, ...]:
    """The state of this thread, to be compared and hashed."""
    return (
        local.inference,
        tuple([item for item in local.autocast_enabled.items() if item[1]]),
        tuple(local.autocast_dtype.items()),
        local.autocast_cache_enabled,
        tuple(local.saved_tensors_hooks),
        local.saved_tensors_disabled,
        dtypes.get_default_dtype(),
        devices.get_default_device(),
    )


@contextlib.contextmanager
def restored(environment: tuple[Any, ...], grad: bool) -> Iterator[None]:
    """A block under that state, and in no mode below autograd."""
    before, before_grad, dispatch_modes = current(), local.grad, local.dispatch_modes
    _set(environment, before)
    local.grad, local.dispatch_modes = grad, []
    device = environment[-1]
    try:
        with contextlib.nullcontext() if device is before[-1] else device:
            yield
    finally:
        local.dispatch_modes = dispatch_modes
        _set(before, environment)
        local.grad = before_grad


def _set(wanted: tuple[Any, ...], now: tuple[Any, ...]) -> None:
    if wanted == now:
        return
    inference, enabled, types, cached, hooks, disabled, dtype, _ = wanted
    modes._set_inference(inference)
    on = dict(enabled)
    for kind in {*local.autocast_enabled, *on}:
        modes.set_autocast_enabled(kind, on.get(kind, False))
    local.autocast_dtype.update(types)
    local.autocast_cache_enabled = cached
    local.saved_tensors_hooks[:] = hooks
    local.saved_tensors_disabled = disabled
    if dtype is not now[6]:
        dtypes.set_default_dtype(dtype)
