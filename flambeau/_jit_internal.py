"""torch._jit_internal: what libraries import from there; all of it belongs to `flambeau.jit`, or does nothing without scripts."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Union, get_args, get_origin

from flambeau.jit import Final, Future, _overload, _overload_method, export, ignore, is_scripting, unused
from flambeau.jit.annotations import BroadcastingList1, BroadcastingList2, BroadcastingList3, Dict, List, Optional, Tuple

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


@contextmanager
def _disable_emit_hooks() -> Iterator[None]:
    """Context: nothing is called with what is compiled; see torch._C._jit_set_emit_hooks."""
    from flambeau.jit import emit_hooks

    before = emit_hooks.hooks()
    emit_hooks.set_hooks(None, None)
    try:
        yield
    finally:
        emit_hooks.set_hooks(*before)


def get_callable_argument_names(fn: Callable[..., Any]) -> list[str]:
    """The names of a function's parameters that take arguments by position and by name; none if others need to be given."""
    try:
        parameters = inspect.signature(fn).parameters
    except (TypeError, ValueError):
        return []
    return [name for name, p in parameters.items() if p.kind is p.POSITIONAL_OR_KEYWORD]


def is_optional(ann: Any) -> bool:
    """Whether an annotation is Optional[T]: a union of None and one other type."""
    if ann is Optional:
        raise RuntimeError("Attempted to use Optional without a contained type. Please add a contained type, e.g. Optional[int]")
    parts = get_args(ann)
    is_union = get_origin(ann) is Union or type(ann).__name__ == "UnionType"
    return is_union and len(parts) == 2 and type(None) in parts


def check_empty_containers(obj: Any) -> None:
    """Warn of an empty list, dict or tuple, whose type isn't told by what is in it."""
    if obj in ([], {}, ()):
        warnings.warn(
            "The inner type of a container is lost when calling torch.jit.isinstance in eager mode. For example, List[int] would "
            "become list and therefore falsely return True for List[float] or List[str].",
            stacklevel=2,
        )
