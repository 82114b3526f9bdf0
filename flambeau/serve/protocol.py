"""uvicorn's HTTP protocol with limits that it lacks: bytes and time of headers, trailers; and word of clients that leave.

Stands on uvicorn and httptools; used by server.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from flambeau.serve.answers import error
from flambeau.serve.app import GONE
from flambeau.serve.settings import ServerSettings


class JoinedWrites:
    """A transport whose writes go out together, once per round of the event loop: head and body of an answer are one packet."""

    def __init__(self, transport: Any, loop: asyncio.AbstractEventLoop, seconds: float) -> None:
        self.transport, self.loop, self.seconds = transport, loop, seconds
        self.waiting: list[bytes] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.transport, name)

    def write(self, data: bytes) -> None:
        if not self.waiting:
            self.loop.call_soon(self.flush)
        self.waiting.append(data)

    def flush(self) -> None:
        if self.waiting:
            data, self.waiting = b"".join(self.waiting), []
            self.transport.write(data)

    def close(self) -> None:
        self.flush()
        self.transport.close()
        self.watch()

    def watch(self) -> None:
        """End the connection of a client that takes nothing of what is written for so many seconds."""
        left = self.transport.get_write_buffer_size()
        if left:
            self.loop.call_later(self.seconds, self.look, left)

    def look(self, before: int) -> None:
        if self.transport.get_write_buffer_size() < before:
            self.watch()
        else:
            self.transport.abort()


class LimitedProtocol(HttpToolsProtocol):
    """A connection. `settings` is set on a subclass per server."""

    settings = ServerSettings()

    def connection_made(self, transport: Any) -> None:
        super().connection_made(JoinedWrites(transport, self.loop, self.settings.write_seconds))  # type: ignore[arg-type]
        self.reading_head = True
        self.head_bytes = self.trailer_bytes = 0
        self.too_long = False
        self.timer: asyncio.TimerHandle | None = self.loop.call_later(self.settings.idle_seconds, self.transport.close)
        self.timing_head = False
        self.leaving: set[Callable[[], None]] = set()  # of requests under way, which needn't be the last: others may wait behind

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope[GONE] = self.leaving

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        if self.reading_head:
            self.head_bytes += len(data)
        super().data_received(data)
        if self.too_long or (self.reading_head and self.head_bytes > self.settings.header_bytes):
            self.refuse(431, f"a request line and its headers have at most {self.settings.header_bytes} bytes")
        elif self.reading_head and self.head_bytes and not self.timing_head:
            self.timing_head = True
            self.set_timer(self.settings.header_seconds)

    def pause_writing(self) -> None:
        super().pause_writing()
        self.transport.watch()  # type: ignore[attr-defined]  # it is the JoinedWrites of connection_made

    def set_timer(self, seconds: float) -> None:
        if self.timer is not None:
            self.timer.cancel()
        self.timer = self.loop.call_later(seconds, self.too_slow)

    def too_slow(self) -> None:
        self.refuse(408, f"the headers didn't come within {self.settings.header_seconds:g} s")

    def refuse(self, status: int, message: str) -> None:
        """Answer what is no request yet, unless an answer is under way, and close."""
        if self.transport.is_closing():
            return
        if self.cycle is None or self.cycle.response_complete:
            body = error(status, message).body
            reason = {408: b"Request Timeout", 431: b"Request Header Fields Too Large"}[status]
            lines = [b"HTTP/1.1 %d %b" % (status, reason), b"content-type: application/json", b"content-length: %d" % len(body)]
            self.transport.write(b"\r\n".join([*lines, b"connection: close", b"", body]))
        self.transport.close()

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self.reading_head:  # a trailer, which would stand among the headers
            self.trailer_bytes += len(name) + len(value)
            self.too_long = self.trailer_bytes > self.settings.header_bytes
            return
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self.reading_head = self.timing_head = False
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
        self.head_bytes = self.trailer_bytes = 0
        if len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers) > self.settings.header_bytes:
            self.too_long = True
            return
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        if not self.too_long:
            super().on_body(body)

    def on_message_complete(self) -> None:
        self.reading_head = True
        if not self.too_long:
            super().on_message_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        if self.timer is not None:
            self.timer.cancel()
        super().connection_lost(exc)
        for gone in list(self.leaving):
            gone()
