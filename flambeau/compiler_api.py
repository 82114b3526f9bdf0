"""torch.compile without a graph compiler: the function itself, or a module around the module, eagerly on compiled kernels.

It says so once per process, also that nothing looks whether there would be one graph, and refuses what eager execution can't
give: a call of the program's own backend.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any

from flambeau.base.warn import warn_once

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
    """The function itself, or an OptimizedModule around the module, with one warning per process; without `model`, a decorator.

    dynamic, mode, options: accepted; they would choose how a graph is compiled. fullgraph: accepted; what PyTorch would refuse
    because it is more than one graph runs too, which a warning says. disable: no warning.

    Raises:
        AssertionError: `model` can't be called.
        RuntimeError: an unknown mode, or mode and options together.
        NotImplementedError: a backend that is a function, which would be called with a graph.
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
    if callable(backend):
        raise NotImplementedError(
            f"torch.compile with the backend {backend!r} is not implemented in flambeau: a backend is called with the "
            "function's graph, which is not made yet; leave backend out to have the function run eagerly"
        )
    warn_once(
        "torch.compile: flambeau doesn't compile whole functions yet, so what it is given runs eagerly "
        "on compiled kernels: results are right, without the speed-up of fusing operators"
    )
    if fullgraph:
        warn_once(
            "torch.compile(fullgraph=True): flambeau makes no graphs, so a function that PyTorch would refuse because it breaks "
            "its graph runs here too: run it under PyTorch to know"
        )
    from flambeau._dynamo.eval_frame import Module, OptimizedModule

    return OptimizedModule(model) if isinstance(model, Module) and not isinstance(model, OptimizedModule) else model
