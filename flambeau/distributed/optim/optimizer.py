"""DistributedOptimizer: an optimizer in each process that owns parameters, all of which step together.

Stands on distributed.rpc and distributed.autograd.
"""

from __future__ import annotations

import threading
from typing import Any

import flambeau as torch

__all__ = ["DistributedOptimizer"]


class _LocalOptimizer:
    """The optimizer of one process's parameters; steps of several trainers follow one another."""

    lock = threading.Lock()

    def __init__(self, optimizer_class: Any, parameters: list[Any], args: Any, kwargs: Any) -> None:
        self.parameters = [each.local_value() for each in parameters]
        self.optimizer = optimizer_class(self.parameters, *args, **kwargs)

    def step(self, context_id: int) -> None:
        """A step by the gradients of a context."""
        gradients = torch.distributed.autograd.get_gradients(context_id)
        with self.lock:
            for parameter in self.parameters:
                parameter.grad = gradients.get(parameter)
            self.optimizer.step()


class DistributedOptimizer:
    """params_rref: references to parameters of any processes; the optimizer_class is made in each with its own and the further
    arguments. `step(context_id)` uses the gradients of a context of torch.distributed.autograd.
    """

    def __init__(self, optimizer_class: Any, params_rref: list[Any], *args: Any, **kwargs: Any) -> None:
        by_owner: dict[Any, list[Any]] = {}
        for each in params_rref:
            by_owner.setdefault(each.owner(), []).append(each)
        self.is_functional_optim = False
        self.remote_optimizers = [
            torch.distributed.rpc.remote(owner, _LocalOptimizer, (optimizer_class, own, args, kwargs))
            for owner, own in by_owner.items()
        ]
        for each in self.remote_optimizers:  # what fails, fails here
            each._get_future().wait()

    def step(self, context_id: int) -> None:
        """A step in all processes. Raises RuntimeError if there is no such context."""
        torch.distributed.autograd.get_gradients(context_id)
        for work in [each.rpc_async().step(context_id) for each in self.remote_optimizers]:
            work.wait()
