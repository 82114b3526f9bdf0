"""torch.utils._foreach_utils: lists of tensors by device and dtype, for optimizers: optim's, and other libraries'."""

from __future__ import annotations

from typing import Any

from flambeau.base.device import device as Device
from flambeau.core.tensor.tensor import Tensor

__all__: list[str] = []

Indices = list[int]
TensorListList = list[list[Tensor | None]]


def _group_tensors_by_device_and_dtype(
    tensorlistlist: list[list[Tensor | None]], with_indices: bool = False
) -> dict[tuple[Any, Any], tuple[list[list[Tensor | None]], list[int]]]:
    """Lists of tensors that belong together by place, split by the device and dtype of the first list's.

    Gives {(device, dtype): (the lists with only these places, the places)}; without with_indices no places are told.
    Raises RuntimeError where there is no list.
    """
    if not tensorlistlist:
        raise RuntimeError("Expected !nested_tensorlist.empty() to be true, but got false.")
    groups: dict[tuple[Any, Any], tuple[list[list[Tensor | None]], list[int]]] = {}
    for place, first in enumerate(tensorlistlist[0]):
        if first is None:
            raise RuntimeError(
                f"Tensors of the first list of nested Tensor lists are supposed to be defined but the {place}-th Tensor is not."
            )
        lists, places = groups.setdefault((first.device, first.dtype), ([[] for _ in tensorlistlist], []))
        for group, tensors in zip(lists, tensorlistlist, strict=True):
            group.append(tensors[place] if tensors else None)
        if with_indices:
            places.append(place)
    return groups


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
