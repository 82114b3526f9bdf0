"""Adafactor: second moments kept as a row and a column. Stands on optimizer.py and tensor operators."""

from __future__ import annotations

from typing import Any

import flambeau
from flambeau.base.naming import public_module
from flambeau.core.tensor.tensor import Tensor
from flambeau.optim.optimizer import GroupwiseOptimizer, ParamsT
from flambeau.optim.pointwise import check_tensor_lr, zeros
from flambeau.optim.update import new_counter

__all__ = ["Adafactor"]


class Adafactor(GroupwiseOptimizer):
    """Adafactor: for matrices, the mean square of a gradient is estimated from its means over rows and columns.

    Args:
        params: tensors, named tensors, or parameter groups.
        lr: the largest relative step size.
        beta2_decay: at step n the average of squares moves by n ** beta2_decay.
        eps: the floor of the root mean square gradient (the dtype's epsilon if None), and that of a parameter's scale.
        d: updates whose root mean square is above this are scaled down to it.
        weight_decay: the parameter shrinks by lr * weight_decay.
        foreach: accepted for compatibility.
        maximize: ascend.

    Raises:
        ValueError: a hyperparameter out of its range.
        RuntimeError: at a step, a sparse gradient or a complex parameter.
    """

    __module__ = public_module("optim")

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-2,
        beta2_decay: float = -0.8,
        eps: tuple[float | None, float] = (None, 1e-3),
        d: float = 1.0,
        weight_decay: float = 0.0,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
    ) -> None:
        check_tensor_lr(lr)
        if not lr >= 0.0:
            raise ValueError(f"Learning rate should be >= 0 but is: {lr}")
        if not beta2_decay <= 0.0:
            raise ValueError(f"beta2_decay should be <= 0 but is: {beta2_decay}")
        if eps[0] is not None and not eps[0] >= 0.0:
            raise ValueError(f"epsilon1 should be >= 0 but is: {eps[0]}")
        if not eps[1] >= 0.0:
            raise ValueError(f"epsilon2 should be >= 0 but is: {eps[1]}")
        if not d >= 1.0:
            raise ValueError(f"Clipping threshold d should be >= 1 but is: {d}")
        if not weight_decay >= 0.0:
            raise ValueError(f"weight_decay should be >= 0 but is: {weight_decay}")
        defaults = {
            "lr": lr,
            "beta2_decay": beta2_decay,
            "eps": eps,
            "d": d,
            "weight_decay": weight_decay,
            "foreach": foreach,
            "maximize": maximize,
        }
        super().__init__(params, defaults)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            group.setdefault("foreach", None)
            for parameter in group["params"]:
                parameter_state = self.state.get(parameter, {})
                if "step" in parameter_state and not isinstance(parameter_state["step"], Tensor):
                    parameter_state["step"] = new_counter(parameter_state["step"])

    def _state_of(self, parameter: Tensor) -> dict[str, Any]:
        gradient = parameter.grad
        if parameter.is_complex():
            raise RuntimeError("Adafactor does not support complex parameters")
        if gradient.is_sparse:
            raise RuntimeError("Adafactor does not support sparse gradients")
        state = self.state[parameter]
        if not state:
            state["step"] = new_counter()
            if gradient.dim() > 1:
                rows, columns = list(gradient.shape), list(gradient.shape)
                rows[-1] = columns[-2] = 1
                state["row_var"] = gradient.new_zeros(rows)
                state["col_var"] = gradient.new_zeros(columns)
            else:
                state["variance"] = zeros(gradient)
        return state

    def _update(self, parameter: Tensor, group: dict[str, Any]) -> None:
        state = self._state_of(parameter)
        gradient = -parameter.grad if group["maximize"] else parameter.grad
        floor, smallest_scale = group["eps"]
        if floor is None:
            floor = flambeau.finfo(parameter.dtype).eps
        lr = float(group["lr"])
        state["step"] += 1
        step = state["step"].item()
        weight = step ** group["beta2_decay"]
        step_size = max(smallest_scale, _root_mean_square(parameter)) * min(lr, 1 / step**0.5)
        if group["weight_decay"] != 0:
            parameter.mul_(1 - lr * group["weight_decay"])
        if gradient.dim() > 1:
            rows, columns = state["row_var"], state["col_var"]
            # the norm squared is kinder to half precision than a mean of squares
            rows.lerp_(gradient.norm(dim=-1, keepdim=True).square_().div_(gradient.size(-1)), weight)
            columns.lerp_(gradient.norm(dim=-2, keepdim=True).square_().div_(gradient.size(-2)), weight)
            variance = rows @ columns
            variance.div_(rows.mean(dim=-2, keepdim=True).clamp_(min=floor))
        else:
            variance = state["variance"].lerp_(gradient.square(), weight).clone()
        update = variance.clamp_(min=floor * floor).rsqrt_().mul_(gradient)
        clipping = max(1.0, _root_mean_square(update) / group["d"])
        parameter.add_(update, alpha=-step_size / clipping)


def _root_mean_square(tensor: Tensor) -> float:
    return tensor.norm(2).item() / tensor.numel() ** 0.5
