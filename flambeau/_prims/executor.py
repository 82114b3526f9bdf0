"""torch._prims.executor: a function recorded in primitive operators, and run as that graph. Stands on make_fx."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau._prims.context import TorchRefsMode

__all__ = ["execute", "make_traced"]


def execute(gm: Any, *args: Any, executor: str = "aten", executor_parameters: dict[str, Any] | None = None) -> Any:
    """What a recorded graph gives for these arguments. ValueError for any executor but "aten"."""
    if executor != "aten":
        raise ValueError(f"Received unexpected value for 'executor': {executor}. Allowed values are: aten.")
    return gm.forward(*args)


def make_traced(fn: Callable[..., Any]) -> Callable[..., Any]:
    """A function that records fn(*args, **kwargs) with references in place of torch's functions, and runs that graph.

    It takes `executor="aten"` too.
    """

    def run(*args: Any, executor: str = "aten", **kwargs: Any) -> Any:
        from flambeau.fx.experimental.proxy_tensor import make_fx
        from flambeau.utils import _pytree as pytree

        leaves, spec = pytree.tree_flatten((args, kwargs))

        def flat(*given: Any) -> Any:
            own, named = pytree.tree_unflatten(list(given), spec)
            return fn(*own, **named)

        with TorchRefsMode():
            graph = make_fx(flat)(*leaves)
        return execute(graph, *leaves, executor=executor)

    return run
