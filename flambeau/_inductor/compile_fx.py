"""torch._inductor.compile_fx: graphs by the default backend, as backends of a program's own call it. They run as they are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

__all__ = ["compile_fx", "compile_fx_inner"]


def compile_fx(model_: Any, example_inputs_: Sequence[Any], **kwargs: Any) -> Callable[..., Any]:
    """A callable that takes a GraphModule's inputs and gives its results: its operators, each a compiled kernel.

    NotImplementedError for settings, such as inner_compile.
    """
    if any(value is not None for value in kwargs.values()):
        raise NotImplementedError(f"compile_fx({', '.join(sorted(kwargs))}) is not implemented in flambeau: leave them out")
    return model_.forward  # type: ignore[no-any-return]


def compile_fx_inner(gm: Any, example_inputs: Sequence[Any], **kwargs: Any) -> Callable[[list[Any]], Any]:
    """The same for a graph of aten's operators; the callable takes one list."""

    def call(inputs: list[Any]) -> Any:
        return gm.forward(*inputs)

    call._boxed_call = True  # type: ignore[attr-defined]
    return call
