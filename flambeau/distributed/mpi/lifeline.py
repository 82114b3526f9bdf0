"""How the processes of a world learn that one of them is gone, and how far the others have come.

Without mpiexec nobody ends the survivors of a process that died: they would wait inside of MPI for ever. So every process
keeps a connection to rank 0, whose end tells; rank 0 passes it on. A process that leaves in good order says so before, with
the number of calls that it made in each group, so that whoever waits for a call that will never come knows it at once. After
a timeout the same connections are asked who has made which calls. Stands on frames and listener; used by world.
"""

from __future__ import annotations

import secrets
import selectors
import socket
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from flambeau.distributed.errors import DistNetworkError
from flambeau.distributed.stores import Store, TCPStore
from flambeau.distributed.stores.frames import FrameError, Frames, packed
from flambeau.distributed.stores.listener import accepted, listening, prepare

#: How far a process has come: for each group by name, how many calls it has begun and what the last of them was.
Progress = dict[str, tuple[int, str]]
_ANSWERS_TAKE = 2.0     # seconds for which answers to a question are awaited


class _Switchboard:
    """Rank 0's side: hands what one process says on to the others."""

    def __init__(self, listener: socket.socket, token: bytes) -> None:
        self._listener, self._token = listener, token
        self._members: dict[int, socket.socket] = {}
        self._left: set[int] = set()
        self._selector = selectors.DefaultSelector()
        self._selector.register(listener, selectors.EVENT_READ, None)
        threading.Thread(target=self._serve, name="flambeau lifelines", daemon=True).start()

    def sockets(self) -> list[socket.socket]:
        return [self._listener, *self._members.values()]

    def _serve(self) -> None:
        while True:
            for key, _ in self._selector.select():
                try:
                    if key.data is None:
                        self._accept()
                    else:
                        rank, frames = key.data
                        self._read(rank, frames, key.fileobj)
                except OSError:
                    continue

    def _accept(self) -> None:
        connection = accepted(self._listener)
        prepare(connection)
        connection.sendall(self._token)
        self._selector.register(connection, selectors.EVENT_READ, ([-1], Frames()))

    def _read(self, rank: list[int], frames: Frames, connection: Any) -> None:
        try:
            data = connection.recv(1 << 16)
            for message in frames.feed(data):
                self._handle(rank, connection, message)
            if data:
                return
        except (OSError, FrameError, TypeError, IndexError):    # gone, or a stranger
            pass
        self._selector.unregister(connection)
        connection.close()
        if self._members.pop(rank[0], None) is not None:
            self._tell_all(["ended", rank[0]] if rank[0] in self._left else ["lost", rank[0], ""])

    def _handle(self, rank: list[int], connection: socket.socket, message: list[Any]) -> None:
        kind = message[0]
        if kind == "here":
            rank[0] = message[1]
            self._members[rank[0]] = connection
        elif rank[0] < 0:
            raise FrameError("a stranger")
        elif kind in ("left", "lost"):
            self._left.add(rank[0])
            self._tell_all(message)
        elif kind == "ask":
            self._tell_all(message)
        elif kind == "tell":
            self._tell(message[1], message)

    def _tell_all(self, message: list[Any]) -> None:
        for rank in list(self._members):
            self._tell(rank, message)

    def _tell(self, rank: int, message: list[Any]) -> None:
        with suppress(OSError, KeyError):       # its end is read in its turn
            self._members[rank].sendall(packed(message))


class Lifeline:
    """One process's connection. `gone` says who is, and why; `progress` is asked how far this process has come.

    store: shared by the `size` processes. Raises DistNetworkError if rank 0 isn't reached within `timeout` seconds.
    """

    def __init__(self, store: Store, rank: int, size: int, timeout: float, progress: Callable[[], Progress]) -> None:
        self.rank, self._progress = rank, progress
        self.gone: dict[int, str] = {}          # rank -> why, of those that died
        self.left: dict[int, Progress] = {}     # rank -> how far it had come, of those that left in good order
        self.left_at: dict[int, float] = {}     # rank -> when that was heard, by time.monotonic()
        self.ended: set[int] = set()            # those of them whose processes have ended
        self._answers: dict[int, Progress] = {}
        self._switchboard: _Switchboard | None = None
        if rank == 0:
            token = secrets.token_bytes(16)
            listener = listening(0, backlog=size)
            self._switchboard = _Switchboard(listener, token)
            address = [_own_address(store), socket.gethostname(), str(listener.getsockname()[1]), token.hex()]
            store.set("lifeline", "\n".join(address))
        candidate, name, port, token_text = store.get("lifeline").decode().split("\n")
        hosts = ["127.0.0.1"] if rank == 0 else [candidate, _store_host(store), "127.0.0.1", name]
        self._socket = _connected(hosts, int(port), bytes.fromhex(token_text), timeout)
        self._say("here", rank)
        threading.Thread(target=self._listen, name="flambeau lifeline", daemon=True).start()

    def leave(self) -> None:
        """Say that this process ends in good order."""
        self._say("left", self.rank, _listed(self._progress()))

    def fail(self, reason: str) -> None:
        """Say why this process ends."""
        self._say("lost", self.rank, reason)

    def everyones_progress(self) -> dict[int, Progress]:
        """How far each process that answers has come."""
        self._answers = {}
        self._say("ask", self.rank)
        end, known = time.monotonic() + _ANSWERS_TAKE, -1
        while time.monotonic() < end and known != len(self._answers):
            known = len(self._answers)
            time.sleep(0.2)
        return dict(self._answers)

    def forget(self) -> None:
        """In a forked child: these connections are the parent's, and its end must be seen."""
        for each in [self._socket, *(self._switchboard.sockets() if self._switchboard else [])]:
            each.close()

    def _say(self, *message: Any) -> None:
        with suppress(OSError):     # rank 0 is gone, as is noticed where its end is read
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
                self._hear(message)

    def _hear(self, message: list[Any]) -> None:
        kind, rank = message[:2]
        if kind == "lost":
            self.gone.setdefault(rank, message[2])
        elif kind == "left":
            self.left_at[rank] = time.monotonic()
            self.left[rank] = _unlisted(message[2])
        elif kind == "ended":
            self.ended.add(rank)
        elif kind == "ask":
            self._say("tell", rank, self.rank, _listed(self._progress()))
        elif kind == "tell":
            self._answers[message[2]] = _unlisted(message[3])


def _listed(progress: Progress) -> list[Any]:
    return [[name, begun, last] for name, (begun, last) in progress.items()]


def _unlisted(entries: Sequence[Any]) -> Progress:
    return {name: (begun, last) for name, begun, last in entries}


def _store_host(store: Store) -> str:
    """The machine that keeps the store, if one does."""
    inner = getattr(store, "_underlying_non_prefix_store", store)
    return inner.host if isinstance(inner, TCPStore) else ""


def _own_address(store: Store) -> str:
    """The address under which this machine reaches the store's, unless they are the same."""
    host = _store_host(store)
    if not host:
        return ""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, 1, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.connect(address)      # sends nothing: it chooses the way
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
                greeting = made.recv(len(token), socket.MSG_WAITALL)
            except OSError:
                continue
            if greeting == token:
                made.settimeout(None)
                prepare(made)
                return made
            made.close()
        if time.monotonic() > end:
            raise DistNetworkError(f"rank 0 isn't reached at port {port} of {' or '.join(tried)} within {timeout:g} s")
        time.sleep(0.05)
