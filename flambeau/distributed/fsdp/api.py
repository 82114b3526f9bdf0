"""torch.distributed.fsdp.api: the settings of FullyShardedDataParallel. Values; nothing here acts on them.

Stands on nn, whose batch norms keep their precision; used by the package's face.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass

from flambeau.base.dtype import dtype
from flambeau.nn.modules.batchnorm import _BatchNorm
from flambeau.nn.modules.module import Module


class ShardingStrategy(enum.Enum):
    """What is divided over the processes: parameters, gradients and optimizer states, or fewer of them."""

    FULL_SHARD = 1
    SHARD_GRAD_OP = 2
    NO_SHARD = 3
    HYBRID_SHARD = 4
    _HYBRID_SHARD_ZERO2 = 5


class BackwardPrefetch(enum.Enum):
    """When the backward pass asks for the next parameters: before or after the present gradients."""

    BACKWARD_PRE = 1
    BACKWARD_POST = 2


class StateDictType(enum.Enum):
    """What a state dict holds: whole parameters, flat ones of this process, or shards."""

    FULL_STATE_DICT = 1
    LOCAL_STATE_DICT = 2
    SHARDED_STATE_DICT = 3


class OptimStateKeyType(enum.Enum):
    """What an optimizer's states are found by."""

    PARAM_NAME = 1
    PARAM_ID = 2


@dataclass
class MixedPrecision:
    """The dtypes of parameters in computations, of the reduction of gradients, and of buffers; None: as they are."""

    param_dtype: dtype | None = None
    reduce_dtype: dtype | None = None
    buffer_dtype: dtype | None = None
    keep_low_precision_grads: bool = False
    cast_forward_inputs: bool = False
    cast_root_forward_inputs: bool = True
    _module_classes_to_ignore: Sequence[type[Module]] = (_BatchNorm,)


@dataclass
class CPUOffload:
    """Whether parameters stay in the CPU's memory while they aren't used."""

    offload_params: bool = False


@dataclass
class StateDictConfig:
    """Whether a state dict is moved to the CPU."""

    offload_to_cpu: bool = False


@dataclass
class FullStateDictConfig(StateDictConfig):
    """Settings of FULL_STATE_DICT."""

    rank0_only: bool = False


@dataclass
class LocalStateDictConfig(StateDictConfig):
    """Settings of LOCAL_STATE_DICT."""


@dataclass
class ShardedStateDictConfig(StateDictConfig):
    """Settings of SHARDED_STATE_DICT."""

    _use_dtensor: bool = False


@dataclass
class OptimStateDictConfig:
    """Whether an optimizer's state dict is moved to the CPU."""

    offload_to_cpu: bool = True


@dataclass
class FullOptimStateDictConfig(OptimStateDictConfig):
    """Settings of an optimizer's FULL_STATE_DICT."""

    rank0_only: bool = False


@dataclass
class LocalOptimStateDictConfig(OptimStateDictConfig):
    """Settings of an optimizer's LOCAL_STATE_DICT."""

    offload_to_cpu: bool = False


@dataclass
class ShardedOptimStateDictConfig(OptimStateDictConfig):
    """Settings of an optimizer's SHARDED_STATE_DICT."""

    _use_dtensor: bool = False


@dataclass
class StateDictSettings:
    """The kind of state dict with its settings."""

    state_dict_type: StateDictType
    state_dict_config: StateDictConfig
    optim_state_dict_config: OptimStateDictConfig


@dataclass(frozen=True)
class MixedPrecisionPolicy:
    """fully_shard's dtypes of parameters in computations, of the reduction of gradients, and of the module's results."""

    param_dtype: dtype | None = None
    reduce_dtype: dtype | None = None
    output_dtype: dtype | None = None
    cast_forward_inputs: bool = True


@dataclass
class OffloadPolicy:
    """fully_shard keeps everything on the device."""


@dataclass
class CPUOffloadPolicy(OffloadPolicy):
    """fully_shard keeps parameters, gradients and optimizer states in the CPU's memory."""

    pin_memory: bool = True


@dataclass
class DataParallelMeshDims:
    """The names of a mesh's dimensions along which parameters are divided and repeated."""

    shard: str | tuple[str, ...] | None = None
    replicate: str | tuple[str, ...] | None = None
