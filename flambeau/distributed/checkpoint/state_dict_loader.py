"""torch.distributed.checkpoint.state_dict_loader: reading checkpoints of several processes."""

from flambeau.distributed.without_group import absent as _absent

globals().update(_absent("checkpoint", "load load_state_dict _load_state_dict"))
