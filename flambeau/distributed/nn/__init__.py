"""torch.distributed.nn: collectives with gradients, and modules on other processes."""

from flambeau.distributed.nn import functional
from flambeau.distributed.without_group import absent as _absent

globals().update((name, value) for name, value in vars(functional).items() if not name.startswith("_"))
globals().update(_absent("nn", "", "RemoteModule"))
