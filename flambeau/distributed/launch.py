"""torch.distributed.launch: the older command that starts the processes of a training."""

from flambeau.distributed.without_group import absent as _absent

globals().update(_absent("launch", "get_args_parser launch main parse_args run"))
