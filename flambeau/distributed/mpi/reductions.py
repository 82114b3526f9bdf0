"""MPI's reductions: for every kind and dtype an MPI_Op whose function is one of our own kernels, without Python inside.

MPI's built-in ones don't know bfloat16 (or round it wrongly), take 50 times as long for float16, and lack bit operations on
most types. Elements are handed to MPI as opaque ones of their size. Stands on codegen.combine and library; used by channel.
"""

from __future__ import annotations

import ctypes
import functools
from typing import Any

from flambeau.base.dtype import dtype as DType
from flambeau.codegen.combine import combination
from flambeau.distributed.mpi import library


@functools.cache
def datatype(itemsize: int) -> Any:
    """MPI's type of elements of so many bytes."""
    MPI = library.load()
    return {1: MPI.BYTE, 2: MPI.INT16_T, 4: MPI.INT32_T, 8: MPI.INT64_T, 16: MPI.C_DOUBLE_COMPLEX}[itemsize]


@functools.cache
def operation(kind: str, dtype: DType) -> Any:
    """The MPI_Op that combines elements of `dtype`; kind: a key of codegen.combine.COMBINATIONS."""
    op = library.load().Op()
    # The handle is a number in MPICH and a pointer in Open MPI: it is written where mpi4py keeps it.
    handle = ctypes.c_void_p(library.load()._addressof(op))
    address = ctypes.c_void_p(int(combination(kind, dtype)))
    with library.LOCK:
        library.check(library.native().MPI_Op_create(address, 1, handle), "MPI_Op_create")
    return op
