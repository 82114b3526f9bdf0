"""torch.distributed.tensor.experimental: sharding rules of one's own, functions on parts, sequences in parts."""

from flambeau.distributed.tensor.experimental._context_parallel import context_parallel
from flambeau.distributed.tensor.experimental._functions import implicit_replication, local_map, register_sharding

__all__ = ["context_parallel", "implicit_replication", "local_map", "register_sharding"]
