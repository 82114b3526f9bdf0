"""torch.distributed.distributed_c10d: process groups, collectives, stores and questions about them, from the files beside this.

The package offers its names on.
"""

from __future__ import annotations

import os
from typing import Any

from flambeau.base.device import device
from flambeau.base.naming import adopt
from flambeau.base.warn import deprecated, warn
from flambeau.distributed import (
    backends,
    collectives,
    constants,
    debug_level,
    errors,
    group_options,
    groups,
    object_collectives,
    plugins,
    point_to_point,
    process_group,
    reduce_ops,
    registry,
    rendezvous,
    stores,
    work,
)
from flambeau.distributed.engine import gloo
from flambeau.distributed.without_group import absent

_FUNCTIONS = {
    backends: """get_default_backend_for_device is_backend_available is_gloo_available is_mpi_available is_nccl_available
        is_ucc_available is_xccl_available""",
    collectives: """all_gather all_gather_coalesced all_gather_into_tensor all_gather_single all_reduce all_reduce_coalesced
        all_to_all all_to_all_single barrier broadcast gather monitored_barrier reduce reduce_scatter reduce_scatter_single
        reduce_scatter_tensor scatter _all_gather_base _coalescing_manager _CoalescingManager _reduce_scatter_base""",
    groups: """destroy_process_group init_process_group new_group new_subgroups new_subgroups_by_enumeration shrink_group
        split_group""",
    object_collectives: """all_gather_object broadcast_object_list gather_object recv_object_list scatter_object_list
        send_object_list""",
    point_to_point: "batch_isend_irecv irecv isend recv send",
    reduce_ops: "supports_complex",
    registry: """get_backend get_backend_config get_global_rank get_group_rank get_node_local_rank get_pg_count
        get_process_group_ranks get_rank get_world_size is_initialized GroupMember""",
}
_VALUES = {
    backends: "Backend BackendConfig",
    constants: "default_pg_nccl_timeout default_pg_timeout",
    debug_level: "DebugLevel get_debug_level set_debug_level set_debug_level_from_env",
    errors: "DistBackendError DistError DistNetworkError DistStoreError QueueEmptyError",
    group_options: """AllgatherOptions AllreduceCoalescedOptions AllreduceOptions AllToAllOptions BarrierOptions BroadcastOptions
        BuiltinCommHookType GatherOptions ReduceOptions ReduceScatterOptions ScatterOptions""",
    point_to_point: "P2POp",
    gloo: "ProcessGroupGloo",
    plugins: "_DistributedBackendOptions",
    process_group: "ProcessGroup",
    reduce_ops: "RedOpType ReduceOp",
    registry: "group",
    rendezvous: "register_rendezvous_handler rendezvous",
    stores: "FileStore HashStore PrefixStore Store TCPStore",
    work: "Work",
}
_HOMES = (*_FUNCTIONS.items(), *_VALUES.items())
globals().update((name, getattr(module, name)) for module, names in _HOMES for name in names.split())
adopt(globals(), " ".join(_FUNCTIONS.values()).split())
_ABSENT = absent(
    "",
    "record_comm _create_process_group_wrapper _create_store_from_options _register_comm_hook "
    "_register_builtin_comm_hook _compute_bucket_assignment_by_size",
    "Reducer",
)
globals().update(_ABSENT)
reduce_op = reduce_ops.OlderReduceOp()
_get_default_group, _rank_not_in_group, _resolve_process_group = (
    registry.get_default_group,
    registry.outside,
    registry.named_group,
)
_Work = work.Work
_make_nccl_premul_sum = reduce_ops.premul_sum


_get_global_rank = deprecated(
    "`torch.distributed.distributed_c10d._get_global_rank` is deprecated, please use "
    "`torch.distributed.distributed_c10d.get_global_rank` instead"
)(registry.get_global_rank)
_NAMES = [name for _, names in _HOMES for name in names.split()]
__all__ = [name for name in (*_NAMES, *_ABSENT, "is_torchelastic_launched", "reduce_op") if not name.startswith("_")]


def is_torchelastic_launched() -> bool:
    """Whether a launcher started this process (it sets TORCHELASTIC_RUN_ID)."""
    return os.getenv("TORCHELASTIC_RUN_ID") is not None


def _get_default_store() -> stores.Store:
    """The store by which the processes of the default group met. Raises ValueError before init_process_group."""
    registry.get_default_group()
    assert registry.registry.store is not None
    return registry.registry.store


def _get_process_group_store(group: process_group.ProcessGroup) -> stores.Store:
    """The store that a group's processes share."""
    return group.get_group_store()


def _get_process_group_name(pg: process_group.ProcessGroup) -> str:
    """A group's own name."""
    return pg.group_name


def __getattr__(name: str) -> Any:
    if name == "_pg_map":  # (backend, store) of each group there is
        return {group: (group.name(), group._store) for group in registry.registry.groups}
    raise AttributeError(f"module 'flambeau.distributed.distributed_c10d' has no attribute '{name}'")


def _get_pg_default_device(group: Any = None) -> Any:
    """The device that a group's objects travel on: the CPU. Raises ValueError if the group isn't there."""
    warn(
        "`_get_pg_default_device` will be deprecated, it only stays for backward-compatibility reason. If you need to find a "
        "device for object collectives, please use `_get_object_coll_device`. If you need to query the device types supported "
        "by group, please use `_device_capability(group)`. "
    )
    return device(_get_object_coll_device(group))


def _get_object_coll_device(group: Any = None) -> str:
    """The kind of device that a group's objects travel on. Raises ValueError if the group isn't there."""
    registry.group_of(group)
    return "cpu"


def _broadcast_coalesced(process_group: Any, tensors: Any, buffer_size: int, src: int = 0) -> None:
    """All these tensors become those of rank `src` of a group."""
    for begun in [process_group.broadcast([tensor], src) for tensor in tensors]:
        begun.wait()
