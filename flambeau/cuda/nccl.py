"""torch.cuda.nccl: communication between devices of NVIDIA, of which there are none."""

from __future__ import annotations

from typing import Any

from flambeau.core.operator import unsupported as _unsupported

SUM = 0
globals().update(
    _unsupported.all_of(
        "cuda.nccl.",
        "there are no CUDA devices; compute on the CPU, in one process",
        "all_gather all_reduce broadcast init_rank reduce reduce_scatter unique_id version",
    )
)


def is_available(tensors: Any) -> bool:
    """False."""
    return False
