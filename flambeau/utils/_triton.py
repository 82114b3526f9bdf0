"""torch.utils._triton: whether Triton, a compiler of kernels for GPUs, can be used. There is no device for it."""

from __future__ import annotations

import functools

from flambeau.utils._import_utils import _check_module_exists

__all__ = ["has_triton", "has_triton_package", "has_triton_tma", "has_triton_tma_device"]


@functools.cache
def has_triton_package() -> bool:
    """Whether Triton is installed."""
    return _check_module_exists("triton")


def has_triton() -> bool:
    """Whether its kernels can run: not without a GPU."""
    return False


def has_triton_tma() -> bool:
    """Whether its kernels may copy tiles by the GPU's own engine: not without a GPU."""
    return False


has_triton_tma_device = has_triton_stable_tma_api = has_triton_tensor_descriptor_host_tma = has_triton_tma
