"""torch.distributed.tensor.experimental: further ways of working on sharded tensors, of which there are none."""

from flambeau.distributed.without_group import absent as _absent

globals().update(
    _absent("tensor.experimental", "context_parallel implicit_replication local_map register_sharding")
)
