"""torch.utils._foreach_utils: lists of tensors by device and dtype, for optimizers of other libraries. Stands on optim."""

from __future__ import annotations

from typing import Any

from flambeau.base.device import device as Device
from flambeau.core.tensor.tensor import Tensor
from flambeau.optim.optimizer import Optimizer

__all__: list[str] = []

Indices = list[int]
TensorListList = list[list[Tensor | None]]

_group_tensors_by_device_and_dtype = Optimizer._group_tensors_by_device_and_dtype


def _get_foreach_kernels_supported_devices() -> list[str]:
    """Types of devices whose optimizers go through lists by themselves; there is none of them."""
    return ["cuda", "xpu", "mtia", "privateuseone"]


def _get_fused_kernels_supported_devices() -> list[str]:
    """Types of devices with optimizers that are one kernel."""
    return ["mps", "cuda", "xpu", "hpu", "cpu", "mtia", "privateuseone"]


def _has_foreach_support(tensors: list[Any], device: Device) -> bool:
    """Whether functions on lists take these: tensors, or None, on such a device."""
    return _device_has_foreach_support(device) and all(each is None or type(each) is Tensor for each in tensors)


def _device_has_foreach_support(device: Device) -> bool:
    """Whether functions on lists run there."""
    return device.type in ("cpu", *_get_foreach_kernels_supported_devices())
