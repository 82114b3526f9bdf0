"""The agent of a process: connections to all others, over which calls go out, and threads that run the calls that come in.

Who connects proves that it knows a secret of the store, as with lifelines. Stands on wire, mpi.switchboard's greeting and a
store; api makes one.
"""

from __future__ import annotations

import contextlib
import hmac
import itertools
import secrets
import socket
import struct
import threading
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

from flambeau.distributed.mpi.lifeline import own_address
from flambeau.distributed.mpi.switchboard import NUMBER, PROOF, proof, recognized
from flambeau.distributed.rpc import wire
from flambeau.distributed.rpc.options import TensorPipeRpcBackendOptions, WorkerInfo
from flambeau.distributed.stores import Store
from flambeau.distributed.stores.listener import listening, prepare
from flambeau.futures import Future

_HEAD = struct.Struct("!QQB")  # bytes that follow, the call's number, what it is
_CALL, _INLINE, _RESULT, _ERROR = range(4)


class RemoteError(Exception):
    """What failed in another process: the exception's type and a text."""

    def __init__(self, kind: type[BaseException], text: str) -> None:
        super().__init__(kind, text)
        self.kind, self.text = kind, text

    def made(self) -> BaseException:
        """An exception of that type, where one can be made of a text; else a RuntimeError."""
        try:
            return self.kind(self.text)
        except BaseException:
            return RuntimeError(f"Failed to create original exception type. Error msg was {self.text}")


class _Line:
    """A connection, and the calls that wait for their results on it."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection, self.sending = connection, threading.Lock()
        self.waiting: dict[int, Future[Any]] = {}

    def send(self, number: int, kind: int, data: bytes) -> None:
        with self.sending:
            self.connection.sendall(_HEAD.pack(len(data), number, kind) + data)

    def receive(self) -> tuple[int, int, bytes] | None:
        """The next frame; None when the connection has ended."""
        head = self._exactly(_HEAD.size)
        if head is None:
            return None
        length, number, kind = _HEAD.unpack(head)
        data = self._exactly(length)
        return None if data is None else (number, kind, data)

    def _exactly(self, count: int) -> bytes | None:
        made = bytearray(count)
        view, got = memoryview(made), 0
        while got < count:
            try:
                step = self.connection.recv_into(view[got:])
            except OSError:
                return None
            if not step:
                return None
            got += step
        return bytes(made)

    def fail(self, error: BaseException) -> None:
        """Nothing comes any more."""
        waiting, self.waiting = self.waiting, {}
        for future in waiting.values():
            if not future.done():
                future.set_exception(error)


class Agent:
    """This process among `size` workers. context: wraps the calls made here and those of others; see autograd."""

    def __init__(self, store: Store, name: str, rank: int, size: int, options: TensorPipeRpcBackendOptions, context: Any) -> None:
        self._context, self._closed = context, False
        self.timeout, self._numbers = options.rpc_timeout, itertools.count(1)
        self.pending: set[Future[Any]] = set()
        self._lines: dict[int, _Line] = {}
        self._served: list[_Line] = []
        self._making = threading.Lock()
        self._pool = ThreadPoolExecutor(options.num_worker_threads, "flambeau rpc")
        if rank == 0:
            store.set("token", secrets.token_hex(16))
        self._token = bytes.fromhex(store.get("token").decode())
        self._listener = listening(0, backlog=size)
        threading.Thread(target=self._listen, name="flambeau rpc listener", daemon=True).start()
        store.set(
            f"worker/{rank}",
            f"{name}\n{own_address(store) or '127.0.0.1'}\n{socket.gethostname()}\n{self._listener.getsockname()[1]}",
        )
        found = [store.get(f"worker/{each}").decode().split("\n") for each in range(size)]
        self._addresses = [(address, host, int(port)) for _, address, host, port in found]
        self.workers = [WorkerInfo(worker, each) for each, (worker, *_) in enumerate(found)]
        twice = {each.name for each in self.workers if [other.name for other in self.workers].count(each.name) > 1}
        if twice:
            raise RuntimeError(f"RPC worker name {twice.pop()} is not unique. Workers need unique names")
        self.own, self._store = self.workers[rank], store

    def worker(self, to: Any) -> WorkerInfo:
        """The worker of a name, a rank or a WorkerInfo. Raises RuntimeError for one that isn't there."""
        for each in self.workers:
            if to in (each.name, each.id) or each == to:
                return each
        raise RuntimeError(f"could not find destination {to}")

    # ------------------------------------------------------------------------------------------------ calls that go out

    def call(
        self,
        to: WorkerInfo,
        function: Callable[..., Any],
        args: Any = (),
        kwargs: Any = None,
        timeout: float = -1,
        inline: bool = False,
    ) -> Future[Any]:
        """A Future of function(*args, **kwargs) there. inline: what never waits, and needs no thread of its own."""
        future: Future[Any] = Future()
        data = self._context.message(to.id, (function, tuple(args), dict(kwargs or {})))
        number = next(self._numbers)
        line = self._line(to.id)
        line.waiting[number] = future
        if not inline:
            self.pending.add(future)
            future._when_complete(lambda: self.pending.discard(future))
        try:
            line.send(number, _INLINE if inline else _CALL, data)
        except OSError as error:
            if line.waiting.pop(number, None) is not None:
                future.set_exception(RuntimeError(f"{to} is gone: {error}"))
        seconds = self.timeout if timeout == -1 else timeout
        if seconds > 0 and not inline:
            self._limit(future, seconds)
        return future

    def _limit(self, future: Future[Any], seconds: float) -> None:
        def late() -> None:
            with contextlib.suppress(RuntimeError):  # it came meanwhile
                future.set_exception(
                    RuntimeError(
                        f"RPC ran for more than set timeout ({round(seconds * 1000)} ms) and will now be marked with an error"
                    )
                )

        timer = threading.Timer(seconds, late)
        timer.daemon = True
        timer.start()
        future._when_complete(timer.cancel)

    def _line(self, rank: int) -> _Line:
        with self._making:
            if rank not in self._lines:
                if self._closed:
                    raise RuntimeError("RPC has been shut down")
                line = self._lines[rank] = _Line(self._connected(rank))
                threading.Thread(target=self._results, args=(line, rank), name="flambeau rpc results", daemon=True).start()
            return self._lines[rank]

    def _connected(self, rank: int) -> socket.socket:
        address, host, port = self._addresses[rank]
        for each in dict.fromkeys(["127.0.0.1"] * (host == socket.gethostname()) + [address, host]):
            with contextlib.suppress(OSError):
                made = socket.create_connection((each, port), timeout=10)
                if recognized(made, self._token):
                    made.settimeout(None)
                    prepare(made)
                    return made
                made.close()
        raise RuntimeError(f"{self.workers[rank]} isn't reached at port {port} of {address} or {host}")

    def _results(self, line: _Line, rank: int) -> None:
        while (frame := line.receive()) is not None:
            number, kind, data = frame
            future = line.waiting.pop(number, None)
            if future is None:
                continue
            error: BaseException | None = None
            try:
                value = self._context.body(data)
                if kind == _ERROR:
                    error = value.made()
            except Exception as failure:
                value, error = None, failure
            with contextlib.suppress(RuntimeError):  # too late
                future.set_exception(error) if error is not None else future.set_result(value)
        line.fail(RuntimeError(f"{self.workers[rank]} is gone: its connection has ended"))

    # ------------------------------------------------------------------------------------------------ calls that come in

    def _listen(self) -> None:
        while True:
            try:
                connection = self._listener.accept()[0]
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), name="flambeau rpc calls", daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError):
            connection.settimeout(10)
            prepare(connection)
            asked = secrets.token_bytes(NUMBER)
            connection.sendall(asked)
            greeting = connection.recv(NUMBER + PROOF, socket.MSG_WAITALL)
            if not hmac.compare_digest(greeting[NUMBER:], proof(self._token, b"client", asked)):
                return connection.close()
            connection.sendall(proof(self._token, b"server", greeting[:NUMBER]))
            connection.settimeout(None)
            line = _Line(connection)
            self._served.append(line)
            while (frame := line.receive()) is not None:
                number, kind, data = frame
                if kind == _INLINE:
                    self._run(line, number, data)
                else:
                    with contextlib.suppress(RuntimeError):  # at the end
                        self._pool.submit(self._run, line, number, data)
        return None

    def _run(self, line: _Line, number: int, data: bytes) -> None:
        try:
            with self._context.within(data):
                function, args, kwargs = self._context.body(data)
                result = function(*args, **kwargs)
        except BaseException as error:
            self._fail(line, number, error)
            return
        if getattr(function, "_wrapped_async_rpc_function", None) is not None and not isinstance(result, Future):
            self._fail(
                line,
                number,
                TypeError(
                    "Functions decorated with @rpc.async_function must return a torch.futures.Future "
                    f"object but got {type(result)}"
                ),
            )
        elif isinstance(result, Future) and _answers_later(function):

            def answer() -> None:
                try:
                    value = result.value()
                except BaseException as error:
                    self._fail(line, number, error)
                else:
                    self._answer(line, number, data, value)

            def by_a_thread() -> None:  # not by one that must go on to read what the answer may need
                with contextlib.suppress(RuntimeError):
                    self._pool.submit(answer)

            result._when_complete(by_a_thread)
        else:
            self._answer(line, number, data, result)

    def _answer(self, line: _Line, number: int, request: bytes, value: Any) -> None:
        try:
            data = self._context.answer(request, value)
        except Exception as error:
            self._fail(line, number, error)
            return
        with contextlib.suppress(OSError):
            line.send(number, _RESULT, data)

    def _fail(self, line: _Line, number: int, error: BaseException) -> None:
        text = f"{type(error).__name__}: On {self.own}:\n{error!r}\n{''.join(traceback.format_exception(error))}"
        try:
            data = wire.packed(None, RemoteError(type(error), text))
        except Exception:  # a class that can't be named
            data = wire.packed(None, RemoteError(RuntimeError, text))
        with contextlib.suppress(OSError):
            line.send(number, _ERROR, data)

    # ------------------------------------------------------------------------------------------------ the end

    def settled(self, timeout: float, number: int = 0) -> None:
        """Wait until no process has calls under way. Raises DistStoreError after the timeout (0: none)."""
        allowed = timedelta(seconds=timeout or 86400)
        while True:
            for future in list(self.pending):
                with contextlib.suppress(Exception):
                    future.wait()
            self._store.barrier(f"waited/{number}", len(self.workers), allowed)
            self._store.add(f"busy/{number}", int(bool(self.pending)))  # calls that calls have made meanwhile
            self._store.barrier(f"settled/{number}", len(self.workers), allowed)
            if not self._store.add(f"busy/{number}", 0):
                return
            number += 1

    def close(self) -> None:
        """End all connections."""
        self._closed = True
        for each in [self._listener, *(line.connection for line in [*self._lines.values(), *self._served])]:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
        self._pool.shutdown(wait=False, cancel_futures=True)


def _answers_later(function: Any) -> bool:
    return getattr(function, "_answers_later", False) or getattr(function, "_wrapped_async_rpc_function", None) is not None
