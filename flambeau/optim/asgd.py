"""Averaged stochastic gradient descent. Stands on pointwise.py and update.py."""

from __future__ import annotations

from typing import Any

from flambeau.core.tensor.tensor import Tensor
from flambeau.optim.optimizer import ParamsT
from flambeau.optim.pointwise import Member, PointwiseOptimizer, check, number, zeros
from flambeau.optim.update import apply_updates, by_step, multiply_add, new_counter, product

__all__ = ["ASGD"]


def asgd(param, average, grad, *, eta, kept, mu, weight_decay, maximize, decay, averaging):
    """A step, and the average of the parameters over the steps since averaging began. -> (param, average)"""
    if maximize:
        grad = -grad
    if decay:
        grad = multiply_add(weight_decay, param, grad)
    param = multiply_add(-eta, grad, product(param, kept))
    return param, average + product(param - average, mu) if averaging else param


class ASGD(PointwiseOptimizer):
    """Averaged stochastic gradient descent; the average is in the state, under "ax".

    Args:
        params: tensors, named tensors, or parameter groups.
        lr: learning rate.
        lambd: decay of the parameters.
        alpha: after n steps the rate is lr / (1 + lambd lr n) ** alpha.
        t0: the step at which averaging begins.
        weight_decay: times the parameter, is added to the gradient.
        foreach, maximize, differentiable, capturable: as for Adam.

    Raises:
        ValueError: a negative rate or weight decay.
    """

    _later_options = {"foreach": None, "maximize": False, "differentiable": False, "capturable": False}
    _counters = ("step", "eta", "mu")
    _captured = "params, mus, etas, and state_steps"

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-2,
        lambd: float = 1e-4,
        alpha: float = 0.75,
        t0: float = 1e6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        check(lr=lr, weight_decay=weight_decay)
        defaults = {
            "lr": lr,
            "lambd": lambd,
            "alpha": alpha,
            "t0": t0,
            "weight_decay": weight_decay,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "capturable": capturable,
        }
        super().__init__(params, defaults)

    def _create_state(self, parameter: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        return {"step": new_counter(), "eta": new_counter(float(group["lr"])), "mu": new_counter(1.0), "ax": zeros(parameter)}

    def _update_group(self, group: dict[str, Any]) -> None:
        lr, lambd, weight_decay = number(group["lr"], group), group["lambd"], group["weight_decay"]
        for step, members in by_step(self._members(group)):
            for (eta, mu), alike in _by_rates(members):
                scalars = {"eta": eta, "kept": 1 - lambd * eta, "mu": mu, "weight_decay": weight_decay}
                flags = {"maximize": group["maximize"], "decay": weight_decay != 0, "averaging": mu != 1}
                apply_updates(asgd, [((p, state["ax"]), (p.grad,)) for p, state in alike], scalars, flags)
            eta = float(lr / (1 + lambd * lr * step) ** group["alpha"])
            mu = 1 / max(1, step - group["t0"])
            for _, state in members:
                state["eta"].fill_(eta)
                state["mu"].fill_(mu)


def _by_rates(members: list[Member]) -> list[tuple[tuple[float, float], list[Member]]]:
    """((rate, averaging weight), members) for each distinct pair in the members' states."""
    groups: dict[tuple[float, float], list[Member]] = {}
    for member in members:
        groups.setdefault((member[1]["eta"].item(), member[1]["mu"].item()), []).append(member)
    return list(groups.items())
