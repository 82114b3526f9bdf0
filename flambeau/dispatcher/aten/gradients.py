"""Gradients of an operator by recording it: what answers `..._backward` operators whose derivative is no operator here.

Stands on core.autograd.engine; used by the files of this room.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from flambeau.core.autograd import engine
from flambeau.core.modes import modes
from flambeau.core.tensor.tensor import Tensor

__all__ = ["gradient_of", "gradients_of"]


def gradients_of(
    function: Callable[..., Any], inputs: Sequence[Tensor | None], gradient: Tensor, wanted: Sequence[bool] | None = None
) -> tuple[Tensor | None, ...]:
    """The gradients of `function(*inputs)` with respect to its inputs, given that of its result; None where not `wanted`.

    They are differentiable again where gradients are recorded.
    """
    again = modes.local.grad and any(x is not None and x._node is not None for x in (*inputs, gradient))
    before, modes.local.grad = modes.local.grad, True
    try:
        if again:
            given = [x if x is None or x._node is not None else x.detach().requires_grad_() for x in inputs]
        else:
            given = [None if x is None else x.detach().requires_grad_() for x in inputs]
        result = function(*given)
        chosen = [i for i, x in enumerate(given) if x is not None and (wanted is None or wanted[i])]
        found = engine.grad([result], [given[i] for i in chosen], [gradient], create_graph=again)
    finally:
        modes.local.grad = before
    made: list[Tensor | None] = [None] * len(inputs)
    for i, x in zip(chosen, found):
        made[i] = x
    return tuple(made)


def gradient_of(function: Callable[..., Any], input: Tensor, gradient: Tensor) -> Tensor:
    """The gradient of `function(input)` with respect to the input."""
    found = gradients_of(function, (input,), gradient)[0]
    assert found is not None
    return found
