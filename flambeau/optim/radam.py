"""RAdam: Adam that waits until its second moment can be trusted. Stands on pointwise.py and update.py."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flambeau.core.tensor.tensor import Tensor
from flambeau.optim.adam import moments
from flambeau.optim.optimizer import ParamsT
from flambeau.optim.pointwise import PointwiseOptimizer, check, number, zeros
from flambeau.optim.update import apply_updates, by_step, new_counter, product, scalars_of, sqrt, where

__all__ = ["RAdam"]


def radam(
    param, exp_avg, exp_avg_sq, grad, *,
    lr, weight1, beta2, weight2, eps, weight_decay, kept, bias1, bias2_sqrt, rectified, rectification,
    maximize, decay, decoupled,
):  # fmt: skip
    """Adam's step times a rectification, or plain momentum if `rectified` is 0. -> (param, exp_avg, exp_avg_sq)"""
    param, exp_avg, exp_avg_sq = moments(
        param, exp_avg, exp_avg_sq, grad, weight1, beta2, weight2, weight_decay, kept, maximize, decay, decoupled
    )
    step = product(exp_avg / bias1, lr)
    step = where(rectified > 0.5, product(step * (bias2_sqrt / (sqrt(exp_avg_sq) + eps)), rectification), step)
    return param - step, exp_avg, exp_avg_sq


class RAdam(PointwiseOptimizer):
    """Rectified Adam: steps by momentum alone until the variance of the adaptive rate is tractable.

    Args:
        params: tensors, named tensors, or parameter groups.
        lr: learning rate.
        betas: how much each moving average keeps.
        eps: keeps the denominator from zero.
        weight_decay: times the parameter, is added to the gradient (see decoupled_weight_decay).
        decoupled_weight_decay: shrink the parameter itself by lr * weight_decay.
        foreach, maximize, capturable, differentiable: as for Adam.

    Raises:
        ValueError: a hyperparameter out of its range.
    """

    _later_options = {
        "foreach": None,
        "maximize": False,
        "differentiable": False,
        "decoupled_weight_decay": False,
        "capturable": False,
    }

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        check(lr=lr, eps=eps, betas=betas, weight_decay=weight_decay)
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "maximize": maximize,
            "foreach": foreach,
            "capturable": capturable,
            "decoupled_weight_decay": decoupled_weight_decay,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def _create_state(self, parameter: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        return {"step": new_counter(), "exp_avg": zeros(parameter), "exp_avg_sq": zeros(parameter)}

    def _update_group(self, group: dict[str, Any]) -> None:
        flags = {"maximize": group["maximize"], "decay": group["weight_decay"] != 0, "decoupled": group["decoupled_weight_decay"]}
        for step, members in by_step(self._members(group)):
            rows = [((p, state["exp_avg"], state["exp_avg_sq"]), (p.grad,)) for p, state in members]
            apply_updates(radam, rows, scalars_of(_scalars, group, step), flags)


def _scalars(group: Mapping[str, Any], step: float) -> dict[str, Any]:
    beta1, beta2 = (number(beta, group) for beta in group["betas"])
    lr, weight_decay = number(group["lr"], group), group["weight_decay"]
    bias2 = 1 - beta2**step
    # the number of gradients that the second moment effectively averages
    most = 2 / (1 - beta2) - 1
    length = most - 2 * step * beta2**step / bias2
    rectified = bool(length > 5.0)
    return {
        "lr": lr,
        "weight1": 1 - beta1,
        "beta2": beta2,
        "weight2": 1 - beta2,
        "eps": group["eps"],
        "weight_decay": weight_decay,
        "kept": 1 - lr * weight_decay,
        "bias1": 1 - beta1**step,
        "bias2_sqrt": bias2**0.5,
        "rectified": float(rectified),
        "rectification": ((length - 4) * (length - 2) * most / ((most - 4) * (most - 2) * length)) ** 0.5 if rectified else 1.0,
    }
