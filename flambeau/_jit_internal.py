"""torch._jit_internal: what libraries import from there; all of it belongs to `flambeau.jit`, or does nothing without scripts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau.jit import (
    Final,
    Future,
    _overload,
    _overload_method,
    export,
    ignore,
    is_scripting,
    unused,
)
from flambeau.jit.annotations import (
    BroadcastingList1,
    BroadcastingList2,
    BroadcastingList3,
    Dict,
    List,
    Optional,
    Tuple,
)

__all__ = [
    "BroadcastingList1",
    "BroadcastingList2",
    "BroadcastingList3",
    "Dict",
    "Final",
    "Future",
    "List",
    "Optional",
    "Tuple",
    "_copy_to_script_wrapper",
    "_overload",
    "_overload_method",
    "export",
    "ignore",
    "is_scripting",
    "unused",
]


def _copy_to_script_wrapper(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a method that a script module takes over as it is; gives it back."""
    fn._torchscript_modifier = "copy this Python method to the script wrapper"  # type: ignore[attr-defined]
    return fn
