"""torch.compile: not there yet. It never hands a function back uncompiled unless it is asked to."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any


def compile(
    model: Callable[..., Any] | None = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: Any = "inductor",
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    disable: bool = False,
) -> Any:
    """Compile a function or module. With disable=True it is given back as it is; otherwise raises NotImplementedError."""
    if model is None:
        return functools.partial(
            compile, fullgraph=fullgraph, dynamic=dynamic, backend=backend, mode=mode, options=options, disable=disable
        )
    if disable:
        return model
    raise NotImplementedError(
        "torch.compile is not implemented in flambeau yet: call the function itself (its operators run as compiled "
        "kernels), or pass disable=True to have it given back unchanged"
    )
