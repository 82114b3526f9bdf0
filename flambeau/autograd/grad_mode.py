"""`flambeau.autograd.grad_mode`: whether graphs are recorded."""

from __future__ import annotations

from typing import Any

from flambeau.core.modes.modes import enable_grad, inference_mode, local, no_grad, set_grad_enabled

__all__ = [
    "enable_grad",
    "inference_mode",
    "is_multithreading_enabled",
    "is_view_replay_enabled",
    "no_grad",
    "set_grad_enabled",
    "set_multithreading_enabled",
]


class set_multithreading_enabled:
    """Accepted for compatibility: backward passes run on the calling thread, their kernels on all threads."""

    def __init__(self, mode: bool) -> None:
        self.prev = local.multithreading
        local.multithreading = self.mode = mode

    def __enter__(self) -> None:
        local.multithreading = self.mode

    def __exit__(self, *exception: Any) -> None:
        local.multithreading = self.prev


def is_multithreading_enabled() -> bool:
    """What set_multithreading_enabled was given last in this thread."""
    return local.multithreading


class _force_original_view_tracking:
    """Accepted for compatibility: how views are made again after a write to their base is the same either way."""

    def __init__(self, mode: bool) -> None:
        self.prev, local.view_replay = local.view_replay, mode
        self.mode = mode

    def __enter__(self) -> None:
        local.view_replay = self.mode

    def __exit__(self, *exception: Any) -> None:
        local.view_replay = self.prev


def is_view_replay_enabled() -> bool:
    """What _force_original_view_tracking was given last in this thread."""
    return local.view_replay


def _enter_inference_mode(mode: bool) -> Any:
    """Begin a block of inference mode, as the code of graphs does; gives what ends it."""
    block = inference_mode(mode)
    block.__enter__()
    return block


def _exit_inference_mode(mode: Any) -> None:
    """End the block."""
    mode.__exit__(None, None, None)
