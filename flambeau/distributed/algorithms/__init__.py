"""torch.distributed.algorithms: what training on several processes does beside exchanging gradients."""

import importlib as _importlib
from typing import Any

from flambeau.distributed.algorithms.join import Join, Joinable, JoinHook

__all__ = ["Join", "JoinHook", "Joinable"]


def __getattr__(name: str) -> Any:
    if name in ("_checkpoint", "ddp_comm_hooks", "join", "model_averaging"):
        return _importlib.import_module(f"flambeau.distributed.algorithms.{name}")
    raise AttributeError(f"module 'flambeau.distributed.algorithms' has no attribute '{name}'")
