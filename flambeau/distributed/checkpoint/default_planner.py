"""torch.distributed.checkpoint.default_planner: boxes of tensors are written once, and read where they overlap what is asked for.

So a checkpoint is loaded by any number of ranks, however tensors are cut. Stands on `planner`,
`planner_helpers` and `_dedup_save_plans`.
"""

from __future__ import annotations

import dataclasses
import io
from typing import Any

import flambeau as torch
from flambeau.distributed.checkpoint._dedup_save_plans import check_boxes, dedup_save_plans, merged
from flambeau.distributed.checkpoint._loaded_objects import load_object
from flambeau.distributed.checkpoint._nested_dict import flatten_state_dict
from flambeau.distributed.checkpoint._traverse import set_element
from flambeau.distributed.checkpoint.metadata import Metadata, MetadataIndex, StorageMeta, TensorStorageMetadata
from flambeau.distributed.checkpoint.planner import (
    LoadPlan,
    LoadPlanner,
    ReadItem,
    SavePlan,
    SavePlanner,
    WriteItem,
    WriteItemType,
)
from flambeau.distributed.checkpoint.planner_helpers import (
    box_of,
    bytes_read,
    create_read_items_for_chunk_list,
    give_memory,
    local_of,
    write_item,
)

__all__ = [
    "DefaultLoadPlanner", "DefaultSavePlanner", "create_default_global_load_plan", "create_default_global_save_plan",
    "create_default_local_load_plan", "create_default_local_save_plan",
]  # fmt: skip


class DefaultSavePlanner(SavePlanner):
    """Writes what every rank has, what several have once.

    Args:
        flatten_state_dict: dicts and lists in the state dict are taken apart, so that their tensors are entries.
        flatten_sharded_tensors, dedup_replicated_tensors, enable_plan_caching: they make no difference: what several ranks
            have is always written once, and plans are cheap.
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
        plan = create_default_local_save_plan(self.state_dict, self.is_coordinator)
        self.plan = dataclasses.replace(plan, planner_data=self.mappings if self.flatten_state_dict else None)
        return self.plan

    def create_global_plan(self, all_plans: list[SavePlan], whole: bool = True) -> tuple[list[SavePlan], Metadata]:
        """The ranks' plans, and the metadata; ValueError where `whole` and boxes don't make a tensor whole."""
        plans, metadata = create_default_global_save_plan(dedup_save_plans(all_plans, self.lowest))
        if whole:
            check_boxes(metadata)
        mappings: dict[str, Any] = {}
        for plan in all_plans:
            mappings.update(plan.planner_data or {})
        metadata = dataclasses.replace(metadata, planner_data=mappings if self.flatten_state_dict else None, version="1.0.0")
        return plans, metadata

    def finish_plan(self, new_plan: SavePlan) -> SavePlan:
        self.plan = new_plan
        return new_plan

    def resolve_data(self, write_item: WriteItem) -> torch.Tensor | io.BytesIO:
        return self.transform_object(write_item, self.lookup_object(write_item.index))

    def lookup_object(self, index: MetadataIndex) -> Any:
        """The value of an entry, of a tensor the part that this rank has."""
        value = self.state_dict[index.fqn]
        return local_of(value) if isinstance(value, torch.Tensor) else value

    def transform_object(self, write_item: WriteItem, object: Any) -> Any:
        """What is written of a value: bytes of what is no tensor."""
        if write_item.type is WriteItemType.BYTE_IO:
            content = io.BytesIO()
            torch.save(object, content)
            return content
        return object


def create_default_local_save_plan(state_dict: dict[str, Any], is_coordinator: bool) -> SavePlan:
    """What this rank could write of a flat state dict: of DTensors its parts. All ranks write the same way."""
    return SavePlan([item for name, value in state_dict.items() if (item := write_item(name, value)) is not None])


def create_default_global_save_plan(
    all_plans: list[SavePlan], rewrite_index_hints: bool = True
) -> tuple[list[SavePlan], Metadata]:
    """All ranks' plans, in which nothing is twice any more, with hints where boxes stand in the metadata; and the metadata."""
    plans, entries = merged(all_plans)
    return plans if rewrite_index_hints else all_plans, Metadata(entries)


def create_default_local_load_plan(state_dict: dict[str, Any], metadata: Metadata, strict: bool = True) -> LoadPlan:
    """What this rank reads into a flat state dict. RuntimeError for what isn't there if `strict`, ValueError for other sizes."""
    items: list[ReadItem] = []
    for name, value in state_dict.items():
        entry = metadata.state_dict_metadata.get(name)
        if entry is None:
            if strict:
                raise RuntimeError(f"Missing key in checkpoint state_dict: {name}.")
            continue
        if isinstance(entry, TensorStorageMetadata) and isinstance(value, torch.Tensor):
            if entry.size != value.size():
                raise ValueError(f"Size mismatch between saved {entry.size} and current: {value.size()} for {name}")
            box = box_of(value)
            items += create_read_items_for_chunk_list(name, entry, [box] if box is not None else [])
        else:
            items.append(bytes_read(name))
    return LoadPlan(items)


def create_default_global_load_plan(all_plans: list[LoadPlan]) -> list[LoadPlan]:
    """All ranks' plans as they are."""
    return all_plans


class DefaultLoadPlanner(LoadPlanner):
    """Reads into the state dict's tensors, and replaces what is none.

    Args:
        flatten_state_dict: dicts and lists in the state dict are taken apart, as they were when it was saved.
        allow_partial_load: entries that the checkpoint lacks stay as they are, rather than raise RuntimeError.

    What is no tensor is read as data: of a program's own classes only those that it named by
    torch.serialization.add_safe_globals, for a pickle could run anything.
    """

    def __init__(
        self, flatten_state_dict: bool = True, flatten_sharded_tensors: bool = True, allow_partial_load: bool = False
    ) -> None:
        self.flatten_state_dict, self.allow_partial_load = flatten_state_dict, allow_partial_load
        self.mappings: dict[str, Any] = {}

    def set_up_planner(self, state_dict: dict[str, Any], metadata: Metadata | None = None, is_coordinator: bool = False) -> None:
        give_memory(state_dict)
        self.original_state_dict = state_dict
        if self.flatten_state_dict:
            state_dict, self.mappings = flatten_state_dict(state_dict)
        self.state_dict, self.metadata, self.is_coordinator = state_dict, metadata, is_coordinator

    def create_local_plan(self) -> LoadPlan:
        assert self.metadata is not None
        return create_default_local_load_plan(self.state_dict, self.metadata, not self.allow_partial_load)

    def create_global_plan(self, global_plan: list[LoadPlan]) -> list[LoadPlan]:
        return create_default_global_load_plan(global_plan)

    def finish_plan(self, central_plan: LoadPlan) -> LoadPlan:
        return central_plan

    def load_bytes(self, read_item: ReadItem, value: io.BytesIO) -> None:
        loaded = load_object(value)
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
        return local_of(self.state_dict[index.fqn])

    def transform_tensor(self, read_item: ReadItem, tensor: torch.Tensor) -> torch.Tensor:
        """The box of a part that is read."""
        for dim, (start, length) in enumerate(zip(read_item.dest_offsets, read_item.lengths, strict=True)):
            if length != tensor.size(dim):
                tensor = tensor.narrow(dim, start, length)
        return tensor


class _EmptyStateDictLoadPlanner(DefaultLoadPlanner):
    """Fills an empty state dict with whole tensors: all that a checkpoint has, or what is under names that begin with `keys`."""

    def __init__(self, keys: set[str] | None = None, *args: Any, **kwargs: Any) -> None:
        self.keys = keys
        super().__init__(*args, **kwargs)

    def _wanted(self, name: str, path: tuple[str | int, ...]) -> bool:
        """Whether a name, or what it begins with on its path, is asked for."""
        if self.keys is None or name in self.keys:
            return True
        return any(".".join(map(str, path[:end])) in self.keys for end in range(1, len(path)))

    def set_up_planner(self, state_dict: dict[str, Any], metadata: Metadata | None = None, is_coordinator: bool = False) -> None:
        assert metadata is not None
        if state_dict:
            raise AssertionError("this planner fills an empty state dict")
        paths = metadata.planner_data or {}
        for name, entry in metadata.state_dict_metadata.items():
            path = paths.get(name, (name,))
            if self._wanted(name, path):
                tensor = isinstance(entry, TensorStorageMetadata)
                value = torch.empty(entry.size, dtype=entry.properties.dtype) if tensor else None
                set_element(state_dict, path, value)
        super().set_up_planner(state_dict, metadata, is_coordinator)
