"""Muon: momentum whose matrices are orthogonalised. Stands on optimizer.py and tensor operators."""

from __future__ import annotations

from typing import Any

import flambeau
from flambeau.base.naming import public_module
from flambeau.core.tensor.tensor import Tensor
from flambeau.optim.optimizer import GroupwiseOptimizer, ParamsT
from flambeau.optim.pointwise import check_tensor_lr, zeros

__all__ = ["Muon"]

MOST_STEPS = 100


def orthogonalize(matrix: Tensor, coefficients: tuple[float, float, float], steps: int, eps: float) -> Tensor:
    """Roughly the orthogonal matrix nearest to `matrix`, in bfloat16, by a quintic Newton-Schulz iteration.

    Args:
        matrix: a 2-D tensor.
        coefficients: a, b, c of x -> a x + b x^3 + c x^5, applied to the singular values.
        steps: number of iterations.
        eps: the smallest norm to divide by.

    Raises:
        ValueError: too many steps, not three coefficients, or not a matrix.
    """
    if steps >= MOST_STEPS:
        raise ValueError(f"Number of steps must be less than {MOST_STEPS} for computational efficiency")
    if matrix.dim() != 2:
        raise ValueError("Input tensor gradient must be a 2D matrix")
    if len(coefficients) != 3:
        raise ValueError("Coefficients must be a tuple of exactly 3 values")
    a, b, c = coefficients
    x = matrix.bfloat16()
    # products x x^T of the shorter side are the cheaper ones
    is_tall = matrix.size(0) > matrix.size(1)
    if is_tall:
        x = x.T
    # a norm of one bounds the singular values by one
    x = x / x.norm().clamp(min=eps)
    for _ in range(steps):
        gram = x @ x.T
        x = flambeau.addmm(x, flambeau.addmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.T if is_tall else x


def _adjusted(lr: float, function: str | None, shape: tuple[int, ...]) -> float:
    """The learning rate for a matrix of `shape`."""
    rows, columns = shape[:2]
    if function == "match_rms_adamw":
        return lr * 0.2 * max(rows, columns) ** 0.5
    return lr * max(1, rows / columns) ** 0.5


class Muon(GroupwiseOptimizer):
    """Muon, for the weight matrices of hidden layers; other parameters want another optimizer.

    Args:
        params: 2-D tensors, or parameter groups of such.
        lr: learning rate.
        weight_decay: the parameter shrinks by lr * weight_decay.
        momentum: how much of the running average of gradients is kept.
        nesterov: look ahead along the momentum.
        ns_coefficients: coefficients of the Newton-Schulz iteration.
        eps: the smallest norm to divide by.
        ns_steps: number of iterations.
        adjust_lr_fn: how the rate depends on a matrix's shape: "original" (also None) or "match_rms_adamw".

    Raises:
        ValueError: a hyperparameter out of its range; a parameter that is not a matrix.
        RuntimeError: at a step, a sparse gradient or a complex parameter.
    """

    __module__ = public_module("optim")

    def __init__(
        self,
        params: ParamsT,
        lr: float = 1e-3,
        weight_decay: float = 0.1,
        momentum: float = 0.95,
        nesterov: bool = True,
        ns_coefficients: tuple[float, float, float] = (3.4445, -4.775, 2.0315),
        eps: float = 1e-7,
        ns_steps: int = 5,
        adjust_lr_fn: str | None = None,
    ) -> None:
        check_tensor_lr(lr)
        if not lr >= 0.0:
            raise ValueError(f"Learning rate should be >= 0 but is: {lr}")
        if not momentum >= 0.0:
            raise ValueError(f"momentum should be >= 0 but is: {momentum}")
        if not weight_decay >= 0.0:
            raise ValueError(f"weight decay should be >= 0 but is: {weight_decay}")
        if adjust_lr_fn not in (None, "original", "match_rms_adamw"):
            raise ValueError(f"Adjust learning rate function {adjust_lr_fn} is not supported")
        defaults = {
            "lr": lr,
            "weight_decay": weight_decay,
            "momentum": momentum,
            "nesterov": nesterov,
            "ns_coefficients": ns_coefficients,
            "eps": eps,
            "ns_steps": ns_steps,
            "adjust_lr_fn": adjust_lr_fn,
        }
        super().__init__(params, defaults)
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.ndim != 2:
                    raise ValueError(
                        f"Muon only supports 2D parameters whereas we found a parameter with size: {parameter.size()}"
                    )

    def _update(self, parameter: Tensor, group: dict[str, Any]) -> None:
        gradient = parameter.grad
        if parameter.is_complex():
            raise RuntimeError("Muon does not support complex parameters")
        if gradient.is_sparse:
            raise RuntimeError("Muon does not support sparse gradients")
        state = self.state[parameter]
        if "momentum_buffer" not in state:
            state["momentum_buffer"] = zeros(gradient)
        momentum, lr = group["momentum"], float(group["lr"])
        average = state["momentum_buffer"].lerp_(gradient, 1 - momentum)
        direction = gradient.lerp(average, momentum) if group["nesterov"] else average
        update = orthogonalize(direction, group["ns_coefficients"], group["ns_steps"], group["eps"])
        parameter.mul_(1 - lr * group["weight_decay"])
        parameter.add_(update, alpha=-_adjusted(lr, group["adjust_lr_fn"], parameter.shape))
