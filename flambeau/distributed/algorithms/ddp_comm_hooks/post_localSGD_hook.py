"""torch.distributed.algorithms.ddp_comm_hooks.post_localSGD_hook: exchanging gradients within small groups."""

from flambeau.distributed.without_group import absent as _absent

globals().update(_absent("algorithms.ddp_comm_hooks.post_localSGD_hook", "post_localSGD_hook", "PostLocalSGDState"))
