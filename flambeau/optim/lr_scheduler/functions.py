"""Schedulers whose factor is a user's function of the epoch. Stands on base.py."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

from flambeau.optim.lr_scheduler.base import LRScheduler
from flambeau.optim.optimizer import Optimizer

Factor = Callable[[int], float]


class _FunctionLR(LRScheduler):
    """Holds one function per group, and saves those that are objects with a state."""

    _not_saved = ("optimizer", "lr_lambdas")

    def __init__(self, optimizer: Optimizer, lr_lambda: Factor | list[Factor], last_epoch: int = -1) -> None:
        self.optimizer = optimizer
        self.lr_lambdas: list[Factor]
        if isinstance(lr_lambda, (list, tuple)):
            if len(lr_lambda) != len(optimizer.param_groups):
                raise ValueError(f"Expected {len(optimizer.param_groups)} lr_lambdas, but got {len(lr_lambda)}")
            self.lr_lambdas = list(lr_lambda)
        else:
            self.lr_lambdas = [lr_lambda] * len(optimizer.param_groups)
        super().__init__(optimizer, last_epoch)

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer and the functions, except the attributes of callable objects."""
        state = super().state_dict()
        state["lr_lambdas"] = [
            None if isinstance(function, types.FunctionType) else function.__dict__.copy() for function in self.lr_lambdas
        ]
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what `state_dict` returned, also the attributes of callable objects."""
        saved = state_dict["lr_lambdas"]
        self.__dict__.update({key: value for key, value in state_dict.items() if key != "lr_lambdas"})
        for function, attributes in zip(self.lr_lambdas, saved):
            if attributes is not None:
                function.__dict__.update(attributes)


class LambdaLR(_FunctionLR):
    """The initial rate times lr_lambda(epoch); one function for all groups, or a list with one for each."""

    def get_lr(self) -> list[Any]:
        self._warn_unless_stepping()
        return [base * function(self.last_epoch) for function, base in zip(self.lr_lambdas, self.base_lrs)]


class MultiplicativeLR(_FunctionLR):
    """The present rate times lr_lambda(epoch); one function for all groups, or a list with one for each."""

    def get_lr(self) -> list[Any]:
        self._warn_unless_stepping()
        if self._is_initial:
            return self._lrs()
        return [lr * function(self.last_epoch) for function, lr in zip(self.lr_lambdas, self._lrs())]
