"""The processor that kernels are written for: its features, and the vectors and registers that follow from them.

Stands on nothing; LLVM is told of the processor by itself (jit.py).
"""

from __future__ import annotations

import os
from functools import cache

ARM = os.uname().machine in ("aarch64", "arm64")


@cache
def features() -> frozenset[str]:
    """Features of this CPU as the kernel lists them (empty where /proc is not there)."""
    try:
        with open("/proc/cpuinfo") as f:
            for line in f:
                if line.startswith(("flags", "Features")):
                    return frozenset(line.split(":")[1].split())
    except OSError:
        pass
    return frozenset()


@cache
def vector_bytes() -> int:
    """Width of the vectors that kernels are written for."""
    return 64 if {"avx512f", "avx512bw", "avx512vl", "avx512dq"} <= features() else 32 if {"avx2", "fma"} <= features() else 16


@cache
def register_rows() -> int:
    """Rows of a register tile two vectors wide: as many as the register file holds (32 vectors, or 16)."""
    return 14 if vector_bytes() == 64 else 6
