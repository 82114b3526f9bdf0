"""Running the optimizers that parameters have of their own, given by torch.distributed.optim._apply_optimizer_in_backward.

Stands on the parameters' attributes; that function and reducer use it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


def step_in_backward(parameter: Any) -> None:
    """A parameter's own optimizers' steps, after which its gradient is gone."""
    for optimizer in parameter._in_backward_optimizers:
        optimizer.step()
    parameter.grad = None


def hand_over(parameters: Iterable[Any]) -> list[Any]:
    """Those parameters that have optimizers of their own, whose hooks are taken off: who asks for them is to run them."""
    found = [each for each in parameters if getattr(each, "_in_backward_optimizers", None)]
    for each in found:
        handle = each.__dict__.pop("_in_backward_hook", None)
        if handle is not None:
            handle.remove()
    return found
