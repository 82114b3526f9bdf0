"""torch.distributed.rpc.api: beginning and ending, and the calls of functions in other processes.

Stands on agent, rref and gradients; the package offers its functions on.
"""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from flambeau.distributed.rendezvous import rendezvous
from flambeau.distributed.rpc import current, rref
from flambeau.distributed.rpc.agent import Agent
from flambeau.distributed.rpc.gradients import Contexts
from flambeau.distributed.rpc.options import BackendType, TensorPipeRpcBackendOptions, WorkerInfo
from flambeau.distributed.rpc.rref import RRef, Values
from flambeau.distributed.stores import PrefixStore
from flambeau.futures import Future

__all__ = ["get_worker_info", "init_rpc", "remote", "rpc_async", "rpc_sync", "shutdown"]

_MEETING = timedelta(seconds=300)
_generation = 0


def _require_initialized(func: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a function of a library, so that it raises RuntimeError before init_rpc."""

    @functools.wraps(func)
    def asked(*args: Any, **kwargs: Any) -> Any:
        current.agent()
        return func(*args, **kwargs)

    return asked


def init_rpc(
    name: str,
    backend: BackendType | None = None,
    rank: int = -1,
    world_size: int | None = None,
    rpc_backend_options: TensorPipeRpcBackendOptions | None = None,
) -> None:
    """Make this process a worker of this name, which others can call. All `world_size` do so, and meet by options.init_method.

    Raises TypeError for a backend that isn't one, RuntimeError the second time and for a name that another has.
    """
    global _generation
    if backend is not None and not isinstance(backend, BackendType):
        raise TypeError("Argument backend must be a member of BackendType")
    options = TensorPipeRpcBackendOptions() if rpc_backend_options is None else rpc_backend_options
    if not isinstance(options, TensorPipeRpcBackendOptions):
        raise TypeError("`rpc_backend_options` must be a `TensorPipeRpcBackendOptions`")
    if current.is_there():
        raise RuntimeError("RPC is already initialized")
    store, rank, size = next(rendezvous(options.init_method, rank=rank, world_size=-1 if world_size is None else world_size))
    store.set_timeout(_MEETING)
    shared = PrefixStore(f"rpc_prefix_{_generation}", store)
    _generation += 1
    contexts, values = Contexts(rank), Values()
    agent = Agent(shared, name, rank, size, options, contexts)
    current.begin(agent=agent, values=values, calls=sys.modules[__name__], contexts=contexts, store=store)
    threading.Thread(target=rref.let_go, args=(values,), name="flambeau rpc references", daemon=True).start()
    shared.barrier("begun", size, _MEETING)  # nobody is called before it can answer


def shutdown(graceful: bool = True, timeout: float = 0) -> None:
    """End. graceful: when all processes have called it and none has calls under way, after at most `timeout` seconds (0: any)."""
    if not current.is_there():
        return
    agent = current.agent()
    try:
        if graceful:
            agent.settled(timeout)
    finally:
        current.values().dropped.put(None)
        current.end()
        agent.close()


def get_worker_info(worker_name: str | None = None) -> WorkerInfo:
    """The worker of a name; this one without a name. Raises RuntimeError for one that isn't there."""
    agent = current.agent()
    made: WorkerInfo = agent.own if worker_name is None else agent.worker(worker_name)
    return made


def _get_worker_info(worker_name: str | None = None) -> WorkerInfo:
    return get_worker_info(worker_name)


def _checked(func: Any) -> Any:
    if not callable(func):
        raise TypeError("function should be callable.")
    return func


def rpc_async(to: Any, func: Callable[..., Any], args: Any = None, kwargs: Any = None, timeout: float = -1) -> Future[Any]:
    """A Future of func(*args, **kwargs) in another process. to: its name, rank or WorkerInfo; timeout: seconds, 0 for none."""
    agent = current.agent()
    made: Future[Any] = agent.call(agent.worker(to), _checked(func), args or (), kwargs, timeout)
    return made


def rpc_sync(to: Any, func: Callable[..., Any], args: Any = None, kwargs: Any = None, timeout: float = -1) -> Any:
    """func(*args, **kwargs) in another process. Raises what it raises there, with where in its text."""
    return rpc_async(to, func, args, kwargs, timeout).wait()


def remote(to: Any, func: Callable[..., Any], args: Any = None, kwargs: Any = None, timeout: float = -1) -> RRef[Any]:
    """A reference to what func(*args, **kwargs) will be in another process. A class makes an instance there."""
    agent = current.agent()
    owner, key = agent.worker(to), current.values().key()
    made = agent.call(owner, rref.make, (key, _checked(func), tuple(args or ()), dict(kwargs or {})), timeout=timeout)
    found: RRef[Any] = RRef._of(owner, key, made)
    if found._value is not None:  # a reference of its own needs no counting
        made._when_complete(lambda: current.is_there() and current.values().count(key, -1, found._value))
    return found
