"""torch.distributed.fsdp._traversal_utils: the wrapped modules in a module."""

from __future__ import annotations

from typing import Any

from flambeau.distributed.fsdp.fully_sharded_data_parallel import FullyShardedDataParallel


def _get_fsdp_states(module: Any) -> list[Any]:
    """The wrappers in a module, itself among them."""
    return list(FullyShardedDataParallel.fsdp_modules(module))
