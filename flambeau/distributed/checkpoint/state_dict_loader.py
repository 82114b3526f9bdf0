"""torch.distributed.checkpoint.load: state dicts that several ranks read, cut in any way, from what any number wrote."""

from __future__ import annotations

import warnings
from typing import Any

import flambeau as torch
from flambeau.distributed.checkpoint._storage_utils import call_with_known, storage_for
from flambeau.distributed.checkpoint._together import Together, check_coordinator
from flambeau.distributed.checkpoint.default_planner import DefaultLoadPlanner, _EmptyStateDictLoadPlanner
from flambeau.distributed.checkpoint.logger import logged
from flambeau.distributed.checkpoint.planner import LoadPlanner
from flambeau.distributed.checkpoint.stateful import Stateful
from flambeau.distributed.checkpoint.storage import PathLike, StorageReader

__all__ = ["load", "load_state_dict"]


@logged
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
    reader: StorageReader = storage_for(storage_reader, checkpoint_id, reader=True)
    keys = sorted({key for each in together._gathered(list(state_dict)) for key in each}, key=str)
    stateful = {
        key: state_dict[key]
        for key in keys
        if key in state_dict and isinstance(state_dict[key], Stateful) and not isinstance(state_dict[key], torch.Tensor)
    }
    values = {key: stateful[key].state_dict() if key in stateful else value for key, value in state_dict.items()}
    read_into(values, reader, planner or DefaultLoadPlanner(), together)
    for key, value in values.items():
        if key in stateful:
            stateful[key].load_state_dict(value)
        else:
            state_dict[key] = value


@torch.no_grad()
def read_into(state_dict: dict[str, Any], reader: StorageReader, planner: LoadPlanner, together: Together) -> None:
    """Fills a state dict; every rank of `together` calls it."""

    def plan() -> Any:
        metadata = call_with_known(reader.read_metadata, rank=together.rank)
        planner.set_up_planner(state_dict, metadata, together.is_coordinator)
        call_with_known(reader.set_up_storage_reader, metadata, together.is_coordinator, rank=together.rank)
        return reader.prepare_local_plan(planner.create_local_plan())

    own = together.reduce_scatter("plan", plan, lambda plans: reader.prepare_global_plan(planner.create_global_plan(plans)))
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
    _load_state_dict(state_dict, storage_reader, process_group, coordinator_rank, no_dist, planner)


def _load_state_dict(
    state_dict: dict[str, Any],
    storage_reader: StorageReader,
    process_group: Any = None,
    coordinator_rank: int = 0,
    no_dist: bool = False,
    planner: LoadPlanner | None = None,
) -> None:
    """What `load` does, for a state dict without objects that have state dicts."""
    check_coordinator(coordinator_rank)
    read_into(state_dict, storage_reader, planner or DefaultLoadPlanner(), Together(process_group, no_dist))


def _load_state_dict_from_keys(
    keys: set[str] | str | None = None,
    *,
    checkpoint_id: PathLike | None = None,
    storage_reader: StorageReader | None = None,
    process_group: Any = None,
) -> dict[str, Any]:
    """A new state dict with what a checkpoint has under names that begin so, whole, by default all."""
    reader: StorageReader = storage_for(storage_reader, checkpoint_id, reader=True)
    chosen = {keys} if isinstance(keys, str) else keys
    together = Together(process_group)
    result: dict[str, Any] = {}
    read_into(result, reader, _EmptyStateDictLoadPlanner(chosen), together)
    return result


def whole_state_dict(reader: StorageReader) -> dict[str, Any]:
    """Everything that a checkpoint has, read by this rank alone, nested as it was saved."""
    result: dict[str, Any] = {}
    read_into(result, reader, _EmptyStateDictLoadPlanner(), Together(alone=True))
    return result
