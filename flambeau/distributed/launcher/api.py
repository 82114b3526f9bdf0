"""torch.distributed.launcher.api: starting the processes of a training."""

from flambeau.distributed.without_group import absent as _absent

globals().update(_absent("launcher.api", "launch_agent", "LaunchConfig elastic_launch"))
