"""How the processes of a world learn that one of them is gone, and how far the others have come.

Without mpiexec nobody ends the survivors of a process that died: they would wait inside of MPI for ever. So every process
keeps a connection to rank 0, whose end tells; rank 0 passes it on. A process that leaves in good order says so before, with
the number of calls that it made in each group, so that whoever waits for a call that will never come knows it at once. After
a timeout the same connections are asked who has made which calls. Stands on switchboard; used by world.
"""

from __future__ import annotations

import os
import secrets
import socket
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from flambeau.distributed.errors import DistNetworkError
from flambeau.distributed.mpi.switchboard import Switchboard, recognized
from flambeau.distributed.stores import Store, TCPStore
from flambeau.distributed.stores.frames import FrameError, Frames, packed
from flambeau.distributed.stores.listener import listening, prepare

#: How far a process has come: for each group by name, how many calls it has begun and what the last of them was.
Progress = dict[str, tuple[int, str]]
#: What a process waits for, its messages on their way, and whether none of its threads computes: see waits.
Report = tuple[list[list[Any]], list[list[Any]], bool]
_ANSWERS_TAKE = 2.0  # seconds for which answers to a question are awaited


class Lifeline:
    """One process's connection. `gone` says who is, and why; `progress` and `report` are asked how far this process has come, and
    what it waits for.

    store: shared by the `size` processes. Raises DistNetworkError if rank 0 isn't reached within `timeout` seconds.
    """

    def __init__(
        self, store: Store, rank: int, size: int, timeout: float, progress: Callable[[], Progress], report: Callable[[], Report]
    ) -> None:
        self.rank, self._progress, self._report = rank, progress, report
        self.gone: dict[int, str] = {}  # rank -> why, of those that died
        self.consequences: set[int] = set()  # those of them that ended because others had
        self.left: dict[int, Progress] = {}  # rank -> how far it had come, of those that left in good order
        self.left_at: dict[int, float] = {}  # rank -> when that was heard, by time.monotonic()
        self.ended: set[int] = set()  # those of them whose processes have ended
        self.stuck: tuple[set[int], str] = set(), ""  # of this process's waits those that never end, and why
        self.asked_at = 0.0  # when another rank last asked, by time.monotonic()
        self._answers: dict[int, tuple[Progress, Report]] = {}
        self._switchboard: Switchboard | None = None
        if rank == 0:
            token = secrets.token_bytes(16)
            listener = listening(0, backlog=size, host="127.0.0.1" if _on_one_machine(store, size) else "")
            self._switchboard = Switchboard(listener, token)
            address = [own_address(store), socket.gethostname(), str(listener.getsockname()[1]), token.hex()]
            store.set("lifeline", "\n".join(address))
        candidate, name, port, token_text = store.get("lifeline").decode().split("\n")
        hosts = ["127.0.0.1"] if rank == 0 else [candidate, _store_host(store), "127.0.0.1", name]
        self._socket = _connected(hosts, int(port), bytes.fromhex(token_text), timeout)
        self._say("here", rank)
        threading.Thread(target=self._listen, name="flambeau lifeline", daemon=True).start()

    def leave(self) -> None:
        """Say that this process ends in good order."""
        self._say("left", self.rank, _listed(self._progress()))

    def fail(self, reason: str, consequence: bool = False) -> None:
        """Say why this process ends. consequence: because of another's end."""
        self._say("lost", self.rank, reason, consequence)

    def ask(self) -> None:
        """Ask all how far they have come and what they wait for: `answers` has what they say in a while."""
        self._answers = {}
        self._say("ask", self.rank)

    def answers(self) -> dict[int, tuple[Progress, Report]]:
        """What those have said that were asked."""
        return dict(self._answers)

    def tell_stuck(self, waits: Sequence[Sequence[int]], why: str) -> None:
        """Tell all that these waits, as (rank, serial), never end."""
        self._say("stuck", self.rank, waits, why)

    def everyones_progress(self) -> dict[int, Progress]:
        """How far each process that answers has come."""
        self.ask()
        end, known = time.monotonic() + _ANSWERS_TAKE, -1
        while time.monotonic() < end and known != len(self._answers):
            known = len(self._answers)
            time.sleep(0.2)
        return {self.rank: self._progress(), **{rank: progress for rank, (progress, _) in self.answers().items()}}

    def forget(self) -> None:
        """In a forked child: these connections are the parent's, and its end must be seen."""
        for each in [self._socket, *(self._switchboard.sockets() if self._switchboard else [])]:
            each.close()

    def _say(self, *message: Any) -> None:
        with suppress(OSError):  # rank 0 is gone, as is noticed where its end is read
            self._socket.sendall(packed(list(message)))

    def _listen(self) -> None:
        frames = Frames()
        while True:
            try:
                data = self._socket.recv(1 << 16)
                messages = frames.feed(data)
            except (OSError, FrameError):
                data = b""
            if not data:
                if 0 in self.left:
                    self.ended.add(0)
                else:
                    self.gone.setdefault(0, "")
                return
            for message in messages:
                with suppress(TypeError, ValueError, IndexError):  # another version's words
                    self._hear(message)

    def _hear(self, message: list[Any]) -> None:
        kind, rank = message[:2]
        if kind == "lost":
            self.gone.setdefault(rank, message[2])
            if message[3]:
                self.consequences.add(rank)
        elif kind == "left":
            self.left_at[rank] = time.monotonic()
            self.left[rank] = _unlisted(message[2])
        elif kind == "ended":
            self.ended.add(rank)
        elif kind == "ask":
            if rank != self.rank:
                self.asked_at = time.monotonic()
            self._say("tell", rank, self.rank, _listed(self._progress()), *self._report())
        elif kind == "tell":
            waits, messages, idle = message[4:]
            self._answers[message[2]] = _unlisted(message[3]), (waits, messages, idle)
        elif kind == "stuck":
            self.stuck = {serial for whose, serial in message[2] if whose == self.rank}, message[3]


def _listed(progress: Progress) -> list[Any]:
    return [[name, begun, last] for name, (begun, last) in progress.items()]


def _unlisted(entries: Sequence[Any]) -> Progress:
    return {name: (begun, last) for name, begun, last in entries}


def _store_host(store: Store) -> str:
    """The machine that keeps the store, if one does."""
    inner = getattr(store, "_underlying_non_prefix_store", store)
    return inner.host if isinstance(inner, TCPStore) else ""


def _on_one_machine(store: Store, size: int) -> bool:
    """Whether all processes are known to be here: a launcher says so, or they meet at an address that others don't reach."""
    return os.environ.get("LOCAL_WORLD_SIZE") == str(size) or _store_host(store) in ("127.0.0.1", "localhost", "::1")


def own_address(store: Store) -> str:
    """The address under which this machine reaches the store's, unless they are the same."""
    host = _store_host(store)
    if not host:
        return ""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, 1, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.connect(address)  # sends nothing: it chooses the way
            own = probe.getsockname()[0]
    except OSError:
        return ""
    return "" if own.startswith("127.") or own == "::1" else own


def _connected(hosts: Sequence[str], port: int, token: bytes, timeout: float) -> socket.socket:
    """A connection to the first of these machines whose listener at `port` knows the token."""
    end = time.monotonic() + timeout
    tried = list(dict.fromkeys(host for host in hosts if host))
    while True:
        for host in tried:
            try:
                made = socket.create_connection((host, port), timeout=min(max(end - time.monotonic(), 0.1), 5))
                made.settimeout(5)
                if recognized(made, token):
                    made.settimeout(None)
                    prepare(made)
                    return made
                made.close()
            except OSError:
                continue
        if time.monotonic() > end:
            raise DistNetworkError(f"rank 0 isn't reached at port {port} of {' or '.join(tried)} within {timeout:g} s")
        time.sleep(0.05)
