"""torch.distributed.checkpoint.planner_helpers: items of plans: what a rank has of a value, and what it needs of a stored one.

Used by `default_planner`.
"""

from __future__ import annotations

import itertools
from typing import Any

import flambeau as torch
from flambeau.distributed.checkpoint.metadata import ChunkStorageMetadata, MetadataIndex, TensorProperties, TensorStorageMetadata
from flambeau.distributed.checkpoint.planner import LoadItemType, ReadItem, TensorWriteData, WriteItem, WriteItemType
from flambeau.distributed.tensor._api import DTensor
from flambeau.distributed.tensor._dtensor_spec import local_shape_and_offset

__all__ = ["box_of", "bytes_read", "create_read_items_for_chunk_list", "give_memory", "local_of", "write_item"]


def box_of(tensor: torch.Tensor) -> ChunkStorageMetadata | None:
    """The box of the whole tensor that this rank has; None if it has nothing of it."""
    if isinstance(tensor, DTensor):
        if tensor._spec.sums:
            raise ValueError(f"a DTensor that is {tensor.placements} can't be stored or loaded; redistribute it first")
        shape, offset = local_shape_and_offset(tensor.shape, tensor.device_mesh, tensor.placements)
        if not tensor.device_mesh._is_current_rank_part_of_mesh() or 0 in shape:
            return None
        return ChunkStorageMetadata(torch.Size(offset), torch.Size(shape))
    return ChunkStorageMetadata(torch.Size([0] * tensor.ndim), tensor.size())


def local_of(tensor: torch.Tensor) -> torch.Tensor:
    """The part of a tensor that this rank has."""
    tensor = tensor.detach()
    return tensor._local_tensor if isinstance(tensor, DTensor) else tensor


def give_memory(state_dict: Any) -> None:
    """Puts tensors with memory in the place of those on the meta device, in a nested state dict, to be loaded into."""
    for key, value in state_dict.items() if isinstance(state_dict, dict) else enumerate(state_dict):
        if isinstance(value, (dict, list)):
            give_memory(value)
        elif isinstance(value, torch.Tensor) and value.is_meta:
            state_dict[key] = _with_memory(value)


def _with_memory(tensor: torch.Tensor) -> torch.Tensor:
    if isinstance(tensor, DTensor):
        local = torch.empty_like(tensor._local_tensor, device=tensor.device_mesh.device_type)
        return DTensor(local, tensor._spec, requires_grad=tensor.requires_grad)
    return torch.empty_like(tensor, device="cpu")


def write_item(name: str, value: Any) -> WriteItem | None:
    """What this rank could write of a value; None if it has nothing of it."""
    if not isinstance(value, torch.Tensor):
        return WriteItem(MetadataIndex(name), WriteItemType.BYTE_IO)
    box = box_of(value)
    if box is None:
        return None
    data = TensorWriteData(box, TensorProperties.create_from_tensor(local_of(value)), value.size())
    kind = WriteItemType.SHARD if isinstance(value, DTensor) else WriteItemType.TENSOR
    return WriteItem(MetadataIndex(name, box.offsets), kind, tensor_data=data)


def bytes_read(name: str) -> ReadItem:
    """The whole of what is no tensor."""
    index, none = MetadataIndex(name), torch.Size((0,))
    return ReadItem(LoadItemType.BYTE_IO, index, none, index, none, none)


def create_read_items_for_chunk_list(
    fqn: str, checkpoint_md: TensorStorageMetadata, local_chunks: list[ChunkStorageMetadata]
) -> list[ReadItem]:
    """The overlaps of this rank's boxes of a tensor with the stored ones."""
    pairs = itertools.product(local_chunks, enumerate(checkpoint_md.chunks))
    items = [_overlap(fqn, box, stored, index) for box, (index, stored) in pairs]
    return [item for item in items if item is not None]


def _overlap(name: str, box: ChunkStorageMetadata, stored: ChunkStorageMetadata, index: int) -> ReadItem | None:
    starts = [max(a, b) for a, b in zip(box.offsets, stored.offsets, strict=True)]
    ends = [min(a + m, b + n) for a, m, b, n in zip(box.offsets, box.sizes, stored.offsets, stored.sizes, strict=True)]
    if any(end <= start for start, end in zip(starts, ends, strict=True)):
        return None
    return ReadItem(
        LoadItemType.TENSOR,
        MetadataIndex(name, box.offsets),
        torch.Size([start - own for start, own in zip(starts, box.offsets, strict=True)]),
        MetadataIndex(name, stored.offsets, index),
        torch.Size([start - own for start, own in zip(starts, stored.offsets, strict=True)]),
        torch.Size([end - start for start, end in zip(starts, ends, strict=True)]),
    )
