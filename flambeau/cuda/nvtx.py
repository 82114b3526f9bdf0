"""torch.cuda.nvtx: marks for NVIDIA's profiler; without CUDA they raise as PyTorch's do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["mark", "range", "range_end", "range_pop", "range_push", "range_start"]


def _refuse(*args: Any, **kwargs: Any) -> Any:
    """Raises RuntimeError: there is no NVTX."""
    raise RuntimeError("NVTX functions not installed. Are you sure you have a CUDA build?")


range_push = range_pop = range_start = range_end = mark = _refuse


@contextmanager
def range(msg: str, *args: Any, **kwargs: Any) -> Iterator[None]:
    """Context between two marks. Raises RuntimeError: there is no NVTX."""
    range_push(msg.format(*args, **kwargs))
    yield
