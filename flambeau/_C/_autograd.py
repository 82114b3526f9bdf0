"""torch._C._autograd: private doors to saved tensors, their hooks, and the marks of views. Stands on core."""

from __future__ import annotations

from typing import Any

import flambeau as torch
from flambeau.core.autograd.node import running
from flambeau.core.autograd.saved_tensors import SavedTensor
from flambeau.core.modes.modes import local

__all__ = ["SavedTensor"]


def _saved_tensors_hooks_is_enabled() -> bool:
    """Whether this thread may hook saved tensors."""
    return local.saved_tensors_disabled is None


def _saved_tensors_hooks_disable(error_message: str, fail_if_non_empty: bool = True) -> None:
    """Have hooks on saved tensors raise this error."""
    if fail_if_non_empty and local.saved_tensors_hooks:
        raise RuntimeError(error_message)
    local.saved_tensors_disabled = error_message


def _saved_tensors_hooks_enable() -> None:
    """Allow hooks on saved tensors again."""
    local.saved_tensors_disabled = None


def _saved_tensors_hooks_get_disabled_error_message() -> str | None:
    """What hooks on saved tensors raise, or None."""
    return local.saved_tensors_disabled


def _push_saved_tensors_default_hooks(pack_hook: Any, unpack_hook: Any) -> None:
    """Enter a block of hooks on saved tensors."""
    torch.autograd.graph.saved_tensors_hooks(pack_hook, unpack_hook).__enter__()


def _pop_saved_tensors_default_hooks() -> None:
    """Leave the innermost block of hooks on saved tensors."""
    torch.autograd.graph.saved_tensors_hooks(id, id).__exit__()  # which block it is doesn't matter


def _top_saved_tensors_default_hooks(ignore_is_tracing: bool = False) -> Any:
    """The innermost hooks on saved tensors, or None."""
    return local.saved_tensors_hooks[-1] if local.saved_tensors_hooks else None


def _get_current_graph_task_keep_graph() -> bool:
    """Whether the backward pass under way keeps what it used; True without one."""
    return running.run is None or running.run.keep_graph


def _unsafe_set_version_counter(tensors: Any, versions: Any) -> None:
    """Set how often memory is said to have been written to: of a tensor, or of several."""
    several = isinstance(tensors, (tuple, list))
    for tensor, version in zip(tensors, versions, strict=True) if several else ((tensors, versions),):
        tensor._storage.writes = version


def _profiler_type() -> Any:
    """Which profiler measures, an ActiveProfilerType."""
    kinds = torch._C._profiler.ActiveProfilerType
    return kinds.KINETO if torch.profiler._current else kinds.NONE
