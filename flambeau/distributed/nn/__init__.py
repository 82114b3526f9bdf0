"""torch.distributed.nn: collectives with gradients, and modules on other processes."""

from flambeau.distributed.nn import functional
from flambeau.distributed.without_group import absent as _absent

globals().update((name, getattr(functional, name)) for name in functional.__all__)
globals().update(_absent("nn", "", "RemoteModule"))
