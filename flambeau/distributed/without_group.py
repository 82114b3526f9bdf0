"""The parts of torch.distributed that are names only: importing and testing for them works, using them says what to do.

Stands on core.operator.unsupported; used by the modules of the room.
"""

from __future__ import annotations

from typing import Any

from flambeau.core.operator import unsupported as _unsupported

ADVICE = "it isn't there; use process groups, collectives, DistributedDataParallel, DTensor, fully_shard or pipelining"


def absent(room: str, functions: str = "", kinds: str = "") -> dict[str, Any]:
    """Functions and classes of `torch.distributed.<room>` that raise NotImplementedError when they are used."""
    return _unsupported.all_of(f"distributed.{room}." if room else "distributed.", ADVICE, functions, kinds)
