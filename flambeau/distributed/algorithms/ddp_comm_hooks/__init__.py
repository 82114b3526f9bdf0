"""torch.distributed.algorithms.ddp_comm_hooks: how DistributedDataParallel's gradients are exchanged.

register_ddp_comm_hook chooses one of the hooks by name. Stands on the files of hooks beside it.
"""

from __future__ import annotations

from enum import Enum, member
from functools import partial
from typing import Any

from flambeau.distributed.algorithms.ddp_comm_hooks import (
    debugging_hooks,
    default_hooks,
    post_localSGD_hook,
    powerSGD_hook,
    quantization_hooks,
)

__all__ = ["DDPCommHookType", "register_ddp_comm_hook"]


def _register(comm_hook: Any, model: Any, state: Any) -> None:
    model.register_comm_hook(state, comm_hook)


def _register_power(
    comm_hook: Any, model: Any, state: Any, matrix_approximation_rank: int, start_powerSGD_iter: int = 1000
) -> None:
    """state: the process group."""
    settings = powerSGD_hook.PowerSGDState(state, matrix_approximation_rank, start_powerSGD_iter)
    model.register_comm_hook(settings, comm_hook)


class DDPCommHookType(Enum):
    """The hooks that have a name. A value is a function that registers its hook with (model=..., state=...)."""

    # `member`, as a function alone is a method: from Python 3.14 on a partial too, and 3.13 warns of it
    ALLREDUCE = member(partial(_register, comm_hook=default_hooks.allreduce_hook))
    FP16_COMPRESS = member(partial(_register, comm_hook=default_hooks.fp16_compress_hook))
    BF16_COMPRESS = member(partial(_register, comm_hook=default_hooks.bf16_compress_hook))
    QUANTIZE_PER_TENSOR = member(partial(_register, comm_hook=quantization_hooks.quantization_pertensor_hook))
    QUANTIZE_PER_CHANNEL = member(partial(_register, comm_hook=quantization_hooks.quantization_perchannel_hook))
    POWER_SGD = member(partial(_register_power, comm_hook=powerSGD_hook.powerSGD_hook, matrix_approximation_rank=1))
    POWER_SGD_RANK2 = member(partial(_register_power, comm_hook=powerSGD_hook.powerSGD_hook, matrix_approximation_rank=2))
    BATCHED_POWER_SGD = member(
        partial(_register_power, comm_hook=powerSGD_hook.batched_powerSGD_hook, matrix_approximation_rank=1)
    )
    BATCHED_POWER_SGD_RANK2 = member(
        partial(_register_power, comm_hook=powerSGD_hook.batched_powerSGD_hook, matrix_approximation_rank=2)
    )
    NOOP = member(partial(_register, comm_hook=debugging_hooks.noop_hook))


def register_ddp_comm_hook(comm_hook_type: DDPCommHookType, model: Any, state: Any = None) -> None:
    """Have a DistributedDataParallel exchange its gradients by a hook.

    state: the process group of hooks that take one (None: the default group).
    """
    comm_hook_type.value(model=model, state=state)
