"""DistributedDataParallel as a name: programs test for it; making one raises NotImplementedError."""

from __future__ import annotations

from flambeau.core.operator import unsupported
from flambeau.nn.modules.module import Module

__all__ = ["DistributedDataParallel"]

DistributedDataParallel = unsupported.kind(
    "nn.parallel.DistributedDataParallel",
    "flambeau computes in one process, on all its threads; use the module itself",
    base=Module,
)
