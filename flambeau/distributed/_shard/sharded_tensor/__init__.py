"""torch.distributed._shard.sharded_tensor: the older tensors divided over processes; names to import."""

from flambeau.distributed.without_group import absent as _absent

globals().update(
    _absent(
        "_shard.sharded_tensor",
        "empty full init_from_local_shards ones rand randn zeros",
        "Shard ShardedTensor ShardedTensorMetadata",
    )
)
