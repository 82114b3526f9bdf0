"""Settings of torch.save and torch.load, for the whole process or a block. Stands on the standard library."""

from __future__ import annotations

import enum
import mmap
import threading
from typing import Any

from flambeau.core.tensor.rebuild import writing


class LoadEndianness(enum.Enum):
    """The byte order assumed of files that don't record theirs."""

    NATIVE = 1
    LITTLE = 2
    BIG = 3


_settings: dict[str, Any] = {"crc32": True, "endianness": None, "mmap_flags": getattr(mmap, "MAP_PRIVATE", 2)}


def get_crc32_options() -> bool:
    """Whether torch.save computes the checksum of each record."""
    return _settings["crc32"]


def set_crc32_options(compute_crc32: bool) -> None:
    """Whether torch.save computes the checksum of each record. Without, other zip programs call the file damaged."""
    _settings["crc32"] = compute_crc32


def get_default_load_endianness() -> LoadEndianness | None:
    """The byte order assumed of files without a byteorder record; None means this machine's."""
    return _settings["endianness"]


def set_default_load_endianness(endianness: LoadEndianness | None) -> None:
    """Set the byte order assumed of files without a byteorder record. Raises TypeError for anything else."""
    if not isinstance(endianness, LoadEndianness) and endianness is not None:
        raise TypeError("Invalid argument type in function set_default_load_endianness")
    _settings["endianness"] = endianness


def get_default_mmap_options() -> int:
    """The flags with which torch.load(mmap=True) maps a file: mmap.MAP_PRIVATE or mmap.MAP_SHARED."""
    return _settings["mmap_flags"]


class set_default_mmap_options:
    """Set the flags of torch.load(mmap=True), for good or as a context manager. Raises ValueError for other flags."""

    def __init__(self, flags: int):
        if flags not in (mmap.MAP_PRIVATE, mmap.MAP_SHARED):
            raise ValueError(
                "Invalid argument in function set_default_mmap_options, expected mmap.MAP_PRIVATE or mmap.MAP_SHARED, but got "
                f"{flags}"
            )
        self.before = _settings["mmap_flags"]
        _settings["mmap_flags"] = flags

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exception: Any) -> None:
        _settings["mmap_flags"] = self.before


class _Skipping(threading.local):
    """Whether this thread writes files without the content of storages."""

    active = False


skipping = _Skipping()


class skip_data:
    """Within the block torch.save writes everything but the bytes of storages, for which it leaves room in the file: somebody
    fills it in later, at `get_record_offset` of each. Old files and torch.load are refused.

    materialize_fake_tensors: take fake tensors too, as tensors that are read as real ones.
    """

    def __init__(self, materialize_fake_tensors: bool = False):
        self.materialize_fake_tensors = materialize_fake_tensors

    def __enter__(self) -> None:
        self.before = (skipping.active, writing.fakes)
        skipping.active, writing.fakes = True, self.materialize_fake_tensors

    def __exit__(self, *exception: object) -> None:
        skipping.active, writing.fakes = self.before
