"""What the ranks' plans become together: each box is written once, and the metadata has all. Used by `default_planner`."""

from __future__ import annotations

import dataclasses
from typing import Any

import flambeau as torch
from flambeau.distributed.checkpoint.metadata import BytesStorageMetadata, Metadata, MetadataIndex, TensorStorageMetadata
from flambeau.distributed.checkpoint.planner import SavePlan, WriteItem

__all__ = ["check_boxes", "dedup_save_plans", "merged"]


def _nbytes(item: WriteItem) -> int:
    data = item.tensor_data
    if data is None:
        return 1
    return torch.Size(data.chunk.sizes).numel() * data.properties.dtype.itemsize


def dedup_save_plans(all_plans: list[SavePlan], save_to_lowest_rank: bool = False) -> list[SavePlan]:
    """Plans in which every entry, or box of one, is written by one rank: the lowest, or the one with least to write."""
    holders: dict[MetadataIndex, list[int]] = {}
    sizes: dict[MetadataIndex, int] = {}
    for rank, plan in enumerate(all_plans):
        for item in plan.items:
            holders.setdefault(item.index, []).append(rank)
            sizes[item.index] = _nbytes(item)
    load = [0] * len(all_plans)
    writer: dict[MetadataIndex, int] = {}
    for alone in (True, False):  # first what only one rank can write
        for index, ranks in holders.items():
            if (len(ranks) == 1) is alone:
                rank = ranks[0] if save_to_lowest_rank else min(ranks, key=lambda each: load[each])
                writer[index] = rank
                load[rank] += sizes[index]
    return [
        dataclasses.replace(plan, items=[item for item in plan.items if writer[item.index] == rank])
        for rank, plan in enumerate(all_plans)
    ]


def merged(plans: list[SavePlan]) -> tuple[list[SavePlan], dict[str, Any]]:
    """The plans, with hints where boxes stand in the metadata, and the metadata's entries. ValueError where sizes differ."""
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
                raise ValueError(f"ranks disagree on the size of {item.index.fqn}: {tuple(entry.size)} and {tuple(data.size)}")
            index = dataclasses.replace(item.index, index=len(entry.chunks))
            items.append(dataclasses.replace(item, index=index))
            entry.chunks.append(data.chunk)
        result.append(dataclasses.replace(plan, items=items))
    return result, entries


def check_boxes(metadata: Metadata) -> None:
    """ValueError for a tensor whose boxes don't make it whole."""
    for name, entry in metadata.state_dict_metadata.items():
        if not isinstance(entry, TensorStorageMetadata):
            continue
        for chunk in entry.chunks:
            if any(a < 0 or a + n > size for a, n, size in zip(chunk.offsets, chunk.sizes, entry.size, strict=True)):
                raise ValueError(f"Failed to validate global plan: {name} of {tuple(entry.size)} has a box {chunk}")
        stored = sum(chunk.sizes.numel() for chunk in entry.chunks)
        if stored != entry.size.numel():
            raise ValueError(
                f"Failed to validate global plan: the boxes of {name} have {stored} elements, the tensor of "
                f"{tuple(entry.size)} has {entry.size.numel()}"
            )
