"""The server of TCP stores: a table that a thread keeps for whoever connects.

A connection begins with a greeting on both sides, by which a client knows that it has found a store of ours and not, say, the
one that PyTorch's launcher keeps at the same port. Then come requests, answered in order; one that waits is answered when its
keys are there or its time is over. Stands on table, frames and listener; tcp_store starts it.
"""

from __future__ import annotations

import selectors
import socket
import threading
import time
from typing import Any

from flambeau.distributed.stores.frames import FrameError, Frames, packed
from flambeau.distributed.stores.listener import accepted, prepare
from flambeau.distributed.stores.table import Table, check

GREETING = b"flambeau store 1\n"
_GREETING_TAKES = 10.0  # seconds after which a client that hasn't greeted is a stranger
_LONGEST = 3600.0  # seconds between two looks: epoll takes no more than 24 days


class _Client:
    """One connection: what has arrived of it and what is to be sent."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.greeting = b""
        self.greeted, self.came = False, time.monotonic()
        self.frames = Frames()
        self.requests: list[Any] = []
        self.waiting: tuple[list[str], float] | None = None  # keys, and until when
        self.unsent = bytearray()


class TCPServer:
    """A thread that answers requests at a listening socket until `close`."""

    def __init__(self, listener: socket.socket) -> None:
        self.port = listener.getsockname()[1]
        self._listener = listener
        self._table = Table()
        self._clients: set[_Client] = set()
        self._selector = selectors.DefaultSelector()
        self._wake, self._woken = socket.socketpair()
        listener.setblocking(False)
        self._selector.register(listener, selectors.EVENT_READ, None)
        self._selector.register(self._woken, selectors.EVENT_READ, None)
        self._closed = False
        self._thread = threading.Thread(target=self._serve, name="flambeau store", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the thread and close all connections."""
        if not self._closed:
            self._closed = True
            self._wake.send(b"x")
            if self._thread is not threading.current_thread():
                self._thread.join(2)

    def forget(self) -> None:
        """In a forked child: the sockets are the parent's."""
        self._closed = True
        for each in (self._listener, self._wake, self._woken, *[client.connection for client in self._clients]):
            each.close()

    def _serve(self) -> None:
        while not self._closed:
            now = time.monotonic()
            for client in [client for client in self._clients if not client.greeted and now > client.came + _GREETING_TAKES]:
                self._drop(client)
            ends = [
                client.waiting[1] if client.waiting else client.came + _GREETING_TAKES
                for client in self._clients
                if client.waiting or not client.greeted
            ]
            for key, events in self._selector.select(min(max(min(ends) - now, 0), _LONGEST) if ends else None):
                if key.fileobj is self._listener:
                    self._accept()
                elif key.data is not None:
                    self._turn(key.data, events)
            self._answer_waiting()
        for client in list(self._clients):
            self._drop(client)
        self._selector.close()
        for each in (self._listener, self._wake, self._woken):
            each.close()

    def _accept(self) -> None:
        try:
            connection = accepted(self._listener)
        except OSError:
            return
        connection.setblocking(False)
        prepare(connection)
        client = _Client(connection)
        self._clients.add(client)
        self._selector.register(connection, selectors.EVENT_READ, client)

    def _drop(self, client: _Client) -> None:
        if client in self._clients:
            self._clients.discard(client)
            self._selector.unregister(client.connection)
            client.connection.close()

    def _turn(self, client: _Client, events: int) -> None:
        """Read and write what can be, and answer what is whole."""
        try:
            if events & selectors.EVENT_READ:
                data = client.connection.recv(1 << 18)
                if not data:
                    self._drop(client)
                    return
                client.requests += self._arrived(client, data)
                self._answer(client)
            self._send(client)
        except (OSError, ValueError, TypeError):
            self._drop(client)

    def _arrived(self, client: _Client, data: bytes) -> list[Any]:
        if not client.greeted:
            client.greeting += data
            if not client.greeting.startswith(GREETING[: len(client.greeting)]):
                raise FrameError("a stranger")
            if len(client.greeting) < len(GREETING):
                return []
            client.greeted, data = True, client.greeting[len(GREETING) :]
            client.unsent += GREETING
        return client.frames.feed(data)

    def _answer(self, client: _Client) -> None:
        while client.requests and client.waiting is None:
            request = client.requests.pop(0)
            if not isinstance(request, list) or not request or not isinstance(request[0], str):
                raise FrameError("no request")
            name, *operands = request
            try:
                if name == "wait":
                    check(name, operands, ([str], int))
                    client.waiting = operands[0], time.monotonic() + operands[1] / 1000
                    self._answer_wait(client)
                else:
                    client.unsent += packed([True, self._table.answer(name, *operands)])
            except (ValueError, KeyError) as error:
                client.unsent += packed([False, str(error)])

    def _answer_wait(self, client: _Client) -> bool:
        assert client.waiting is not None
        keys, end = client.waiting
        missing = self._table.missing(keys)
        if missing and time.monotonic() < end:
            return False
        client.waiting = None
        client.unsent += packed([True, missing])
        return True

    def _answer_waiting(self) -> None:
        """What anybody's request, or time, has brought to those who wait; their next requests may bring more."""
        moved = True
        while moved:
            moved = False
            for client in [client for client in self._clients if client.waiting]:
                try:
                    if self._answer_wait(client):
                        moved = True
                        self._answer(client)
                        self._send(client)
                except (OSError, ValueError, TypeError):
                    self._drop(client)

    def _send(self, client: _Client) -> None:
        while client.unsent:
            try:
                sent = client.connection.send(client.unsent)
            except BlockingIOError:
                break
            del client.unsent[:sent]
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if client.unsent else 0)
        if client in self._clients:
            self._selector.modify(client.connection, events, client)
