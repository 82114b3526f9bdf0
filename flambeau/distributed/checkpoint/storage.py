"""torch.distributed.checkpoint.storage: what a place for checkpoints does. `filesystem` is the one that there is."""

from __future__ import annotations

import abc
import os
from dataclasses import dataclass
from typing import Any

from flambeau.distributed.checkpoint.metadata import Metadata, MetadataIndex, StorageMeta
from flambeau.distributed.checkpoint.planner import LoadPlan, LoadPlanner, SavePlan, SavePlanner

__all__ = ["StorageReader", "StorageWriter", "WriteResult"]

PathLike = str | os.PathLike[str]


@dataclass(frozen=True)
class WriteResult:
    """What was written, how many bytes, and where."""

    index: MetadataIndex
    size_in_bytes: int
    storage_data: Any


class StorageWriter(abc.ABC):
    """Writes a checkpoint: set up, plan (each rank, then the coordinator), write on each rank, finish on the coordinator."""

    @abc.abstractmethod
    def reset(self, checkpoint_id: PathLike | None = None) -> None:
        """Another checkpoint begins."""

    @abc.abstractmethod
    def set_up_storage_writer(self, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        """Prepares the place."""

    @abc.abstractmethod
    def prepare_local_plan(self, plan: SavePlan) -> SavePlan:
        """This rank's plan, with what the storage needs to know."""

    @abc.abstractmethod
    def prepare_global_plan(self, plans: list[SavePlan]) -> list[SavePlan]:
        """All plans, on the coordinator."""

    @abc.abstractmethod
    def write_data(self, plan: SavePlan, planner: SavePlanner) -> Any:
        """Writes this rank's items. Returns a future of a list of WriteResult."""

    @abc.abstractmethod
    def finish(self, metadata: Metadata, results: list[list[WriteResult]]) -> None:
        """Writes the metadata: from now on the checkpoint is there."""

    @classmethod
    @abc.abstractmethod
    def validate_checkpoint_id(cls, checkpoint_id: PathLike) -> bool:
        """Whether this storage takes such a name."""

    def storage_meta(self) -> StorageMeta | None:
        """What is noted of the storage."""
        return None


class StorageReader(abc.ABC):
    """Reads a checkpoint."""

    @abc.abstractmethod
    def reset(self, checkpoint_id: PathLike | None = None) -> None:
        """Another checkpoint begins."""

    @abc.abstractmethod
    def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:
        """What the checkpoint says of itself."""

    @abc.abstractmethod
    def set_up_storage_reader(self, metadata: Metadata, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        """Takes the metadata."""

    @abc.abstractmethod
    def prepare_local_plan(self, plan: LoadPlan) -> LoadPlan:
        """This rank's plan, with what the storage needs to know."""

    @abc.abstractmethod
    def prepare_global_plan(self, plans: list[LoadPlan]) -> list[LoadPlan]:
        """All plans, on the coordinator."""

    @abc.abstractmethod
    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> Any:
        """Reads this rank's items into what the planner gives. Returns a future."""

    @classmethod
    @abc.abstractmethod
    def validate_checkpoint_id(cls, checkpoint_id: PathLike) -> bool:
        """Whether this storage takes such a name."""
