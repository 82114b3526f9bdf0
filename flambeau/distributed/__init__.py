"""torch.distributed, as in a build without it: is_available() is False, work raises NotImplementedError.

Programs that guard their distributed parts run; `get_rank` and `get_world_size` answer for the single process.
"""

from __future__ import annotations

from flambeau.core import absent as _absent

_ADVICE = (
    "flambeau computes in one process; guard distributed code with torch.distributed.is_available(), or use "
    "torch.multiprocessing and send NumPy arrays"
)
globals().update(
    _absent.all_of(
        "distributed.",
        _ADVICE,
        "all_gather all_gather_coalesced all_gather_into_tensor all_gather_object all_reduce "
        "all_reduce_coalesced all_to_all "
        "all_to_all_single barrier batch_isend_irecv broadcast broadcast_object_list destroy_process_group "
        "gather gather_object get_backend "
        "get_process_group_ranks init_device_mesh init_process_group irecv isend monitored_barrier new_group "
        "new_subgroups recv reduce "
        "reduce_scatter reduce_scatter_tensor scatter scatter_object_list send get_global_rank get_group_rank "
        "recv_object_list "
        "send_object_list rendezvous",
        (
            "Backend DeviceMesh FileStore GradBucket HashStore P2POp PrefixStore ProcessGroup Store TCPStore Work "
            "Reducer group"
        ),
    )
)


class DistError(RuntimeError):
    """An error of the distributed library."""


class DistBackendError(DistError):
    """An error of a backend."""


class DistNetworkError(DistError):
    """An error of the network."""


class DistStoreError(DistError):
    """An error of a store."""


class ReduceOp:
    """How values are combined."""

    SUM, AVG, PRODUCT, MIN, MAX, BAND, BOR, BXOR, PREMUL_SUM = range(9)


def is_available() -> bool:
    """False: flambeau computes in one process."""
    return False


def is_initialized() -> bool:
    """False."""
    return False


def is_torchelastic_launched() -> bool:
    """False."""
    return False


def is_backend_available(backend: str) -> bool:
    """False."""
    return False


def is_nccl_available() -> bool:
    """False."""
    return False


def is_gloo_available() -> bool:
    """False."""
    return False


def is_mpi_available() -> bool:
    """False."""
    return False


def get_rank(group: object = None) -> int:
    """The rank of this process. Raises ValueError: no process group has been initialized."""
    raise ValueError("Default process group has not been initialized, please make sure to call init_process_group.")


def get_world_size(group: object = None) -> int:
    """The number of processes. Raises ValueError: no process group has been initialized."""
    raise ValueError("Default process group has not been initialized, please make sure to call init_process_group.")


def get_node_local_rank(fallback_rank: int | None = None) -> int:
    """The rank on this machine, from LOCAL_RANK. Raises RuntimeError if neither that nor a fallback is given."""
    import os

    if "LOCAL_RANK" in os.environ:
        return int(os.environ["LOCAL_RANK"])
    if fallback_rank is not None:
        return int(fallback_rank)
    raise RuntimeError(
        "LOCAL_RANK is not in the environment. Consider passing fallback_rank to allow `get_node_local_rank` "
        "to work, "
        "assuming you are not running in a multi-device context and want the code to run locally instead."
    )
