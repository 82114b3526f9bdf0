"""torch._dynamo.eval_frame: compiled modules and the switch in Python's interpreter, neither of which is here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import flambeau as torch
from flambeau.core.operator import unsupported as _unsupported

_ADVICE = "functions are not captured to graphs; call the function itself, or hand it to torch.compile"
OptimizedModule = _unsupported.kind("_dynamo.OptimizedModule", _ADVICE)
explain = _unsupported.function("_dynamo.explain", _ADVICE)
export = _unsupported.function("_dynamo.export", _ADVICE)


def is_dynamo_supported() -> bool:
    """False: functions are not captured."""
    return False


def is_inductor_supported() -> bool:
    """False: there are no graphs to compile."""
    return False


def optimize(backend: Any = "inductor", *, nopython: bool = False, **kwargs: Any) -> Callable[..., Any]:
    """A decorator: torch.compile with this backend; nopython is its fullgraph."""
    return lambda fn: torch.compile(fn, backend=backend, fullgraph=nopython)


def optimize_assert(backend: Any = "inductor", **kwargs: Any) -> Callable[..., Any]:
    """optimize with nopython=True."""
    return optimize(backend, nopython=True)


def innermost_fn(fn: Any) -> Any:
    """The function that a chain of compiled forms stands for: itself."""
    return fn


def reset_code(code: Any) -> None:
    """Forget what was compiled for a code object: nothing."""


def skip_code(code: Any) -> None:
    """Leave a code object to Python, which runs it anyway."""
