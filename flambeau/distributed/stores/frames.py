"""How a store's requests and answers travel: frames of a length and a value of None, truth, number, bytes, text or list.

Nothing else can be read from a frame, and lengths are bounded, so that a stranger who connects does no harm. Stands on the
standard library; used by tcp_store, tcp_server and file_store.
"""

from __future__ import annotations

import struct
from typing import Any

LARGEST = 1 << 30  # bytes of a frame
_LENGTH = struct.Struct("!I")
_NUMBER = struct.Struct("!q")


class FrameError(ValueError):
    """What came is no frame."""


def packed(value: Any) -> bytes:
    """A value as a frame."""
    body = _packed(value)
    if len(body) > LARGEST:
        raise ValueError(f"a store takes requests of up to {LARGEST} bytes, not {len(body)}")
    return _LENGTH.pack(len(body)) + body


def _packed(value: Any) -> bytes:
    if value is None:
        return b"n"
    if isinstance(value, bool):
        return b"t" if value else b"f"
    if isinstance(value, int):
        return b"i" + _NUMBER.pack(value)
    if isinstance(value, bytes):
        return b"b" + _LENGTH.pack(len(value)) + value
    if isinstance(value, str):
        text = value.encode("utf-8", "surrogateescape")
        return b"s" + _LENGTH.pack(len(text)) + text
    return b"l" + _LENGTH.pack(len(value)) + b"".join([_packed(each) for each in value])


def unpacked(body: bytes) -> Any:
    """The value in a frame's body. Raises FrameError."""
    try:
        value, end = _unpacked(body, 0, 0)
    except (struct.error, IndexError, UnicodeDecodeError):
        raise FrameError("damaged frame") from None
    if end != len(body):
        raise FrameError("damaged frame")
    return value


def _unpacked(body: bytes, at: int, depth: int) -> tuple[Any, int]:
    kind, at = body[at : at + 1], at + 1
    if kind in (b"n", b"t", b"f"):
        return {b"n": None, b"t": True, b"f": False}[kind], at
    if kind == b"i":
        return _NUMBER.unpack_from(body, at)[0], at + _NUMBER.size
    if kind not in (b"b", b"s", b"l") or depth > 4:
        raise FrameError("damaged frame")
    (length,) = _LENGTH.unpack_from(body, at)
    at += _LENGTH.size
    if length > len(body) - at:  # an element of a list takes a byte at least
        raise FrameError("damaged frame")
    if kind == b"l":
        values = []
        for _ in range(length):
            value, at = _unpacked(body, at, depth + 1)
            values.append(value)
        return values, at
    piece = body[at : at + length]
    return (piece if kind == b"b" else piece.decode("utf-8", "surrogateescape")), at + length


class Frames:
    """Bytes as they arrive, cut into the values of frames."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    def feed(self, data: bytes) -> list[Any]:
        """The values that are whole with these bytes. Raises FrameError."""
        self._bytes += data
        values = []
        while len(self._bytes) >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._bytes)
            if length > LARGEST:
                raise FrameError("a frame too long")
            end = _LENGTH.size + length
            if len(self._bytes) < end:
                break
            values.append(unpacked(bytes(self._bytes[_LENGTH.size : end])))
            del self._bytes[:end]
        return values
