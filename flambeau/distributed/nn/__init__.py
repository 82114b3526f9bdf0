"""torch.distributed.nn: collectives with gradients, and modules on other processes."""

from flambeau.distributed.nn import functional
from flambeau.distributed.nn.api.remote_module import RemoteModule as RemoteModule

globals().update((name, getattr(functional, name)) for name in functional.__all__)
