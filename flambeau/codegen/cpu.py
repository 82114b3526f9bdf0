"""The processor that kernels are written for: its features, and the vectors and registers that follow from them.

LLVM is told of the processor by itself (llvm.py). `FLAMBEAU_VECTOR_BYTES=16` (or 32, 64) has kernels written for narrower vectors
than this processor's, as they are on others. Stands on base.flags.
"""

from __future__ import annotations

import ctypes
import os
from functools import cache

from flambeau.base.flags import flags

ARM = os.uname().machine in ("aarch64", "arm64")
_FEATURES = "Features" if ARM else "flags"
_MODEL = ("CPU ",) if ARM else ("model", "cpu family", "stepping")


@cache
def _listed() -> tuple[str, ...]:
    """What the system lists of the first processor, a line each."""
    try:
        with open("/proc/cpuinfo") as f:
            return tuple(f.read(8192).split("\n\n")[0].split("\n"))
    except OSError:
        return (f"model: {os.uname().machine}",)


@cache
def features() -> frozenset[str]:
    """Features of this processor as the system lists them (empty where it lists none)."""
    return frozenset(word for line in _listed() if line.startswith(_FEATURES) for word in line.partition(":")[2].split())


@cache
def description() -> str:
    """All that compiled code depends on: the model, its features, and the vectors that kernels are written for."""
    lines = sorted(line for line in _listed() if line.startswith((_FEATURES, *_MODEL)))
    return "\n".join([*lines, str(vector_bytes())])


@cache
def vector_bytes() -> int:
    """Width of the vectors that kernels are written for."""
    widest = 64 if {"avx512f", "avx512bw", "avx512vl", "avx512dq"} <= features() else 32 if {"avx2", "fma"} <= features() else 16
    return min(widest, flags.vector_bytes)


@cache
def registers() -> int:
    """Vectors that the register file holds."""
    return 32 if ARM or vector_bytes() == 64 else 16


@cache
def register_rows() -> int:
    """Rows of a register tile two vectors wide, for whose sums, and what they are made of, 32 or 16 registers are enough."""
    return 14 if vector_bytes() == 64 else 6


@cache
def second_level_bytes() -> int:
    """Size of a core's second-level cache; 1 MiB where the system doesn't tell."""
    try:
        with open("/sys/devices/system/cpu/cpu0/cache/index2/size") as f:
            text = f.read().strip()
    except OSError:
        return 1 << 20
    number, unit = text[:-1], {"K": 1 << 10, "M": 1 << 20}.get(text[-1:])
    return int(number) * unit if unit and number.isdigit() else 1 << 20


@cache
def matrix_unit() -> bool:
    """Whether this process may use the processor's tiles of bfloat16 (Intel's AMX), for which Linux has to be asked."""
    if "amx_bf16" not in features():
        return False
    arch_prctl, request_permission, tile_data = 158, 0x1023, 18
    return ctypes.CDLL(None).syscall(arch_prctl, request_permission, tile_data) == 0
