"""torch.distributed._shard: the older tensors divided over processes."""

from flambeau.distributed.without_group import absent as _absent

globals().update(_absent("_shard", "load_with_process_group shard_module shard_parameter"))
