"""torch.distributed.checkpoint.default_planner: boxes of tensors are written once, and read where they overlap what is asked for.

So a checkpoint is loaded by any number of ranks, however tensors are cut. Stands on `planner`.
"""

from __future__ import annotations

import dataclasses
import io
from typing import Any

import flambeau as torch
from flambeau.distributed.checkpoint._nested import flatten_state_dict, set_element
from flambeau.distributed.checkpoint.metadata import (
    BytesStorageMetadata,
    ChunkStorageMetadata,
    Metadata,
    MetadataIndex,
    StorageMeta,
    TensorProperties,
    TensorStorageMetadata,
)
from flambeau.distributed.checkpoint.planner import (
    LoadItemType,
    LoadPlan,
    LoadPlanner,
    ReadItem,
    SavePlan,
    SavePlanner,
    TensorWriteData,
    WriteItem,
    WriteItemType,
)
from flambeau.distributed.tensor._api import DTensor
from flambeau.distributed.tensor._dtensor_spec import local_shape_and_offset

__all__ = ["DefaultLoadPlanner", "DefaultSavePlanner"]


def _box(tensor: torch.Tensor) -> ChunkStorageMetadata | None:
    """The box of the whole tensor that this rank has; None if it has nothing of it."""
    if isinstance(tensor, DTensor):
        if tensor._spec.sums:
            raise ValueError(f"a DTensor that is {tensor.placements} can't be stored or loaded; redistribute it first")
        shape, offset = local_shape_and_offset(tensor.shape, tensor.device_mesh, tensor.placements)
        if not tensor.device_mesh._is_current_rank_part_of_mesh() or 0 in shape:
            return None
        return ChunkStorageMetadata(torch.Size(offset), torch.Size(shape))
    return ChunkStorageMetadata(torch.Size([0] * tensor.ndim), tensor.size())


def _local(tensor: torch.Tensor) -> torch.Tensor:
    tensor = tensor.detach()
    return tensor._local_tensor if isinstance(tensor, DTensor) else tensor


class DefaultSavePlanner(SavePlanner):
    """Writes what every rank has, what several have once.

    Args:
        flatten_state_dict: dicts and lists in the state dict are taken apart, so that their tensors are entries.
        flatten_sharded_tensors, dedup_replicated_tensors: taken for what they allow.
        dedup_save_to_lowest_rank: what several ranks have is written by the lowest rather than by the one with least to write.
    """

    def __init__(
        self,
        flatten_state_dict: bool = True,
        flatten_sharded_tensors: bool = True,
        dedup_replicated_tensors: bool | None = None,
        dedup_save_to_lowest_rank: bool = False,
        enable_plan_caching: bool = False,
    ) -> None:
        self.flatten_state_dict, self.lowest = flatten_state_dict, dedup_save_to_lowest_rank
        self.mappings: dict[str, Any] = {}

    def set_up_planner(
        self, state_dict: dict[str, Any], storage_meta: StorageMeta | None = None, is_coordinator: bool = False
    ) -> None:
        if self.flatten_state_dict:
            state_dict, self.mappings = flatten_state_dict(state_dict)
        self.state_dict, self.is_coordinator = state_dict, is_coordinator

    def create_local_plan(self) -> SavePlan:
        items = [item for name, value in self.state_dict.items() if (item := _write_item(name, value)) is not None]
        self.plan = SavePlan(items, planner_data=self.mappings if self.flatten_state_dict else None)
        return self.plan

    def create_global_plan(self, all_plans: list[SavePlan]) -> tuple[list[SavePlan], Metadata]:
        plans = _without_copies(all_plans, self.lowest)
        plans, entries = _merged(plans)
        mappings: dict[str, Any] = {}
        for plan in all_plans:
            mappings.update(plan.planner_data or {})
        metadata = Metadata(entries, planner_data=mappings if self.flatten_state_dict else None, version="1.0.0")
        return plans, metadata

    def finish_plan(self, new_plan: SavePlan) -> SavePlan:
        self.plan = new_plan
        return new_plan

    def resolve_data(self, write_item: WriteItem) -> torch.Tensor | io.BytesIO:
        return self.transform_object(write_item, self.lookup_object(write_item.index))

    def lookup_object(self, index: MetadataIndex) -> Any:
        """The value of an entry, of a tensor the part that this rank has."""
        value = self.state_dict[index.fqn]
        return _local(value) if isinstance(value, torch.Tensor) else value

    def transform_object(self, write_item: WriteItem, object: Any) -> Any:
        """What is written of a value: bytes of what is no tensor."""
        if write_item.type is WriteItemType.BYTE_IO:
            content = io.BytesIO()
            torch.save(object, content)
            return content
        return object


def _write_item(name: str, value: Any) -> WriteItem | None:
    if not isinstance(value, torch.Tensor):
        return WriteItem(MetadataIndex(name), WriteItemType.BYTE_IO)
    box = _box(value)
    if box is None:
        return None
    data = TensorWriteData(box, TensorProperties.create_from_tensor(_local(value)), value.size())
    kind = WriteItemType.SHARD if isinstance(value, DTensor) else WriteItemType.TENSOR
    return WriteItem(MetadataIndex(name, box.offsets), kind, tensor_data=data)


def _bytes(item: WriteItem) -> int:
    data = item.tensor_data
    if data is None:
        return 1
    return torch.Size(data.chunk.sizes).numel() * data.properties.dtype.itemsize


def _without_copies(plans: list[SavePlan], lowest: bool) -> list[SavePlan]:
    """Plans in which every entry, or box of one, is written by one rank."""
    holders: dict[MetadataIndex, list[int]] = {}
    sizes: dict[MetadataIndex, int] = {}
    for rank, plan in enumerate(plans):
        for item in plan.items:
            holders.setdefault(item.index, []).append(rank)
            sizes[item.index] = _bytes(item)
    load = [0] * len(plans)
    writer: dict[MetadataIndex, int] = {}
    for alone in (True, False):  # first what only one rank can write
        for index, ranks in holders.items():
            if (len(ranks) == 1) is alone:
                rank = ranks[0] if lowest else min(ranks, key=lambda each: load[each])
                writer[index] = rank
                load[rank] += sizes[index]
    return [
        dataclasses.replace(plan, items=[item for item in plan.items if writer[item.index] == rank])
        for rank, plan in enumerate(plans)
    ]


def _merged(plans: list[SavePlan]) -> tuple[list[SavePlan], dict[str, Any]]:
    """The plans, with hints where boxes stand in the metadata, and the metadata's entries. ValueError where boxes don't fit."""
    entries: dict[str, Any] = {}
    result = []
    for plan in plans:
        items = []
        for item in plan.items:
            if item.tensor_data is None:
                entries[item.index.fqn] = BytesStorageMetadata()
                items.append(item)
                continue
            data = item.tensor_data
            entry = entries.setdefault(item.index.fqn, TensorStorageMetadata(data.properties, data.size, []))
            if entry.size != data.size:
                raise ValueError(
                    f"ranks disagree on the size of {item.index.fqn}: {tuple(entry.size)} and {tuple(data.size)}"
                )
            index = dataclasses.replace(item.index, index=len(entry.chunks))
            items.append(dataclasses.replace(item, index=index))
            entry.chunks.append(data.chunk)
        result.append(dataclasses.replace(plan, items=items))
    for name, entry in entries.items():
        if isinstance(entry, TensorStorageMetadata):
            stored = sum(chunk.sizes.numel() for chunk in entry.chunks)
            if stored != entry.size.numel():
                raise ValueError(
                    f"Failed to validate global plan: the boxes of {name} have {stored} elements, the tensor of "
                    f"{tuple(entry.size)} has {entry.size.numel()}"
                )
    return result, entries


class DefaultLoadPlanner(LoadPlanner):
    """Reads into the state dict's tensors, and replaces what is none.

    Args:
        flatten_state_dict: dicts and lists in the state dict are taken apart, as they were when it was saved.
        allow_partial_load: entries that the checkpoint lacks stay as they are, rather than raise RuntimeError.
    """

    def __init__(
        self, flatten_state_dict: bool = True, flatten_sharded_tensors: bool = True, allow_partial_load: bool = False
    ) -> None:
        self.flatten_state_dict, self.allow_partial_load = flatten_state_dict, allow_partial_load
        self.mappings: dict[str, Any] = {}

    def set_up_planner(
        self, state_dict: dict[str, Any], metadata: Metadata | None = None, is_coordinator: bool = False
    ) -> None:
        self.original_state_dict = state_dict
        if self.flatten_state_dict:
            state_dict, self.mappings = flatten_state_dict(state_dict)
        self.state_dict, self.metadata, self.is_coordinator = state_dict, metadata, is_coordinator

    def create_local_plan(self) -> LoadPlan:
        assert self.metadata is not None
        items: list[ReadItem] = []
        for name, value in self.state_dict.items():
            entry = self.metadata.state_dict_metadata.get(name)
            if entry is None:
                if self.allow_partial_load:
                    continue
                raise RuntimeError(f"Missing key in checkpoint state_dict: {name}.")
            if isinstance(entry, TensorStorageMetadata) and isinstance(value, torch.Tensor):
                if entry.size != value.size():
                    raise ValueError(
                        f"Size mismatch between saved {entry.size} and current: {value.size()} for {name}",
                    )
                items += _tensor_reads(name, entry, value)
            else:
                items.append(_bytes_read(name))
        return LoadPlan(items)

    def create_global_plan(self, global_plan: list[LoadPlan]) -> list[LoadPlan]:
        return global_plan

    def finish_plan(self, central_plan: LoadPlan) -> LoadPlan:
        return central_plan

    def load_bytes(self, read_item: ReadItem, value: io.BytesIO) -> None:
        loaded = torch.load(value, weights_only=False)
        name = read_item.dest_index.fqn
        if self.flatten_state_dict:
            set_element(self.original_state_dict, self.mappings[name], loaded)
        else:
            self.state_dict[name] = loaded

    def resolve_tensor(self, read_item: ReadItem) -> torch.Tensor:
        return self.transform_tensor(read_item, self.lookup_tensor(read_item.dest_index))

    def commit_tensor(self, read_item: ReadItem, tensor: torch.Tensor) -> None:
        pass

    def lookup_tensor(self, index: MetadataIndex) -> torch.Tensor:
        """The part of an entry that this rank has."""
        return _local(self.state_dict[index.fqn])

    def transform_tensor(self, read_item: ReadItem, tensor: torch.Tensor) -> torch.Tensor:
        """The box of a part that is read."""
        for dim, (start, length) in enumerate(zip(read_item.dest_offsets, read_item.lengths, strict=True)):
            if length != tensor.size(dim):
                tensor = tensor.narrow(dim, start, length)
        return tensor


def _bytes_read(name: str) -> ReadItem:
    index, none = MetadataIndex(name), torch.Size((0,))
    return ReadItem(LoadItemType.BYTE_IO, index, none, index, none, none)


def _tensor_reads(name: str, entry: TensorStorageMetadata, tensor: torch.Tensor) -> list[ReadItem]:
    """The overlaps of this rank's box with the stored ones."""
    box = _box(tensor)
    if box is None:
        return []
    items = []
    for index, stored in enumerate(entry.chunks):
        starts = [max(a, b) for a, b in zip(box.offsets, stored.offsets, strict=True)]
        ends = [
            min(a + m, b + n) for a, m, b, n in zip(box.offsets, box.sizes, stored.offsets, stored.sizes, strict=True)
        ]
        if any(end <= start for start, end in zip(starts, ends, strict=True)):
            continue
        items.append(
            ReadItem(
                LoadItemType.TENSOR,
                MetadataIndex(name, box.offsets),
                torch.Size([start - own for start, own in zip(starts, box.offsets, strict=True)]),
                MetadataIndex(name, stored.offsets, index),
                torch.Size([start - own for start, own in zip(starts, stored.offsets, strict=True)]),
                torch.Size([end - start for start, end in zip(starts, ends, strict=True)]),
            )
        )
    return items
