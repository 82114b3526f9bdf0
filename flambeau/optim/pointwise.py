"""The common part of optimizers whose step is one scalar formula: gradient checks, lazy state, old pickles.

Stands on optimizer.py and update.py; Adam, SGD and most of this package derive from `PointwiseOptimizer`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import flambeau
from flambeau.base.tracebacks import api_boundary
from flambeau.core.tensor.tensor import Tensor
from flambeau.optim.optimizer import GroupwiseOptimizer
from flambeau.optim.update import new_counter

Member = tuple[Tensor, dict[str, Any]]

#: Where PyTorch captures and fuses steps; flambeau has the CPU only, whose steps are fused anyway.
CAPTURABLE_DEVICES = ("cuda", "xpu", "hpu", "privateuseone", "xla")
FUSED_DEVICES = ("mps", "cuda", "xpu", "hpu", "cpu", "mtia", "privateuseone")


class PointwiseOptimizer(GroupwiseOptimizer):
    """An optimizer that updates each parameter element by element. Subclasses give `_update_group`."""

    # options that state dicts and pickles of older versions lack, with the value they meant
    _later_options: ClassVar[dict[str, Any]] = {}
    # states that older versions kept as Python numbers
    _counters: ClassVar[tuple[str, ...]] = ("step",)
    # what the refusal of capturable=True speaks of
    _captured: ClassVar[str] = "params and state_steps"
    _capturable_devices: ClassVar[tuple[str, ...]] = CAPTURABLE_DEVICES

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            for name, value in self._later_options.items():
                group.setdefault(name, value)
            for parameter in group["params"]:
                parameter_state = self.state.get(parameter, {})
                for name in self._counters:
                    if name in parameter_state and not isinstance(parameter_state[name], Tensor):
                        parameter_state[name] = new_counter(parameter_state[name])

    def _create_state(self, parameter: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        """The state of a parameter before its first step."""
        raise NotImplementedError(f"{type(self).__name__} must define _create_state")

    def _members(self, group: dict[str, Any]) -> list[Member]:
        """The parameters of `group` that have gradients, each with its state, which is made if there is none."""
        members = []
        for parameter in group["params"]:
            gradient = parameter.grad
            if gradient is None:
                continue
            if gradient.is_sparse:
                self._refuse_sparse()
            state = self.state[parameter]
            if not state:
                check_fusible(parameter, group)
                state.update(self._create_state(parameter, group))
            members.append((parameter, state))
        if members and group.get("capturable"):
            raise AssertionError(
                f"If capturable=True, {self._captured} must be on supported devices: {list(self._capturable_devices)}."
            )
        return members

    def _refuse_sparse(self) -> None:
        raise RuntimeError(f"{type(self).__name__} does not support sparse gradients")


def check_fusible(parameter: Tensor, group: dict[str, Any]) -> None:
    """Raise RuntimeError for a parameter whose step can't be fused, if that was asked for."""
    if group.get("fused") and not (parameter.is_floating_point() and parameter.device.type in FUSED_DEVICES):
        raise RuntimeError(
            f"`fused=True` requires all the params to be floating point Tensors of supported devices: "
            f"{list(FUSED_DEVICES)} but {parameter.dtype} and {parameter.device.type}"
        )


def number(value: Any, group: Mapping[str, Any]) -> Any:
    """A hyperparameter that may be a one-element tensor, as a number; as it is where the step is differentiated."""
    return value.item() if isinstance(value, Tensor) and not group["differentiable"] else value


def check_tensor_lr(lr: Any, *, foreach: bool | None = None, capturable: bool = False) -> None:
    """Raise ValueError for a learning rate that is a tensor and can't serve as one number."""
    if isinstance(lr, Tensor):
        if foreach and not capturable:
            raise ValueError("lr as a Tensor is not supported for capturable=False and foreach=True")
        if lr.numel() != 1:
            raise ValueError("Tensor lr must be 1-element")


_TITLES = {"lr": "learning rate", "eps": "epsilon value"}


@api_boundary
def check(**hyperparameters: Any) -> None:
    """Raise ValueError for the first of these hyperparameters that is negative, or not in [0, 1) for one of the betas."""
    for name, value in hyperparameters.items():
        if name == "lr":
            check_tensor_lr(value)
        if name == "betas":
            for index in range(2):
                if not 0.0 <= value[index] < 1.0:
                    raise ValueError(f"Invalid beta parameter at index {index}: {value[index]}")
        elif not value >= 0.0:
            raise ValueError(f"Invalid {_TITLES.get(name, name + ' value')}: {value}")


def check_fused(fused: bool | None, foreach: bool | None, differentiable: bool) -> None:
    """Raise RuntimeError for options that fused=True excludes."""
    if fused:
        if differentiable:
            raise RuntimeError("`fused` does not support `differentiable`")
        if foreach:
            raise RuntimeError("`fused` and `foreach` cannot be `True` together.")


def zeros(parameter: Tensor) -> Tensor:
    """Zeros of a parameter's shape, dtype and memory format, without a graph."""
    return flambeau.zeros_like(parameter, memory_format=flambeau.preserve_format)
