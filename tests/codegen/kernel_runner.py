"""Runs kernel phases on NumPy buffers that end at an unreadable page, so that any access past a matrix ends the process."""

from __future__ import annotations

import ctypes
from operator import index

import numpy as np

from flambeau.codegen.runtime.threads import planned_threads

PAGE = 4096
_library = ctypes.CDLL(None, use_errno=True)
_library.mmap.restype = ctypes.c_void_p
_library.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
_library.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
_library.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]


class Guarded:
    """`count` elements between two unreadable pages, flush with the one behind them (or, if `front`, the one before)."""

    def __init__(self, count: int, dtype: object, front: bool = False):
        self.dtype = np.dtype(dtype)
        size = max(1, count * self.dtype.itemsize)
        pages = -(-size // PAGE) * PAGE
        self.length = pages + 2 * PAGE
        self.base = _library.mmap(None, self.length, 3, 0x22, -1, 0)
        for page in (self.base, self.base + PAGE + pages):
            assert _library.mprotect(page, PAGE, 0) == 0
        self.address = self.base + PAGE + (0 if front else pages - size)
        whole = (ctypes.c_char * pages).from_address(self.base + PAGE)
        ctypes.memset(whole, 0xA5, pages)
        self.slack = np.frombuffer(whole, np.uint8)
        at = self.address - self.base - PAGE
        self.used = slice(at, at + count * self.dtype.itemsize)
        self.array = np.frombuffer(whole, self.dtype, count, at)

    def untouched(self) -> bool:
        """Whether the rest of the outer pages still holds its pattern."""
        return bool((self.slack[: self.used.start] == 0xA5).all() and (self.slack[self.used.stop :] == 0xA5).all())

    def __del__(self) -> None:
        _library.munmap(self.base, self.length)


def guarded(values: np.ndarray, front: bool = False) -> Guarded:
    buffer = Guarded(values.size, values.dtype, front)
    buffer.array[:] = values.ravel()
    return buffer


def run(phases: list, scratch: int, buffers: list[Guarded]) -> np.ndarray:
    """Run the phases in chunks of their grain, the thread number changing from chunk to chunk; a copy of the scratch memory."""
    threads = planned_threads()
    work = Guarded(scratch + 64, np.uint8)
    work.array[:] = 0xFF  # NaN in every float type
    frame = (ctypes.c_int64 * (5 + len(buffers)))(  # nobody watches; then what p points to
        0, 0, (work.address + 63) // 64 * 64, 0, threads, *(b.address for b in buffers)
    )
    p = (ctypes.c_int64 * (4 + len(buffers))).from_buffer(frame, 8)
    for kernel, total, grain, constants in phases:
        block = (ctypes.c_int64 * len(constants))(*map(index, constants))
        p[0] = ctypes.addressof(block)
        call = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 4)(index(kernel))
        for number, begin in enumerate(range(0, total, grain)):
            call(ctypes.addressof(p), begin, min(begin + grain, total), number % threads)
    assert p[2] == 0
    for buffer in buffers:
        assert buffer.untouched()
    return work.array[-work.address % 64 :][:scratch].copy()
