"""torch.distributed.tensor.experimental: rules of one's own, plain tensors taken for replicas, functions on parts."""

from flambeau.distributed.tensor.experimental._functions import implicit_replication, local_map, register_sharding
from flambeau.distributed.without_group import absent as _absent

globals().update(_absent("tensor.experimental", "context_parallel"))

__all__ = ["implicit_replication", "local_map", "register_sharding"]
