"""Calls and their results as bytes: pickled, where tensors and references to others' values know that they travel.

As with any pickle, the other processes must be trusted. Stands on pickle and the public operators; agent uses it.
"""

from __future__ import annotations

import io
import pickle
import threading
from collections.abc import Callable
from typing import Any

import flambeau as torch


class _Thread(threading.local):
    sent: Callable[[Any], int] | None = None  # notes a tensor that is sent with a gradient; its number in the message
    received: Callable[[Any, int], Any] | None = None  # the tensor that stands for one that was


_thread = _Thread()


class Travelling:
    """What is pickled by its own `_travel`, and only as a part of a call: a function and its arguments that make it there."""

    def _travel(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        raise NotImplementedError


class _Pickler(pickle.Pickler):
    def __init__(self, file: Any) -> None:
        super().__init__(file, protocol=5)
        self._plain: dict[int, Any] = {}

    def reducer_override(self, thing: Any) -> Any:
        if isinstance(thing, Travelling):
            return thing._travel()
        if type(thing) is torch.Tensor and thing.requires_grad:
            plain = thing.detach()
            self._plain[id(plain)] = plain  # as long as its number is known
            number = -1 if _thread.sent is None else _thread.sent(thing)
            return _arrived, (plain, number)
        return NotImplemented


def _arrived(plain: Any, number: int) -> Any:
    if number >= 0 and _thread.received is not None:
        return _thread.received(plain, number)
    return plain.requires_grad_()


def packed(head: Any, body: Any, sent: Callable[[Any], int] | None = None) -> bytes:
    """Two things as bytes, of which the first can be read before the second. sent: notes the second's tensors with gradients."""
    first, stream = pickle.dumps(head), io.BytesIO()
    before, _thread.sent = _thread.sent, sent
    try:
        _Pickler(stream).dump(body)
    finally:
        _thread.sent = before
    return len(first).to_bytes(4, "big") + first + stream.getvalue()


def head_of(data: bytes) -> Any:
    """The first thing."""
    return pickle.loads(data[4 : 4 + int.from_bytes(data[:4], "big")])


def body_of(data: bytes, received: Callable[[Any, int], Any] | None = None) -> Any:
    """The second thing. received: what stands for tensors with gradients."""
    before, _thread.received = _thread.received, received
    try:
        return pickle.loads(memoryview(data)[4 + int.from_bytes(data[:4], "big") :])
    finally:
        _thread.received = before
