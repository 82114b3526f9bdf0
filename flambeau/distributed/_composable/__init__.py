"""torch.distributed._composable: what wraps modules elsewhere, without wrappers: fully_shard, replicate and checkpoint."""

from flambeau.base.lazy_import import submodules
from flambeau.distributed._composable.checkpoint_activation import checkpoint
from flambeau.distributed._composable.replicate import replicate
from flambeau.distributed.fsdp import fully_shard

__all__ = ["checkpoint", "fully_shard", "replicate"]

__getattr__ = submodules(__name__)
