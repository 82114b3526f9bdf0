"""torch.distributed.optim: optimizers of several processes."""

from flambeau.distributed.optim.zero_redundancy_optimizer import ZeroRedundancyOptimizer
from flambeau.distributed.without_group import absent as _absent

globals().update(_absent("optim", "as_functional_optim", "DistributedOptimizer PostLocalSGDOptimizer"))

__all__ = ["ZeroRedundancyOptimizer"]
