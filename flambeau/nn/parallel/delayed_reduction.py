"""Gradients of DistributedDataParallel that are exchanged together, when that of a chosen parameter is there.

Stands on torch.distributed; distributed uses it for delay_all_reduce_named_params.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

import flambeau as torch


class DelayedReduction:
    """Makes gradients the mean over a group at the end of a backward pass in which the gradient of `trigger` came."""

    def __init__(self, parameters: Sequence[Any], trigger: Any, group: Any, model: Any) -> None:
        self.parameters, self.group = list(parameters), group
        self._model = weakref.ref(model)
        own = weakref.ref(self)

        def came(_: Any) -> None:
            reduction = own()
            if reduction is not None:
                reduction._begin()

        self._handle = trigger.register_post_accumulate_grad_hook(came)

    def _begin(self) -> None:
        model = self._model()
        if model is not None and model.require_backward_grad_sync:
            torch.autograd.Variable._execution_engine.queue_callback(self._reduce)

    @torch.no_grad()
    def _reduce(self) -> None:
        """One exchange for each dtype; a parameter without a gradient counts as one of zeros."""
        for dtype in dict.fromkeys(each.dtype for each in self.parameters):
            same = [each for each in self.parameters if each.dtype == dtype]
            for each in same:
                if each.grad is None:
                    each.grad = torch.zeros_like(each)
            flat = torch.cat([each.grad.reshape(-1) for each in same]).div_(self.group.size())
            torch.distributed.all_reduce(flat, group=self.group)
            for each, part in zip(same, flat.split([each.numel() for each in same]), strict=True):
                each.grad.copy_(part.view(each.shape))
