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

__all__ = ["blocks", "current", "leave_autocast", "restored", "switch", "switched"]


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


def blocks(wanted: tuple[Any, ...], around: tuple[Any, ...]) -> tuple[tuple[Any, ...], ...] | None:
    """The blocks inside one state that make the other, from without: ("inference", on) and ("autocast", kind, dtype, enabled,
    cached), whose last is None where it is as around. None if there are none that do.
    """
    if wanted == around:
        return ()
    if wanted[4:] != around[4:]:
        return None
    found: list[tuple[Any, ...]] = [("inference", wanted[0])] if wanted[0] != around[0] else []
    (on, types), (was, typed) = [(dict(state[1]), dict(state[2])) for state in (wanted, around)]
    for kind in sorted({*on, *was}):
        enabled = on.get(kind, False)
        if enabled != was.get(kind, False) or (enabled and types.get(kind) != typed.get(kind)):
            cached = None if wanted[3] == around[3] else wanted[3]
            found.append(("autocast", kind, types.get(kind) if enabled else None, enabled, cached))
    return tuple(found) or None


@contextlib.contextmanager
def switched(wanted: tuple[Any, ...]) -> Iterator[None]:
    """A block under a state that differs in blocks only; grad mode is as it was afterwards."""
    before, grad = current(), local.grad
    _set(wanted, before)
    try:
        yield
    finally:
        _set(before, current())
        local.grad = grad


@contextlib.contextmanager
def restored(environment: tuple[Any, ...], grad: bool) -> Iterator[None]:
    """A block under that state, and in no mode below autograd."""
    before, before_grad, dispatch_modes = current(), local.grad, local.dispatch_modes
    nesting = local.autocast_nesting
    _set(environment, before)
    local.grad, local.dispatch_modes = grad, []
    device = environment[-1]
    try:
        with contextlib.nullcontext() if device is before[-1] else device:
            yield
    finally:
        local.dispatch_modes = dispatch_modes
        _set(before, current())  # a graph that failed has left its blocks open
        leave_autocast(nesting)
        local.grad = before_grad


def leave_autocast(nesting: int) -> None:
    """Be in no more blocks of autocast than these: the casts of weights are forgotten with the outermost."""
    while local.autocast_nesting > nesting:
        if modes.autocast_decrement_nesting() == 0:
            modes.clear_autocast_cache()


def switch(wanted: tuple[Any, ...]) -> None:
    """Make the thread's state this one, which differs in blocks only."""
    _set(wanted, current())


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
