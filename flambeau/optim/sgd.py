"""Stochastic gradient descent with (Nesterov) momentum. Stands on pointwise.py and update.py."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import flambeau
from flambeau.core.tensor.tensor import Tensor
from flambeau.optim.optimizer import ParamsT
from flambeau.optim.pointwise import PointwiseOptimizer, check_fused, check_fusible, check_tensor_lr, number
from flambeau.optim.update import apply_updates, multiply_add, product, scalars_of

__all__ = ["SGD"]


def sgd(param, grad, *, lr, weight_decay, maximize, decay):
    """Plain descent. -> (param,)"""
    if maximize:
        grad = -grad
    if decay:
        grad = multiply_add(weight_decay, param, grad)
    return (multiply_add(-lr, grad, param),)


def sgd_momentum(param, buffer, grad, *, lr, momentum, undamped, weight_decay, maximize, decay, nesterov, first):
    """Descent along a running sum of gradients, which starts as the `first` gradient. -> (param, buffer)"""
    if maximize:
        grad = -grad
    if decay:
        grad = multiply_add(weight_decay, param, grad)
    buffer = grad if first else multiply_add(undamped, grad, product(buffer, momentum))
    direction = multiply_add(momentum, buffer, grad) if nesterov else buffer
    return multiply_add(-lr, direction, param), buffer


class SGD(PointwiseOptimizer):
    """Stochastic gradient descent: b <- momentum b + (1 - dampening) g; p <- p - lr b.

    Args:
        params: tensors, named tensors, or parameter groups.
        lr: learning rate.
        momentum: how much of the running sum is kept.
        dampening: how much of the gradient is left out of the running sum.
        weight_decay: times the parameter, is added to the gradient.
        nesterov: look ahead along the momentum.
        maximize: ascend.
        foreach, fused: accepted for compatibility; a step is one kernel anyway.
        differentiable: record the step for autograd.

    Raises:
        ValueError: a negative rate, momentum or decay; Nesterov without momentum or with dampening.
    """

    _later_options = {"nesterov": False, "maximize": False, "foreach": None, "differentiable": False, "fused": False}

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: float | Tensor = 0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        check_tensor_lr(lr)
        if lr < 0.0:
            raise ValueError(f"Invalid learning rate: {lr}")
        if momentum < 0.0:
            raise ValueError(f"Invalid momentum value: {momentum}")
        if weight_decay < 0.0:
            raise ValueError(f"Invalid weight_decay value: {weight_decay}")
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "dampening": dampening,
            "weight_decay": weight_decay,
            "nesterov": nesterov,
            "maximize": maximize,
            "foreach": foreach,
            "differentiable": differentiable,
            "fused": fused,
        }
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        super().__init__(params, defaults)
        check_fused(fused, foreach, differentiable)

    def _update_group(self, group: dict[str, Any]) -> None:
        parameters = [parameter for parameter in group["params"] if parameter.grad is not None]
        weight_decay, momentum = number(group["weight_decay"], group), number(group["momentum"], group)
        flags = {"maximize": group["maximize"], "decay": bool(weight_decay != 0)}
        scalars = scalars_of(_scalars if momentum == 0 else _scalars_of_momentum, group)
        dense = []
        if group["fused"]:
            for parameter in parameters:
                check_fusible(parameter, group)
        for parameter in parameters:
            if parameter.grad.is_sparse:
                self._update_sparse(parameter, momentum, weight_decay, group)
            else:
                dense.append(parameter)
        if momentum == 0:
            # no entry in `state`, as nothing is remembered
            apply_updates(sgd, [((parameter,), (parameter.grad,)) for parameter in dense], scalars, flags)
            return
        flags["nesterov"] = group["nesterov"]
        fresh, running = [], []
        for parameter in dense:
            state = self.state[parameter]
            buffer = state.get("momentum_buffer")
            if first := buffer is None:
                buffer = state["momentum_buffer"] = flambeau.empty_like(parameter.grad, requires_grad=False)
            (fresh if first else running).append(((parameter, buffer), (parameter.grad,)))
        apply_updates(sgd_momentum, fresh, scalars, flags | {"first": True})
        apply_updates(sgd_momentum, running, scalars, flags | {"first": False})

    def _update_sparse(self, parameter: Tensor, momentum: Any, weight_decay: Any, group: dict[str, Any]) -> None:
        """A step along a sparse gradient; its momentum is sparse too."""
        if group["fused"]:
            raise RuntimeError("`_fused_sgd` does not support sparse gradients")
        gradient = parameter.grad
        if weight_decay != 0:
            raise RuntimeError("add(sparse, dense) is not supported. Use add(dense, sparse) instead.")
        if momentum != 0:
            state = self.state[parameter]
            buffer = state.get("momentum_buffer")
            if buffer is None:
                buffer = state["momentum_buffer"] = gradient.detach().clone()
            else:
                buffer.mul_(momentum).add_(gradient, alpha=1 - number(group["dampening"], group))
            gradient = gradient.add(buffer, alpha=momentum) if group["nesterov"] else buffer
        lr = number(group["lr"], group)
        parameter.add_(gradient, alpha=lr if group["maximize"] else -lr)


def _scalars(group: Mapping[str, Any]) -> dict[str, Any]:
    return {"lr": number(group["lr"], group), "weight_decay": number(group["weight_decay"], group)}


def _scalars_of_momentum(group: Mapping[str, Any]) -> dict[str, Any]:
    momentum, dampening = number(group["momentum"], group), number(group["dampening"], group)
    return {**_scalars(group), "momentum": momentum, "undamped": 1 - dampening}
