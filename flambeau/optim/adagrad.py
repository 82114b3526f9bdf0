"""Adagrad, for dense and sparse gradients. Stands on pointwise.py and update.py."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import flambeau
from flambeau.core.tensor.tensor import Tensor
from flambeau.optim.optimizer import ParamsT
from flambeau.optim.pointwise import PointwiseOptimizer, check, check_fused, check_fusible, number
from flambeau.optim.update import apply_updates, by_step, multiply_add, new_counter, scalars_of, sqrt

__all__ = ["Adagrad"]


def adagrad(param, square_sum, grad, *, step_size, eps, weight_decay, maximize, decay):
    """A step over the root of the sum of all squares. -> (param, square_sum)"""
    if maximize:
        grad = -grad
    if decay:
        grad = multiply_add(weight_decay, param, grad)
    square_sum = multiply_add(grad, grad, square_sum)
    return param - step_size * grad / (sqrt(square_sum) + eps), square_sum


class Adagrad(PointwiseOptimizer):
    """Adagrad: p <- p - lr g / (sqrt(s) + eps), with s the sum of g squared.

    Args:
        params: tensors, named tensors, or parameter groups.
        lr: learning rate.
        lr_decay: after n steps the rate is lr / (1 + n lr_decay).
        weight_decay: times the parameter, is added to the gradient.
        initial_accumulator_value: where the sum starts.
        eps: keeps the denominator from zero.
        foreach, maximize, differentiable, fused: as for Adam.

    Raises:
        ValueError: a hyperparameter out of its range.
    """

    _later_options = {"foreach": None, "maximize": False, "differentiable": False, "fused": None}

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-2,
        lr_decay: float = 0,
        weight_decay: float = 0,
        initial_accumulator_value: float = 0,
        eps: float = 1e-10,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        check(lr=lr, lr_decay=lr_decay, weight_decay=weight_decay, initial_accumulator_value=initial_accumulator_value, eps=eps)
        defaults = {
            "lr": lr,
            "lr_decay": lr_decay,
            "eps": eps,
            "weight_decay": weight_decay,
            "initial_accumulator_value": initial_accumulator_value,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "fused": fused,
        }
        super().__init__(params, defaults)
        check_fused(fused, foreach, differentiable)
        # the sums exist from the start, so that share_memory can be called before training
        for group in self.param_groups:
            for parameter in group["params"]:
                check_fusible(parameter, group)
                self.state[parameter] = self._create_state(parameter, group)

    def share_memory(self) -> None:
        """Move the sums to shared memory."""
        for group in self.param_groups:
            for parameter in group["params"]:
                self.state[parameter]["sum"].share_memory_()

    def _create_state(self, parameter: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        initial = group["initial_accumulator_value"]
        first = complex(initial, initial) if parameter.is_complex() else initial
        return {
            "step": new_counter(),
            "sum": flambeau.full_like(parameter, first, memory_format=flambeau.preserve_format, requires_grad=False),
        }

    def _refuse_sparse(self) -> None:
        """Sparse gradients are welcome; `_update_group` looks for them."""

    def _update_group(self, group: dict[str, Any]) -> None:
        weight_decay = group["weight_decay"]
        flags = {"maximize": group["maximize"], "decay": weight_decay != 0}
        for step, members in by_step(self._members(group)):
            scalars = scalars_of(_scalars, group, step)
            rows = []
            for parameter, state in members:
                if parameter.grad.is_sparse:
                    if weight_decay != 0:
                        raise RuntimeError("weight_decay option is not compatible with sparse gradients")
                    self._update_sparse(parameter, state["sum"], scalars, group["maximize"])
                else:
                    rows.append(((parameter, state["sum"]), (parameter.grad,)))
            apply_updates(adagrad, rows, scalars, flags)

    @staticmethod
    def _update_sparse(parameter: Tensor, square_sum: Tensor, scalars: dict[str, Any], maximize: bool) -> None:
        """Update only the elements for which `parameter.grad` has entries."""
        gradient = parameter.grad.coalesce()  # equal indices must be added before squaring
        index = tuple(gradient.indices())
        flags = {"maximize": maximize, "decay": False}
        touched = (parameter[index], square_sum[index])
        apply_updates(adagrad, [(touched, (gradient.values(),))], scalars, flags)
        for target, values in zip((parameter, square_sum), touched):
            target.index_put_(index, values)


def _scalars(group: Mapping[str, Any], step: float) -> dict[str, Any]:
    step_size = number(group["lr"], group) / (1 + (step - 1) * group["lr_decay"])
    return {"step_size": step_size, "eps": group["eps"], "weight_decay": group["weight_decay"]}
