"""torch.distributed.tensor.experimental._context_parallel: sequences of which every rank of a mesh has a part.

`load_balancer` says which positions a rank has, `ring_attention` computes attention of parts, `context` puts both into a program.
"""

from flambeau.distributed.tensor.experimental._context_parallel.context import (
    _context_parallel_shard,
    context_parallel,
    context_parallel_unshard,
)
from flambeau.distributed.tensor.experimental._context_parallel.load_balancer import _HeadTailLoadBalancer, _LoadBalancer
from flambeau.distributed.tensor.experimental._context_parallel.options import _cp_options, _RotateMethod, set_rotate_method

__all__ = [
    "_HeadTailLoadBalancer",
    "_LoadBalancer",
    "_RotateMethod",
    "_context_parallel_shard",
    "_cp_options",
    "context_parallel",
    "context_parallel_unshard",
    "set_rotate_method",
]
