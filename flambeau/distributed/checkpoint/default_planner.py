"""torch.distributed.checkpoint.default_planner: which process writes and reads what."""

from flambeau.distributed.without_group import absent as _absent

globals().update(_absent("checkpoint.default_planner", "", "DefaultLoadPlanner DefaultSavePlanner"))
