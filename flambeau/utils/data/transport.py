"""Carries batches from a worker process to the program: a pickle, with the memory of tensors and arrays beside it.

Small batches travel through the socket. The memory of large ones is put in an anonymous shared file whose descriptor
travels instead; the program maps it and its tensors stand on the mapping, without a copy. Nothing has a name in the file
system, so nothing stays behind when a process is killed. Stands on the standard library, NumPy and the tensor namespace.
"""

from __future__ import annotations

import io
import mmap
import os
import pickle
import socket
from typing import Any

import numpy as np

import flambeau
from flambeau.core.tensor.rebuild import refuse_graph
from flambeau.core.tensor.tensor import Tensor

#: Memory below this many bytes goes through the socket.
INLINE = 1 << 16
ALIGNMENT = 64


def tensor_parts(tensor: Tensor) -> tuple[Any, ...]:
    """(function, arguments) that rebuild a plain tensor from a NumPy array over its memory; strides are kept if dense."""
    refuse_graph(tensor)
    values = tensor.detach()
    order = sorted(range(values.dim()), key=lambda axis: -values.stride(axis))
    dtype = values.dtype
    if dtype is flambeau.bfloat16:  # NumPy has none: its bits travel
        values = values.view(flambeau.int16)
    array = np.ascontiguousarray(values.permute(order).numpy()) if order else values.numpy()
    return rebuild, (array, order, dtype is flambeau.bfloat16, bool(tensor.requires_grad))


def rebuild(array: np.ndarray, order: list[int], bfloat16: bool, requires_grad: bool) -> Tensor:
    """The tensor that tensor_parts took apart, over the array's memory."""
    if not array.flags.writeable:
        array = array.copy()
    tensor = flambeau.from_numpy(array)
    if bfloat16:
        tensor = tensor.view(flambeau.bfloat16)
    if order:
        tensor = tensor.permute([order.index(axis) for axis in range(len(order))])
    return tensor.requires_grad_(True) if requires_grad else tensor


class BatchPickler(pickle.Pickler):
    """Pickles a batch; tensors on the CPU go as arrays, whose memory protocol 5 hands out separately."""

    def reducer_override(self, thing: Any) -> Any:
        if type(thing) is Tensor and thing.device.type == "cpu" and not vars(thing):
            return tensor_parts(thing)
        return NotImplemented


def send(connection: Any, message: Any) -> None:
    """Send an object. Raises what pickling it raises, before anything is sent."""
    buffers: list[pickle.PickleBuffer] = []
    stream = io.BytesIO()
    BatchPickler(stream, 5, buffer_callback=buffers.append).dump(message)
    pieces = [buffer.raw() for buffer in buffers]
    sizes = [piece.nbytes for piece in pieces]
    shared = sum(sizes) >= INLINE and hasattr(os, "memfd_create")
    connection.send_bytes(pickle.dumps((sizes, shared), 5))
    connection.send_bytes(stream.getbuffer())
    if not shared:
        for piece in pieces:
            connection.send_bytes(piece if piece.nbytes else b"\0")
        return
    descriptor = os.memfd_create("flambeau-batch", getattr(os, "MFD_CLOEXEC", 0))
    try:
        for piece in pieces:
            write_all(descriptor, piece)
            write_all(descriptor, memoryview(bytes(-piece.nbytes % ALIGNMENT)))
        with _socket(connection) as at:
            socket.send_fds(at, [b"\0"], [descriptor])
    finally:
        os.close(descriptor)


def _socket(connection: Any) -> socket.socket:
    """The socket of a connection, to be closed. `multiprocessing.reduction.send_handle` waits for an answer from Python 3.14 on,
    and the thread that reads requests would get it."""
    return socket.socket(fileno=os.dup(connection.fileno()))


def write_all(descriptor: int, content: memoryview) -> None:
    """os.write until all is written."""
    while content.nbytes:
        content = content[os.write(descriptor, content) :]


def receive(connection: Any) -> Any:
    """The next object. Raises EOFError if the other side is gone."""
    sizes, shared = pickle.loads(connection.recv_bytes())
    content = connection.recv_bytes()
    if not shared:
        pieces: list[Any] = [bytearray(connection.recv_bytes())[:size] for size in sizes]
        return pickle.loads(content, buffers=pieces)
    with _socket(connection) as at:
        sent, descriptors, *_ = socket.recv_fds(at, 1, 1)
    if not sent:
        raise EOFError
    if not descriptors:
        raise RuntimeError("received 0 items of ancdata: too many files are open (ulimit -n), one for each batch that is kept")
    descriptor = descriptors[0]
    try:
        mapped = memoryview(mmap.mmap(descriptor, sum(size + -size % ALIGNMENT for size in sizes)))
    finally:
        os.close(descriptor)
    pieces, start = [], 0
    for size in sizes:
        pieces.append(mapped[start : start + size])
        start += size + -size % ALIGNMENT
    return pickle.loads(content, buffers=pieces)
