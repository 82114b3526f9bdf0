"""torch.distributed.checkpoint.utils: what a state dict has at a place that metadata names."""

from __future__ import annotations

from typing import Any

import flambeau as torch
from flambeau.distributed.checkpoint.api import CheckpointException
from flambeau.distributed.checkpoint.metadata import MetadataIndex
from flambeau.distributed.checkpoint.planner_helpers import box_of, local_of

__all__ = ["CheckpointException", "find_state_dict_object", "find_tensor_shard"]


def find_tensor_shard(tensor: torch.Tensor, index: MetadataIndex) -> torch.Tensor:
    """This rank's part of a tensor, which has to begin where `index` says. ValueError if it doesn't."""
    box = box_of(tensor)
    if index.offset is None:
        return local_of(tensor)
    if box is None or box.offsets != index.offset:
        if not any(index.offset):
            return local_of(tensor)
        raise ValueError(f"FQN: '{index.fqn}' is not a ShardedTensor or DTensor, can't find by offset: '{index.offset}'")
    return local_of(tensor)


def find_state_dict_object(state_dict: dict[str, Any], index: MetadataIndex) -> Any:
    """A flat state dict's value, of a tensor the part. ValueError for a name that it lacks, or a value that has no such part."""
    if index.fqn not in state_dict:
        raise ValueError(f"Could not find FQN: '{index.fqn}'")
    value = state_dict[index.fqn]
    if isinstance(value, torch.Tensor):
        return find_tensor_shard(value, index)
    if index.offset is not None:
        raise ValueError(f"FQN: '{index.fqn}' is not a ShardedTensor, can't find by offset: '{index.offset}'")
    return value
