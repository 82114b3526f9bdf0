"""Rank 0's side of the lifelines: hands what one process says on to the others.

Who connects proves that it knows the world's token, which never travels: each side answers the other's random number by a keyed
digest. Until then nothing that it sends is looked at. Stands on frames and listener; lifeline makes one and connects to it.
"""

from __future__ import annotations

import hmac
import secrets
import selectors
import socket
import threading
import time
from contextlib import suppress
from typing import Any

from flambeau.distributed.stores.frames import FrameError, Frames, packed
from flambeau.distributed.stores.listener import accepted, prepare

__all__ = ["NUMBER", "PROOF", "Switchboard", "proof", "recognized"]

NUMBER, PROOF = 16, 32  # bytes of a random number, and of a proof
_PROOF_TAKES = 10.0  # seconds after which somebody without a proof is a stranger


def proof(token: bytes, side: bytes, number: bytes) -> bytes:
    """That a side ("client" or "server") knows the token, for the number that the other has asked."""
    return hmac.digest(token, side + number, "sha256")


def recognized(connection: socket.socket, token: bytes) -> bool:
    """A client's side of the greeting: whether the other end knows the token. Raises OSError."""
    asked = connection.recv(NUMBER, socket.MSG_WAITALL)
    if len(asked) < NUMBER:
        return False
    own = secrets.token_bytes(NUMBER)
    connection.sendall(own + proof(token, b"client", asked))
    return hmac.compare_digest(connection.recv(PROOF, socket.MSG_WAITALL), proof(token, b"server", own))


class _Line:
    """A connection. rank: -1 until it has said which it is."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection, self.rank, self.frames = connection, -1, Frames()
        self.asked, self.greeting = secrets.token_bytes(NUMBER), b""
        self.known, self.came = False, time.monotonic()


class Switchboard:
    """A thread that hears the processes of a world at a listening socket, and tells the others."""

    def __init__(self, listener: socket.socket, token: bytes) -> None:
        self._listener, self._token = listener, token
        self._members: dict[int, _Line] = {}
        self._strangers: set[_Line] = set()
        self._left: set[int] = set()
        self._selector = selectors.DefaultSelector()
        self._selector.register(listener, selectors.EVENT_READ, None)
        threading.Thread(target=self._serve, name="flambeau lifelines", daemon=True).start()

    def sockets(self) -> list[socket.socket]:
        """What a forked child closes."""
        return [self._listener, *(line.connection for line in [*self._members.values(), *self._strangers])]

    def _serve(self) -> None:
        while True:
            for key, _ in self._selector.select():
                with suppress(OSError):
                    self._accept() if key.data is None else self._read(key.data)

    def _accept(self) -> None:
        connection = accepted(self._listener)
        for each in [each for each in self._strangers if time.monotonic() > each.came + _PROOF_TAKES]:
            self._drop(each)
        line = _Line(connection)
        self._strangers.add(line)
        self._selector.register(connection, selectors.EVENT_READ, line)
        prepare(connection)
        connection.sendall(line.asked)

    def _read(self, line: _Line) -> None:
        try:
            data = line.connection.recv(1 << 16)
            for message in line.frames.feed(data if line.known else self._greeted(line, data)):
                self._handle(line, message)
            if data:
                return
        except (OSError, FrameError, TypeError, ValueError, IndexError):  # gone, or a stranger
            pass
        self._drop(line)

    def _greeted(self, line: _Line, data: bytes) -> bytes:
        """What came behind a proof that is whole and right. Raises FrameError for a wrong one."""
        line.greeting += data
        if len(line.greeting) < NUMBER + PROOF:
            return b""
        number, given, rest = (line.greeting[:NUMBER], line.greeting[NUMBER : NUMBER + PROOF], line.greeting[NUMBER + PROOF :])
        if not hmac.compare_digest(given, proof(self._token, b"client", line.asked)):
            raise FrameError("a stranger")
        line.known = True
        self._strangers.discard(line)
        line.connection.sendall(proof(self._token, b"server", number))
        return rest

    def _drop(self, line: _Line) -> None:
        self._strangers.discard(line)
        self._selector.unregister(line.connection)
        line.connection.close()
        if self._members.get(line.rank) is line:
            del self._members[line.rank]
            self._tell_all(["ended", line.rank] if line.rank in self._left else ["lost", line.rank, "", False])

    def _handle(self, line: _Line, message: list[Any]) -> None:
        kind, rank = message[:2]
        if kind == "here" and isinstance(rank, int):
            line.rank = rank
            self._members[rank] = line
        elif rank == line.rank and kind in ("left", "lost"):
            self._left.add(rank)
            self._tell_all(message)
        elif kind in ("ask", "stuck"):
            self._tell_all(message)
        elif kind == "tell":
            self._tell(rank, message)

    def _tell_all(self, message: list[Any]) -> None:
        for rank in list(self._members):
            self._tell(rank, message)

    def _tell(self, rank: int, message: list[Any]) -> None:
        with suppress(OSError, KeyError):  # its end is read in its turn
            self._members[rank].connection.sendall(packed(message))
