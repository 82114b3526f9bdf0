"""torch.distributed.fsdp.sharded_grad_scaler: a GradScaler that asks the other processes for infinities.

Stands on torch.amp.GradScaler and on collectives.
"""

from __future__ import annotations

from typing import Any

import flambeau as torch
from flambeau.distributed import collectives
from flambeau.distributed.process_group import ProcessGroup
from flambeau.distributed.reduce_ops import ReduceOp

__all__ = ["ShardedGradScaler"]


class ShardedGradScaler(torch.amp.GradScaler):
    """torch.amp.GradScaler for parameters that are divided: all processes skip a step, and lower the scale, if one of them has an
    infinite or NaN gradient. Scaled losses keep their dtype, and gradients may be float16. All must call `step` (or `unscale_`).

    Args:
        device, init_scale, backoff_factor, growth_factor, growth_interval, enabled: as GradScaler's.
        process_group: the processes that share parameters; all by default.
    """

    def __init__(
        self,
        device: str = "cuda",
        init_scale: float = 2.0**16,
        backoff_factor: float = 0.5,
        growth_factor: float = 2.0,
        growth_interval: int = 2000,
        enabled: bool = True,
        process_group: ProcessGroup | None = None,
    ) -> None:
        super().__init__(device, init_scale, growth_factor, backoff_factor, growth_interval, enabled)
        self.process_group = process_group

    def scale(self, outputs: Any) -> Any:
        """`outputs`, a tensor or (nested) iterables of tensors, times the scale, in their dtypes."""
        scaled = super().scale(outputs)
        return scaled.to(outputs.dtype) if isinstance(outputs, torch.Tensor) else scaled

    def _unscale_grads_(
        self, optimizer: Any, inv_scale: torch.Tensor, found_inf: torch.Tensor, allow_fp16: bool
    ) -> dict[Any, torch.Tensor]:
        found = super()._unscale_grads_(optimizer, inv_scale, found_inf, True)
        # a process whose part is empty has no gradient, and is asked all the same
        flag = found.setdefault(found_inf.device, found_inf.clone())
        collectives.all_reduce(flag, ReduceOp.MAX, self.process_group)
        return found
