"""torch.distributed.algorithms.ddp_comm_hooks.post_localSGD_hook: exchanging gradients within small groups.

Post-local SGD (Lin et al. 2018, Don't Use Large Mini-Batches, Use Local SGD): after some iterations gradients are averaged within
subgroups only, and an averager (model_averaging.averagers) averages the parameters of all from time to time. Stands on
default_hooks; DistributedDataParallel.register_comm_hook takes it.
"""

from __future__ import annotations

import logging
from typing import Any

import flambeau as torch
from flambeau.distributed.algorithms.ddp_comm_hooks import default_hooks
from flambeau.distributed.algorithms.ddp_comm_hooks.debugging_hooks import noop_hook

__all__ = ["PostLocalSGDState", "post_localSGD_hook"]

logger = logging.getLogger(__name__)


class PostLocalSGDState:
    """What post_localSGD_hook goes by.

    process_group: all (None: the default group). subgroup: those who exchange gradients from iteration start_localSGD_iter on
    (None: what `new_subgroups()` gives, the processes of a machine with accelerators). post_local_gradient_allreduce: False: no
    gradients are exchanged from then on.
    """

    __slots__ = ["process_group", "subgroup", "start_localSGD_iter", "post_local_gradient_allreduce", "iter"]

    def __init__(
        self, process_group: Any, subgroup: Any, start_localSGD_iter: int, post_local_gradient_allreduce: bool = True
    ) -> None:
        self.process_group, self.subgroup, self.start_localSGD_iter = process_group, subgroup, start_localSGD_iter
        self.post_local_gradient_allreduce, self.iter = post_local_gradient_allreduce, 0
        logger.info("Local SGD will be started after %s iterations", start_localSGD_iter)

    def maybe_increase_iter(self, bucket: Any) -> None:
        """Count an iteration at its last bucket."""
        if bucket.is_last():
            self.iter += 1
        if self.iter == self.start_localSGD_iter:
            logger.info("Start to apply local SGD after %s iterations.", self.iter)


def post_localSGD_hook(state: PostLocalSGDState, bucket: Any) -> Any:
    """A Future of the mean over all processes, in later iterations over the subgroup."""
    if state.iter < state.start_localSGD_iter:
        state.maybe_increase_iter(bucket)
        return default_hooks.allreduce_hook(state.process_group, bucket)
    if not state.post_local_gradient_allreduce:
        return noop_hook(None, bucket)
    if state.subgroup is None:
        state.subgroup, _ = torch.distributed.new_subgroups()
    return default_hooks.allreduce_hook(state.subgroup, bucket)
