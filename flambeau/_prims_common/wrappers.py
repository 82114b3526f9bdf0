"""torch._prims_common.wrappers: what stands around references. Here nothing does: `out=` belongs to the operators."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["_maybe_remove_out_wrapper"]


def _maybe_remove_out_wrapper(fn: Callable) -> Callable:
    """The function itself, which has no wrapper for `out=`."""
    return fn
