"""torch.distributed.checkpoint.optimizer: states of optimizers over divided parameters."""

from flambeau.distributed.without_group import absent as _absent

globals().update(_absent("checkpoint.optimizer", "load_sharded_optimizer_state_dict"))
