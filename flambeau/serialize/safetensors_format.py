"""Files in the safetensors format: a length, a header in JSON, and the tensors' bytes one after the other, without pickles.

https://huggingface.co/docs/safetensors has the format. A header is checked as a whole before anything is read by it, so that a
damaged or hostile file is an error and no more. Used by distributed.checkpoint's Hugging Face storage.
"""

from __future__ import annotations

import json
import math
import os
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import IO, Any

import flambeau as torch

__all__ = ["Entry", "Header", "dtype_name", "layout", "read_header", "read_tensor", "write_file", "write_header"]

_NAMES = {
    "BOOL": torch.bool, "U8": torch.uint8, "I8": torch.int8, "U16": torch.uint16, "I16": torch.int16, "U32": torch.uint32,
    "I32": torch.int32, "U64": torch.uint64, "I64": torch.int64, "F16": torch.float16, "BF16": torch.bfloat16,
    "F32": torch.float32, "F64": torch.float64, "C64": torch.complex64, "F8_E4M3": torch.float8_e4m3fn,
    "F8_E5M2": torch.float8_e5m2,
}  # fmt: skip
_DTYPES = {dtype: name for name, dtype in _NAMES.items()}
_LENGTH = struct.Struct("<Q")
_LONGEST_HEADER = 100_000_000  # what the format allows
_ALIGNMENT = 8


@dataclass(frozen=True)
class Entry:
    """A tensor in a file: `start` and `end` count from the end of the header."""

    dtype: torch.dtype
    shape: tuple[int, ...]
    start: int
    end: int


@dataclass
class Header:
    """What a file holds, by name; texts that came with it; and where the bytes begin."""

    entries: dict[str, Entry]
    metadata: dict[str, str] = field(default_factory=dict)
    begin: int = 0


def dtype_name(dtype: torch.dtype) -> str:
    """The format's name of a dtype. ValueError for one that it has not."""
    if dtype not in _DTYPES:
        raise ValueError(f"safetensors files hold no tensors of {dtype}; convert it to one of {list(_DTYPES)}")
    return _DTYPES[dtype]


# Writing


def layout(tensors: Mapping[str, tuple[torch.dtype, Sequence[int]]]) -> dict[str, Entry]:
    """Where tensors of these dtypes and shapes lie: those with the longest elements first, so that all are aligned."""
    result = {}
    position = 0
    for name in sorted(tensors, key=lambda name: (-tensors[name][0].itemsize, name)):
        dtype, shape = tensors[name]
        length = math.prod(shape) * dtype.itemsize
        result[name] = Entry(dtype, tuple(shape), position, position + length)
        position += length
    return result


def write_header(file: IO[bytes], entries: Mapping[str, Entry], metadata: Mapping[str, str]) -> int:
    """Writes what comes before the tensors' bytes. Returns its length."""
    found: dict[str, Any] = {"__metadata__": dict(metadata)} if metadata else {}
    for name, entry in entries.items():
        found[name] = {
            "dtype": dtype_name(entry.dtype), "shape": list(entry.shape), "data_offsets": [entry.start, entry.end],
        }  # fmt: skip
    text = json.dumps(found, separators=(",", ":")).encode()
    text += b" " * (-len(text) % _ALIGNMENT)
    file.write(_LENGTH.pack(len(text)))
    file.write(text)
    return _LENGTH.size + len(text)


def _bytes(tensor: torch.Tensor) -> Any:
    return memoryview(tensor.reshape(-1).view(torch.uint8).numpy())


def write_file(file: IO[bytes], tensors: Mapping[str, torch.Tensor], metadata: Mapping[str, str]) -> None:
    """Writes tensors, in memory as they are, and texts about them. ValueError for dtypes that the format has not."""
    entries = layout({name: (tensor.dtype, tensor.shape) for name, tensor in tensors.items()})
    write_header(file, entries, metadata)
    for name in entries:
        tensor = tensors[name].detach()
        if tensor.numel():
            file.write(_bytes(tensor.contiguous()))


# Reading


def _entry(name: str, found: Any, size: int) -> Entry:
    try:
        dtype, shape, (start, end) = _NAMES[found["dtype"]], found["shape"], found["data_offsets"]
    except KeyError as error:
        raise ValueError(f"{name} has {error} for a dtype or lacks it, which this version doesn't read") from error
    except (TypeError, ValueError) as error:
        raise ValueError(f"the header's entry of {name} isn't one: {found!r:.80}") from error
    numbers = [start, end, *shape] if isinstance(shape, list) else [None]
    if not all(type(number) is int and number >= 0 for number in numbers):
        raise ValueError(f"the header's entry of {name} isn't one: {found!r:.80}")
    if end - start != math.prod(shape) * dtype.itemsize or end > size:
        raise ValueError(f"{name} of {shape} {dtype} can't lie at {start} to {end} of {size} bytes: damaged or cut off")
    return Entry(dtype, tuple(shape), start, end)


def read_header(file: IO[bytes]) -> Header:
    """What a file holds. ValueError for one that is damaged, cut off, or none of this format."""
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    first = file.read(_LENGTH.size)
    length = _LENGTH.unpack(first)[0] if len(first) == _LENGTH.size else -1
    if not 2 <= length <= min(_LONGEST_HEADER, size - _LENGTH.size):
        raise ValueError(f"{_called(file)} is no safetensors file, or cut off: a header of {length} in {size} bytes")
    try:
        found = json.loads(file.read(length))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{_called(file)} has a damaged header: {error}") from error
    begin = _LENGTH.size + length
    texts = found.pop("__metadata__", {}) if isinstance(found, dict) else None
    if not isinstance(texts, dict) or not all(isinstance(text, str) for text in texts.values()):
        raise ValueError(f"{_called(file)} has a header that is no table of tensors")
    try:
        entries = {name: _entry(name, each, size - begin) for name, each in found.items()}
    except ValueError as error:
        raise ValueError(f"{_called(file)}: {error}") from error
    position = 0
    for entry in sorted(entries.values(), key=lambda each: (each.start, each.end)):
        if entry.start != position:
            raise ValueError(f"{_called(file)} has tensors that overlap or leave gaps: the file is damaged")
        position = entry.end
    return Header(entries, texts, begin)


def _called(file: Any) -> str:
    return str(getattr(file, "name", "the file"))


def read_tensor(file: IO[bytes], header: Header, name: str, rows: tuple[int, int] | None = None) -> torch.Tensor:
    """A tensor of a file, or its rows from `rows[0]` up to `rows[1]`, of which no others are read."""
    entry = header.entries[name]
    shape, start = list(entry.shape), entry.start
    if rows is not None and shape:
        row = math.prod(shape[1:]) * entry.dtype.itemsize
        start, shape[0] = start + rows[0] * row, rows[1] - rows[0]
    tensor = torch.empty(shape, dtype=entry.dtype)
    if tensor.numel():
        file.seek(header.begin + start)
        content = file.read(tensor.nbytes)
        if len(content) != tensor.nbytes:
            raise ValueError(f"{_called(file)} is cut off: {name} has {len(content)} of {tensor.nbytes} bytes")
        _bytes(tensor)[:] = content
    return tensor
