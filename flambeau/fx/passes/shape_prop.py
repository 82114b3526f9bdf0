"""Shapes: running a graph once and noting the shape, dtype and strides of every tensor in meta["tensor_meta"].

Stands on fx.interpreter.
"""

from __future__ import annotations

import copy
from typing import Any, NamedTuple

import flambeau as torch
from flambeau.fx.interpreter import Interpreter
from flambeau.fx.node import Node, map_aggregate

__all__ = ["ShapeProp", "TensorMetadata"]


class TensorMetadata(NamedTuple):
    """What is known about a tensor without its values."""

    shape: torch.Size
    dtype: torch.dtype
    requires_grad: bool
    stride: tuple[int, ...]
    memory_format: torch.memory_format | None
    is_quantized: bool
    qparams: dict[str, Any]


def _extract_tensor_metadata(result: torch.Tensor, include_contiguity: bool = True) -> TensorMetadata:
    found = None
    if include_contiguity:
        formats = (torch.contiguous_format, torch.channels_last, torch.channels_last_3d)
        dims = {torch.channels_last: 4, torch.channels_last_3d: 5}
        for memory_format in formats:
            if dims.get(memory_format, result.ndim) == result.ndim and result.is_contiguous(memory_format=memory_format):
                found = memory_format
                break
    return TensorMetadata(result.shape, result.dtype, result.requires_grad, result.stride(), found, False, {})


class ShapeProp(Interpreter):
    """ShapeProp(module).propagate(*args) runs the module, and leaves meta["tensor_meta"] and meta["type"] in its nodes.

    fake_mode: the FakeTensorMode to run it in, on fake tensors; None: it runs on values.
    """

    def __init__(self, gm: Any, fake_mode: Any = None) -> None:
        super().__init__(gm)
        self.fake_mode = fake_mode
        if fake_mode is not None:  # values of the module stay, as the nodes are its own
            from flambeau._subclasses.fake_tensor import FakeCopyMode

            with FakeCopyMode(fake_mode):
                self.module = copy.deepcopy(gm)
            self.submodules = dict(self.module.named_modules())

    def run_node(self, n: Node) -> Any:
        """The node's value; raises RuntimeError that names the node for what it raises."""
        try:
            result = super().run_node(n)
        except Exception as error:
            raise RuntimeError(f"ShapeProp error for: node={n.format_node()} with meta={n.meta}") from error
        tensors = False

        def extract(value: Any) -> Any:
            nonlocal tensors
            if isinstance(value, torch.Tensor):
                tensors = True
                return _extract_tensor_metadata(value)
            return value

        meta = map_aggregate(result, extract)
        if tensors:
            n.meta["tensor_meta"] = meta
        n.meta["type"] = type(result)
        return result

    def propagate(self, *args: Any) -> Any:
        """Run the module on the arguments; returns what it returns."""
        if self.fake_mode is None:
            return super().run(*args)
        with self.fake_mode:
            return super().run(*[self.fake_mode.from_tensor(x) if isinstance(x, torch.Tensor) else x for x in args])
