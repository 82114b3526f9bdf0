"""torch.utils.dlpack: tensors to and from other array libraries over the same memory. A face of the namespace."""

from __future__ import annotations

import enum
from typing import Any

import flambeau


class DLDeviceType(enum.IntEnum):
    """The numbers by which the DLPack protocol names kinds of devices."""

    kDLCPU = 1
    kDLCUDA = 2
    kDLCUDAHost = 3
    kDLOpenCL = 4
    kDLVulkan = 7
    kDLMetal = 8
    kDLVPI = 9
    kDLROCM = 10
    kDLROCMHost = 11
    kDLExtDev = 12
    kDLCUDAManaged = 13
    kDLOneAPI = 14
    kDLWebGPU = 15
    kDLHexagon = 16
    kDLMAIA = 17


def from_dlpack(ext_tensor: Any, **arguments: Any) -> Any:
    """The tensor over the memory of an object with `__dlpack__`, or of a DLPack capsule."""
    return flambeau.from_dlpack(ext_tensor, **arguments)


def to_dlpack(tensor: Any) -> Any:
    """A DLPack capsule over the memory of a tensor; it can be taken over once."""
    return tensor.__dlpack__()
