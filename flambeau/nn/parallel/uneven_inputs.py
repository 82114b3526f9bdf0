"""What DistributedDataParallel does for processes with unequal amounts of data, inside of `join`.

An iteration then begins with words about it: whether its gradients are reduced, and whose buffers are sent. A process whose data
have ended says the same words, and reduces gradients of zero. Stands on torch.distributed; distributed uses it.
"""

from __future__ import annotations

from typing import Any

import flambeau as torch


def reduced_somewhere(model: Any, reduces: bool) -> bool:
    """Whether gradients are reduced in this iteration. Called by all processes of the group."""
    flag = torch.tensor([int(reduces)])
    torch.distributed.all_reduce(flag, group=model.process_group)
    return flag.item() > 0


def common_rank(model: Any, candidate: bool) -> int:
    """The largest rank of those that are candidates. Called by all processes of the group."""
    rank = torch.tensor([model.process_group.rank() if candidate else -1])
    torch.distributed.all_reduce(rank, torch.distributed.ReduceOp.MAX, group=model.process_group)
    if rank.item() < 0:
        raise ValueError("BUG! Expected rank_cond to be true for at least one process.")
    return int(rank.item())


def begin(model: Any) -> None:
    """At the beginning of a forward pass of a process that has data."""
    work = torch.distributed.algorithms.Join.notify_join_context(model)
    if not model._join_config.enable:
        return
    work.wait()
    if not model._divide_by_initial_world_size:
        model.reducer.divide_by = int(work.result()[0].item())
    reduced_somewhere(model, model.require_backward_grad_sync)
    if model.will_sync_module_buffers():
        model._send_from(common_rank(model, True), model._buffers_to_send())


class UnevenInputs:
    """The JoinHook of a DistributedDataParallel."""

    def __init__(self, model: Any, divide_by_initial_world_size: bool = True) -> None:
        self._model = model
        model._divide_by_initial_world_size = divide_by_initial_world_size

    def main_hook(self) -> None:
        """Take part in an iteration of the others."""
        model = self._model
        reduces = reduced_somewhere(model, False)
        if model.will_sync_module_buffers():
            model._send_from(common_rank(model, False), model._buffers_to_send())
        model.require_forward_param_sync = reduces
        if reduces:
            model.reducer.shadow()

    def post_hook(self, is_last_joiner: bool) -> None:
        """The model of a process that was among the last becomes that of all."""
        model = self._model
        model.reducer.divide_by = model.process_group.size()
        rank = common_rank(model, is_last_joiner)
        model._send_from(rank, [each.detach() for each in model.module.parameters()] + model._buffers_to_send())
