"""torch.distributed.checkpoint.state_dict_saver: writing checkpoints of several processes."""

from flambeau.distributed.without_group import absent as _absent

globals().update(_absent("checkpoint", "save save_state_dict async_save"))
