"""The group whose operations go through MPI, under the name by which programs know the one that computes on CPUs.

Stands on the files beside it and on mpi.world; groups makes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from flambeau.base.naming import called
from flambeau.distributed.constants import default_pg_timeout
from flambeau.distributed.debug_level import DebugLevel, get_debug_level
from flambeau.distributed.engine.barriers import Barriers
from flambeau.distributed.engine.copies import Copies
from flambeau.distributed.engine.exchanges import Exchanges
from flambeau.distributed.engine.reductions import Reductions
from flambeau.distributed.mpi.world import World
from flambeau.distributed.stores import Store


@dataclass
class NetworkDevice:
    """A way into the network, by the name of a host or of an interface. MPI chooses its own: FI_TCP_IFACE tells it which."""

    hostname: str = ""
    interface: str = ""


@dataclass
class Options:
    """What a group is made with: how long its operations may take; devices and threads, which MPI chooses by itself."""

    _timeout: timedelta = default_pg_timeout
    _devices: list[NetworkDevice] = field(default_factory=list)
    _threads: int = 2
    global_ranks_in_group: list[int] = field(default_factory=list)
    group_name: str = ""
    backend: str = "gloo"


@called("distributed.distributed_c10d", "ProcessGroupGloo")
class ProcessGroupGloo(Reductions, Copies, Exchanges, Barriers):
    """All processes that share a store, and what they do together; init_process_group makes one and remembers it.

    options: how long operations may take, as a timedelta or in Options. Raises DistStoreError that names the ranks that did
    not come.
    """

    Device, Options, _Options = NetworkDevice, Options, Options

    def __init__(self, store: Store, rank: int, size: int, options: Any = None, timeout: timedelta | None = None) -> None:
        given = options if isinstance(options, timedelta) else getattr(options, "_timeout", timeout)
        allowed = timedelta(seconds=given) if isinstance(given, (int, float)) else given or default_pg_timeout
        self._join(World(store, rank, size, allowed), range(size), store, allowed, "0", "gloo")

    @classmethod
    def of_world(
        cls, world: World, ranks: Sequence[int], store: Store, timeout: timedelta, name: str, backend: str, description: str
    ) -> ProcessGroupGloo:
        """A group of some processes of a world. `ranks` are theirs in it. Raises ValueError where another says otherwise."""
        own = str(list(ranks))
        others = store.compare_set("members", "", own).decode() if len(ranks) > 1 else own
        if others != own:
            raise ValueError(f"rank {world.rank} makes a group of the ranks {own}, and another rank one of {others} instead")
        made = cls.__new__(cls)
        made._join(world, ranks, store, timeout, name, backend, description, get_debug_level() == DebugLevel.DETAIL)
        return made

    @staticmethod
    def create_device(hostname: str = "", interface: str = "", lazy_init: bool | None = None) -> NetworkDevice:
        """A Device, by either name."""
        return NetworkDevice(hostname, interface)

    @staticmethod
    def create_default_device(lazy_init: bool | None = None) -> NetworkDevice:
        """The Device that is taken if none is named."""
        return NetworkDevice()
