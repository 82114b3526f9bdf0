"""NAdam: Adam with Nesterov momentum. Stands on pointwise.py and update.py."""

from __future__ import annotations

from typing import Any

from flambeau.core.tensor.tensor import Tensor
from flambeau.optim.optimizer import ParamsT
from flambeau.optim.pointwise import Member, PointwiseOptimizer, check, number, zeros
from flambeau.optim.update import apply_updates, by_step, lerp, multiply_add, new_counter, product, sqrt

__all__ = ["NAdam"]


def nadam(
    param, exp_avg, exp_avg_sq, grad, *,
    weight1, beta2, weight2, eps, weight_decay, kept, bias2, grad_size, avg_size, maximize, decay, decoupled,
):  # fmt: skip
    """A step along the gradient and along its mean. -> (param, exp_avg, exp_avg_sq)"""
    if maximize:
        grad = -grad
    if decay:
        if decoupled:
            param = product(param, kept)
        else:
            grad = multiply_add(weight_decay, param, grad)
    exp_avg = lerp(exp_avg, grad, weight1)
    exp_avg_sq = multiply_add(weight2 * grad, grad, product(exp_avg_sq, beta2))
    denominator = sqrt(exp_avg_sq / bias2) + eps
    param = param - grad_size * grad / denominator
    return param - avg_size * exp_avg / denominator, exp_avg, exp_avg_sq


class NAdam(PointwiseOptimizer):
    """Adam with Nesterov momentum, whose momentum warms up at the pace of momentum_decay.

    Args:
        params: tensors, named tensors, or parameter groups.
        lr: learning rate.
        betas: how much each moving average keeps.
        eps: keeps the denominator from zero.
        weight_decay: times the parameter, is added to the gradient (see decoupled_weight_decay).
        momentum_decay: how fast the momentum approaches beta1.
        decoupled_weight_decay: shrink the parameter itself by lr * weight_decay.
        foreach, maximize, capturable, differentiable: as for Adam.

    Raises:
        ValueError: a hyperparameter out of its range.
    """

    _later_options = {
        "maximize": False,
        "foreach": None,
        "capturable": False,
        "differentiable": False,
        "decoupled_weight_decay": False,
    }
    _counters = ("step", "mu_product")
    _captured = "params, mu_products and state_steps"

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum_decay: float = 4e-3,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        check(lr=lr, eps=eps, betas=betas, weight_decay=weight_decay, momentum_decay=momentum_decay)
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "momentum_decay": momentum_decay,
            "decoupled_weight_decay": decoupled_weight_decay,
            "maximize": maximize,
            "foreach": foreach,
            "capturable": capturable,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def _create_state(self, parameter: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        return {
            "step": new_counter(),
            "mu_product": new_counter(1.0),
            "exp_avg": zeros(parameter),
            "exp_avg_sq": zeros(parameter),
        }

    def _update_group(self, group: dict[str, Any]) -> None:
        beta1, beta2 = (number(beta, group) for beta in group["betas"])
        lr, weight_decay, momentum_decay = number(group["lr"], group), group["weight_decay"], group["momentum_decay"]
        flags = {"maximize": group["maximize"], "decay": weight_decay != 0, "decoupled": group["decoupled_weight_decay"]}
        for step, members in by_step(self._members(group)):
            mu = beta1 * (1.0 - 0.5 * 0.96 ** (step * momentum_decay))
            mu_next = beta1 * (1.0 - 0.5 * 0.96 ** ((step + 1) * momentum_decay))
            for mu_product, alike in _by_mu_product(members, mu):
                scalars = {
                    "weight1": 1 - beta1,
                    "beta2": beta2,
                    "weight2": 1 - beta2,
                    "eps": group["eps"],
                    "weight_decay": weight_decay,
                    "kept": 1 - lr * weight_decay,
                    "bias2": 1 - beta2**step,
                    "grad_size": lr * (1.0 - mu) / (1.0 - mu_product),
                    "avg_size": lr * mu_next / (1.0 - mu_product * mu_next),
                }
                rows = [((p, state["exp_avg"], state["exp_avg_sq"]), (p.grad,)) for p, state in alike]
                apply_updates(nadam, rows, scalars, flags)


def _by_mu_product(members: list[Member], mu: Any) -> list[tuple[Any, list[Member]]]:
    """Multiply each member's product of momenta by `mu`; (product, members) for each distinct product.

    A product that the graph reaches stays a tensor, with members of its own.
    """
    groups: dict[Any, list[Member]] = {}
    for member in members:
        product = member[1]["mu_product"]
        product *= mu
        groups.setdefault(product if product.requires_grad else product.item(), []).append(member)
    return list(groups.items())
