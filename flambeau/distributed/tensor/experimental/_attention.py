"""torch.distributed.tensor.experimental._attention: the older name of `_context_parallel`."""

from flambeau.distributed.tensor.experimental._context_parallel import (
    _context_parallel_shard,
    _cp_options,
    _HeadTailLoadBalancer,
    _LoadBalancer,
    _RotateMethod,
    context_parallel,
    context_parallel_unshard,
    set_rotate_method,
)

__all__ = [
    "_HeadTailLoadBalancer", "_LoadBalancer", "_RotateMethod", "_context_parallel_shard", "_cp_options", "context_parallel",
    "context_parallel_unshard", "set_rotate_method",
]
