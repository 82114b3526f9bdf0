"""torch.compiler: marks and questions around torch.compile, which torch._dynamo answers."""

from __future__ import annotations

from typing import Any

from flambeau.core.modes.modes import local
from flambeau.core.operator import unsupported as _unsupported

globals().update(
    _unsupported.all_of(
        "compiler.",
        "graphs are kept by the process only; compile the function again",
        "save_cache_artifacts load_cache_artifacts load_compiled_function",
    )
)


def _dynamo() -> Any:
    import flambeau as torch

    return torch._dynamo


def compile(*args: Any, **kwargs: Any) -> Any:
    """torch.compile."""
    import flambeau as torch

    return torch.compile(*args, **kwargs)


def is_compiling() -> bool:
    """Whether the program that asks runs inside a compiled function, or is recorded by torch.export."""
    return bool(local.exporting)


def is_dynamo_compiling() -> bool:
    """Whether that is torch.compile, or export(strict=True)."""
    return local.exporting == "dynamo"


def is_exporting() -> bool:
    """Whether torch.export records the program that asks, without strict=True."""
    return local.exporting == "export"


def reset() -> None:
    """Forget what was compiled."""
    _dynamo().reset()


def list_backends(exclude_tags: Any = ("debug", "experimental")) -> list[str]:
    """The names of the backends that have none of these tags."""
    return _dynamo().list_backends(exclude_tags)  # type: ignore[no-any-return]


def disable(fn: Any = None, recursive: bool = True, *, reason: str | None = None) -> Any:
    """A function that no graph has anything of: inside a compiled function it runs eagerly. Without one, a decorator."""
    return _dynamo().disable(fn, recursive, reason=reason)


def allow_in_graph(fn: Any) -> Any:
    """Mark a function that compiling takes as one operator; gives it back."""
    return fn


def assume_constant_result(fn: Any) -> Any:
    """Mark a function whose result compiling may take as constant; gives it back."""
    return fn


def substitute_in_graph(original_fn: Any, **kwargs: Any) -> Any:
    """Decorator of a function that is traced in the place of original_fn, which runs as it is here; gives it back."""
    return _dynamo().substitute_in_graph(original_fn, **kwargs)


def cudagraph_mark_step_begin() -> None:
    """Nothing to mark."""


def set_stance(stance: str = "default", *, skip_guard_eval_unsafe: bool = False, force_backend: Any = None) -> Any:
    """Choose how compiled functions behave, as torch._dynamo.set_stance says: from here on, or in the context."""
    return _dynamo().set_stance(stance, skip_guard_eval_unsafe=skip_guard_eval_unsafe, force_backend=force_backend)
