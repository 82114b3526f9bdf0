"""torch.distributed.distributed_c10d: process groups and collectives, of which there are none, and questions about them.

`is_initialized()` is False, and every collective raises the ValueError that PyTorch raises before `init_process_group`.
Stands on without_group; the package's face offers its names on.
"""

from __future__ import annotations

import datetime
import enum
import os
from typing import Any, ClassVar

from flambeau.distributed.without_group import UNINITIALIZED, absent, collective

default_pg_timeout = datetime.timedelta(minutes=30)
default_pg_nccl_timeout = None
_pg_map: dict[Any, Any] = {}

globals().update(
    (name, collective(name))
    for name in """all_gather all_gather_coalesced all_gather_into_tensor all_gather_object all_gather_single all_reduce
    all_reduce_coalesced all_to_all all_to_all_single barrier broadcast broadcast_object_list gather gather_object
    get_backend get_backend_config get_process_group_ranks get_rank get_world_size irecv isend monitored_barrier new_group
    new_subgroups new_subgroups_by_enumeration recv recv_object_list reduce reduce_scatter reduce_scatter_single
    reduce_scatter_tensor scatter scatter_object_list send send_object_list split_group shrink_group batch_isend_irecv P2POp
    _get_default_group _all_gather_base _reduce_scatter_base""".split()
)
globals().update(
    absent(
        "",
        "init_process_group register_rendezvous_handler rendezvous record_comm _make_nccl_premul_sum "
        "_broadcast_coalesced _create_process_group_wrapper _create_store_from_options _register_comm_hook "
        "_register_builtin_comm_hook _verify_params_across_processes _compute_bucket_assignment_by_size",
        "AllToAllOptions AllreduceCoalescedOptions AllreduceOptions BackendConfig BarrierOptions BroadcastOptions "
        "BuiltinCommHookType FileStore GatherOptions GradBucket HashStore PrefixStore ProcessGroup ProcessGroupGloo "
        "ReduceOptions ReduceScatterOptions Reducer ScatterOptions Store TCPStore Work",
    )
)


# ---------------------------------------------------------------- values


class Backend(str):
    """The name of a backend, in lower case. Raises ValueError for what is no string."""

    UNDEFINED, GLOO, NCCL, XCCL, UCC, MPI, FAKE = "undefined", "gloo", "nccl", "xccl", "ucc", "mpi", "fake"
    backend_list: ClassVar[list[str]] = [UNDEFINED, GLOO, NCCL, XCCL, UCC, MPI, FAKE]
    default_device_backend_map: ClassVar[dict[str, str]] = {"cpu": GLOO, "cuda": NCCL, "xpu": XCCL, "mps": GLOO}

    def __new__(cls, name: str) -> Backend:
        if not isinstance(name, str):
            raise ValueError(f"Backend constructor parameter must be string-ish: {name}")
        return str.__new__(cls, name.lower())


class RedOpType(enum.IntEnum):
    """How the values of all processes are combined."""

    SUM, AVG, PRODUCT, MIN, MAX, BAND, BOR, BXOR, PREMUL_SUM, UNUSED = range(10)

    def __str__(self) -> str:
        return f"RedOpType.{self.name}"


class _ReduceOpType(type):
    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, RedOpType)

    def __call__(cls, op: int) -> RedOpType:  # type: ignore[override]
        return RedOpType(op)


class ReduceOp(metaclass=_ReduceOpType):
    """The kinds of reduction, as attributes; ReduceOp(op) is the one of that number."""

    RedOpType = RedOpType
    SUM, AVG, PRODUCT, MIN, MAX, BAND, BOR, BXOR, PREMUL_SUM, UNUSED = RedOpType


reduce_op = ReduceOp


class DebugLevel(enum.IntEnum):
    """How much the library checks and logs."""

    OFF, INFO, DETAIL = range(3)


class GroupMember:
    """WORLD is the default group, None before init_process_group; NON_GROUP_MEMBER stands for groups one isn't in."""

    WORLD = None
    NON_GROUP_MEMBER = -100


group = GroupMember

# ---------------------------------------------------------------- errors


class DistError(RuntimeError):
    """An error of the distributed library."""


class DistBackendError(DistError):
    """An error of a backend."""


class DistNetworkError(DistError):
    """An error of the network."""


class DistStoreError(DistError):
    """An error of a store."""


class QueueEmptyError(DistStoreError):
    """A queue of a store had nothing in it."""


# ---------------------------------------------------------------- questions


def is_initialized() -> bool:
    """False: no process group was ever made."""
    return False


def is_torchelastic_launched() -> bool:
    """Whether a launcher started this process (it sets TORCHELASTIC_RUN_ID)."""
    return os.getenv("TORCHELASTIC_RUN_ID") is not None


def is_backend_available(backend: str) -> bool:
    """False: there is no backend."""
    return False


def _no_backend(name: str) -> Any:
    def ask() -> bool:
        return False

    ask.__name__ = ask.__qualname__ = f"is_{name}_available"
    ask.__doc__ = f"False: there is no backend {name}."
    return ask


for _name in ("nccl", "gloo", "mpi", "ucc", "xccl"):
    globals()[f"is_{_name}_available"] = _no_backend(_name)


def get_default_backend_for_device(device: Any) -> str:
    """The backend that PyTorch takes for a device's type. Raises ValueError for a type without one."""
    kind = str(getattr(device, "type", device)).partition(":")[0]
    if kind not in Backend.default_device_backend_map:
        raise ValueError(f"Default backend not registered for device : {kind}")
    return Backend.default_device_backend_map[kind]


def get_debug_level() -> DebugLevel:
    """DebugLevel.OFF."""
    return DebugLevel.OFF


def get_pg_count() -> int:
    """1, as PyTorch says before a group is made."""
    return 1


def get_global_rank(group: Any, group_rank: int) -> int:
    """The rank itself in the default group (None). Raises ValueError for others, of which there are none."""
    if group is not GroupMember.WORLD:
        raise ValueError(f"Group {group} is not registered, please create group with torch.distributed.new_group API")
    return group_rank


def get_group_rank(group: Any, global_rank: int) -> int:
    """The rank itself in the default group (None). Raises ValueError for others, of which there are none."""
    return get_global_rank(group, global_rank)


def supports_complex(reduceOp: Any) -> bool:
    """Whether a reduction is defined for complex numbers: not those that compare or look at bits."""
    return reduceOp not in (
        ReduceOp.MAX, ReduceOp.MIN, ReduceOp.PRODUCT, ReduceOp.BAND, ReduceOp.BOR, ReduceOp.BXOR)


def destroy_process_group(group: Any = None) -> None:
    """There is none to destroy: raises AssertionError."""
    raise AssertionError("Process group cannot be None")


def get_node_local_rank(fallback_rank: int | None = None) -> int:
    """The rank on this machine, from LOCAL_RANK. Raises RuntimeError if neither that nor a fallback is given."""
    if "LOCAL_RANK" in os.environ:
        return int(os.environ["LOCAL_RANK"])
    if fallback_rank is not None:
        return int(fallback_rank)
    raise RuntimeError(
        "LOCAL_RANK is not in the environment. Consider passing fallback_rank to allow `get_node_local_rank` to work, "
        "assuming you are not running in a multi-device context and want the code to run locally instead."
    )


def _rank_not_in_group(group: Any) -> bool:
    """Whether this process is outside of a group; it is in the default one."""
    return group == GroupMember.NON_GROUP_MEMBER


def _get_pg_default_device(group: Any = None) -> Any:
    """Raises ValueError: there is no group."""
    raise ValueError(UNINITIALIZED)
