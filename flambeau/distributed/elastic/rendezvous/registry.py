"""The kinds of rendezvous that there are: "static" and "c10d", both by a store that one of the nodes keeps.

Stands on elastic.nodes.
"""

from __future__ import annotations

from flambeau.distributed.elastic.nodes import Attempt, Nodes
from flambeau.distributed.elastic.rendezvous.api import (
    RendezvousClosedError,
    RendezvousHandler,
    RendezvousInfo,
    RendezvousParameters,
    RendezvousStoreInfo,
    RendezvousTimeoutError,
    rendezvous_handler_registry,
)
from flambeau.distributed.errors import DistNetworkError, DistStoreError
from flambeau.distributed.stores import PrefixStore

__all__ = ["NodesRendezvous", "get_rendezvous_handler"]


class NodesRendezvous(RendezvousHandler):
    """A rendezvous at an address, where the first that comes keeps a store; of the static kind node rank 0 does."""

    def __init__(self, params: RendezvousParameters) -> None:
        self._params = params
        self._nodes: Nodes | None = None
        self._attempt: Attempt | None = None

    def _met(self) -> Nodes:
        if self._nodes is None:
            params, static = self._params, self._params.backend == "static"
            host, _, port = params.endpoint.rpartition(":")
            rank = params.get_as_int("rank", -1) if static else -1
            assert rank is not None
            alone = params.max_nodes == 1
            self._nodes = Nodes(
                host or params.endpoint,
                int(port) if host else 0,
                params.run_id,
                params.min_nodes,
                params.max_nodes,
                rank,
                True if alone else rank == 0 if static else None,
                float(params.get("join_timeout", params.get("timeout", 900))),
                float(params.get("last_call_timeout", 30)),
            )
        return self._nodes

    def get_backend(self) -> str:
        """Its kind."""
        return self._params.backend

    @property
    def use_agent_store(self) -> bool:
        """Processes use the store of the launchers."""
        return True

    def next_rendezvous(self) -> RendezvousInfo:
        """Take part in the next attempt."""
        try:
            nodes = self._met()
            if self.is_closed():
                raise RendezvousClosedError
            if self._attempt is not None:
                nodes.open_next(self._attempt.number)
            self._attempt = nodes.join(1)
        except (DistStoreError, DistNetworkError) as error:
            raise RendezvousTimeoutError(str(error)) from error
        store = PrefixStore(f"rendezvous/{self._params.run_id}/{self._attempt.number}", nodes.store)
        where = RendezvousStoreInfo(nodes.host, nodes.port)
        return RendezvousInfo(store, self._attempt.node_rank, len(self._attempt.sizes), where)

    def is_closed(self) -> bool:
        """Whether there will be no further attempt."""
        return self._met().store.check([f"closed/{self._params.run_id}"])

    def set_closed(self) -> None:
        """There is to be no further attempt."""
        self._met().store.set(f"closed/{self._params.run_id}", b"")

    def num_nodes_waiting(self) -> int:
        """How many nodes wait for the next attempt."""
        if self._attempt is None:
            return 0
        nodes = self._met()
        return int(nodes.current() != self._attempt.number or nodes.newcomers(self._attempt.number))

    def get_run_id(self) -> str:
        """The name of the job."""
        return self._params.run_id

    def shutdown(self) -> bool:
        """Close it."""
        try:
            self.set_closed()
        except (DistStoreError, DistNetworkError):
            return False
        return True


def get_rendezvous_handler(params: RendezvousParameters) -> RendezvousHandler:
    """The rendezvous of these parameters. Raises ValueError for a kind that isn't there."""
    return rendezvous_handler_registry.create_handler(params)


for _kind in ("static", "c10d"):
    rendezvous_handler_registry.register(_kind, NodesRendezvous)
