"""`flambeau.autograd.function`: operators whose forward and backward the user writes."""

from __future__ import annotations

from flambeau.core.autograd.function import BackwardCFunction, Function, FunctionCtx, once_differentiable

__all__ = ["BackwardCFunction", "Function", "FunctionCtx", "InplaceFunction", "NestedIOFunction", "once_differentiable"]


class InplaceFunction(Function):
    """A Function that may work in place; kept for programs that subclass it."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace


class NestedIOFunction(Function):
    """PyTorch's Function over nested containers; programs only test for it."""
