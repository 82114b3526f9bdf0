"""The words that declarations of operators use in annotations, besides Tensor: what a parameter may be given.

core.operator.variants and core.operator.define read the names themselves, as text, to tell operands from numbers and from
static parameters; their values here are for type checkers and readers. Stands on core.tensor.tensor; used by flambeau.ops.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias

from flambeau.core.tensor.tensor import Tensor

Number: TypeAlias = bool | int | float | complex  # a run-time argument of the kernel
Operand: TypeAlias = Tensor | Number
Tensors: TypeAlias = Sequence[Tensor]
Planned: TypeAlias = Any  # what a declaration returns whose plan is kept: a launcher, whose result is a tensor

__all__ = ["Declare", "Declared", "Number", "Operand", "Planned", "Tensors"]


class Declared(Protocol):
    """What a declaration makes: the public function, and the decorators of its derivative and of what its kernel complains of."""

    __name__: str
    operator: Any
    inplace: Any
    vjp: Callable[[Callable], Callable]
    kernel_error: Callable[[Callable], Callable]

    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...

    def __hash__(self) -> int: ...


Declare: TypeAlias = Callable[[Callable], Declared]
