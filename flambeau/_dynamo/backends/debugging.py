"""torch._dynamo.backends.debugging: backends that run graphs as they are, on PyTorch's functions or on aten's operators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import flambeau as torch
from flambeau._dynamo.backends.common import aot_autograd
from flambeau._dynamo.backends.registry import register_backend, register_debug_backend

__all__ = ["aot_eager", "aot_eager_default_partitioner", "boxed_nop", "eager", "eager_noexcept", "inductor", "ts"]


@register_debug_backend
def eager(gm: Any, fake_tensor_inputs: list[Any], **kwargs: Any) -> Callable[..., Any]:
    """The graph as it is. RuntimeError for options."""
    if kwargs:
        raise RuntimeError(f"eager backend does not accept options; got {sorted(kwargs)}")
    return gm.forward  # type: ignore[no-any-return]


@register_debug_backend
def eager_noexcept(gm: Any, fake_tensor_inputs: list[Any], **kwargs: Any) -> Callable[..., Any]:
    """The graph as it is; what it raises is the error of another."""

    def inner(*args: Any) -> Any:
        try:
            return gm(*args)
        except Exception as error:
            raise torch._dynamo.exc.TorchDynamoException("Unexpected exception when running generated GraphModule") from error

    return inner


@register_debug_backend
def ts(gm: Any, fake_tensor_inputs: list[Any], **kwargs: Any) -> Any:
    """The graph by TorchScript."""
    return torch.jit.script(gm)


def boxed_nop(fx_g: Any, example_inputs: Any) -> Callable[[list[Any]], Any]:
    """A graph of aten's operators as it is, as a function of one list."""

    def run(args: list[Any]) -> Any:
        return torch.fx.Interpreter(fx_g).boxed_run(args)

    run._boxed_call = True  # type: ignore[attr-defined]
    return run


def _aot(name: str, **settings: Any) -> Any:
    backend = aot_autograd(fw_compiler=boxed_nop, **settings)
    backend.__name__ = name
    return register_debug_backend(backend, name=name)


aot_eager = _aot("aot_eager", keep_inference_input_mutations=True)
aot_eager_default_partitioner = _aot("aot_eager_default_partitioner", keep_inference_input_mutations=True)


@register_backend
def inductor(gm: Any, example_inputs: list[Any], **kwargs: Any) -> Callable[..., Any]:
    """A graph by the default backend, which has nothing to gain from one: it runs as it is."""
    return gm.forward  # type: ignore[no-any-return]
