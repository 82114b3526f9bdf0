"""A store that one process keeps and others reach by TCP. Stands on tcp_server, listener and frames; rendezvous makes it."""

from __future__ import annotations

import os
import socket
import threading
import time
import weakref
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from flambeau.base.locks import long_lock
from flambeau.base.naming import called
from flambeau.distributed.errors import DistNetworkError, DistStoreError
from flambeau.distributed.stores.frames import FrameError, Frames, packed
from flambeau.distributed.stores.listener import listening, prepare
from flambeau.distributed.stores.store import DEFAULT_TIMEOUT, Store, duration
from flambeau.distributed.stores.table import queue_key
from flambeau.distributed.stores.table_store import TableStore
from flambeau.distributed.stores.tcp_server import GREETING, TCPServer

_WORKERS = "init/"  # under which those who have come are counted, as in PyTorch
_GRACE = 10.0  # seconds beyond a wait's own time until its answer must have come
_AGAIN = timedelta(seconds=5)  # how long a client whose request was interrupted tries to reach the server again
_servers: weakref.WeakSet[TCPServer] = weakref.WeakSet()
_connections: weakref.WeakSet[Connection]


class Connection:
    """A connection to a server, for one request at a time."""

    def __init__(self, host: str, port: int, timeout: timedelta) -> None:
        self.host, self.port = host, port
        self._lock, self._interrupted = long_lock(), False
        self._frames = Frames()
        self._socket = _connected(host, port, timeout)
        _connections.add(self)

    def ask(self, seconds: float | None, *request: Any) -> Any:
        """The answer to a request, which is to come within so many seconds (None: whenever it comes)."""
        sent = packed(list(request))
        with self._lock:
            if self._interrupted:  # the answer of a request that a signal's exception cut short may still come
                self._socket.close()
                self._frames, self._socket = Frames(), _connected(self.host, self.port, _AGAIN)
            self._interrupted = True
            answers: list[Any] = []
            try:
                self._socket.settimeout(seconds)
                self._socket.sendall(sent)
                while not answers:
                    data = self._socket.recv(1 << 18)
                    if not data:
                        raise ConnectionResetError
                    answers = self._frames.feed(data)
            except (OSError, FrameError) as error:
                self._socket.close()
                self._interrupted = False
                raise DistNetworkError(
                    f"The store at {self.host}:{self.port} no longer answers ({str(error) or type(error).__name__}). Did the "
                    "process that keeps it end?"
                ) from None
            self._interrupted = False
        good, answer = answers[0]
        if not good:
            raise DistStoreError(answer)
        return answer

    def __str__(self) -> str:
        ends = (
            f"{name}=[{end[0]}]:{end[1]}"
            for name, end in (("addr", self._socket.getsockname()), ("remote", self._socket.getpeername()))
        )
        return f"SocketImpl(fd={self._socket.fileno()}, {', '.join(ends)})"

    def close(self) -> None:
        self._socket.close()


_connections = weakref.WeakSet()


def _in_child() -> None:
    """A forked child has neither the server's thread nor a part in its parent's conversations."""
    for server in list(_servers):
        server.forget()
    for connection in list(_connections):
        connection.close()


os.register_at_fork(after_in_child=_in_child)


def _connected(host: str, port: int, timeout: timedelta) -> socket.socket:
    """A socket on which the greetings have been exchanged. Tries until the timeout. Raises DistNetworkError, at once if another
    answers.
    """
    end, pause = time.monotonic() + timeout.total_seconds(), 0.01
    while True:
        left = max(end - time.monotonic(), 0.001)
        reason: Any
        try:
            made = socket.create_connection((host, port), timeout=min(left, 10.0))
        except OSError as error:
            reason = error
        else:
            reason = _refusal(made, host, port)
            if reason is None:
                prepare(made)
                made.settimeout(None)
                return made
            made.close()
        if time.monotonic() + pause > end:
            raise DistNetworkError(
                f"The client socket has timed out after {round(timeout.total_seconds() * 1000)}ms while trying to connect to "
                f"({host}, {port}): {reason}"
            ) from None
        time.sleep(pause)
        pause = min(pause * 1.5, 0.5)


def _refusal(made: socket.socket, host: str, port: int) -> str | None:
    """Why the greetings haven't been exchanged on a new connection, None if they have. Raises DistNetworkError if another
    answers there.
    """
    greeting = b""
    try:
        made.sendall(GREETING)
        while len(greeting) < len(GREETING) and GREETING.startswith(greeting):
            data = made.recv(len(GREETING) - len(greeting))
            if not data:
                return "it hangs up"
            greeting += data
    except TimeoutError:
        return "it doesn't answer"  # a store may be busy
    except OSError as error:
        return str(error)
    if greeting == GREETING:
        return None
    made.close()
    raise DistNetworkError(f"What listens at {host}:{port} is no store of flambeau's.")


@called("distributed.distributed_c10d", "TCPStore")
class TCPStore(TableStore):
    """A table that the process with `is_master` keeps, and that others reach at (host_name, port).

    port: 0 lets the master choose one, which `port` tells. world_size and wait_for_workers: the master returns when that many
    processes have come, itself among them. Raises DistNetworkError if the port is taken or the master isn't reached,
    DistStoreError if processes are missing, all within the timeout; ValueError for a world of none.
    """

    def __init__(
        self,
        host_name: str,
        port: int,
        world_size: int | None = None,
        is_master: bool = False,
        timeout: timedelta = DEFAULT_TIMEOUT,
        wait_for_workers: bool = True,
        multi_tenant: bool = False,
        master_listen_fd: int | None = None,
        use_libuv: bool = True,
    ) -> None:
        super().__init__()
        self.set_timeout(duration(timeout, "TCPStore"))
        if not 0 <= port < 1 << 16:
            raise TypeError(f"__init__(): incompatible constructor arguments. A port is a number from 0 to 65535, not {port}.")
        if world_size == 0:
            raise ValueError("TCPStore world size cannot be 0")
        self._use_libuv = use_libuv
        self._server: TCPServer | None = None
        self._closing: Any = None
        if is_master:
            self._server = _shared_server(port) if multi_tenant else None
            if self._server is None:
                self._server = TCPServer(listening(port, descriptor=master_listen_fd))
                _servers.add(self._server)
                if not multi_tenant:
                    self._closing = weakref.finalize(self, self._server.close)
                    self._closing.atexit = False  # others may still ask while this process ends
            port = self._server.port
        self._host, self._port = host_name, port
        # The master keeps its table itself: it needn't know under which name others reach this machine.
        self._connection = Connection("localhost" if is_master else host_name, port, timeout)
        if world_size is not None:
            arrived = self.add(_WORKERS, 1)
            if is_master and wait_for_workers:
                self._meet(arrived, world_size, timeout)

    def _meet(self, arrived: int, world_size: int, timeout: timedelta) -> None:
        end = time.monotonic() + timeout.total_seconds()
        while arrived < world_size:
            if time.monotonic() > end:
                raise DistStoreError(
                    f"Timed out after {max(round(timeout.total_seconds()), 1)} seconds waiting for clients. "
                    f"{arrived}/{world_size} clients joined."
                )
            time.sleep(0.01)
            arrived = int(self._ask("get", _WORKERS))

    @property
    def host(self) -> str:
        """The name of the master's machine."""
        return self._host

    @property
    def port(self) -> int:
        """The port at which the table is kept."""
        return self._port

    @property
    def libuvBackend(self) -> bool:
        """What `use_libuv` said. It makes no difference: the server is a thread of Python's."""
        return self._use_libuv

    def __repr__(self) -> str:
        kept = f"TCPServer(port={self._port})" if self._server else "<nullptr>"
        return f"TCPStore(client=TCPClient({self._connection}), server={kept})"

    def _ask(self, request: str, *operands: Any) -> Any:
        return self._connection.ask(None, request, *operands)

    def _wait(self, keys: Sequence[str], timeout: timedelta) -> None:
        milliseconds = round(timeout.total_seconds() * 1000)
        missing = self._connection.ask(timeout.total_seconds() + _GRACE, "wait", list(keys), milliseconds)
        if missing:
            named = ", ".join("/" + key.removeprefix(queue_key("")) for key in keys)
            raise DistStoreError(f"wait timeout after {milliseconds}ms, keys: {named}")

    def clone(self) -> TCPStore:
        """A client of the same table with a connection of its own."""
        made = TCPStore.__new__(TCPStore)
        Store.__init__(made)
        made._timeout, made._host, made._port = self._timeout, self._host, self._port
        made._server, made._closing, made._use_libuv = self._server, None, self._use_libuv
        made._connection = Connection(self._connection.host, self._port, self._timeout)
        return made


_tenants: dict[int, TCPServer] = {}
_tenants_lock = threading.RLock()


def _shared_server(port: int) -> TCPServer | None:
    """The server that stores of this process share at a port; made when it is first asked for. None for port 0."""
    if port == 0:
        return None
    with _tenants_lock:
        if port not in _tenants:
            _tenants[port] = TCPServer(listening(port))
            _servers.add(_tenants[port])
        return _tenants[port]
