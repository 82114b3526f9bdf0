"""`flambeau.autograd.grad_mode`: whether graphs are recorded."""

from __future__ import annotations

from typing import Any

from flambeau.core.modes import enable_grad, inference_mode, local, no_grad, set_grad_enabled

__all__ = ["enable_grad", "inference_mode", "no_grad", "set_grad_enabled", "set_multithreading_enabled"]


class set_multithreading_enabled:
    """Accepted for compatibility: backward passes run on the calling thread, their kernels on all threads."""

    def __init__(self, mode: bool) -> None:
        self.prev = local.multithreading
        local.multithreading = self.mode = mode

    def __enter__(self) -> None:
        local.multithreading = self.mode

    def __exit__(self, *exception: Any) -> None:
        local.multithreading = self.prev
