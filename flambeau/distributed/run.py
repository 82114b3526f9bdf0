"""torch.distributed.run: the command that starts the processes of a training (torchrun)."""

from flambeau.distributed.without_group import absent as _absent

globals().update(_absent("run", "config_from_args determine_local_world_size get_args_parser main parse_args run"))
