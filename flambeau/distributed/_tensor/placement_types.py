"""torch.distributed._tensor.placement_types: the older place of torch.distributed.tensor.placement_types."""

from flambeau.distributed.tensor.placement_types import Partial, Placement, Replicate, Shard

__all__ = ["Partial", "Placement", "Replicate", "Shard"]
