"""torch.cuda.profiler: NVIDIA's profiler, which needs CUDA: starting and stopping it raises AssertionError."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from flambeau.base.errors import no_accelerator

__all__ = ["profile", "start", "stop"]


def start() -> None:
    """Raises AssertionError: there is no CUDA."""
    raise no_accelerator("cuda")


def stop() -> None:
    """Raises AssertionError: there is no CUDA."""
    raise no_accelerator("cuda")


@contextmanager
def profile() -> Iterator[None]:
    """Context between start and stop."""
    start()
    yield
    stop()
