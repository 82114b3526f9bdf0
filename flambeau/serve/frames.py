"""Messages between the front end and workers: a header in JSON and the bodies of requests or answers as they are, over a socket.

Nothing is unpickled, on either side. Stands on the standard library; used by pool and worker.
"""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Iterator, Sequence
from typing import Any

BEGUN = struct.Struct("<Q")  # in shared memory: the number of the batch that a worker has taken
SIZES = struct.Struct("<II")  # bytes of the header, bytes of all parts
Frame = tuple[dict[str, Any], list[bytes]]


def packed(header: dict[str, Any], parts: Sequence[bytes] = ()) -> bytes:
    """A message; `header` gets the sizes of the parts under "sizes"."""
    text = json.dumps({**header, "sizes": [len(part) for part in parts]}, separators=(",", ":")).encode()
    body = b"".join(parts)
    return b"".join((SIZES.pack(len(text), len(body)), text, body))


def _frame(text: bytes, body: memoryview) -> Frame:
    header = json.loads(text)
    parts, at = [], 0
    for size in header["sizes"]:
        parts.append(bytes(body[at : at + size]))
        at += size
    return header, parts


class Buffer:
    """Bytes as they come, and the whole messages among them."""

    def __init__(self) -> None:
        self.data = bytearray()

    def feed(self, data: bytes) -> Iterator[Frame]:
        self.data += data
        while len(self.data) >= SIZES.size:
            head, rest = SIZES.unpack_from(self.data)
            end = SIZES.size + head + rest
            if len(self.data) < end:
                return
            with memoryview(self.data) as view:
                body = view[SIZES.size + head : end]
                frame = _frame(bytes(view[SIZES.size : SIZES.size + head]), body)
                body.release()
            del self.data[:end]
            yield frame


class Connection:
    """The worker's end: whole messages from and to a blocking socket."""

    def __init__(self, sock: socket.socket) -> None:
        self.socket = sock
        self.buffer = Buffer()
        self.frames: list[Frame] = []

    def receive(self, wait: bool = True) -> Frame | None:
        """The next message; None if there is none yet (with wait=False). EOFError once the front end is gone."""
        while not self.frames:
            try:
                data = self.socket.recv(1 << 20, 0 if wait else socket.MSG_DONTWAIT)
            except BlockingIOError:
                return None
            except ConnectionError:
                data = b""
            if not data:
                raise EOFError
            self.frames += self.buffer.feed(data)
        return self.frames.pop(0)

    def send(self, header: dict[str, Any], parts: Sequence[bytes] = ()) -> None:
        """EOFError if the front end is gone."""
        try:
            self.socket.sendall(packed(header, parts))
        except (ConnectionError, BrokenPipeError):
            raise EOFError from None
