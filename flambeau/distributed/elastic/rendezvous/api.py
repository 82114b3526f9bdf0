"""What a rendezvous of launchers is, and a table of those that there are. Stands on stores; agents use it."""

from __future__ import annotations

import socket
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from flambeau.distributed.elastic.utils.distributed import get_free_port
from flambeau.distributed.stores import Store

__all__ = [
    "RendezvousClosedError",
    "RendezvousConnectionError",
    "RendezvousError",
    "RendezvousGracefulExitError",
    "RendezvousHandler",
    "RendezvousHandlerCreator",
    "RendezvousHandlerRegistry",
    "RendezvousInfo",
    "RendezvousParameters",
    "RendezvousStateError",
    "RendezvousStoreInfo",
    "RendezvousTimeoutError",
    "rendezvous_handler_registry",
]


class RendezvousError(Exception):
    """A rendezvous failed."""


class RendezvousClosedError(RendezvousError):
    """A rendezvous is closed."""


class RendezvousTimeoutError(RendezvousError):
    """A rendezvous did not end in time."""


class RendezvousConnectionError(RendezvousError):
    """What a rendezvous goes by isn't reached."""


class RendezvousStateError(RendezvousError):
    """The state of a rendezvous is damaged."""


class RendezvousGracefulExitError(RendezvousError):
    """A node wasn't taken, and ends in good order."""


@dataclass
class RendezvousStoreInfo:
    """Where the processes of a job meet."""

    MASTER_ADDR_KEY: ClassVar[str] = "MASTER_ADDR"
    MASTER_PORT_KEY: ClassVar[str] = "MASTER_PORT"
    master_addr: str
    master_port: int

    @staticmethod
    def build(rank: int, store: Store, local_addr: str | None = None, server_port: int | None = None) -> RendezvousStoreInfo:
        """Node 0's address and a free port of it, which all nodes read from a store."""
        if rank == 0:
            store.set(RendezvousStoreInfo.MASTER_ADDR_KEY, local_addr or socket.getfqdn())
            store.set(RendezvousStoreInfo.MASTER_PORT_KEY, str(server_port or get_free_port()))
        return RendezvousStoreInfo(
            store.get(RendezvousStoreInfo.MASTER_ADDR_KEY).decode(), int(store.get(RendezvousStoreInfo.MASTER_PORT_KEY).decode())
        )


class RendezvousInfo:
    """What a rendezvous gives a node: a store that all nodes share, its rank, how many there are, and where processes meet."""

    def __init__(self, store: Store, rank: int, world_size: int, bootstrap_store_info: RendezvousStoreInfo) -> None:
        self._store, self._rank, self._world_size, self._bootstrap = store, rank, world_size, bootstrap_store_info

    store = property(lambda self: self._store)
    rank = property(lambda self: self._rank)
    world_size = property(lambda self: self._world_size)
    bootstrap_store_info = property(lambda self: self._bootstrap)


class RendezvousHandler(ABC):
    """A rendezvous, as agents use it."""

    @abstractmethod
    def get_backend(self) -> str:
        """Its kind."""

    @property
    def use_agent_store(self) -> bool:
        """Whether processes use the store of the launchers."""
        return False

    @abstractmethod
    def next_rendezvous(self) -> RendezvousInfo:
        """Take part in the next attempt. Raises RendezvousClosedError, RendezvousTimeoutError and others."""

    @abstractmethod
    def is_closed(self) -> bool:
        """Whether there will be no further attempt."""

    @abstractmethod
    def set_closed(self) -> None:
        """There is to be no further attempt."""

    @abstractmethod
    def num_nodes_waiting(self) -> int:
        """How many nodes wait for the next attempt."""

    @abstractmethod
    def get_run_id(self) -> str:
        """The name of the job."""

    @abstractmethod
    def shutdown(self) -> bool:
        """Close it, if it is this node's; whether that went well."""


class RendezvousParameters:
    """backend: the kind; endpoint: host:port; run_id: the job; numbers of nodes; further settings by name."""

    def __init__(
        self,
        backend: str,
        endpoint: str,
        run_id: str,
        min_nodes: int,
        max_nodes: int,
        local_addr: str | None = None,
        **kwargs: Any,
    ) -> None:
        if not backend:
            raise ValueError("The rendezvous backend name must be a non-empty string.")
        if min_nodes < 1:
            raise ValueError(f"The minimum number of rendezvous nodes ({min_nodes}) must be greater than zero.")
        if max_nodes < min_nodes:
            raise ValueError(
                f"The maximum number of rendezvous nodes ({max_nodes}) must be greater than or equal to the minimum "
                f"number of rendezvous nodes ({min_nodes})."
            )
        self.backend, self.endpoint, self.run_id = backend, endpoint, run_id
        self.min_nodes, self.max_nodes, self.config, self.local_addr = min_nodes, max_nodes, kwargs, local_addr

    def get(self, key: str, default: Any = None) -> Any:
        """A setting."""
        return self.config.get(key, default)

    def get_as_bool(self, key: str, default: bool | None = None) -> bool | None:
        """A setting that is yes or no. Raises ValueError for anything else."""
        value = self.get(key, default)
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, str) and value.lower() in ("1", "true", "t", "yes", "y", "0", "false", "f", "no", "n"):
            return value.lower() in ("1", "true", "t", "yes", "y")
        if isinstance(value, int) and value in (0, 1):
            return bool(value)
        raise ValueError(f"The rendezvous configuration option '{key}' does not represent a valid boolean value.")

    def get_as_int(self, key: str, default: int | None = None) -> int | None:
        """A setting that is a whole number. Raises ValueError for anything else."""
        value = self.get(key, default)
        try:
            return None if value is None else int(value)
        except ValueError as error:
            raise ValueError(f"The rendezvous configuration option '{key}' does not represent a valid integer value.") from error


RendezvousHandlerCreator = Callable[[RendezvousParameters], RendezvousHandler]


class RendezvousHandlerRegistry:
    """What makes the rendezvous of each kind."""

    def __init__(self) -> None:
        self._registry: dict[str, RendezvousHandlerCreator] = {}

    def register(self, backend: str, creator: RendezvousHandlerCreator) -> None:
        """Have creator(parameters) make those of a kind. Raises ValueError if there is another."""
        if not backend:
            raise ValueError("The rendezvous backend name must be a non-empty string.")
        if self._registry.get(backend, creator) != creator:
            raise ValueError(
                f"The rendezvous backend '{backend}' cannot be registered with '{creator}' as it is already "
                f"registered with '{self._registry[backend]}'."
            )
        self._registry[backend] = creator

    def create_handler(self, params: RendezvousParameters) -> RendezvousHandler:
        """The rendezvous of these parameters. Raises ValueError for a kind that isn't there."""
        if params.backend not in self._registry:
            raise ValueError(
                f"The rendezvous backend '{params.backend}' is not registered. Did you forget to call `{self.register.__name__}`?"
            )
        made = self._registry[params.backend](params)
        if made.get_backend() != params.backend:
            raise RuntimeError(
                f"The rendezvous backend '{made.get_backend()}' does not match the requested backend '{params.backend}'."
            )
        return made


rendezvous_handler_registry = RendezvousHandlerRegistry()
