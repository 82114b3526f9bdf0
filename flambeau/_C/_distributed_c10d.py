"""torch._C._distributed_c10d: the native names of torch.distributed. Stands on distributed, which has them."""

from __future__ import annotations

from flambeau.distributed import (
    AllgatherOptions,
    AllreduceCoalescedOptions,
    AllreduceOptions,
    AllToAllOptions,
    BarrierOptions,
    BroadcastOptions,
    DebugLevel,
    FileStore,
    GatherOptions,
    HashStore,
    PrefixStore,
    ProcessGroup,
    ProcessGroupGloo,
    ReduceOp,
    ReduceOptions,
    ReduceScatterOptions,
    ScatterOptions,
    Store,
    TCPStore,
    Work,
    distributed_c10d,
    get_debug_level,
    set_debug_level,
    set_debug_level_from_env,
)
from flambeau.distributed.constants import default_pg_timeout as _DEFAULT_PG_TIMEOUT
from flambeau.distributed.fake_group import FakeProcessGroup
from flambeau.distributed.plugins import _DistributedBackendOptions

_broadcast_coalesced = distributed_c10d._broadcast_coalesced
_resolve_process_group = distributed_c10d._resolve_process_group

__all__ = [
    "_DEFAULT_PG_TIMEOUT",
    "_DistributedBackendOptions",
    "AllToAllOptions",
    "AllgatherOptions",
    "AllreduceCoalescedOptions",
    "AllreduceOptions",
    "BarrierOptions",
    "BroadcastOptions",
    "DebugLevel",
    "FakeProcessGroup",
    "FileStore",
    "GatherOptions",
    "HashStore",
    "PrefixStore",
    "ProcessGroup",
    "ProcessGroupGloo",
    "ReduceOp",
    "ReduceOptions",
    "ReduceScatterOptions",
    "ScatterOptions",
    "Store",
    "TCPStore",
    "Work",
    "get_debug_level",
    "set_debug_level",
    "set_debug_level_from_env",
]
