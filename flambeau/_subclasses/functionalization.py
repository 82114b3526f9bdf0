"""Functionalization as it is switched on and off by hand: torch._enable_functionalization and its kin.

    x = torch._to_functional_tensor(t); torch._enable_functionalization(reapply_views=True)
    ...                                     # what is written to x, or to a view of it, is recorded as new values
    torch._disable_functionalization(); torch._sync(x); torch._from_functional_tensor(x)

Each thread has one FunctionalTensorMode for this, which knows its tensors also while it is off. Stands on
functional_tensor; behind the names of the torch namespace.
"""

from __future__ import annotations

import threading
from typing import Any

import flambeau as torch
from flambeau._subclasses.functional_tensor import FunctionalTensorMode, ViewCopyMode
from flambeau.core.modes.modes import local

__all__ = [
    "_disable_functionalization", "_enable_functionalization", "_from_functional_tensor", "_functionalize_has_data_mutation",
    "_functionalize_mutation_counter", "_functionalize_replace", "_functionalize_sync", "_is_functional_tensor", "_sync",
    "_to_functional_tensor",
]  # fmt: skip


class _Local(threading.local):
    def __init__(self) -> None:
        self.mode = FunctionalTensorMode()
        self.copies: ViewCopyMode | None = None
        self.on = False


_local = _Local()


def _mode_of(t: torch.Tensor) -> FunctionalTensorMode:
    """The mode that knows a tensor; what an operator has made inside is none's, and stands for itself."""
    for mode in local.dispatch_modes:
        if isinstance(mode, FunctionalTensorMode) and mode.knows(t):
            return mode
    return _local.mode


def _to_functional_tensor(t: torch.Tensor) -> torch.Tensor:
    """A tensor that stands for this one: with its values, outside of the graph, and with memory of its own to write to."""
    return _local.mode.adopt(t)  # type: ignore[no-any-return]


def _is_functional_tensor(t: torch.Tensor) -> bool:
    """Whether a tensor stands for another one."""
    return any(isinstance(mode, FunctionalTensorMode) and mode.knows(t) for mode in (_local.mode, *local.dispatch_modes))


def _from_functional_tensor(t: torch.Tensor) -> torch.Tensor:
    """What a tensor stands for, as it was at its last `_sync`."""
    return _mode_of(t).value_of(t)


def _sync(t: torch.Tensor) -> None:
    """Have a tensor stand for what the writes to those that share its memory have made of it."""
    mode = _mode_of(t)
    if _local.copies is None or _local.on:
        mode.current(t)
        return
    with _local.copies:
        mode.current(t)


def _enable_functionalization(reapply_views: bool = False) -> None:
    """Answer writes by operators that don't write, in this thread, until `_disable_functionalization`.

    reapply_views: views stay views; else they are copies of what they show. RuntimeError if it is on.
    """
    if _local.on:
        raise RuntimeError(
            "multiple layers of mode-style functionalization nesting is not currently supported, outside of the "
            "functionalize() transform"
        )
    _local.copies = None if reapply_views else ViewCopyMode()
    _local.on = True
    if _local.copies is not None:
        _local.copies.__enter__()
    _local.mode.__enter__()


def _disable_functionalization() -> None:
    """End what `_enable_functionalization` began."""
    if not _local.on:
        return
    _local.on = False
    _local.mode.__exit__(None, None, None)
    if _local.copies is not None:
        _local.copies.__exit__(None, None, None)


def _functionalize_has_data_mutation(t: torch.Tensor) -> bool:
    """Whether the values of a tensor that stands for another one were written to."""
    return _mode_of(t).data_written(t)


def _functionalize_mutation_counter(t: torch.Tensor) -> int:
    """How often the memory that such a tensor shows was written to."""
    return _mode_of(t).writes(t)


def _functionalize_replace(t: torch.Tensor, value: torch.Tensor) -> None:
    """Have such a tensor stand for another value."""
    _mode_of(t).replace(t, value)


_functionalize_sync = _sync


def checked(on: bool) -> Any:
    """Compare views of values with those of the tensors that stand for them, or no longer; gives what was before."""
    before, _local.mode.checks_views = _local.mode.checks_views, on
    return before
