"""RMSprop, plain, centered and with momentum. Stands on pointwise.py and update.py."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flambeau.core.tensor.tensor import Tensor
from flambeau.optim.optimizer import ParamsT
from flambeau.optim.pointwise import PointwiseOptimizer, check, number, zeros
from flambeau.optim.update import apply_updates, by_step, lerp, multiply_add, new_counter, product, scalars_of, sqrt

__all__ = ["RMSprop"]


def _prepared(param, grad, weight_decay, maximize, decay):
    """The gradient with its sign and weight decay."""
    if maximize:
        grad = -grad
    return multiply_add(weight_decay, param, grad) if decay else grad


def _stepped(param, buffer, grad, average, lr, momentum):
    """The parameter and the momentum buffer (None if there is none) after a step of grad / average."""
    if buffer is None:
        return (param - lr * grad / average,)
    buffer = product(buffer, momentum) + grad / average
    return multiply_add(-lr, buffer, param), buffer


def rmsprop(param, square_avg, grad, *, lr, alpha, weight, eps, momentum, weight_decay, maximize, decay):
    """-> (param, square_avg)"""
    grad = _prepared(param, grad, weight_decay, maximize, decay)
    square_avg = multiply_add(weight * grad, grad, product(square_avg, alpha))
    (param,) = _stepped(param, None, grad, sqrt(square_avg) + eps, lr, momentum)
    return param, square_avg


def rmsprop_momentum(param, square_avg, buffer, grad, *, lr, alpha, weight, eps, momentum, weight_decay, maximize, decay):
    """-> (param, square_avg, buffer)"""
    grad = _prepared(param, grad, weight_decay, maximize, decay)
    square_avg = multiply_add(weight * grad, grad, product(square_avg, alpha))
    param, buffer = _stepped(param, buffer, grad, sqrt(square_avg) + eps, lr, momentum)
    return param, square_avg, buffer


def rmsprop_centered(param, square_avg, grad_avg, grad, *, lr, alpha, weight, eps, momentum, weight_decay, maximize, decay):
    """-> (param, square_avg, grad_avg)"""
    grad = _prepared(param, grad, weight_decay, maximize, decay)
    square_avg = multiply_add(weight * grad, grad, product(square_avg, alpha))
    grad_avg = lerp(grad_avg, grad, weight)
    average = sqrt(multiply_add(-grad_avg, grad_avg, square_avg)) + eps
    (param,) = _stepped(param, None, grad, average, lr, momentum)
    return param, square_avg, grad_avg


def rmsprop_centered_momentum(
    param, square_avg, grad_avg, buffer, grad, *, lr, alpha, weight, eps, momentum, weight_decay, maximize, decay
):
    """-> (param, square_avg, grad_avg, buffer)"""
    grad = _prepared(param, grad, weight_decay, maximize, decay)
    square_avg = multiply_add(weight * grad, grad, product(square_avg, alpha))
    grad_avg = lerp(grad_avg, grad, weight)
    average = sqrt(multiply_add(-grad_avg, grad_avg, square_avg)) + eps
    param, buffer = _stepped(param, buffer, grad, average, lr, momentum)
    return param, square_avg, grad_avg, buffer


# by (centered, with momentum): the formula and its states
_VARIANTS = {
    (False, False): (rmsprop, ("square_avg",)),
    (False, True): (rmsprop_momentum, ("square_avg", "momentum_buffer")),
    (True, False): (rmsprop_centered, ("square_avg", "grad_avg")),
    (True, True): (rmsprop_centered_momentum, ("square_avg", "grad_avg", "momentum_buffer")),
}


class RMSprop(PointwiseOptimizer):
    """RMSprop: p <- p - lr g / (sqrt(v) + eps), with v a moving average of g squared.

    Args:
        params: tensors, named tensors, or parameter groups.
        lr: learning rate.
        alpha: how much the moving average keeps.
        eps: keeps the denominator from zero.
        weight_decay: times the parameter, is added to the gradient.
        momentum: how much of the running sum of steps is kept.
        centered: divide by the root of the variance, v less the squared mean gradient.
        capturable, foreach, maximize, differentiable: as for Adam.

    Raises:
        ValueError: a hyperparameter out of its range.
    """

    _later_options = {
        "momentum": 0,
        "centered": False,
        "foreach": None,
        "maximize": False,
        "differentiable": False,
        "capturable": False,
    }

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum: float = 0,
        centered: bool = False,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check(lr=lr, eps=eps, momentum=momentum, weight_decay=weight_decay, alpha=alpha)
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "alpha": alpha,
            "eps": eps,
            "centered": centered,
            "weight_decay": weight_decay,
            "capturable": capturable,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def _create_state(self, parameter: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        state: dict[str, Any] = {"step": new_counter(), "square_avg": zeros(parameter)}
        if group["momentum"] > 0:
            state["momentum_buffer"] = zeros(parameter)
        if group["centered"]:
            state["grad_avg"] = zeros(parameter)
        return state

    def _update_group(self, group: dict[str, Any]) -> None:
        formula, names = _VARIANTS[bool(group["centered"]), group["momentum"] > 0]
        scalars = scalars_of(_scalars, group)
        flags = {"maximize": group["maximize"], "decay": group["weight_decay"] != 0}
        for _, members in by_step(self._members(group)):
            rows = [((p, *[state[name] for name in names]), (p.grad,)) for p, state in members]
            apply_updates(formula, rows, scalars, flags)


def _scalars(group: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "lr": number(group["lr"], group),
        "alpha": group["alpha"],
        "weight": 1 - group["alpha"],
        "eps": group["eps"],
        "momentum": group["momentum"],
        "weight_decay": group["weight_decay"],
    }
