"""Adadelta: step sizes from the running sizes of gradients and of past steps. Stands on pointwise.py, update.py."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flambeau.core.tensor.tensor import Tensor
from flambeau.optim.optimizer import ParamsT
from flambeau.optim.pointwise import CAPTURABLE_DEVICES, PointwiseOptimizer, check, number, zeros
from flambeau.optim.update import apply_updates, by_step, multiply_add, new_counter, product, scalars_of, sqrt

__all__ = ["Adadelta"]


def adadelta(param, square_avg, acc_delta, grad, *, lr, rho, weight, eps, weight_decay, maximize, decay):
    """A step of the gradient in the units of past steps. -> (param, square_avg, acc_delta)"""
    if maximize:
        grad = -grad
    if decay:
        grad = multiply_add(weight_decay, param, grad)
    square_avg = multiply_add(weight * grad, grad, product(square_avg, rho))
    delta = sqrt(acc_delta + eps) / sqrt(square_avg + eps) * grad
    acc_delta = multiply_add(weight * delta, delta, product(acc_delta, rho))
    return multiply_add(-lr, delta, param), square_avg, acc_delta


class Adadelta(PointwiseOptimizer):
    """Adadelta: p <- p - lr g sqrt(d + eps) / sqrt(v + eps), with v and d averages of squared gradients and steps.

    Args:
        params: tensors, named tensors, or parameter groups.
        lr: what steps are multiplied by.
        rho: how much each average keeps.
        eps: keeps both roots from zero.
        weight_decay: times the parameter, is added to the gradient.
        foreach, capturable, maximize, differentiable: as for Adam.

    Raises:
        ValueError: a hyperparameter out of its range.
    """

    _later_options = {"foreach": None, "maximize": False, "differentiable": False, "capturable": False}
    _capturable_devices = CAPTURABLE_DEVICES[:-1]

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        capturable: bool = False,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check(lr=lr)
        if not 0.0 <= rho <= 1.0:
            raise ValueError(f"Invalid rho value: {rho}")
        check(eps=eps, weight_decay=weight_decay)
        defaults = {
            "lr": lr,
            "rho": rho,
            "eps": eps,
            "weight_decay": weight_decay,
            "maximize": maximize,
            "capturable": capturable,
            "foreach": foreach,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def _create_state(self, parameter: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        return {"step": new_counter(), "square_avg": zeros(parameter), "acc_delta": zeros(parameter)}

    def _update_group(self, group: dict[str, Any]) -> None:
        scalars = scalars_of(_scalars, group)
        flags = {"maximize": group["maximize"], "decay": group["weight_decay"] != 0}
        for _, members in by_step(self._members(group)):
            rows = [((p, state["square_avg"], state["acc_delta"]), (p.grad,)) for p, state in members]
            apply_updates(adadelta, rows, scalars, flags)


def _scalars(group: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "lr": number(group["lr"], group),
        "rho": group["rho"],
        "weight": 1 - group["rho"],
        "eps": group["eps"],
        "weight_decay": group["weight_decay"],
    }
