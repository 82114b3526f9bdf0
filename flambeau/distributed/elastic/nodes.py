"""How the launchers of several machines find each other, and agree on who takes part in each attempt.

One of them keeps a store at the common address. Attempts are numbered. Those that come to an attempt before it closes are its
nodes: it closes when the largest number has come, or some time after the smallest has. Whoever sees a failure, or a newcomer
for whom there is room, opens the next attempt, and all notice. Stands on stores; agent uses it.
"""

from __future__ import annotations

import json
import socket
import time
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta

from flambeau.distributed.errors import DistError, DistNetworkError, DistStoreError
from flambeau.distributed.stores import PrefixStore, Store, TCPStore

_BARRIER = timedelta(seconds=5)  # how long nodes that end wait for each other


@dataclass
class Attempt:
    """One attempt: its number, this node's rank among `sizes`, which are the numbers of processes of the nodes, in order."""

    number: int
    node_rank: int
    sizes: list[int]

    @property
    def first_rank(self) -> int:
        """The rank in the world of this node's first process."""
        return sum(self.sizes[: self.node_rank])

    @property
    def world_size(self) -> int:
        """The number of processes of all nodes."""
        return sum(self.sizes)


class Nodes:
    """The launchers of a run.

    host, port: where they meet. keeps: whether this one keeps the store (None: if the address is this machine's and free).
    node_rank: -1 leaves it to the order of arrival. Raises DistNetworkError, or DistStoreError that says how many came, within
    `timeout` seconds.
    """

    def __init__(
        self,
        host: str,
        port: int,
        run_id: str,
        least: int,
        most: int,
        node_rank: int = -1,
        keeps: bool | None = None,
        timeout: float = 900.0,
        last_call: float = 30.0,
    ) -> None:
        self.least, self.most, self.node_rank, self.last_call = least, most, node_rank, last_call
        self._timeout = timedelta(seconds=timeout)
        self.store = self._met(host, port, keeps)
        self.host, self.port = host, self.store.port
        self._own: Store = PrefixStore(f"nodes/{run_id}", self.store)
        self._looked: tuple[float, int] = (0.0, 0)

    def _met(self, host: str, port: int, keeps: bool | None) -> TCPStore:
        if keeps is None:
            keeps = _is_this_machine(host)
            if keeps:
                try:
                    return TCPStore(host, port, None, True, self._timeout)
                except DistNetworkError:
                    keeps = False
        return TCPStore(host, port, None, keeps, self._timeout)

    def _value(self, key: str) -> str:
        return self._own.get(key).decode()

    def current(self) -> int:
        """The number of the attempt that is open or under way."""
        return self._own.add("attempt", 0)

    def join(self, processes: int) -> Attempt:
        """Take part in the next attempt that has room."""
        end = time.monotonic() + self._timeout.total_seconds()
        while True:
            number = self.current()
            place = self._own.add(f"{number}/came", 1) - 1
            self._own.set(f"{number}/node/{place}", json.dumps([processes, self.node_rank, socket.gethostname()]))
            if place == 0:
                self._close(number, end)
            while not self._own.check([f"{number}/closed"]):
                if time.monotonic() > end:
                    raise DistStoreError(self._who_is_missing(number))
                if self.current() != number:
                    break
                time.sleep(0.02)
            else:
                taken = int(self._value(f"{number}/closed"))
                if place < taken:
                    return self._placed(number, place, taken)
                if taken >= self.most:
                    raise DistStoreError(f"all {self.most} nodes of this run are there already")
                self._own.add(f"{number}/newcomers", 1)
                while self.current() == number:
                    if time.monotonic() > end:
                        raise DistStoreError(f"no new attempt within {self._timeout.total_seconds():g} s")
                    time.sleep(0.05)

    def _close(self, number: int, end: float) -> None:
        """As the first that came: close the attempt when enough have come."""
        enough_at = None
        while True:
            came = self._own.add(f"{number}/came", 0)
            if came >= self.least and enough_at is None:
                enough_at = time.monotonic()
            if came >= self.most or (enough_at is not None and time.monotonic() > enough_at + self.last_call):
                break
            if time.monotonic() > end:
                raise DistStoreError(self._who_is_missing(number))
            time.sleep(0.02)
        self._own.set(f"{number}/closed", str(min(came, self.most)))

    def _who_is_missing(self, number: int) -> str:
        came = self._own.add(f"{number}/came", 0)
        text = f"{came} of at least {self.least} nodes came within {self._timeout.total_seconds():g} s"
        given = [json.loads(self._value(f"{number}/node/{place}"))[1] for place in range(came)]
        if all(rank >= 0 for rank in given):
            text += f"; node rank {', '.join(str(rank) for rank in range(self.most) if rank not in given)} is missing"
        return text

    def _placed(self, number: int, place: int, taken: int) -> Attempt:
        """This node's rank: as given, or in the order of arrival."""
        entries = [(json.loads(self._value(f"{number}/node/{each}")), each) for each in range(taken)]
        if all(entry[1] >= 0 for entry, _ in entries):
            entries.sort(key=lambda pair: pair[0][1])
            ranks = [entry[1] for entry, _ in entries]
            if len(set(ranks)) != len(ranks):
                twice = next(rank for rank in ranks if ranks.count(rank) > 1)
                hosts = [entry[2] for entry, _ in entries if entry[1] == twice]
                raise DistStoreError(f"{' and '.join(hosts)} both say that they are node rank {twice}")
        return Attempt(number, [each for _, each in entries].index(place), [entry[0] for entry, _ in entries])

    # ------------------------------------------------------------------------------------------------ during an attempt

    def open_next(self, number: int) -> None:
        """End attempt `number` for all nodes and begin another."""
        self._own.compare_set("attempt", str(number), str(number + 1))

    def fail(self, attempt: Attempt, reason: str) -> None:
        """End the run for all nodes, which read the reason before the keeper of the store goes."""
        self._own.set("failed", reason)
        self._barrier("failed", attempt)

    def failed(self, attempt: Attempt) -> str:
        """Why another node ended the run; empty if none did."""
        if not self._own.check(["failed"]):
            return ""
        reason = self._value("failed")
        self._barrier("failed", attempt)
        return reason

    def newcomers(self, number: int) -> bool:
        """Whether somebody waits for the next attempt, and there is room."""
        return self._own.add(f"{number}/newcomers", 0) > 0

    def done(self, attempt: Attempt) -> None:
        """This node's processes have ended well."""
        self._own.add(f"{attempt.number}/done", 1)

    def all_done(self, attempt: Attempt) -> bool:
        """Whether those of all nodes have."""
        return self._own.add(f"{attempt.number}/done", 0) >= len(attempt.sizes)

    def leave(self, attempt: Attempt) -> None:
        """Before the keeper of the store goes, the others have asked it for the last time."""
        self._barrier("left", attempt)

    def _barrier(self, name: str, attempt: Attempt) -> None:
        with suppress(DistError):
            self._own.barrier(f"{attempt.number}/{name}", len(attempt.sizes), _BARRIER)


def _is_this_machine(host: str) -> bool:
    """Whether a name is one of this machine's."""
    if host in ("localhost", "127.0.0.1", "::1", socket.gethostname(), socket.getfqdn()):
        return True
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.bind(address)
    except OSError:
        return False
    return True
