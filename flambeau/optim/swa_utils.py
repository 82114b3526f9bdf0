"""Averages of a model's weights over training (SWA, EMA), their scheduler, and batch norm statistics for them.

Stands on nn.Module, the schedulers' base and the tensor API.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable
from copy import deepcopy
from typing import Any

import flambeau
from flambeau.core.tensor.tensor import Tensor
from flambeau.nn import Module
from flambeau.nn.modules.batchnorm import _BatchNorm
from flambeau.optim.lr_scheduler.base import LRScheduler, per_group
from flambeau.optim.optimizer import Optimizer

__all__ = [
    "SWALR",
    "AveragedModel",
    "get_ema_avg_fn",
    "get_ema_multi_avg_fn",
    "get_swa_avg_fn",
    "get_swa_multi_avg_fn",
    "update_bn",
]

Count = Tensor | int
AverageFunction = Callable[[Tensor, Tensor, Count], Tensor]
MultiAverageFunction = Callable[[Iterable[Tensor], Iterable[Tensor], Count], None]


def _check_decay(decay: float) -> None:
    if decay < 0.0 or decay > 1.0:
        raise ValueError(f"Invalid decay value {decay} provided. Please provide a value in [0,1] range.")


def _can_lerp(tensor: Tensor) -> bool:
    return tensor.is_floating_point() or tensor.is_complex()


def get_ema_multi_avg_fn(decay: float = 0.999) -> MultiAverageFunction:
    """A multi_avg_fn for exponential moving averages: in place, average <- decay average + (1 - decay) current.

    Raises:
        ValueError: decay not in [0, 1].
    """
    _check_decay(decay)

    def ema_update(ema_param_list: Iterable[Tensor], current_param_list: Iterable[Tensor], _: Count) -> None:
        with flambeau.no_grad():
            for average, current in zip(ema_param_list, current_param_list):
                if _can_lerp(average):
                    average.lerp_(current, 1 - decay)
                else:
                    average.copy_(average * decay + current * (1 - decay))

    return ema_update


def get_swa_multi_avg_fn() -> MultiAverageFunction:
    """A multi_avg_fn for equal averages: in place, average <- average + (current - average) / (n + 1)."""

    def swa_update(averaged_param_list: Iterable[Tensor], current_param_list: Iterable[Tensor], num_averaged: Count) -> None:
        with flambeau.no_grad():
            weight = 1 / (int(num_averaged) + 1)
            for average, current in zip(averaged_param_list, current_param_list):
                if _can_lerp(average):
                    average.lerp_(current, weight)
                else:
                    average.copy_(average + (current - average) * weight)

    return swa_update


def get_ema_avg_fn(decay: float = 0.999) -> AverageFunction:
    """An avg_fn for exponential moving averages: decay average + (1 - decay) current.

    Raises:
        ValueError: decay not in [0, 1].
    """
    _check_decay(decay)

    def ema_update(ema_param: Tensor, current_param: Tensor, num_averaged: Count) -> Tensor:
        with flambeau.no_grad():
            return decay * ema_param + (1 - decay) * current_param

    return ema_update


def get_swa_avg_fn() -> AverageFunction:
    """An avg_fn for equal averages: average + (current - average) / (n + 1)."""

    def swa_update(averaged_param: Tensor, current_param: Tensor, num_averaged: Count) -> Tensor:
        with flambeau.no_grad():
            return averaged_param + (current_param - averaged_param) / (num_averaged + 1)

    return swa_update


class AveragedModel(Module):
    """A copy of a model whose parameters are averages of the model's, as of each `update_parameters`.

    Args:
        model: is copied to `self.module`.
        device: where the copy lives; where the model is, unless given.
        avg_fn: (average, current, number averaged) -> new average; equal averages unless given.
        multi_avg_fn: (averages, currents, number averaged) -> None, in place; instead of avg_fn.
        use_buffers: average buffers too; else they are copied.
    """

    n_averaged: Tensor

    def __init__(
        self,
        model: Module,
        device: Any = None,
        avg_fn: AverageFunction | None = None,
        multi_avg_fn: MultiAverageFunction | None = None,
        use_buffers: bool = False,
    ) -> None:
        super().__init__()
        assert avg_fn is None or multi_avg_fn is None, "Only one of avg_fn and multi_avg_fn should be provided"
        self.module = deepcopy(model)
        if device is not None:
            self.module = self.module.to(device)
        self.register_buffer("n_averaged", flambeau.tensor(0, dtype=flambeau.long, device=device))
        self.avg_fn = avg_fn
        self.multi_avg_fn = multi_avg_fn
        self.use_buffers = use_buffers

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The averaged model's output."""
        return self.module(*args, **kwargs)

    def update_parameters(self, model: Module) -> None:
        """Take the present parameters of `model` into the average."""
        averages = self._averaged(self.module)
        currents = [current.to(average.device) for average, current in zip(averages, self._averaged(model))]
        if self.n_averaged == 0:
            for average, current in zip(averages, currents):
                average.copy_(current)
        elif self.avg_fn is not None:
            for average, current in zip(averages, currents):
                average.copy_(self.avg_fn(average, current, self.n_averaged.to(average.device)))
        else:
            multi_avg_fn = self.multi_avg_fn if self.multi_avg_fn is not None else get_swa_multi_avg_fn()
            multi_avg_fn(averages, currents, self.n_averaged)
        if not self.use_buffers:
            for own, current in zip(self.module.buffers(), model.buffers()):
                own.detach().copy_(current.detach().to(own.device))
        self.n_averaged += 1

    def _averaged(self, model: Module) -> list[Tensor]:
        tensors = itertools.chain(model.parameters(), model.buffers()) if self.use_buffers else model.parameters()
        return [tensor.detach() for tensor in tensors]


def update_bn(loader: Iterable[Any], model: Module, device: Any = None) -> None:
    """Compute the running statistics of the model's batch norm layers afresh, over all the data of `loader`.

    Args:
        loader: gives batches: tensors, or lists or tuples whose first item is the model's input.
        model: is run in training mode; its mode is put back.
        device: where batches are sent, if given.
    """
    layers = {module: module.momentum for module in model.modules() if isinstance(module, _BatchNorm)}
    if not layers:
        return
    was_training = model.training
    model.train()
    for layer in layers:
        layer.reset_running_stats()
        # a momentum of None is an average in which all batches count alike
        layer.momentum = None
    with flambeau.no_grad():
        for batch in loader:
            if isinstance(batch, (list, tuple)):
                batch = batch[0]
            if device is not None:
                batch = batch.to(device)
            model(batch)
    for layer, momentum in layers.items():
        layer.momentum = momentum
    model.train(was_training)


class SWALR(LRScheduler):
    """From the present rate to swa_lr in anneal_epochs epochs, where it stays.

    Args:
        swa_lr: a number or one per group.
        anneal_epochs: 0 sets swa_lr at once.
        anneal_strategy: "cos" or "linear".

    Raises:
        ValueError: an unknown strategy; a negative or fractional number of epochs.
    """

    _not_saved = ("optimizer", "anneal_func")

    def __init__(
        self, optimizer: Optimizer, swa_lr: float, anneal_epochs: int = 10, anneal_strategy: str = "cos", last_epoch: int = -1
    ) -> None:
        for lr, group in zip(per_group(optimizer, "swa_lr", swa_lr), optimizer.param_groups):
            group["swa_lr"] = lr
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}")
        self._anneal_strategy = anneal_strategy
        self._set_anneal_func()
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ValueError(f"anneal_epochs must be equal or greater than 0, got {anneal_epochs}")
        self.anneal_epochs = anneal_epochs
        super().__init__(optimizer, last_epoch)

    def _set_anneal_func(self) -> None:
        self.anneal_func = self._cosine_anneal if self._anneal_strategy == "cos" else self._linear_anneal

    @staticmethod
    def _linear_anneal(t: float) -> float:
        return t

    @staticmethod
    def _cosine_anneal(t: float) -> float:
        return (1 - math.cos(math.pi * t)) / 2

    def get_lr(self) -> list[Any]:
        self._warn_unless_stepping()
        step = self._step_count - 1
        if self.anneal_epochs == 0:
            step = max(1, step)
        # the rate that the last step started from follows from the present one, which may have been set by others
        before, now = (self._share(epoch) for epoch in (step - 1, step))
        rates = []
        for group, lr in zip(self.optimizer.param_groups, self._lrs()):
            target = group["swa_lr"]
            start = target if before == 1 else (lr - before * target) / (1 - before)
            rates.append(target * now + start * (1 - now))
        return rates

    def _share(self, epoch: int) -> float:
        return self.anneal_func(max(0, min(1, epoch / max(1, self.anneal_epochs))))

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what `state_dict` returned."""
        super().load_state_dict(state_dict)
        self._set_anneal_func()
