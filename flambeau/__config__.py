"""torch.__config__: how this build was made and what it computes with, as text."""

from __future__ import annotations

import os
import sys

import numpy

import flambeau as torch
from flambeau.version import FLAMBEAU, PYTORCH

__all__ = ["parallel_info", "show"]


def show() -> str:
    """What the package stands on and the widest vectors of this processor, in the form PyTorch lists its libraries."""
    facts = [
        f"flambeau {FLAMBEAU}, which follows PyTorch {PYTORCH}",
        f"Python {sys.version.split()[0]}, NumPy {numpy.__version__}",
        "Kernels compiled by LLVM (llvmlite) when they are first used; no C++ extension, BLAS or OpenMP",
        "LAPACK is provided by kernels of this package",
        f"CPU capability usage: {torch.backends.cpu.get_cpu_capability()}",
        f"Build settings: TORCH_VERSION={PYTORCH}, USE_CUDA=0, USE_CUDNN=OFF, USE_MKL=OFF, USE_MKLDNN=OFF, USE_OPENMP=OFF, "
        "USE_ROCM=OFF, USE_XPU=OFF, ",
    ]
    return "PyTorch built with:\n" + "".join(f"  - {fact}\n" for fact in facts)


def parallel_info() -> str:
    """How many threads operators and programs use, and what environment variables say of it."""
    lines = [
        "ATen/Parallel:",
        f"\tat::get_num_threads() : {torch.get_num_threads()}",
        f"\tat::get_num_interop_threads() : {torch.get_num_interop_threads()}",
        f"std::thread::hardware_concurrency() : {os.cpu_count()}",
        "Environment variables:",
        *(f"\t{name} : {os.environ.get(name, '[not set]')}" for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS")),
        "ATen parallel backend: threads of flambeau's own",
    ]
    return "\n".join(lines) + "\n"


def _cxx_flags() -> str:
    """The flags of the C++ compiler: none."""
    return ""
