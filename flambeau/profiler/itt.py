"""torch.profiler.itt: marks for Intel's profilers, which flambeau has none for. Every function but is_available raises
RuntimeError, as in PyTorch's builds without them.
"""

from __future__ import annotations

from typing import Any, NoReturn

__all__ = ["is_available", "mark", "range", "range_pop", "range_push"]


def is_available() -> bool:
    """False."""
    return False


def _refused(*_: Any, **__: Any) -> NoReturn:
    """RuntimeError: there is nothing to mark for."""
    raise RuntimeError("ITT functions not installed. Are you sure you have a ITT build?")


mark = range = range_pop = range_push = _refused
