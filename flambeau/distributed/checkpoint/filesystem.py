"""torch.distributed.checkpoint.filesystem: a checkpoint as a folder: files of data of each rank, and `.metadata`.

Entries are written one after the other, each as torch.save writes it. The metadata comes last, under another name that is then
changed, so that there is always a whole checkpoint in the folder: the one before until then, whose files are removed after it.
Stands on `_file_systems` and `_extension`; `_fsspec_filesystem` and `hf_storage` on this.
"""

from __future__ import annotations

import contextlib
import io
import os
import posixpath
import uuid
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from enum import Enum
from itertools import count
from typing import Any

import flambeau as torch
from flambeau.distributed.checkpoint import _metadata_file
from flambeau.distributed.checkpoint._entries import StorageInfo
from flambeau.distributed.checkpoint._entries import StorageInfo as _StorageInfo  # noqa: F401 - pickles find it here
from flambeau.distributed.checkpoint._extension import ExtensionRegistry, StreamTransformExtension, inward, outward
from flambeau.distributed.checkpoint._file_systems import FileSystem, FileSystemBase
from flambeau.distributed.checkpoint.metadata import Metadata, StorageMeta
from flambeau.distributed.checkpoint.planner import (
    LoadItemType,
    LoadPlan,
    LoadPlanner,
    SavePlan,
    SavePlanner,
    WriteItem,
    WriteItemType,
)
from flambeau.distributed.checkpoint.staging import BlockingAsyncStager
from flambeau.distributed.checkpoint.storage import PathLike, StorageReader, StorageWriter, WriteResult
from flambeau.futures import Future
from flambeau.serialize.archive import ArchiveReader

__all__ = ["FileSystem", "FileSystemBase", "FileSystemReader", "FileSystemWriter", "SerializationFormat"]

_SUFFIX = ".distcp"


class SerializationFormat(Enum):
    """How tensors are written."""

    TORCH_SAVE = "torch_save"
    SAFETENSORS = "safetensors"


def done(value: Any) -> Any:
    """A future that has its value."""
    future: Any = Future()
    future.set_result(value)
    return future


def in_threads(thread_count: int, work: Any, parts: Sequence[Any]) -> list[Any]:
    """`work` of each part, by so many threads."""
    if thread_count <= 1 or len(parts) <= 1:
        return [work(part) for part in parts]
    with ThreadPoolExecutor(thread_count) as pool:
        return list(pool.map(work, parts))


def take_item(item: Any, stored: torch.Tensor, planner: LoadPlanner) -> None:
    """Gives a planner the box of a stored tensor that an item asks for."""
    for dim, (start, length) in enumerate(zip(item.storage_offsets, item.lengths, strict=True)):
        if length != stored.size(dim):
            stored = stored.narrow(dim, start, length)
    target = planner.resolve_tensor(item).detach()
    if target.size() != stored.size():
        raise AssertionError(f"req {item.storage_index} mismatch sizes {target.size()} vs {stored.size()}")
    target.copy_(stored)
    planner.commit_tensor(item, target)


def _size(item: WriteItem) -> int:
    return item.tensor_data.chunk.sizes.numel() * item.tensor_data.properties.dtype.itemsize if item.tensor_data else 0


class FileSystemWriter(BlockingAsyncStager, StorageWriter):
    """Writes a checkpoint into a folder, which is made if it isn't there.

    Args:
        path: the folder.
        single_file_per_rank: a file per rank and thread rather than per entry.
        sync_files: wait until what is written is on the disk.
        thread_count: how many threads write, each files of its own.
        per_thread_copy_ahead: bytes to copy from a device ahead of writing them: there is none here.
        cache_staged_state_dict: `stage` copies into the same memory each time.
        overwrite: an earlier checkpoint in the folder may be replaced (RuntimeError otherwise); it is there until the new one is.
        _extensions: what transforms the bytes of entries, the last first. serialization_format: TORCH_SAVE;
            NotImplementedError for SAFETENSORS, which HuggingFaceStorageWriter writes.
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
        _extensions: Sequence[StreamTransformExtension] | None = None,
        serialization_format: SerializationFormat = SerializationFormat.TORCH_SAVE,
    ) -> None:
        super().__init__(cache_staged_state_dict)
        if serialization_format is not SerializationFormat.TORCH_SAVE:
            raise NotImplementedError(
                "SerializationFormat.SAFETENSORS: use HuggingFaceStorageWriter(path, save_distributed=True)"
            )
        self.fs: FileSystemBase = FileSystem()
        self.single_file_per_rank, self.sync_files, self.overwrite = single_file_per_rank, sync_files, overwrite
        self.thread_count, self.per_thread_copy_ahead = thread_count, per_thread_copy_ahead
        self.extensions = list(_extensions or ())
        self.serialization_format = serialization_format
        self.path: Any = self.fs.init_path(path)
        self.reset()

    def reset(self, checkpoint_id: PathLike | None = None) -> None:
        if checkpoint_id is not None:
            self.path = self.fs.init_path(checkpoint_id)
        self.save_id = str(uuid.uuid4())
        self.rank, self.alone = 0, False

    @property
    def checkpoint_id(self) -> PathLike:
        """The folder."""
        return self.path

    def _in_folder(self, name: str) -> PathLike:
        return self.fs.concat_path(self.path, name)

    def set_up_storage_writer(self, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        self.is_coordinator, self.rank = is_coordinator, int(kwargs.get("rank") or 0)
        self.alone = not kwargs.get("use_collectives", True)

    def prepare_local_plan(self, plan: SavePlan) -> SavePlan:
        self.fs.mkdir(self.path)
        whole, own = self._in_folder(".metadata"), self._in_folder(self._metadata_name())
        if self.alone and self.fs.exists(whole):
            raise RuntimeError(f"{self.path} has a checkpoint of all ranks, which is read first: save each rank's elsewhere")
        if self.fs.exists(own) and not self.overwrite:
            raise RuntimeError(f"Checkpoint already exists and self.overwrite={self.overwrite}.")
        self._numbers, self._taken = count(), self._files_of(self.path)
        return plan

    def _files_of(self, path: PathLike) -> set[str]:
        """The names of the files of data that are in a folder."""
        found = {posixpath.basename(str(each).replace(os.sep, "/")) for each in self.fs.ls(path)}
        return {name for name in found if name.startswith("__") and name.endswith(_SUFFIX)}

    def _metadata_name(self) -> str:
        return f"__{self.rank}.metadata" if self.alone else ".metadata"

    def prepare_global_plan(self, plans: list[SavePlan]) -> list[SavePlan]:
        return plans

    def write_data(self, plan: SavePlan, planner: SavePlanner) -> Any:
        groups = self._shared_out(plan.items) if self.single_file_per_rank else [[item] for item in plan.items]
        written = in_threads(self.thread_count, lambda items: self._write_file(items, planner), groups)
        return done([result for results in written for result in results])

    def _shared_out(self, items: list[WriteItem]) -> list[list[WriteItem]]:
        """A file's items for each thread: about as many bytes to each, and what is no tensor first, since it is small."""
        bins: list[list[WriteItem]] = [[] for _ in range(max(1, self.thread_count))]
        load = [0] * len(bins)
        for item in sorted(items, key=lambda item: (item.type is not WriteItemType.BYTE_IO, -_size(item))):
            place = load.index(min(load))
            bins[place].append(item)
            load[place] += max(1, _size(item))
        return [each for each in bins if each]

    def _write_file(self, items: list[WriteItem], planner: SavePlanner) -> list[WriteResult]:
        results = []
        name = self._new_name()
        with self.fs.create_stream(self._in_folder(name), "wb") as file:
            for item in items:
                start = file.tell()
                self._write_item(file, planner.resolve_data(item))
                length = file.tell() - start
                descriptors = [extension.get_descriptor() for extension in self.extensions] or None
                results.append(WriteResult(item.index, length, StorageInfo(name, start, length, descriptors)))
            self._sync(file)
        return results

    def _write_item(self, file: Any, data: torch.Tensor | io.BytesIO) -> None:
        with outward(self.extensions, file) as stream:
            if isinstance(data, torch.Tensor):
                torch.save(data.detach().clone(memory_format=torch.contiguous_format), stream)
            else:
                stream.write(data.getbuffer())

    def _sync(self, file: Any) -> None:
        file.flush()
        if self.sync_files:
            with contextlib.suppress(AttributeError, io.UnsupportedOperation):  # not a file of this machine
                os.fsync(file.fileno())

    def _new_name(self) -> str:
        """The name of a file of this rank that no file of the folder has: those of the checkpoint before stay."""
        return next(name for k in self._numbers if (name := f"__{self.rank}_{k}{_SUFFIX}") not in self._taken)

    def finish(self, metadata: Metadata, results: list[list[WriteResult]]) -> None:
        metadata.storage_data = {result.index: result.storage_data for each in results for result in each}
        metadata.storage_meta = self.storage_meta()
        name = self._metadata_name()
        temporary = self._in_folder(f"{name}.tmp")
        with self.fs.create_stream(temporary, "wb") as file:
            file.write(_metadata_file.write(metadata))
            self._sync(file)
        self.fs.rename(temporary, self._in_folder(name))
        kept = {entry.relative_path for entry in metadata.storage_data.values()}
        beginning = f"__{self.rank}_" if self.alone else "__"
        for found in self._files_of(self.path) - kept:
            if found.startswith(beginning):
                self.fs.rm_file(self._in_folder(found))

    def storage_meta(self) -> StorageMeta | None:
        return StorageMeta(checkpoint_id=str(self.path), save_id=self.save_id)

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: PathLike) -> bool:
        return FileSystem.validate_checkpoint_id(checkpoint_id)


class FileSystemReader(StorageReader):
    """Reads a checkpoint from a folder, this package's or PyTorch's.

    _extension_registry: what reads transformed entries, by default what ExtensionRegistry() knows.
    """

    def __init__(self, path: PathLike, _extension_registry: ExtensionRegistry | None = None) -> None:
        self.fs: FileSystemBase = FileSystem()
        self.path: Any = self.fs.init_path(path)
        self.registry = _extension_registry or ExtensionRegistry()
        self.storage_data: dict[Any, Any] = {}
        self.reset()

    def reset(self, checkpoint_id: PathLike | None = None) -> None:
        if checkpoint_id is not None:
            self.path = self.fs.init_path(checkpoint_id)
        self.load_id = str(uuid.uuid4())

    @property
    def checkpoint_id(self) -> PathLike:
        """The folder."""
        return self.path

    def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:
        """The metadata of all ranks; where each rank has its own, that of `rank`. FileNotFoundError if there is none."""
        path = self.fs.concat_path(self.path, ".metadata")
        own = self.fs.concat_path(self.path, f"__{kwargs['rank']}.metadata") if kwargs.get("rank") is not None else path
        with self.fs.create_stream(own if not self.fs.exists(path) and self.fs.exists(own) else path, "rb") as file:
            metadata = _metadata_file.read(file)
        metadata.storage_meta = metadata.storage_meta or StorageMeta()
        metadata.storage_meta.load_id = self.load_id
        return metadata

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
            with self.fs.create_stream(self._inside(name), "rb") as file:
                size = file.seek(0, os.SEEK_END)
                for item in sorted(items, key=lambda each: self._place(each).offset):
                    self._read(file, name, size, item, planner)
        return done(None)

    def _place(self, item: Any) -> StorageInfo:
        place = self.storage_data.get(item.storage_index) if isinstance(self.storage_data, dict) else None
        if not isinstance(place, StorageInfo):
            raise RuntimeError(f"the checkpoint in {self.path} doesn't say where {item.storage_index.fqn} is stored")
        return place

    def _inside(self, name: str) -> PathLike:
        """The path of a file that the metadata names, which has to lie in the folder."""
        normal = posixpath.normpath(name.replace("\\", "/"))
        path = self.fs.concat_path(self.path, name)
        outside = isinstance(self.fs, FileSystem) and not path.resolve().is_relative_to(self.path.resolve())  # type: ignore[union-attr]
        if normal.startswith(("/", "..")) or outside:
            raise RuntimeError(f"the checkpoint in {self.path} names a file outside of its folder: {name!r}")
        return path

    def _read(self, file: Any, name: str, size: int, item: Any, planner: LoadPlanner) -> None:
        place = self._place(item)
        if place.offset < 0 or place.length < 0 or place.offset + place.length > size:
            raise RuntimeError(
                f"{name} in {self.path} has {size} bytes, but {item.storage_index.fqn} should lie at {place.offset} "
                f"with {place.length}: the file is cut off, or of another checkpoint"
            )
        file.seek(place.offset)
        content = inward(self.registry, place.transform_descriptors or (), io.BytesIO(file.read(place.length)))
        if content.getbuffer()[:2] == b"PK":
            ArchiveReader(content).check_sums()
            content.seek(0)
        if item.type is LoadItemType.BYTE_IO:
            planner.load_bytes(item, content)
            return
        stored = torch.load(content, map_location="cpu", weights_only=True)
        if not isinstance(stored, torch.Tensor):
            raise RuntimeError(f"{item.storage_index.fqn} is stored as a {type(stored).__name__}, not as a tensor")
        take_item(item, stored, planner)

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: PathLike) -> bool:
        return FileSystem.validate_checkpoint_id(checkpoint_id)
