"""torch.compile: a function or module whose calls are replayed, by the default backend, or whose graphs go to another one.

Stands on torch._dynamo, which has backends by name and the tracer, and hands calls to capture.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any

_MODES = ("default", "lite", "reduce-overhead", "max-autotune-no-cudagraphs", "max-autotune")


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
    """A compiled form of the function, or an OptimizedModule around the module; without `model`, a decorator.

    backend: "inductor", by which calls are recorded and replayed (see docs/compile.md); a name that
    torch._dynamo.list_backends(None) knows; or a callable: backend(graph_module, example_inputs) gives a callable that takes the
    inputs and gives a tuple. It is called for each graph, once per shapes, dtypes and strides of the inputs and numbers in it,
    but for sizes that are symbols.
    fullgraph: torch._dynamo.exc.Unsupported where the function is more than one graph, as at a branch on a tensor; not looked at
    by "inductor". dynamic: whether sizes are symbols in graphs; None: those that have differed between calls. mode: accepted.
    options: handed to backends other than "inductor". disable: the function itself.

    Raises:
        AssertionError: `model` can't be called.
        RuntimeError: an unknown mode, or mode and options together.
        torch._dynamo.exc.InvalidBackend: an unknown backend.
    """
    if model is None:
        return functools.partial(
            compile, fullgraph=fullgraph, dynamic=dynamic, backend=backend, mode=mode, options=options, disable=disable
        )
    if not callable(model):
        raise AssertionError(f"A callable function is expected, but {type(model)} is provided.")
    if mode is not None and options is not None:
        raise RuntimeError("Either mode or options can be specified, but both can't be specified at the same time.")
    if mode is not None and mode not in _MODES:
        raise RuntimeError(f"Unrecognized mode={mode}, should be one of: {', '.join(_MODES)}")
    if disable or os.environ.get("TORCH_COMPILE_DISABLE") == "1" or os.environ.get("TORCHDYNAMO_DISABLE") == "1":
        return model
    from flambeau._dynamo.backends.registry import lookup_backend
    from flambeau._dynamo.eval_frame import Traced, wrapped

    lookup_backend(backend)
    return wrapped(model, _default() if backend == "inductor" else Traced(backend, fullgraph, dynamic, options))


def _default() -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """What makes the compiled form of a function for the default backend."""
    from flambeau._dynamo.eval_frame import Replayed

    return Replayed()
