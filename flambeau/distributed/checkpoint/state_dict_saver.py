"""torch.distributed.checkpoint.save and async_save: state dicts that several ranks write together.

Stands on `_writing`; `_background` has the thread and the process in which saves run that a program doesn't wait for.
"""

from __future__ import annotations

import warnings
from concurrent.futures import Future
from dataclasses import dataclass
from enum import Enum
from typing import Any

import flambeau as torch
from flambeau.distributed.checkpoint import _background
from flambeau.distributed.checkpoint._storage_utils import storage_for
from flambeau.distributed.checkpoint._together import Together, check_coordinator
from flambeau.distributed.checkpoint._writing import write_together
from flambeau.distributed.checkpoint.default_planner import DefaultSavePlanner
from flambeau.distributed.checkpoint.logger import logged
from flambeau.distributed.checkpoint.metadata import Metadata
from flambeau.distributed.checkpoint.planner import SavePlanner
from flambeau.distributed.checkpoint.staging import AsyncStager, BlockingAsyncStager
from flambeau.distributed.checkpoint.stateful import Stateful
from flambeau.distributed.checkpoint.storage import PathLike, StorageWriter

__all__ = ["AsyncCheckpointerType", "AsyncSaveResponse", "async_save", "save", "save_state_dict"]


class AsyncCheckpointerType(Enum):
    """What an asynchronous save runs in."""

    THREAD = "thread"
    PROCESS = "process"


@dataclass
class AsyncSaveResponse:
    """Futures of a save whose copy is made in the background too: of the copy, and of what is written."""

    staging_completion: Future[None]
    upload_completion: Future[Any]


@logged
def save(
    state_dict: dict[str, Any],
    *,
    checkpoint_id: PathLike | None = None,
    storage_writer: StorageWriter | None = None,
    planner: SavePlanner | None = None,
    process_group: Any = None,
    no_dist: bool = False,
    use_collectives: bool = True,
) -> Metadata:
    """Saves a state dict; every rank of the group calls it with its own, in which DTensors are parts of one.

    Args:
        state_dict: tensors, DTensors, anything torch.save takes, nested in dicts and lists; objects with a state_dict() by that.
        checkpoint_id: the folder, unless `storage_writer` says it.
        planner: decides what is written, DefaultSavePlanner by default.
        process_group: the ranks that take part, by default all. no_dist: this one alone.
        use_collectives: False: each rank writes its own state dict with metadata of its own, without asking the others; `load`
            then needs as many ranks.

    An earlier checkpoint in the folder is there until the new one is whole. Raises CheckpointException on every rank where one
    fails.
    """
    together = Together(process_group, no_dist)
    if together.alone and not no_dist:
        warnings.warn(
            "torch.distributed is disabled, unavailable or uninitialized, assuming the intent is to save in a single process.",
            stacklevel=2,
        )
    writer: StorageWriter = storage_for(storage_writer, checkpoint_id, reader=False)
    return write_together(_values(state_dict), writer, planner or DefaultSavePlanner(), together, use_collectives)


def _values(state_dict: dict[str, Any]) -> dict[str, Any]:
    return {
        key: value.state_dict() if isinstance(value, Stateful) and not isinstance(value, torch.Tensor) else value
        for key, value in state_dict.items()
    }


def save_state_dict(
    state_dict: dict[str, Any],
    storage_writer: StorageWriter,
    process_group: Any = None,
    coordinator_rank: int = 0,
    no_dist: bool = False,
    planner: SavePlanner | None = None,
) -> Metadata:
    """The older name of `save`."""
    warnings.warn("'save_state_dict' is deprecated and will be removed in future versions. Please use 'save' instead.",
                  FutureWarning, stacklevel=2)  # fmt: skip
    check_coordinator(coordinator_rank)
    storage_writer.reset()
    return write_together(state_dict, storage_writer, planner or DefaultSavePlanner(), Together(process_group, no_dist))


# In the background


def _stager(given: AsyncStager | None, writer: StorageWriter) -> AsyncStager:
    if given is not None:
        return given
    return writer if isinstance(writer, AsyncStager) else BlockingAsyncStager()


@logged
def async_save(
    state_dict: dict[str, Any],
    *,
    checkpoint_id: PathLike | None = None,
    storage_writer: StorageWriter | None = None,
    planner: SavePlanner | None = None,
    process_group: Any = None,
    async_checkpointer_type: AsyncCheckpointerType = AsyncCheckpointerType.THREAD,
    async_stager: AsyncStager | None = None,
    no_dist: bool = False,
    use_collectives: bool = True,
) -> Future[Metadata] | AsyncSaveResponse:
    """`save` in the background, of a copy. Returns a future of the metadata.

    Args:
        async_checkpointer_type: THREAD: in a thread of this process. PROCESS: in a process of its own beside each rank's, which
            are started with the first save, so that Python's lock isn't shared; the writer and the planner have to be picklable.
        async_stager: makes the copy, by default the writer or else BlockingAsyncStager, which are done when this returns. Where
            its `stage` returns a future, so does this: an AsyncSaveResponse with it. The caller closes it.
        process_group: one that nothing else sends through meanwhile, by default one is made.

    Saves run one after the other. Programs call `result()` of each, and don't end before.
    """
    writer: StorageWriter = storage_for(storage_writer, checkpoint_id, reader=False)
    together = Together(_background.group(process_group, no_dist), no_dist)
    stager = _stager(async_stager, writer)
    copy = stager.stage(_values(state_dict))
    options = {"planner": planner or DefaultSavePlanner(), "use_collectives": use_collectives}

    def run() -> Metadata:
        values = copy.result() if isinstance(copy, Future) else copy
        if async_checkpointer_type is AsyncCheckpointerType.PROCESS:
            return _background.in_process(together, values, writer, **options)
        return write_together(values, writer, together=together, **options)

    if async_checkpointer_type is AsyncCheckpointerType.PROCESS:
        _background.start_process(together)
    future: Future[Metadata] = _background.submit(run)
    if stager.should_synchronize_after_execute:
        stager.synchronize_staging()
    return AsyncSaveResponse(copy, future) if isinstance(copy, Future) else future
