"""Adamax: Adam by the infinity norm. Stands on pointwise.py and update.py."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flambeau.core.tensor.tensor import Tensor
from flambeau.optim.optimizer import ParamsT
from flambeau.optim.pointwise import PointwiseOptimizer, check, number, zeros
from flambeau.optim.update import absolute, apply_updates, by_step, lerp, maximum, multiply_add, new_counter, scalars_of

__all__ = ["Adamax"]


def adamax(param, exp_avg, exp_inf, grad, *, weight1, beta2, eps, weight_decay, step_size, maximize, decay):
    """A step along the mean gradient over the decayed largest magnitude. -> (param, exp_avg, exp_inf)"""
    if maximize:
        grad = -grad
    if decay:
        grad = multiply_add(weight_decay, param, grad)
    exp_avg = lerp(exp_avg, grad, weight1)
    exp_inf = maximum(exp_inf * beta2, absolute(grad) + eps)
    return param - step_size * exp_avg / exp_inf, exp_avg, exp_inf


class Adamax(PointwiseOptimizer):
    """Adamax: p <- p - lr m / u, with m the corrected mean gradient and u <- max(beta2 u, |g| + eps).

    Args:
        params: tensors, named tensors, or parameter groups.
        lr: learning rate.
        betas: how much the mean and the norm keep.
        eps: keeps the norm from zero.
        weight_decay: times the parameter, is added to the gradient.
        foreach, maximize, differentiable, capturable: as for Adam.

    Raises:
        ValueError: a hyperparameter out of its range.
    """

    _later_options = {"foreach": None, "maximize": False, "differentiable": False, "capturable": False}

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        check(lr=lr, eps=eps, betas=betas, weight_decay=weight_decay)
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "capturable": capturable,
        }
        super().__init__(params, defaults)

    def _create_state(self, parameter: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        return {"step": new_counter(), "exp_avg": zeros(parameter), "exp_inf": zeros(parameter)}

    def _update_group(self, group: dict[str, Any]) -> None:
        flags = {"maximize": group["maximize"], "decay": group["weight_decay"] != 0}
        for step, members in by_step(self._members(group)):
            rows = [((p, state["exp_avg"], state["exp_inf"]), (p.grad,)) for p, state in members]
            apply_updates(adamax, rows, scalars_of(_scalars, group, step), flags)


def _scalars(group: Mapping[str, Any], step: float) -> dict[str, Any]:
    beta1, beta2 = (number(beta, group) for beta in group["betas"])
    return {
        "weight1": 1 - beta1,
        "beta2": beta2,
        "eps": group["eps"],
        "weight_decay": group["weight_decay"],
        "step_size": number(group["lr"], group) / (1 - beta1**step),
    }
