"""torch.compiler: marks and questions around torch.compile."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import Any

from flambeau.core.modes.modes import local
from flambeau.core.operator import unsupported as _unsupported

globals().update(
    _unsupported.all_of(
        "compiler.",
        "torch.compile is not there yet; call the function itself",
        "save_cache_artifacts load_cache_artifacts load_compiled_function substitute_in_graph",
    )
)


def compile(*args: Any, **kwargs: Any) -> Any:
    """torch.compile."""
    import flambeau as torch

    return torch.compile(*args, **kwargs)


def is_compiling() -> bool:
    """Whether torch.export records the program that asks. What is given to torch.compile runs as it is, and sees False."""
    return bool(local.exporting)


def is_dynamo_compiling() -> bool:
    """Whether that is by export(strict=True)."""
    return local.exporting == "dynamo"


def is_exporting() -> bool:
    """Whether torch.export records the program that asks, without strict=True."""
    return local.exporting == "export"


def reset() -> None:
    """Forget what was compiled: nothing."""


def list_backends(exclude_tags: Any = ("debug", "experimental")) -> list[str]:
    """The names of backends: none."""
    return []


def _mark(fn: Any) -> Any:
    return fn


def disable(fn: Callable[..., Any] | None = None, recursive: bool = True, *, reason: str | None = None) -> Any:
    """Mark a function that is not to be compiled; gives it back."""
    return functools.partial(_mark) if fn is None else fn


def allow_in_graph(fn: Any) -> Any:
    """Mark a function that compiling takes as one operator; gives it back."""
    return fn


def assume_constant_result(fn: Any) -> Any:
    """Mark a function whose result compiling takes as constant; gives it back."""
    return fn


def cudagraph_mark_step_begin() -> None:
    """Nothing to mark."""


def set_stance(stance: str = "default", *, skip_guard_eval_unsafe: bool = False, force_backend: Any = None) -> Any:
    """Choose how torch.compile behaves; a context without effect."""
    return contextlib.nullcontext()
