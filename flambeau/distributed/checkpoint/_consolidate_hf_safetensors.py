"""torch.distributed.checkpoint._consolidate_hf_safetensors: whole tensors of the parts that several processes wrote.

The parts are copied as bytes into the place that each has in the whole, so that no tensor has to fit into memory twice. Stands on
`serialize.safetensors_format`; `hf_storage` uses it.
"""

from __future__ import annotations

import math
import os
import pathlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import flambeau as torch
from flambeau.distributed import distributed_c10d as c10d
from flambeau.distributed.checkpoint._hf_utils import file_name, saved_offsets, write_index
from flambeau.serialize import safetensors_format
from flambeau.serialize.safetensors_format import Entry, Header

__all__ = ["consolidate_safetensors_files", "consolidate_safetensors_files_on_every_rank"]


@dataclass
class _Whole:
    """A tensor: its dtype, its sizes as far as parts reach, and the parts: (file, its header, place in the whole)."""

    dtype: torch.dtype
    sizes: list[int]
    parts: list[tuple[pathlib.Path, Header, list[int]]] = field(default_factory=list)


def _wholes(folder: str) -> dict[str, _Whole]:
    """All tensors of which parts are in a folder. ValueError where parts don't fit, or some are missing."""
    found: dict[str, _Whole] = {}
    for path in sorted(pathlib.Path(folder).glob("*.safetensors")):
        with open(path, "rb") as file:
            header = safetensors_format.read_header(file)
        for name, entry in header.entries.items():
            offset = saved_offsets(header, name, path)
            whole = found.setdefault(name, _Whole(entry.dtype, [0] * len(offset)))
            if whole.dtype != entry.dtype or len(whole.sizes) != len(offset):
                raise ValueError(f"{path} has a part of {name} that is none of the others': {entry.shape} {entry.dtype}")
            whole.sizes = [max(size, a + n) for size, a, n in zip(whole.sizes, offset, entry.shape, strict=True)]
            whole.parts.append((path, header, offset))
    for name, whole in found.items():
        there = sum(math.prod(header.entries[name].shape) for _, header, _ in whole.parts)
        if there != math.prod(whole.sizes):
            raise ValueError(f"the parts of {name} in {folder} have {there} elements of {whole.sizes}")
    return found


def _copy_part(file: Any, begin: int, entry: Entry, part: torch.Tensor, offset: list[int]) -> None:
    """Writes a part's bytes: runs along the last dimensions that it has whole, each in one piece."""
    shape, sizes = part.shape, entry.shape
    split = len(shape)
    while split > 0 and shape[split - 1] == sizes[split - 1]:
        split -= 1
    split = max(split - 1, 0)  # the run goes through one dimension that isn't whole, too
    strides = [math.prod(sizes[dim + 1 :]) for dim in range(len(sizes))]
    rows = part.reshape(math.prod(shape[:split]), -1)
    for number in range(rows.shape[0]):
        place, rest = offset[split] * strides[split] if shape else 0, number
        place += sum(offset[dim] * strides[dim] for dim in range(split + 1, len(shape)))
        for dim in reversed(range(split)):
            rest, at = divmod(rest, shape[dim])
            place += (offset[dim] + at) * strides[dim]
        file.seek(begin + entry.start + place * entry.dtype.itemsize)
        file.write(memoryview(rows[number].view(torch.uint8).numpy()))


def _write_whole(path: pathlib.Path, tensors: dict[str, _Whole]) -> None:
    entries = safetensors_format.layout({name: (whole.dtype, whole.sizes) for name, whole in tensors.items()})
    temporary = path.with_suffix(".tmp")
    with open(temporary, "wb") as file:
        begin = safetensors_format.write_header(file, entries, {"format": "pt"})
        file.truncate(begin + max((entry.end for entry in entries.values()), default=0))
        for name, whole in tensors.items():
            for source, header, offset in whole.parts:
                with open(source, "rb") as opened:
                    part = safetensors_format.read_tensor(opened, header, name)
                if part.numel():
                    _copy_part(file, begin, entries[name], part, offset)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def _consolidated(input_dir: str, output_dir: str, mapping: dict[str, int] | None, threads: int, rank: int, count: int) -> None:
    wholes = _wholes(input_dir)
    chosen = mapping or dict.fromkeys(wholes, 1)
    missing = sorted(set(chosen) - set(wholes))
    if missing:
        raise ValueError(f"{input_dir} has nothing of {missing}")
    unnamed = sorted(set(wholes) - set(chosen))
    if unnamed:
        raise ValueError(f"fqn_to_index_mapping has no file for {unnamed}")
    last = max(chosen.values(), default=1)
    files: dict[int, dict[str, _Whole]] = {}
    for name, index in chosen.items():
        files.setdefault(index, {})[name] = wholes[name]
    own = [each for each in sorted(files.items()) if each[0] % count == rank]
    folder = pathlib.Path(output_dir)
    folder.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(max(1, threads)) as pool:
        list(pool.map(lambda each: _write_whole(folder / file_name(each[0], last), each[1]), own))
    if rank == 0:
        total = sum(math.prod(whole.sizes) * whole.dtype.itemsize for whole in wholes.values())
        write_index(folder, {name: file_name(index, last) for name, index in chosen.items()}, total)


def consolidate_safetensors_files(
    input_dir: str, output_dir: str, fqn_to_index_mapping: dict[str, int] | None, num_threads: int = 1
) -> None:
    """Writes the tensors of which `input_dir` has parts as a whole into `output_dir`, with an index.

    fqn_to_index_mapping: the number of the file of each tensor, from 1; None: one file. ValueError where it lacks one, or
    parts are missing or damaged. All dtypes of the format are taken.
    """
    _consolidated(input_dir, output_dir, fqn_to_index_mapping, num_threads, 0, 1)


def consolidate_safetensors_files_on_every_rank(
    input_dir: str, output_dir: str, fqn_to_index_mapping: dict[str, int] | None, num_threads: int = 1, process_group: Any = None
) -> None:
    """The same, the files being shared out over the ranks of a group. Returns when all are written."""
    alone = not c10d.is_initialized()
    rank, count = (0, 1) if alone else (c10d.get_rank(process_group), c10d.get_world_size(process_group))
    _consolidated(input_dir, output_dir, fqn_to_index_mapping, num_threads, rank, count)
    if not alone:
        c10d.barrier(group=process_group)
