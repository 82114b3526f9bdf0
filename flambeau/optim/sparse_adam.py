"""Adam for sparse gradients: only the rows that occur in a gradient are touched. Stands on optimizer.py, update.py."""

from __future__ import annotations

from typing import Any

from flambeau.core.tensor.tensor import Tensor
from flambeau.optim.optimizer import GroupwiseOptimizer, ParamsT
from flambeau.optim.pointwise import check, check_tensor_lr, zeros
from flambeau.optim.update import apply_updates, product, sqrt

__all__ = ["SparseAdam"]


def sparse_adam(param, exp_avg, exp_avg_sq, grad, *, weight1, weight2, eps, step_size, maximize):
    """Adam's step on the elements of a sparse gradient. -> (param, exp_avg, exp_avg_sq)"""
    if maximize:
        grad = -grad
    exp_avg = product(grad - exp_avg, weight1) + exp_avg
    exp_avg_sq = product(product(grad, grad) - exp_avg_sq, weight2) + exp_avg_sq
    return param - product(step_size, exp_avg / (sqrt(exp_avg_sq) + eps)), exp_avg, exp_avg_sq


class SparseAdam(GroupwiseOptimizer):
    """Adam over the entries of sparse gradients, such as those of Embedding(sparse=True); moments elsewhere wait.

    Args:
        params: dense tensors whose gradients are sparse, or parameter groups of such.
        lr: learning rate, above zero.
        betas: how much each moving average keeps.
        eps: keeps the denominator from zero.
        maximize: ascend.

    Raises:
        ValueError: a hyperparameter out of its range; a sparse or complex parameter.
        RuntimeError: at a step, a dense gradient.
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        maximize: bool = False,
    ) -> None:
        check_tensor_lr(lr)
        if not lr > 0.0:
            raise ValueError(f"Invalid learning rate: {lr}")
        if not eps > 0.0:
            raise ValueError(f"Invalid epsilon value: {eps}")
        check(betas=betas)
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "maximize": maximize})
        sparse, not_real = [], []
        for number, group in enumerate(self.param_groups):
            for index, parameter in enumerate(group["params"]):
                if parameter.is_sparse:
                    sparse.append([number, index])
                if parameter.is_complex():
                    not_real.append([number, index])
        if sparse:
            raise ValueError(f"Sparse params at indices {sparse}: SparseAdam requires dense parameter tensors")
        if not_real:
            raise ValueError(f"Complex params at indices {not_real}: SparseAdam does not support complex parameters")

    def _update(self, parameter: Tensor, group: dict[str, Any]) -> None:
        gradient = parameter.grad
        if not gradient.is_sparse:
            raise RuntimeError("SparseAdam does not support dense gradients, please consider Adam instead")
        state = self.state[parameter]
        if not state:
            state.update(step=0, exp_avg=zeros(parameter), exp_avg_sq=zeros(parameter))
        state["step"] += 1
        gradient = gradient.coalesce()  # equal indices must be added before squaring
        values = gradient.values()
        if values.numel() == 0:
            return
        beta1, beta2 = group["betas"]
        scalars = {
            "weight1": 1 - float(beta1),
            "weight2": 1 - float(beta2),
            "eps": group["eps"],
            "step_size": float(group["lr"]) * (1 - float(beta2) ** state["step"]) ** 0.5 / (1 - float(beta1) ** state["step"]),
        }
        index = tuple(gradient.indices())
        tensors = (parameter, state["exp_avg"], state["exp_avg_sq"])
        touched = tuple(tensor[index] for tensor in tensors)
        apply_updates(sparse_adam, [(touched, (values,))], scalars, {"maximize": group["maximize"]})
        for tensor, rows in zip(tensors, touched):
            tensor.index_put_(index, rows)
