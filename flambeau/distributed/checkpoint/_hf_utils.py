"""Names of safetensors files, and what their headers and index say of a checkpoint's tensors. Used by `hf_storage`."""

from __future__ import annotations

import json
import os
import pathlib
from dataclasses import dataclass
from typing import Any

import flambeau as torch
from flambeau.base.naming import called
from flambeau.serialize.safetensors_format import Header

__all__ = ["CUSTOM_METADATA", "SHARDING_INFO", "HFStorageInfo", "file_name", "saved_offsets", "sharding_info", "write_index"]

SHARDING_INFO = "DCP_SHARDING_INFO"
CUSTOM_METADATA = {"DCP_VERSION": "1.0", "format": "pt"}


@called("distributed.checkpoint._hf_utils", "_HFStorageInfo")
@dataclass
class HFStorageInfo:
    """The file of an entry, and what the entry is there."""

    relative_path: str
    shape: torch.Size
    dtype: torch.dtype


_HFStorageInfo = HFStorageInfo  # pickles find it by this name


def file_name(index: int, last: int, part: int | None = None) -> str:
    """The name of the file of a number among so many, of a rank's parts if there is one."""
    name = f"model-{index:05d}-of-{last:05d}.safetensors"
    return name if part is None else f"shard-{part:05d}-{name}"


def sharding_info(offsets: dict[str, list[int]]) -> str:
    """The text in a header that says where in whole tensors those of the file lie."""
    return json.dumps({name: {"saved_offsets": offset} for name, offset in offsets.items()})


def saved_offsets(header: Header, name: str, path: Any) -> list[int]:
    """Where in the whole tensor a file's tensor lies: its beginning if the header says nothing. ValueError for nonsense."""
    shape = header.entries[name].shape
    if SHARDING_INFO not in header.metadata:
        return [0] * len(shape)
    try:
        offset = json.loads(header.metadata[SHARDING_INFO])[name]["saved_offsets"]
        fits = len(offset) == len(shape) and all(type(each) is int and each >= 0 for each in offset)
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path} doesn't say where {name} lies in the whole tensor") from error
    if not fits:
        raise ValueError(f"{path} says that {name} of {shape} lies at {offset!r:.80}")
    return list(offset)


def write_index(folder: Any, files: dict[str, str], total: int) -> None:
    """Writes which tensor is in which file, and the size of all."""
    path = pathlib.Path(folder) / "model.safetensors.index.json"
    temporary = path.with_suffix(".tmp")
    with open(temporary, "w") as file:
        json.dump({"metadata": {"total_size": total}, "weight_map": files}, file, indent=2)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
