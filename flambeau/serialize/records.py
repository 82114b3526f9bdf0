"""The records of a file one by one: torch._C.PyTorchFileReader and PyTorchFileWriter, and how torch.serialization opens files.

Stands on the archive; programs that move checkpoints about (splitting, streaming, filling in) use it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any

from flambeau.base.naming import public_module
from flambeau.serialize.archive import ArchiveReader, ArchiveWriter, is_archive
from flambeau.serialize.reading import checked
from flambeau.serialize.writing import identity_of

#: The version of the container from which on it is said beside the records, not among them.
HIDDEN_VERSION = 6


def is_path(given: Any) -> bool:
    """Whether it names a file."""
    return isinstance(given, (str, os.PathLike))


@contextmanager
def open_file_like(name_or_buffer: Any, mode: str) -> Iterator[IO[bytes]]:
    """A file that is opened by its name, or one that is open already: "w" in the mode to write, "r" to read."""
    if is_path(name_or_buffer):
        with open(name_or_buffer, mode) as file:
            yield file
        return
    if "w" in mode:
        yield name_or_buffer
        if hasattr(name_or_buffer, "flush"):
            name_or_buffer.flush()
    elif "r" in mode:
        yield checked(name_or_buffer)
    else:
        raise RuntimeError(f"Expected 'r' or 'w' in mode but got {mode}")


class PyTorchFileReader:
    """The records of a file of torch.save, a path or a seekable binary file. RuntimeError for damaged files and for names that
    aren't there."""

    __module__ = public_module("_C")

    def __init__(self, file: Any, *arguments: Any):
        self._file = open(file, "rb") if is_path(file) else file  # noqa: SIM115 - open as long as the reader lives
        self._reader = ArchiveReader(self._file)

    def get_all_records(self) -> list[str]:
        """The names of all records."""
        return list(self._reader.records)

    def has_record(self, name: str) -> bool:
        """Whether there is a record of this name."""
        return name in self._reader

    def get_record(self, name: str) -> bytes:
        """The content of a record."""
        with self._reader.open(name) as record:
            return record.read()

    def get_record_offset(self, name: str) -> int:
        """Where the content of a record begins, from the beginning of the archive."""
        return self._reader.start(name)

    def get_record_header_offset(self, name: str) -> int:
        """Where the header of a record begins."""
        return self._reader.entry(name).header

    def get_record_size(self, name: str) -> int:
        """The size of a record's content in bytes."""
        return self._reader.size(name)

    def serialization_id(self) -> str:
        """Digits that tell this file's content from others', or nothing in an older file."""
        return self.get_record(".data/serialization_id").decode() if self.has_record(".data/serialization_id") else ""


class PyTorchFileWriter:
    """Writes a file of records, to a path or a binary file; `write_end_of_file` completes it. folder: what the folder that all
    records lie in is called, which is otherwise named after the file."""

    __module__ = public_module("_C")

    def __init__(self, file: Any, compute_crc32: bool = True, storage_alignment: int = 64, *, folder: str | None = None):
        self._own = is_path(file)
        self._file = open(file, "wb") if self._own else file  # noqa: SIM115 - closed with write_end_of_file
        self._folder = folder or (os.path.splitext(os.path.basename(file))[0] if self._own else "") or "archive"
        self._archive = ArchiveWriter(self._file, self._folder, compute_crc32)
        self._version = 3
        self._identity = ""
        self._checksum = 0

    def set_min_version(self, version: int) -> None:
        """Say in the file that readers must know at least this version of the container."""
        self._version = max(self._version, version)

    def archive_name(self) -> str:
        """The name of the folder that all records lie in."""
        return self._folder

    def write_record(self, name: str, content: Any, size: int) -> None:
        """Add a record: the first `size` bytes of a text or a bytes-like object."""
        data = content.encode() if isinstance(content, str) else memoryview(content).cast("B")
        self._checksum ^= self._archive.record(name, data[:size])

    def write_record_metadata(self, name: str, size: int) -> None:
        """Add a record of `size` bytes that somebody else fills in."""
        self._archive.room(name, size)

    def get_all_written_records(self) -> set[str]:
        """The names of the records so far."""
        return {path.decode().partition("/")[2] for path, *_ in self._archive.directory}

    def serialization_id(self) -> str:
        """Digits that tell this file's content from others'; nothing before the end is written."""
        return self._identity

    def write_end_of_file(self) -> None:
        """Write what a reader needs to find the records; a path is closed."""
        if self._identity:
            return
        written = self.get_all_written_records()
        place = "version" if self._version < HIDDEN_VERSION else ".data/version"
        for name, content in ((place, b"%d\n" % self._version), ("byteorder", sys.byteorder.encode())):
            if name not in written:
                self._archive.record(name, content)
        identity = identity_of(self._archive, self._checksum)
        self._archive.record(".data/serialization_id", identity)
        self._archive.close()
        self._identity = identity.decode()
        if self._own:
            self._file.close()
        elif hasattr(self._file, "flush"):
            self._file.flush()


@contextmanager
def open_zipfile_reader(name_or_buffer: Any) -> Iterator[PyTorchFileReader]:
    """A reader of records for the length of a with block."""
    with open_file_like(name_or_buffer, "rb") as file:
        yield PyTorchFileReader(file)


@contextmanager
def open_zipfile_writer(name_or_buffer: Any) -> Iterator[PyTorchFileWriter]:
    """A writer of records for the length of a with block, at whose end the file is complete."""
    if not is_path(name_or_buffer) and not callable(getattr(name_or_buffer, "write", None)):
        raise AttributeError(f"Buffer of {str(type(name_or_buffer)).strip('<>')} has no callable attribute 'write'")
    writer = PyTorchFileWriter(name_or_buffer)
    yield writer
    writer.write_end_of_file()


def is_zipfile(file: IO[bytes]) -> bool:
    """Whether a file continues with a zip record."""
    return is_archive(file)
