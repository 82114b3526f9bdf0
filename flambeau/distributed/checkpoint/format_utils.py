"""torch.distributed.checkpoint.format_utils: checkpoints of several ranks as files of torch.save, and back. Also a command.

python -m flambeau.distributed.checkpoint.format_utils dcp_to_torch FOLDER FILE
python -m flambeau.distributed.checkpoint.format_utils torch_to_dcp FILE FOLDER
"""

from __future__ import annotations

import argparse
import os
from enum import Enum
from typing import Any

import flambeau as torch
from flambeau.distributed import distributed_c10d as c10d
from flambeau.distributed.checkpoint._nested_dict import flatten_state_dict
from flambeau.distributed.checkpoint.default_planner import (
    DefaultLoadPlanner,
    _EmptyStateDictLoadPlanner,  # noqa: F401 - programs find it here
    create_default_global_save_plan,
    create_default_local_save_plan,
)
from flambeau.distributed.checkpoint.filesystem import FileSystemReader, done, take_item
from flambeau.distributed.checkpoint.metadata import Metadata
from flambeau.distributed.checkpoint.planner import LoadItemType, LoadPlan, LoadPlanner
from flambeau.distributed.checkpoint.state_dict_loader import _load_state_dict, whole_state_dict  # noqa: F401
from flambeau.distributed.checkpoint.state_dict_saver import save
from flambeau.distributed.checkpoint.storage import PathLike, StorageReader

__all__ = ["BroadcastingTorchSaveReader", "DynamicMetaLoadPlanner", "dcp_to_torch_save", "torch_save_to_dcp"]


class BroadcastingTorchSaveReader(StorageReader):
    """Reads a file of torch.save on one rank, which sends its tensors to the others, one at a time. Use DynamicMetaLoadPlanner.

    The file is read as data only, and holds tensors by name, nested or not. coordinator_rank: who reads.
    """

    def __init__(self, checkpoint_id: PathLike | None = None, coordinator_rank: int = 0) -> None:
        self.checkpoint_id, self.coordinator_rank = checkpoint_id, coordinator_rank

    def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:
        """Nothing: what is in the file is found with the state dict."""
        return Metadata({})

    def set_up_storage_reader(self, metadata: Metadata, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        self.is_coordinator = not c10d.is_initialized() or c10d.get_rank() == self.coordinator_rank
        if self.checkpoint_id is None:
            raise AssertionError("BroadcastingTorchSaveReader needs a checkpoint_id, the file's name")

    def prepare_local_plan(self, plan: LoadPlan) -> LoadPlan:
        return plan

    def prepare_global_plan(self, plans: list[LoadPlan]) -> list[LoadPlan]:
        return plans

    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> Any:
        """Every rank calls it. RuntimeError for what the file lacks, NotImplementedError for what is no tensor."""
        found: dict[str, Any] = {}
        if self.is_coordinator:
            found, _ = flatten_state_dict(torch.load(self.checkpoint_id, map_location="cpu", weights_only=True))
        for name, items in self._wanted(plan).items():
            stored = self._sent(name, found.get(name))
            for item in items:
                take_item(item, stored, planner)
        return done(None)

    def _wanted(self, plan: LoadPlan) -> dict[str, list[Any]]:
        """The items of each name that any rank wants, in the same order on all ranks."""
        own: dict[str, list[Any]] = {}
        for item in plan.items:
            if item.type is not LoadItemType.TENSOR:
                raise NotImplementedError(f"{item.dest_index.fqn}: only tensors are broadcast; load the file by torch.load")
            own.setdefault(item.storage_index.fqn, []).append(item)
        names: list[Any] = [list(own)]
        if c10d.is_initialized():
            names = [None] * c10d.get_world_size()
            c10d.all_gather_object(names, list(own))
        return {name: own.get(name, []) for name in sorted({name for each in names for name in each})}

    def _sent(self, name: str, tensor: Any) -> torch.Tensor:
        """The coordinator's tensor, on every rank."""
        told = [(tensor.shape, tensor.dtype) if isinstance(tensor, torch.Tensor) else None]
        if c10d.is_initialized():
            c10d.broadcast_object_list(told, src=self.coordinator_rank)
        if told[0] is None:
            raise RuntimeError(f"{self.checkpoint_id} has no tensor {name}")
        shape, dtype = told[0]
        tensor = tensor.contiguous() if self.is_coordinator else torch.empty(shape, dtype=dtype)
        if c10d.is_initialized():
            c10d.broadcast(tensor, src=self.coordinator_rank)
        result: torch.Tensor = tensor
        return result

    def reset(self, checkpoint_id: PathLike | None = None) -> None:
        self.checkpoint_id = checkpoint_id

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: PathLike) -> bool:
        return os.path.isfile(checkpoint_id)


class DynamicMetaLoadPlanner(DefaultLoadPlanner):
    """Takes the state dict that is loaded into for what is stored, where the storage has no metadata of its own."""

    def set_up_planner(self, state_dict: dict[str, Any], metadata: Metadata | None = None, is_coordinator: bool = False) -> None:
        super().set_up_planner(state_dict, metadata, is_coordinator)
        whole = {
            name: torch.empty(value.shape, dtype=value.dtype, device="meta") if isinstance(value, torch.Tensor) else value
            for name, value in self.state_dict.items()
        }
        plan = create_default_local_save_plan(whole, is_coordinator)
        _, self.metadata = create_default_global_save_plan([plan])


class FormatMode(Enum):
    """The command's directions."""

    TORCH_TO_DCP = "torch_to_dcp"
    DCP_TO_TORCH = "dcp_to_torch"


def dcp_to_torch_save(dcp_checkpoint_dir: str | os.PathLike[str], torch_save_path: str | os.PathLike[str]) -> None:
    """Writes what a checkpoint's folder holds into one file. In one process; the whole has to fit into memory."""
    torch.save(whole_state_dict(FileSystemReader(dcp_checkpoint_dir)), torch_save_path)


def torch_save_to_dcp(torch_save_path: str | os.PathLike[str], dcp_checkpoint_dir: str | os.PathLike[str]) -> None:
    """Writes what a file of torch.save holds as a checkpoint's folder. The file is trusted: it may name any object."""
    state_dict = torch.load(torch_save_path, weights_only=False)
    save(state_dict, checkpoint_id=dcp_checkpoint_dir, no_dist=True)


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser()
    parser.add_argument("mode", choices=[mode.value for mode in FormatMode])
    parser.add_argument("src")
    parser.add_argument("dst")
    given = parser.parse_args()
    convert = torch_save_to_dcp if given.mode == FormatMode.TORCH_TO_DCP.value else dcp_to_torch_save
    print(f"Converting checkpoint from {given.src} to {given.dst} using method: '{given.mode}'")
    convert(given.src, given.dst)


if __name__ == "__main__":
    main()
