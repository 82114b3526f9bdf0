"""`flambeau.autograd.variable`: the old name of the Tensor."""

from __future__ import annotations

from typing import Any

from flambeau.core.autograd import engine
from flambeau.core.tensor.tensor import Tensor

__all__ = ["Variable"]


class _Engine:
    """The engine under the name some libraries reach for."""

    @staticmethod
    def queue_callback(callback: Any) -> None:
        """Call `callback()` at the end of the backward pass under way."""
        engine.queue_callback(callback)


class _VariableMeta(type):
    def __instancecheck__(cls, other: Any) -> bool:
        return isinstance(other, Tensor)


class Variable(metaclass=_VariableMeta):
    """Variable(tensor, requires_grad=False): the tensor itself, as a leaf."""

    _execution_engine = _Engine()

    def __new__(cls, data: Any = None, requires_grad: bool = False) -> Any:
        made = data.detach()
        return made.requires_grad_() if requires_grad else made
