"""torch.distributed.fsdp.fully_sharded_data_parallel: the module wrapper, which needs several processes, and its settings."""

from flambeau.core.operator import unsupported as _unsupported
from flambeau.distributed.fsdp.api import (
    BackwardPrefetch,
    CPUOffload,
    FullOptimStateDictConfig,
    FullStateDictConfig,
    LocalOptimStateDictConfig,
    LocalStateDictConfig,
    MixedPrecision,
    OptimStateDictConfig,
    OptimStateKeyType,
    ShardedOptimStateDictConfig,
    ShardedStateDictConfig,
    ShardingStrategy,
    StateDictConfig,
    StateDictSettings,
    StateDictType,
)
from flambeau.distributed.without_group import ADVICE as _ADVICE

FullyShardedDataParallel = _unsupported.kind("distributed.fsdp.FullyShardedDataParallel", _ADVICE)
FlatParameter = _unsupported.kind("distributed.fsdp.FlatParameter", _ADVICE)

__all__ = [
    "BackwardPrefetch", "CPUOffload", "FlatParameter", "FullOptimStateDictConfig", "FullStateDictConfig",
    "FullyShardedDataParallel", "LocalOptimStateDictConfig", "LocalStateDictConfig", "MixedPrecision",
    "OptimStateDictConfig", "OptimStateKeyType", "ShardedOptimStateDictConfig", "ShardedStateDictConfig",
    "ShardingStrategy", "StateDictConfig", "StateDictSettings", "StateDictType",
]
