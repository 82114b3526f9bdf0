"""torch.distributed.launcher: starting the processes of a training."""

from flambeau.distributed.launcher import api as _api

globals().update((name, value) for name, value in vars(_api).items() if not name.startswith("_"))
