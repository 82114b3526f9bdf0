"""torch.distributed.rpc: calls of functions in other processes, references to their values, and gradients through both.

    api         init_rpc, shutdown, rpc_sync, rpc_async, remote
    agent       the connections of a process, and the threads that run others' calls
    rref        RRef
    wire        calls as bytes
    gradients   what travelled in a context of distributed.autograd, and its backward pass
    functions   async_execution

Functions travel by name and arguments are pickled, so all processes must be trusted. Stands on stores and rendezvous.
"""

from flambeau.distributed.rpc import functions as functions
from flambeau.distributed.rpc.api import get_worker_info, init_rpc, remote, rpc_async, rpc_sync, shutdown
from flambeau.distributed.rpc.options import BackendType, RpcBackendOptions, TensorPipeRpcBackendOptions, WorkerInfo
from flambeau.distributed.rpc.rref import RRef

__all__ = [
    "BackendType",
    "RRef",
    "RpcBackendOptions",
    "TensorPipeRpcBackendOptions",
    "WorkerInfo",
    "functions",
    "get_worker_info",
    "init_rpc",
    "is_available",
    "remote",
    "rpc_async",
    "rpc_sync",
    "shutdown",
]


def is_available() -> bool:
    """True: it needs nothing but Python."""
    return True
