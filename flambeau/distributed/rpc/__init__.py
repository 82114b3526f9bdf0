"""torch.distributed.rpc: calls of functions in other processes, which flambeau doesn't have: is_available() is False."""

from flambeau.distributed.without_group import absent as _absent

globals().update(
    _absent(
        "rpc",
        "get_worker_info init_rpc remote rpc_async rpc_sync shutdown",
        "BackendType RRef TensorPipeRpcBackendOptions",
    )
)


def is_available() -> bool:
    """False."""
    return False
