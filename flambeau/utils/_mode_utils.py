"""torch.utils._mode_utils: small tools for modes and for classes that answer operators."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

from flambeau.core.modes.overrides import DisableTorchDispatch

__all__ = ["all_same_mode", "no_dispatch"]


@contextlib.contextmanager
def no_dispatch() -> Iterator[None]:
    """Operators are answered by nobody but themselves."""
    with DisableTorchDispatch():
        yield


def all_same_mode(modes: Sequence[Any]) -> bool:
    """Whether all are equal to the first."""
    return all(mode == modes[0] for mode in modes)
