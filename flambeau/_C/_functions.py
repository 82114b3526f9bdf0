"""torch._C._functions: steps of the graph that programs and tests make by themselves. Stands on core.autograd.node."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from flambeau.core.autograd.node import NO_EDGE, AccumulateGrad, MultiNode
from flambeau.core.modes.modes import local
from flambeau.core.tensor import tensor as tensors
from flambeau.core.tensor.tensor import Tensor

__all__ = ["AccumulateGrad", "DelayedError", "UndefinedGrad"]


class _Error(MultiNode):
    """Raises what it was told to when a gradient gets to it."""

    __slots__ = ("words",)
    words: str

    def name(self) -> str:
        return "Error"

    def apply(self, gradients: Sequence[Any]) -> tuple[Any, ...]:
        raise RuntimeError(self.words)


class _Undefined(MultiNode):
    """Lets no gradient through."""

    __slots__ = ()

    def name(self) -> str:
        return "UndefinedGradBackward"

    def apply(self, gradients: Sequence[Any]) -> tuple[Any, ...]:
        return (None,) * len(self.edges)


def _passed(kind: type[MultiNode], given: Sequence[Any], finish: Callable[[Any], None]) -> Any:
    """Aliases of tensors, in the graph behind one step."""
    made = [tensors.tensor_from(x._storage, x._offset, x._layout) if isinstance(x, Tensor) else x for x in given]
    if local.grad and any(isinstance(x, Tensor) and x._node is not None for x in given):
        edges = [(x._node, x._index) if isinstance(x, Tensor) and x._node is not None else NO_EDGE for x in given]
        layouts = [x._layout if isinstance(x, Tensor) else None for x in given]
        node = kind(len(given), tuple(edges), tuple(layouts))
        finish(node)
        for index, x in enumerate(made):
            if isinstance(x, Tensor):
                x._node, x._index = node, index
    return made[0] if len(made) == 1 else tuple(made)


class DelayedError:
    """DelayedError(words, number of inputs)(*tensors): aliases of the tensors whose gradient is a RuntimeError."""

    def __init__(self, msg: str, num_inputs: int) -> None:
        self.msg, self.num_inputs = msg, num_inputs

    def __call__(self, *inputs: Any) -> Any:
        def finish(node: Any) -> None:
            node.words = self.msg

        return _passed(_Error, inputs, finish)


class UndefinedGrad:
    """UndefinedGrad()(*tensors): aliases of the tensors that pass no gradient on."""

    def __call__(self, *inputs: Any) -> Any:
        return _passed(_Undefined, inputs, lambda node: None)
