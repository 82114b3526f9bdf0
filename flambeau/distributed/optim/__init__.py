"""torch.distributed.optim: optimizers of several processes."""

from flambeau.distributed.optim.apply_optimizer_in_backward import _apply_optimizer_in_backward, _get_in_backward_optimizers
from flambeau.distributed.optim.optimizer import DistributedOptimizer
from flambeau.distributed.optim.post_localSGD_optimizer import PostLocalSGDOptimizer
from flambeau.distributed.optim.zero_redundancy_optimizer import ZeroRedundancyOptimizer
from flambeau.distributed.without_group import absent as _absent

globals().update(_absent("optim", "as_functional_optim"))

__all__ = [
    "DistributedOptimizer",
    "PostLocalSGDOptimizer",
    "ZeroRedundancyOptimizer",
    "_apply_optimizer_in_backward",
    "_get_in_backward_optimizers",
]
