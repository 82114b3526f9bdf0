"""torch.distributed.tensor._utils: which part of a tensor a rank has, under the names that libraries ask by."""

from __future__ import annotations

from collections.abc import Sequence

import flambeau as torch
from flambeau.distributed.device_mesh import DeviceMesh
from flambeau.distributed.tensor._dtensor_spec import local_shape_and_offset, whole_shape_and_stride
from flambeau.distributed.tensor.placement_types import Placement

__all__ = ["compute_global_tensor_info", "compute_global_tensor_shape", "compute_local_shape_and_global_offset",
           "compute_local_stride", "compute_local_tensor_info"]  # fmt: skip


def compute_local_shape_and_global_offset(
    global_shape: Sequence[int], mesh: DeviceMesh, placements: Sequence[Placement], skip_offset: bool = False
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The shape of this rank's part of a tensor, and where it begins in the whole."""
    return local_shape_and_offset(global_shape, mesh, placements)


def compute_global_tensor_info(
    tensor: torch.Tensor, mesh: DeviceMesh, placements: Sequence[Placement]
) -> tuple[list[int], list[int]]:
    """The whole tensor's shape and stride, if every rank's part is like this one."""
    return whole_shape_and_stride(tensor, mesh, placements)


def compute_global_tensor_shape(shape: torch.Size, mesh: DeviceMesh, placements: Sequence[Placement]) -> torch.Size:
    """The whole tensor's shape, if every rank's part has this one."""
    whole = list(shape)
    for i, placement in enumerate(placements):
        if placement.is_shard():
            whole[placement.dim] *= mesh.size(i)  # type: ignore[attr-defined]
    return torch.Size(whole)


def compute_local_stride(global_stride: Sequence[int], mesh: DeviceMesh, placements: Sequence[Placement]) -> tuple[int, ...]:
    """The stride of a rank's part, if the whole tensor's memory is as dense as this says."""
    stride = list(global_stride)
    for i, placement in enumerate(placements):
        if placement.is_shard():
            own = global_stride[placement.dim]  # type: ignore[attr-defined]
            stride = [step // mesh.size(i) if whole > own else step for step, whole in zip(stride, global_stride, strict=True)]
    return tuple(stride)


def compute_local_tensor_info(
    global_tensor: torch.Tensor, mesh: DeviceMesh, placements: Sequence[Placement]
) -> tuple[list[int], list[int]]:
    """The shape and stride of this rank's part of a tensor."""
    shape, _ = local_shape_and_offset(global_tensor.shape, mesh, placements)
    return list(shape), list(compute_local_stride(global_tensor.stride(), mesh, placements))
