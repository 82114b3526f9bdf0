"""torch.distributed.algorithms.ddp_comm_hooks.debugging_hooks: leaving gradients as they are, to measure what exchanging costs.

Stands on futures; DistributedDataParallel.register_comm_hook takes it.
"""

from __future__ import annotations

from typing import Any

import flambeau as torch

__all__ = ["noop_hook"]


def noop_hook(_: Any, bucket: Any) -> Any:
    """A Future of the gradients of this process alone: the copies of the model drift apart."""
    future: Any = torch.futures.Future()
    future.set_result(bucket.buffer())
    return future
