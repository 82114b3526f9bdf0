"""torch.export of models with tensors whose classes answer functions of torch."""

from __future__ import annotations

from typing import Any

import flambeau as torch


class Scaled(torch.Tensor):
    """Integers and a scale, which answer linear by what they stand for."""

    @staticmethod
    def __new__(cls, integers: torch.Tensor, scale: torch.Tensor) -> Any:
        return torch.Tensor._make_wrapper_subclass(cls, integers.shape, dtype=scale.dtype)

    def __init__(self, integers: torch.Tensor, scale: torch.Tensor) -> None:
        self.integers, self.scale = integers, scale

    def __tensor_flatten__(self) -> Any:
        return ["integers", "scale"], None

    @staticmethod
    def __tensor_unflatten__(inner: Any, meta: Any, size: Any, stride: Any) -> Any:
        return Scaled(inner["integers"], inner["scale"])

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.nn.functional.linear:
            x, weight, bias = args
            return func(x, weight.integers.to(x.dtype) * weight.scale, bias)
        return super().__torch_function__(func, types, args, kwargs)

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.ops.aten.detach.default:
            return args[0]
        raise NotImplementedError(str(func))


class Unwrapped(torch.nn.Module):
    """A layer that makes its weight of two buffers as it is called, as torchao's unwrap_tensor_subclass has it."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("integers", torch.randint(-127, 128, (3, 4), dtype=torch.int8))
        self.register_buffer("scale", torch.rand(3, 1))
        self.bias = torch.nn.Parameter(torch.randn(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.linear(x, Scaled(self.integers, self.scale), self.bias)


def test_classes_of_tensors_that_the_graph_knows_answer_first() -> None:
    model, x = Unwrapped(), torch.randn(2, 4)
    program = torch.export.export(model, (x,))
    called = [str(n.target) for n in program.graph.nodes if n.op == "call_function"]
    assert [name for name in called if "metadata" not in name] == ["aten.to.dtype", "aten.mul.Tensor", "aten.linear.default"]
    torch.testing.assert_close(program.module()(x), model(x), rtol=0, atol=0)
    assert not program.constants and set(program.state_dict) == {"integers", "scale", "bias"}
