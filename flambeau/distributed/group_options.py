"""The options that the methods of a process group take: plain attributes, as in PyTorch.

Stands on reduce_ops; collectives and programs that call a ProcessGroup's methods themselves make them.
"""

from __future__ import annotations

import enum
from datetime import timedelta
from typing import Any

from flambeau.base.naming import called
from flambeau.distributed.reduce_ops import ReduceOp

_HOME = "distributed.distributed_c10d"


@called(_HOME, "BuiltinCommHookType")
class BuiltinCommHookType(enum.Enum):
    """Ways to exchange gradients that DistributedDataParallel has without a hook of the program."""

    ALLREDUCE, FP16_COMPRESS = 1, 2


class _Options:
    timeout: timedelta | None = None  # None: that of the group
    asyncOp = True

    def __init__(self) -> None:
        pass


def _kind(name: str, **attributes: Any) -> Any:
    return called(_HOME, name)(type(name, (_Options,), {"__doc__": f"Options of a call: {', '.join(attributes)}.", **attributes}))


AllreduceOptions = _kind("AllreduceOptions", reduceOp=ReduceOp.SUM)
AllreduceCoalescedOptions = _kind("AllreduceCoalescedOptions", reduceOp=ReduceOp.SUM)
ReduceOptions = _kind("ReduceOptions", reduceOp=ReduceOp.SUM, rootRank=0, rootTensor=0)
BroadcastOptions = _kind("BroadcastOptions", rootRank=0, rootTensor=0)
AllgatherOptions = _kind("AllgatherOptions")
GatherOptions = _kind("GatherOptions", rootRank=0)
ScatterOptions = _kind("ScatterOptions", rootRank=0)
ReduceScatterOptions = _kind("ReduceScatterOptions", reduceOp=ReduceOp.SUM)
AllToAllOptions = _kind("AllToAllOptions")
BarrierOptions = _kind("BarrierOptions", device_ids=(), device=None)
