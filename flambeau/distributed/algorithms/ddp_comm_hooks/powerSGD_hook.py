"""torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook: exchanging gradients as products of thin matrices."""

from flambeau.distributed.without_group import absent as _absent

globals().update(_absent("algorithms.ddp_comm_hooks.powerSGD_hook", "batched_powerSGD_hook powerSGD_hook", "PowerSGDState"))
