"""torch.distributed.checkpoint.hf_storage: checkpoints as Hugging Face has them: safetensors files, and an index of them in JSON.

A file that holds parts of tensors says in its header where the parts lie (`DCP_SHARDING_INFO`). Stands on
`serialize.safetensors_format` and `filesystem`; `_consolidate_hf_safetensors` makes whole tensors of parts.
"""

from __future__ import annotations

import pathlib
from dataclasses import replace
from typing import Any

import flambeau as torch
from flambeau.distributed.checkpoint._consolidate_hf_safetensors import consolidate_safetensors_files
from flambeau.distributed.checkpoint._hf_utils import (
    CUSTOM_METADATA,
    SHARDING_INFO,
    HFStorageInfo,
    file_name,
    saved_offsets,
    sharding_info,
    write_index,
)
from flambeau.distributed.checkpoint.filesystem import FileSystemReader, FileSystemWriter, done, in_threads, take_item
from flambeau.distributed.checkpoint.metadata import (
    ChunkStorageMetadata,
    Metadata,
    MetadataIndex,
    StorageMeta,
    TensorProperties,
    TensorStorageMetadata,
)
from flambeau.distributed.checkpoint.planner import LoadPlan, LoadPlanner, SavePlan, SavePlanner, WriteItem
from flambeau.distributed.checkpoint.storage import WriteResult
from flambeau.serialize import safetensors_format

__all__ = ["HuggingFaceStorageReader", "HuggingFaceStorageWriter"]

_SUFFIX = ".safetensors"
_SHARDED = "sharded"


class HuggingFaceStorageWriter(FileSystemWriter):
    """Writes tensors as safetensors files. ValueError for what is no tensor: such files hold nothing else.

    Args:
        path: the folder.
        fqn_to_index_mapping: the number of the file of each tensor, from 1; by default there is one file.
        thread_count: how many threads write.
        save_distributed: each rank writes what it has, rather than one rank the whole state dict.
        enable_consolidation: whole tensors are then made of the parts, which are kept in the folder `sharded`.
        thread_count_consolidation: how many threads do so.

    A file takes the place of an earlier one of its name only when it is whole.
    """

    def __init__(
        self,
        path: str,
        fqn_to_index_mapping: dict[str, int] | None = None,
        thread_count: int = 1,
        save_distributed: bool = False,
        enable_consolidation: bool = False,
        thread_count_consolidation: int = 1,
    ) -> None:
        super().__init__(path, thread_count=thread_count)
        self.fqn_to_index_mapping = fqn_to_index_mapping
        self.save_distributed, self.enable_consolidation = save_distributed, enable_consolidation
        self.thread_count_consolidation = thread_count_consolidation

    def _parts(self) -> pathlib.Path:
        consolidates = self.enable_consolidation and self.save_distributed
        return pathlib.Path(self.path) / _SHARDED if consolidates else pathlib.Path(self.path)

    @property
    def metadata_path(self) -> str:
        """The name of the index."""
        return "model.safetensors.index.json"

    def prepare_local_plan(self, plan: SavePlan) -> SavePlan:
        for item in plan.items:
            if item.tensor_data is None:
                raise ValueError(f"{item.index.fqn} is no tensor, and safetensors files hold nothing else: save it elsewhere")
            if self.fqn_to_index_mapping is not None and item.index.fqn not in self.fqn_to_index_mapping:
                raise ValueError(f"fqn_to_index_mapping has no file for {item.index.fqn}")
        self._parts().mkdir(parents=True, exist_ok=True)
        return plan

    def write_data(self, plan: SavePlan, planner: SavePlanner) -> Any:
        by_file: dict[int, list[WriteItem]] = {}
        for item in plan.items:
            by_file.setdefault((self.fqn_to_index_mapping or {}).get(item.index.fqn, 1), []).append(item)
        files = sorted(by_file.items())
        written = in_threads(self.thread_count, lambda each: self._write_tensors(each[0], each[1], planner), files)
        return done([result for results in written for result in results])

    def _write_tensors(self, index: int, items: list[WriteItem], planner: SavePlanner) -> list[WriteResult]:
        last = max(self.fqn_to_index_mapping.values()) if self.fqn_to_index_mapping else 1
        name = file_name(index, last, self.rank + 1 if self.save_distributed else None)
        tensors, offsets = {}, {}
        for item in items:
            data = planner.resolve_data(item)
            assert isinstance(data, torch.Tensor) and item.tensor_data is not None
            tensors[item.index.fqn] = data
            offsets[item.index.fqn] = list(item.tensor_data.chunk.offsets)
        temporary = self._parts() / f"{name}.tmp"
        with open(temporary, "wb") as file:
            safetensors_format.write_file(file, tensors, {**CUSTOM_METADATA, SHARDING_INFO: sharding_info(offsets)})
            self._sync(file)
        temporary.replace(self._parts() / name)
        return [
            WriteResult(item.index, tensors[item.index.fqn].nbytes,
                        HFStorageInfo(name, tensors[item.index.fqn].shape, tensors[item.index.fqn].dtype))
            for item in items
        ]  # fmt: skip

    def finish(self, metadata: Metadata, results: list[list[WriteResult]]) -> None:
        if self.save_distributed:
            if self.enable_consolidation:
                names = [result.index.fqn for each in results for result in each]
                consolidate_safetensors_files(
                    str(self._parts()), str(self.path), self.fqn_to_index_mapping or dict.fromkeys(names, 1),
                    self.thread_count_consolidation,
                )  # fmt: skip
            return
        written = [result for each in results for result in each]
        total = sum(result.size_in_bytes for result in written)
        write_index(self.path, {result.index.fqn: result.storage_data.relative_path for result in written}, total)


class HuggingFaceStorageReader(FileSystemReader):
    """Reads all safetensors files of a folder, whole tensors or parts of them, whoever wrote them.

    thread_count: how many threads read files.
    """

    def __init__(self, path: str, thread_count: int = 1) -> None:
        super().__init__(path)
        self.thread_count = thread_count

    def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:
        """What the files' headers say. ValueError where a file is damaged or parts don't fit each other."""
        entries: dict[str, Any] = {}
        places: dict[MetadataIndex, HFStorageInfo] = {}
        for path in sorted(pathlib.Path(self.path).iterdir()):
            if path.suffix == _SUFFIX:
                self._add_file(path, entries, places)
        for name, entry in entries.items():
            stored = sum(chunk.sizes.numel() for chunk in entry.chunks)
            if stored != entry.size.numel():
                raise ValueError(f"the parts of {name} in {self.path} have {stored} elements of {tuple(entry.size)}")
        return Metadata(entries, storage_data=places, storage_meta=StorageMeta(load_id=self.load_id))

    def _add_file(self, path: pathlib.Path, entries: dict[str, Any], places: dict[MetadataIndex, HFStorageInfo]) -> None:
        with open(path, "rb") as file:
            header = safetensors_format.read_header(file)
        for name, found in header.entries.items():
            offset = saved_offsets(header, name, path)
            shape = torch.Size(found.shape)
            ends = [start + length for start, length in zip(offset, shape, strict=True)]
            new = TensorStorageMetadata(TensorProperties(found.dtype), torch.Size([0] * len(shape)), [])
            entry = entries.setdefault(name, new)
            if entry.properties.dtype != found.dtype or len(entry.size) != len(shape):
                raise ValueError(f"{path} has a part of {name} that is none of the others': {tuple(shape)} {found.dtype}")
            entry.chunks.append(ChunkStorageMetadata(torch.Size(offset), shape))
            entry.size = torch.Size(map(max, entry.size, ends))
            index = MetadataIndex(name, offset)
            if index in places:
                raise ValueError(f"{path} and {places[index].relative_path} both have {name} at {tuple(offset)}")
            places[index] = HFStorageInfo(str(path), shape, found.dtype)

    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> Any:
        by_file: dict[str, list[Any]] = {}
        for item in plan.items:
            by_file.setdefault(self.storage_data[item.storage_index].relative_path, []).append(item)
        in_threads(self.thread_count, lambda each: self._read_tensors(each[0], each[1], planner), list(by_file.items()))
        return done(None)

    def _read_tensors(self, path: str, items: list[Any], planner: LoadPlanner) -> None:
        with open(path, "rb") as file:
            header = safetensors_format.read_header(file)
            for item in items:
                self._read_item(file, header, item, planner)

    def _read_item(self, file: Any, header: safetensors_format.Header, item: Any, planner: LoadPlanner) -> None:
        if not item.lengths:
            take_item(item, safetensors_format.read_tensor(file, header, item.storage_index.fqn), planner)
            return
        start, length = item.storage_offsets[0], item.lengths[0]
        rows = safetensors_format.read_tensor(file, header, item.storage_index.fqn, (start, start + length))
        take_item(_from_row_0(item), rows, planner)


def _from_row_0(item: Any) -> Any:
    """An item whose stored tensor is only the rows that it asks for."""
    return replace(item, storage_offsets=torch.Size([0, *item.storage_offsets[1:]]))
