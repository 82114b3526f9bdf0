"""torch.distributed.checkpoint.save and async_save: state dicts that several ranks write together."""

from __future__ import annotations

import os
import threading
import warnings
from concurrent.futures import Future, ThreadPoolExecutor
from enum import Enum
from typing import Any

import flambeau as torch
from flambeau.distributed import distributed_c10d as c10d
from flambeau.distributed.checkpoint._together import Together
from flambeau.distributed.checkpoint.default_planner import DefaultSavePlanner
from flambeau.distributed.checkpoint.filesystem import FileSystemWriter
from flambeau.distributed.checkpoint.metadata import Metadata
from flambeau.distributed.checkpoint.planner import SavePlanner
from flambeau.distributed.checkpoint.stateful import Stateful
from flambeau.distributed.checkpoint.storage import PathLike, StorageWriter
from flambeau.distributed.tensor._api import DTensor

__all__ = ["AsyncCheckpointerType", "async_save", "save", "save_state_dict"]


class AsyncCheckpointerType(Enum):
    """What an asynchronous save runs in."""

    THREAD = "thread"
    PROCESS = "process"


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

    An earlier checkpoint in the folder is there until the new one is whole. Raises CheckpointException on every rank where one
    fails.
    """
    together = Together(process_group, no_dist)
    if together.alone and not no_dist:
        warnings.warn(
            "torch.distributed is disabled, unavailable or uninitialized, assuming the intent is to save in a single process.",
            stacklevel=2,
        )
    writer = _writer(storage_writer, checkpoint_id)
    return _write(_values(state_dict), writer, planner or DefaultSavePlanner(), together)


def _writer(writer: StorageWriter | None, checkpoint_id: PathLike | None) -> StorageWriter:
    if writer is not None:
        writer.reset(checkpoint_id)
        return writer
    if checkpoint_id is None:
        raise RuntimeError("`checkpoint_id` must be specificed if storage_reader/storage_writer is None.")
    if not FileSystemWriter.validate_checkpoint_id(checkpoint_id):
        raise RuntimeError(
            f"Cannot detect the storage for {checkpoint_id!r}: a folder is what checkpoints are written to here"
        )
    return FileSystemWriter(checkpoint_id)


def _values(state_dict: dict[str, Any]) -> dict[str, Any]:
    return {
        key: value.state_dict() if isinstance(value, Stateful) and not isinstance(value, torch.Tensor) else value
        for key, value in state_dict.items()
    }


def _write(state_dict: dict[str, Any], writer: StorageWriter, planner: SavePlanner, together: Together) -> Metadata:
    central: list[Metadata] = []

    def plan() -> Any:
        planner.set_up_planner(state_dict, writer.storage_meta(), together.is_coordinator)
        writer.set_up_storage_writer(together.is_coordinator, rank=together.rank, use_collectives=True)
        return writer.prepare_local_plan(planner.create_local_plan())

    def bring_together(plans: list[Any]) -> list[Any]:
        made, metadata = planner.create_global_plan(plans)
        central.append(metadata)
        return writer.prepare_global_plan(made)

    own = together.reduce_scatter("plan", plan, bring_together)

    def write() -> Any:
        return writer.write_data(planner.finish_plan(own), planner).wait()

    def finish(results: list[Any]) -> Metadata:
        writer.finish(central[0], results)
        return central[0]

    result: Metadata = together.all_reduce("write", write, finish)
    return result


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
    storage_writer.reset()
    return _write(state_dict, storage_writer, planner or DefaultSavePlanner(), Together(process_group, no_dist))


# In the background

_lock = threading.Lock()
_worker: ThreadPoolExecutor | None = None
_group: Any = None


def _forget() -> None:
    """In the child of a fork, where neither the thread nor the group is."""
    global _worker, _group
    _worker = _group = None


os.register_at_fork(after_in_child=_forget)


def _background() -> tuple[ThreadPoolExecutor, Any]:
    """One thread, and a group of its own for its messages, which all ranks make together."""
    global _worker, _group
    with _lock:
        if _worker is None:
            _worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="checkpoint")
        if _group is None and c10d.is_initialized():
            _group = c10d.new_group(list(range(c10d.get_world_size())), group_desc="checkpoint")
    return _worker, _group


@torch.no_grad()
def _copied(value: Any) -> Any:
    """A value that later steps of training don't change."""
    if isinstance(value, DTensor):
        return DTensor(value._local_tensor.detach().clone(), value._spec, requires_grad=False)
    if isinstance(value, torch.Tensor):
        return value.detach().clone()
    if isinstance(value, dict):
        return {key: _copied(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)([_copied(item) for item in value])
    return value


def async_save(
    state_dict: dict[str, Any],
    *,
    checkpoint_id: PathLike | None = None,
    storage_writer: StorageWriter | None = None,
    planner: SavePlanner | None = None,
    process_group: Any = None,
    async_checkpointer_type: AsyncCheckpointerType = AsyncCheckpointerType.THREAD,
    no_dist: bool = False,
    **_: Any,
) -> Future[Metadata]:
    """`save` in the background, of a copy that is made before this returns. Returns a future of the metadata.

    Saves run one after the other, in a thread whatever `async_checkpointer_type` says; `process_group` has to be one that nothing
    else sends through meanwhile, by default one is made.
    """
    worker, group = _background()
    together = Together(process_group if process_group is not None else group, no_dist)
    writer = _writer(storage_writer, os.fspath(checkpoint_id) if checkpoint_id is not None else None)
    copy = _copied(_values(state_dict))
    return worker.submit(_write, copy, writer, planner or DefaultSavePlanner(), together)
