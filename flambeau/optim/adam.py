"""Adam, and the formula it shares with AdamW. Stands on pointwise.py and update.py."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flambeau.core.tensor.tensor import Tensor
from flambeau.optim.optimizer import ParamsT
from flambeau.optim.pointwise import PointwiseOptimizer, check, check_fused, check_tensor_lr, number, zeros
from flambeau.optim.update import apply_updates, by_step, lerp, maximum, multiply_add, new_counter, product, scalars_of, sqrt

__all__ = ["Adam"]


def moments(param, exp_avg, exp_avg_sq, grad, weight1, beta2, weight2, weight_decay, kept, maximize, decay, decoupled):
    """Weight decay and both moving averages. -> (param, exp_avg, exp_avg_sq)"""
    if maximize:
        grad = -grad
    if decay:
        if decoupled:
            param = product(param, kept)
        else:
            grad = multiply_add(weight_decay, param, grad)
    exp_avg = lerp(exp_avg, grad, weight1)
    exp_avg_sq = multiply_add(weight2 * grad, grad, product(exp_avg_sq, beta2))
    return param, exp_avg, exp_avg_sq


def adam(
    param, exp_avg, exp_avg_sq, grad, *,
    weight1, beta2, weight2, eps, weight_decay, kept, step_size, bias2_sqrt, maximize, decay, decoupled,
):  # fmt: skip
    """A step along the mean gradient over the root of the mean square. -> (param, exp_avg, exp_avg_sq)"""
    param, exp_avg, exp_avg_sq = moments(
        param, exp_avg, exp_avg_sq, grad, weight1, beta2, weight2, weight_decay, kept, maximize, decay, decoupled
    )
    denominator = sqrt(exp_avg_sq) / bias2_sqrt + eps
    return param - step_size * exp_avg / denominator, exp_avg, exp_avg_sq


def amsgrad(
    param, exp_avg, exp_avg_sq, max_exp_avg_sq, grad, *,
    weight1, beta2, weight2, eps, weight_decay, kept, step_size, bias2_sqrt, maximize, decay, decoupled,
):  # fmt: skip
    """Adam over the largest mean square so far. -> (param, exp_avg, exp_avg_sq, max_exp_avg_sq)"""
    param, exp_avg, exp_avg_sq = moments(
        param, exp_avg, exp_avg_sq, grad, weight1, beta2, weight2, weight_decay, kept, maximize, decay, decoupled
    )
    max_exp_avg_sq = maximum(max_exp_avg_sq, exp_avg_sq)
    denominator = sqrt(max_exp_avg_sq) / bias2_sqrt + eps
    return param - step_size * exp_avg / denominator, exp_avg, exp_avg_sq, max_exp_avg_sq


def _check_tensor_betas(betas: tuple[Any, Any], foreach: bool | None, capturable: bool) -> None:
    are_tensors = [isinstance(beta, Tensor) for beta in betas]
    if any(are_tensors) and not (all(are_tensors) or all(isinstance(beta, float) for beta in betas)):
        raise ValueError("betas must be either both floats or both Tensors")
    for index, beta in enumerate(betas):
        if are_tensors[index]:
            if foreach and not capturable:
                raise ValueError(f"betas[{index}] as a Tensor is not supported for capturable=False and foreach=True")
            if beta.numel() != 1:
                raise ValueError(f"Tensor betas[{index}] must be 1-element")


class Adam(PointwiseOptimizer):
    """Adam: p <- p - lr m / (sqrt(v) + eps), with bias-corrected moving averages m of g and v of g squared.

    Args:
        params: tensors, named tensors, or parameter groups.
        lr: learning rate; a tensor is read at every step.
        betas: how much each moving average keeps.
        eps: keeps the denominator from zero.
        weight_decay: times the parameter, is added to the gradient (see decoupled_weight_decay).
        amsgrad: divide by the largest mean square so far.
        foreach, fused: accepted for compatibility; a step is one kernel anyway.
        maximize: ascend.
        capturable: for devices with graph capture; refused at the first step on the CPU.
        differentiable: record the step for autograd.
        decoupled_weight_decay: shrink the parameter itself by lr * weight_decay, as AdamW does.

    Raises:
        ValueError: a hyperparameter out of its range.
    """

    _later_options = {
        "amsgrad": False,
        "maximize": False,
        "foreach": None,
        "capturable": False,
        "differentiable": False,
        "decoupled_weight_decay": False,
        "fused": None,
    }

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        betas: tuple[float | Tensor, float | Tensor] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        decoupled_weight_decay: bool = False,
    ) -> None:
        check_tensor_lr(lr, foreach=foreach, capturable=capturable)
        check(lr=lr, eps=eps, betas=betas, weight_decay=weight_decay)
        _check_tensor_betas(betas, foreach, capturable)
        defaults = {
            "lr": lr,
            "betas": tuple(betas),
            "eps": eps,
            "weight_decay": weight_decay,
            "amsgrad": amsgrad,
            "maximize": maximize,
            "foreach": foreach,
            "capturable": capturable,
            "differentiable": differentiable,
            "fused": fused,
            "decoupled_weight_decay": decoupled_weight_decay,
        }
        super().__init__(params, defaults)
        check_fused(fused, foreach, differentiable)

    def _refuse_sparse(self) -> None:
        raise RuntimeError("Adam does not support sparse gradients, please consider SparseAdam instead")

    def _create_state(self, parameter: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        state: dict[str, Any] = {"step": new_counter(), "exp_avg": zeros(parameter), "exp_avg_sq": zeros(parameter)}
        if group["amsgrad"]:
            state["max_exp_avg_sq"] = zeros(parameter)
        return state

    def _update_group(self, group: dict[str, Any]) -> None:
        flags = {"maximize": group["maximize"], "decay": group["weight_decay"] != 0, "decoupled": group["decoupled_weight_decay"]}
        formula, names = adam, ("exp_avg", "exp_avg_sq")
        if group["amsgrad"]:
            formula, names = amsgrad, (*names, "max_exp_avg_sq")
        for step, members in by_step(self._members(group)):
            rows = [((p, *[state[name] for name in names]), (p.grad,)) for p, state in members]
            apply_updates(formula, rows, scalars_of(_scalars, group, step), flags)


def _scalars(group: Mapping[str, Any], step: float) -> dict[str, Any]:
    beta1, beta2 = (number(beta, group) for beta in group["betas"])
    lr, weight_decay = number(group["lr"], group), group["weight_decay"]
    return {
        "weight1": 1 - beta1,
        "beta2": beta2,
        "weight2": 1 - beta2,
        "eps": group["eps"],
        "weight_decay": weight_decay,
        "kept": 1 - lr * weight_decay,
        "step_size": lr / (1 - beta1**step),
        "bias2_sqrt": (1 - beta2**step) ** 0.5,
    }
