"""Resilient backpropagation: step sizes of their own, by the signs of gradients. Stands on pointwise.py, update.py."""

from __future__ import annotations

from typing import Any

import flambeau
from flambeau.core.tensor.tensor import Tensor
from flambeau.optim.optimizer import ParamsT
from flambeau.optim.pointwise import PointwiseOptimizer, check, number, zeros
from flambeau.optim.update import apply_updates, by_step, clamp, multiply_add, new_counter, sign, where

__all__ = ["Rprop"]


def rprop(param, prev, step_size, grad, *, eta_minus, eta_plus, step_size_min, step_size_max, maximize):
    """A step of step_size against the gradient's sign, none where it just turned. -> (param, prev, step_size)"""
    if maximize:
        grad = -grad
    agreement = grad * prev
    turned = agreement < 0
    step_size = where(turned, step_size * eta_minus, where(agreement > 0, step_size * eta_plus, step_size))
    step_size = clamp(step_size, step_size_min, step_size_max)
    grad = where(turned, 0.0, grad)
    return multiply_add(-sign(grad), step_size, param), grad, step_size


class Rprop(PointwiseOptimizer):
    """Resilient backpropagation, for full batches.

    Args:
        params: tensors, named tensors, or parameter groups.
        lr: the first step size of every element.
        etas: what step sizes are multiplied by where the gradient's sign turns, and where it stays.
        step_sizes: the smallest and the largest step size.
        capturable, foreach, maximize, differentiable: as for Adam.

    Raises:
        ValueError: a negative rate; not 0 < etas[0] < 1 < etas[1].
    """

    _later_options = {"foreach": None, "maximize": False, "differentiable": False, "capturable": False}

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-2,
        etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50),
        *,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check(lr=lr)
        if not 0.0 < etas[0] < 1.0 < etas[1]:
            raise ValueError(f"Invalid eta values: {etas[0]}, {etas[1]}")
        defaults = {
            "lr": lr,
            "etas": etas,
            "step_sizes": step_sizes,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "capturable": capturable,
        }
        super().__init__(params, defaults)

    def _create_state(self, parameter: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        lr = float(group["lr"])
        # both parts of a complex parameter have a step size
        first = complex(lr, lr) if parameter.is_complex() else lr
        return {
            "step": new_counter(),
            "prev": zeros(parameter),
            "step_size": flambeau.full_like(parameter.grad, first, requires_grad=False),
        }

    def _update_group(self, group: dict[str, Any]) -> None:
        scalars = {
            "eta_minus": number(group["etas"][0], group),
            "eta_plus": number(group["etas"][1], group),
            "step_size_min": group["step_sizes"][0],
            "step_size_max": group["step_sizes"][1],
        }
        flags = {"maximize": group["maximize"]}
        for _, members in by_step(self._members(group)):
            rows = [((p, state["prev"], state["step_size"]), (p.grad,)) for p, state in members]
            apply_updates(rprop, rows, scalars, flags)
