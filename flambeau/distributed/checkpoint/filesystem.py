"""torch.distributed.checkpoint.filesystem: a checkpoint as a folder: a file of data per rank, and `.metadata`.

Entries are written one after the other, each as torch.save writes it. The metadata comes last, under another name that is then
changed, so that there is always a whole checkpoint in the folder: the one before until then, whose files are removed after it.
"""

from __future__ import annotations

import io
import os
import pathlib
import uuid
from typing import Any

import flambeau as torch
from flambeau.distributed.checkpoint import _metadata_file
from flambeau.distributed.checkpoint._entries import StorageInfo
from flambeau.distributed.checkpoint._entries import StorageInfo as _StorageInfo  # noqa: F401 - pickles find it here
from flambeau.distributed.checkpoint.metadata import Metadata, StorageMeta
from flambeau.distributed.checkpoint.planner import (
    LoadItemType,
    LoadPlan,
    LoadPlanner,
    SavePlan,
    SavePlanner,
    WriteItemType,
)
from flambeau.distributed.checkpoint.storage import PathLike, StorageReader, StorageWriter, WriteResult
from flambeau.futures import Future

__all__ = ["FileSystemReader", "FileSystemWriter"]

_SUFFIX = ".distcp"


def _done(value: Any) -> Any:
    future: Any = Future()
    future.set_result(value)
    return future


def _is_folder_name(name: PathLike) -> bool:
    text = os.fspath(name)
    return isinstance(text, str) and "://" not in text


class FileSystemWriter(StorageWriter):
    """Writes a checkpoint into a folder, which is made if it isn't there.

    Args:
        path: the folder.
        single_file_per_rank: a file per rank rather than per entry.
        sync_files: wait until what is written is on the disk.
        overwrite: an earlier checkpoint in the folder may be replaced (RuntimeError otherwise); it is there until the new one is.
        thread_count, per_thread_copy_ahead, cache_staged_state_dict: taken for what they allow.
    """

    def __init__(
        self,
        path: PathLike,
        single_file_per_rank: bool = True,
        sync_files: bool = True,
        thread_count: int = 1,
        per_thread_copy_ahead: int = 10_000_000,
        cache_staged_state_dict: bool = False,
        overwrite: bool = True,
        **_: Any,
    ) -> None:
        self.single_file_per_rank, self.sync_files, self.overwrite = single_file_per_rank, sync_files, overwrite
        self.reset(path)

    def reset(self, checkpoint_id: PathLike | None = None) -> None:
        if checkpoint_id is not None:
            self.path = pathlib.Path(checkpoint_id)
        self.save_id = str(uuid.uuid4())
        self.rank = 0

    @property
    def checkpoint_id(self) -> PathLike:
        """The folder."""
        return self.path

    def set_up_storage_writer(self, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        self.is_coordinator, self.rank = is_coordinator, int(kwargs.get("rank") or 0)

    def prepare_local_plan(self, plan: SavePlan) -> SavePlan:
        self.path.mkdir(parents=True, exist_ok=True)
        if (self.path / ".metadata").exists() and not self.overwrite:
            raise RuntimeError(f"Checkpoint already exists and self.overwrite={self.overwrite}.")
        return plan

    def prepare_global_plan(self, plans: list[SavePlan]) -> list[SavePlan]:
        return plans

    def write_data(self, plan: SavePlan, planner: SavePlanner) -> Any:
        # Bytes first: they are small, and what reads a file from its beginning finds them.
        items = sorted(plan.items, key=lambda item: item.type is not WriteItemType.BYTE_IO)
        groups = [items] if self.single_file_per_rank else [[item] for item in items]
        return _done([result for group in groups if group for result in self._write_file(group, planner)])

    def _write_file(self, items: list[Any], planner: SavePlanner) -> list[WriteResult]:
        results = []
        name, file = self._new_file()
        with file:
            for item in items:
                start = file.tell()
                data = planner.resolve_data(item)
                if isinstance(data, torch.Tensor):
                    torch.save(data.detach().clone(memory_format=torch.contiguous_format), file)
                else:
                    file.write(data.getbuffer())
                length = file.tell() - start
                results.append(WriteResult(item.index, length, StorageInfo(name, start, length)))
            file.flush()
            if self.sync_files:
                os.fsync(file.fileno())
        return results

    def _new_file(self) -> tuple[str, Any]:
        """A file of this rank under a name that no file of the folder has: those of the checkpoint before stay."""
        count = 0
        while True:
            name = f"__{self.rank}_{count}{_SUFFIX}"
            try:
                return name, open(self.path / name, "xb")
            except FileExistsError:
                count += 1

    def finish(self, metadata: Metadata, results: list[list[WriteResult]]) -> None:
        metadata.storage_data = {result.index: result.storage_data for each in results for result in each}
        metadata.storage_meta = self.storage_meta()
        temporary = self.path / ".metadata.tmp"
        with open(temporary, "wb") as file:
            file.write(_metadata_file.write(metadata))
            file.flush()
            if self.sync_files:
                os.fsync(file.fileno())
        os.replace(temporary, self.path / ".metadata")
        kept = {entry.relative_path for entry in metadata.storage_data.values()}
        for found in self.path.glob(f"__*{_SUFFIX}"):
            if found.name not in kept:
                found.unlink(missing_ok=True)

    def storage_meta(self) -> StorageMeta | None:
        return StorageMeta(checkpoint_id=str(self.path), save_id=self.save_id)

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: PathLike) -> bool:
        return _is_folder_name(checkpoint_id)


class FileSystemReader(StorageReader):
    """Reads a checkpoint from a folder, this package's or PyTorch's."""

    def __init__(self, path: PathLike, **_: Any) -> None:
        self.storage_data: dict[Any, StorageInfo] = {}
        self.reset(path)

    def reset(self, checkpoint_id: PathLike | None = None) -> None:
        if checkpoint_id is not None:
            self.path = pathlib.Path(checkpoint_id)
        self.load_id = str(uuid.uuid4())

    @property
    def checkpoint_id(self) -> PathLike:
        """The folder."""
        return self.path

    def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:
        with open(self.path / ".metadata", "rb") as file:
            return _metadata_file.read(file)

    def set_up_storage_reader(self, metadata: Metadata, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        self.storage_data = metadata.storage_data

    def prepare_local_plan(self, plan: LoadPlan) -> LoadPlan:
        return plan

    def prepare_global_plan(self, plans: list[LoadPlan]) -> list[LoadPlan]:
        return plans

    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> Any:
        by_file: dict[str, list[Any]] = {}
        for item in plan.items:
            by_file.setdefault(self._place(item).relative_path, []).append(item)
        for name, items in by_file.items():
            with open(self._inside(name), "rb") as file:
                size = os.fstat(file.fileno()).st_size
                for item in sorted(items, key=lambda each: self._place(each).offset):
                    self._read(file, size, item, planner)
        return _done(None)

    def _place(self, item: Any) -> StorageInfo:
        place = self.storage_data.get(item.storage_index) if isinstance(self.storage_data, dict) else None
        if not isinstance(place, StorageInfo):
            raise RuntimeError(f"the checkpoint in {self.path} doesn't say where {item.storage_index.fqn} is stored")
        if place.transform_descriptors:
            raise NotImplementedError(
                f"{item.storage_index.fqn} is stored transformed ({place.transform_descriptors}); read it with PyTorch"
            )
        return place

    def _inside(self, name: str) -> pathlib.Path:
        path = self.path / name
        if not path.resolve().is_relative_to(self.path.resolve()):
            raise RuntimeError(f"the checkpoint in {self.path} names a file outside of its folder: {name!r}")
        return path

    def _read(self, file: Any, size: int, item: Any, planner: LoadPlanner) -> None:
        place = self._place(item)
        if place.offset < 0 or place.length < 0 or place.offset + place.length > size:
            raise RuntimeError(
                f"{file.name} has {size} bytes, but {item.storage_index.fqn} should lie at {place.offset} "
                f"with {place.length}: the file is cut off, or of another checkpoint"
            )
        file.seek(place.offset)
        content = io.BytesIO(file.read(place.length))
        if item.type is LoadItemType.BYTE_IO:
            planner.load_bytes(item, content)
            return
        stored = torch.load(content, map_location="cpu", weights_only=True)
        if not isinstance(stored, torch.Tensor):
            raise RuntimeError(f"{item.storage_index.fqn} is stored as a {type(stored).__name__}, not as a tensor")
        for dim, (start, length) in enumerate(zip(item.storage_offsets, item.lengths, strict=True)):
            if length != stored.size(dim):
                stored = stored.narrow(dim, start, length)
        target = planner.resolve_tensor(item).detach()
        if target.size() != stored.size():
            raise AssertionError(f"req {item.storage_index} mismatch sizes {target.size()} vs {stored.size()}")
        target.copy_(stored)
        planner.commit_tensor(item, target)

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: PathLike) -> bool:
        return _is_folder_name(checkpoint_id)
