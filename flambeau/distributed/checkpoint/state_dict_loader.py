"""torch.distributed.checkpoint.load: state dicts that several ranks read, cut in any way, from what any number wrote."""

from __future__ import annotations

import warnings
from typing import Any

import flambeau as torch
from flambeau.distributed.checkpoint._nested import unflatten_state_dict
from flambeau.distributed.checkpoint._together import Together
from flambeau.distributed.checkpoint.default_planner import DefaultLoadPlanner
from flambeau.distributed.checkpoint.filesystem import FileSystemReader
from flambeau.distributed.checkpoint.metadata import TensorStorageMetadata
from flambeau.distributed.checkpoint.planner import LoadPlanner
from flambeau.distributed.checkpoint.stateful import Stateful
from flambeau.distributed.checkpoint.storage import PathLike, StorageReader

__all__ = ["load", "load_state_dict"]


def load(
    state_dict: dict[str, Any],
    *,
    checkpoint_id: PathLike | None = None,
    storage_reader: StorageReader | None = None,
    planner: LoadPlanner | None = None,
    process_group: Any = None,
    no_dist: bool = False,
) -> None:
    """Loads a checkpoint into a state dict: its tensors are filled in place, what is none is replaced.

    Args:
        state_dict: what is to be loaded; objects with load_state_dict() are given what was loaded for them. RuntimeError for what
            the checkpoint lacks, ValueError where a size differs.
        checkpoint_id: the folder, unless `storage_reader` says it.
        planner: decides what is read, DefaultLoadPlanner by default.
        process_group: the ranks that take part, by default all. no_dist: this one alone.

    Raises CheckpointException on every rank where one fails.
    """
    together = Together(process_group, no_dist)
    if together.alone and not no_dist:
        warnings.warn(
            "torch.distributed is disabled, unavailable or uninitialized, assuming the intent is to load in a single process.",
            stacklevel=2,
        )
    if storage_reader is None:
        if checkpoint_id is None:
            raise RuntimeError("`checkpoint_id` must be specificed if storage_reader/storage_writer is None.")
        storage_reader = FileSystemReader(checkpoint_id)
    else:
        storage_reader.reset(checkpoint_id)
    keys = sorted({key for each in together._gathered(list(state_dict)) for key in each}, key=str)
    stateful = {
        key: state_dict[key]
        for key in keys
        if key in state_dict and isinstance(state_dict[key], Stateful) and not isinstance(state_dict[key], torch.Tensor)
    }
    values = {key: stateful[key].state_dict() if key in stateful else value for key, value in state_dict.items()}
    _read(values, storage_reader, planner or DefaultLoadPlanner(), together)
    for key, value in values.items():
        if key in stateful:
            stateful[key].load_state_dict(value)
        else:
            state_dict[key] = value


@torch.no_grad()
def _read(state_dict: dict[str, Any], reader: StorageReader, planner: LoadPlanner, together: Together) -> None:
    def plan() -> Any:
        metadata = reader.read_metadata()
        planner.set_up_planner(state_dict, metadata, together.is_coordinator)
        reader.set_up_storage_reader(metadata, together.is_coordinator, rank=together.rank)
        return reader.prepare_local_plan(planner.create_local_plan())

    own = together.reduce_scatter(
        "plan", plan, lambda plans: reader.prepare_global_plan(planner.create_global_plan(plans))
    )
    together.all_reduce("read", lambda: reader.read_data(planner.finish_plan(own), planner).wait(), lambda _: None)


def load_state_dict(
    state_dict: dict[str, Any],
    storage_reader: StorageReader,
    process_group: Any = None,
    coordinator_rank: int = 0,
    no_dist: bool = False,
    planner: LoadPlanner | None = None,
) -> None:
    """The older name of `load`."""
    warnings.warn("'load_state_dict' is deprecated and will be removed in future versions. Please use 'load' instead.",
                  FutureWarning, stacklevel=2)  # fmt: skip
    storage_reader.reset()
    _read(state_dict, storage_reader, planner or DefaultLoadPlanner(), Together(process_group, no_dist))


def whole_state_dict(reader: StorageReader) -> dict[str, Any]:
    """Everything that a checkpoint has, read by this rank alone, nested as it was saved."""
    metadata = reader.read_metadata()
    flat: dict[str, Any] = {}
    for name, entry in metadata.state_dict_metadata.items():
        tensor = isinstance(entry, TensorStorageMetadata)
        flat[name] = torch.empty(entry.size, dtype=entry.properties.dtype) if tensor else None
    _read(flat, reader, DefaultLoadPlanner(flatten_state_dict=False), Together(alone=True))
    return unflatten_state_dict(flat, metadata.planner_data) if metadata.planner_data else flat
