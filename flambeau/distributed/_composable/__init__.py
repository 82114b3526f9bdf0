"""torch.distributed._composable: what wraps modules elsewhere, without wrappers: fully_shard, replicate and checkpoint."""

from flambeau.distributed._composable.checkpoint_activation import checkpoint
from flambeau.distributed._composable.fsdp import fully_shard
from flambeau.distributed._composable.replicate import replicate

__all__ = ["checkpoint", "fully_shard", "replicate"]
