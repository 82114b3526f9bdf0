"""ProcessGroup: some processes, and what they do together. The base of the engine's groups and of those that programs define.

A subclass has its own operations (allreduce, broadcast, ...), or an object that has them is registered with a group. Ranks are
those in the group. Stands on stores; the functions in collectives call its methods.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from enum import IntEnum
from typing import Any, NoReturn

import flambeau as torch
from flambeau.base.naming import called
from flambeau.distributed.stores import Store

_OPERATIONS = """
    allreduce allreduce_coalesced reduce reduce_scatter _reduce_scatter_base reduce_scatter_tensor_coalesced broadcast
    allgather _allgather_base allgather_coalesced allgather_into_tensor_coalesced gather scatter alltoall_base
    alltoall barrier monitored_barrier send recv recv_anysource
""".split()
_NEWER = {
    "reduce_scatter_single": "_reduce_scatter_base",
    "reduce_scatter_single_coalesced": "reduce_scatter_tensor_coalesced",
    "all_gather_single": "_allgather_base",
    "all_gather_single_coalesced": "allgather_into_tensor_coalesced",
    "all_to_all_single": "alltoall_base",
}


class BackendType(IntEnum):
    """What kind of backend a group has."""

    UNDEFINED, GLOO, NCCL, XCCL, UCC, MPI, CUSTOM = 0, 1, 2, 3, 4, 5, 6


@called("distributed.distributed_c10d", "ProcessGroup")
class ProcessGroup:
    """Some processes and what they do together: ProcessGroup(rank, size), or ProcessGroup(store, rank, size).

    A subclass may say what it is by getRank, getSize, getBackendName, getGroupName and getGroupDesc, and take a name and a
    description by setGroupName and setGroupDesc. An operation that neither it nor a registered backend has raises
    NotImplementedError with its name.
    """

    BackendType = BackendType

    def __init__(self, store: Store | int, rank: int, size: int | None = None) -> None:
        self._store: Store | None
        if isinstance(store, int):
            self._store, self._rank, self._size = None, store, rank
        else:
            assert size is not None, "ProcessGroup(store, rank, size)"
            self._store, self._rank, self._size = store, rank, size
        self._name, self._description, self._backend = "", "undefined", "custom"
        self._backends: dict[str, Any] = {}
        self.bound_device_id = None

    # ---------------------------------------------------------------------------------------------- what it is

    def rank(self) -> int:
        """This process's rank in the group."""
        return self.getRank()

    def size(self) -> int:
        """How many processes it has."""
        return self.getSize()

    def name(self) -> str:
        """The backend."""
        return self.getBackendName()

    @property
    def group_name(self) -> str:
        """The group's own name."""
        return self.getGroupName()

    @property
    def group_desc(self) -> str:
        """What the group is for."""
        return self.getGroupDesc()

    def getRank(self) -> int:
        """What rank() says."""
        return self._rank

    def getSize(self) -> int:
        """What size() says."""
        return self._size

    def getBackendName(self) -> str:
        """What name() says."""
        return self._backend

    def getGroupName(self) -> str:
        """What group_name is."""
        return self._name

    def getGroupDesc(self) -> str:
        """What group_desc is."""
        return self._description

    def setGroupName(self, name: str) -> None:
        """Take a name."""
        self._name = name

    def setGroupDesc(self, description: str) -> None:
        """Take a description."""
        self._description = description

    def _set_group_name(self, name: str) -> None:
        self.setGroupName(name)

    def _set_group_desc(self, description: str) -> None:
        self.setGroupDesc(description)

    def _id(self) -> int:
        return id(self)

    def _get_backend_name(self) -> str:
        return self.name()

    def get_group_store(self) -> Store:
        """The store that its processes share. Raises RuntimeError where it was made without one."""
        if self._store is None:
            raise RuntimeError("this group was made without a store")
        return self._store

    def set_timeout(self, timeout: timedelta) -> None:
        """How long an operation may take: a registered backend is told."""
        for backend in self._backends.values():
            backend.set_timeout(timeout)

    def shutdown(self) -> None:
        """Give back what it holds; a registered backend is told where it can be."""
        for backend in self._backends.values():
            end = getattr(backend, "shutdown", None)
            if end is not None:
                end()

    abort = shutdown

    # ---------------------------------------------------------------------------------------------- what does the work

    def _register_backend(self, device: Any, kind: Any, backend: Any = None) -> None:
        self._backends[torch.device(device).type] = backend

    def _get_backend(self, device: Any = None) -> Any:
        kind = "cpu" if device is None else torch.device(device).type
        if not self._backends:
            return self
        if kind not in self._backends:
            raise RuntimeError(f"No backend type associated with device type {kind}")
        return self._backends[kind]

    @property
    def _device_types(self) -> list[Any]:
        return [torch.device(kind) for kind in self._backends] or [torch.device("cpu")]


def _by_backend(name: str) -> Callable[..., Any]:
    def operation(self: ProcessGroup, *arguments: Any, **named: Any) -> Any:
        if not self._backends:
            _without(self, name)
        backend = self._backends.get("cpu") or next(iter(self._backends.values()))
        found = getattr(backend, name, None)
        if found is None:
            _without(backend, name)
        return found(*arguments, **named)

    operation.__name__ = name
    operation.__doc__ = f"{name}, by the registered backend. Raises NotImplementedError without one that has it."
    return operation


def _by_older_name(name: str) -> Callable[..., Any]:
    return lambda self, *arguments, **named: getattr(self, name)(*arguments, **named)


def _without(group: Any, name: str) -> NoReturn:
    raise NotImplementedError(f"{type(group).__name__} has no {name}: define it in the class, or register a backend that has it")


for _name in _OPERATIONS:
    setattr(ProcessGroup, _name, _by_backend(_name))
for _newer, _older in _NEWER.items():
    setattr(ProcessGroup, _newer, _by_older_name(_older))


__all__ = ["ProcessGroup"]
