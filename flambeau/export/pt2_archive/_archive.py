"""The records of a .pt2 file: PT2ArchiveWriter and PT2ArchiveReader. Stands on serialize's archives; used by `_package`."""

from __future__ import annotations

import contextlib
import io
import os
from typing import IO, Any

from flambeau.base.naming import public_module
from flambeau.base.whole_files import replacing
from flambeau.export.pt2_archive.constants import (
    ARCHIVE_FORMAT_PATH,
    ARCHIVE_FORMAT_VALUE,
    ARCHIVE_VERSION_PATH,
    ARCHIVE_VERSION_VALUE,
)
from flambeau.serialize.archive import ArchiveReader
from flambeau.serialize.reading import checked
from flambeau.serialize.records import PyTorchFileWriter, is_path

__all__ = ["PT2ArchiveReader", "PT2ArchiveWriter", "is_pt2_package"]

#: Version of the container, as PyTorch's writer sets it; that of the format is in the archive itself.
_CONTAINER = 6


def is_pt2_package(serialized_model: bytes | str | os.PathLike[str]) -> bool:
    """Whether the bytes, or the file of this path, are a .pt2 archive."""
    with contextlib.ExitStack() as stack:
        try:
            if isinstance(serialized_model, bytes):
                file: Any = io.BytesIO(serialized_model)
            else:
                file = stack.enter_context(open(serialized_model, "rb"))
            PT2ArchiveReader(file)
        except (OSError, RuntimeError, AssertionError, UnicodeDecodeError):
            return False
    return True


class PT2ArchiveWriter:
    """Context manager: writes records to a path or a binary file object.

    A path gets its file when the block ends; after an exception, what was there before stays.
    """

    __module__ = public_module("export.pt2_archive")

    def __init__(self, archive_path_or_buffer: str | os.PathLike[str] | IO[bytes]) -> None:
        self._stack = contextlib.ExitStack()
        folder = None
        if is_path(archive_path_or_buffer):
            path = os.fspath(archive_path_or_buffer)  # type: ignore[arg-type]
            parent = os.path.dirname(path)
            if parent and not os.path.isdir(parent):
                raise RuntimeError(f"Parent directory {parent} does not exist.")
            folder = os.path.splitext(os.path.basename(path))[0]
            archive_path_or_buffer = self._stack.enter_context(replacing(path))
        elif not hasattr(archive_path_or_buffer, "write"):
            raise AttributeError("expected a string, a path, or a file-like object with a 'write' attribute")
        self.archive_file = PyTorchFileWriter(archive_path_or_buffer, folder=folder)
        self.archive_file.set_min_version(_CONTAINER)

    def __enter__(self) -> PT2ArchiveWriter:
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if error is not None:
            self._stack.__exit__(kind, error, trace)
            return
        for path, value in ((ARCHIVE_FORMAT_PATH, ARCHIVE_FORMAT_VALUE), (ARCHIVE_VERSION_PATH, ARCHIVE_VERSION_VALUE)):
            if not self.has_record(path):
                self.write_string(path, value)
        self.close()

    def has_record(self, name: str) -> bool:
        """Whether there is a record of this name so far."""
        return name in self.archive_file.get_all_written_records()

    def count_prefix(self, prefix: str) -> int:
        """How many records have names that begin so."""
        return sum(name.startswith(prefix) for name in self.archive_file.get_all_written_records())

    def write_bytes(self, name: str, data: Any) -> None:
        """Add a record of bytes, or of a memoryview. AssertionError for anything else."""
        if not isinstance(data, (bytes, memoryview)):
            raise AssertionError(f"Expected bytes but got {type(data)}")
        self.archive_file.write_record(name, data, memoryview(data).nbytes)

    def write_string(self, name: str, data: str) -> None:
        """Add a record of a text. AssertionError for anything else."""
        if not isinstance(data, str):
            raise AssertionError(f"Expected string but got {type(data)}")
        self.write_bytes(name, data.encode())

    def write_file(self, name: str, file_path: str) -> None:
        """Add a record with a file's content. AssertionError if there is no such file."""
        if not os.path.isfile(file_path):
            raise AssertionError(f"{file_path} is not a valid file path")
        with open(file_path, "rb") as file:
            self.write_bytes(name, file.read())

    def write_folder(self, archive_dir: str, folder_dir: str) -> None:
        """Add the files of a folder and its folders. AssertionError if there is no such folder."""
        if not os.path.isdir(folder_dir):
            raise AssertionError(f"{folder_dir} is not a valid directory path")
        for folder, _, files in os.walk(folder_dir):
            for name in files:
                path = os.path.join(folder, name)
                self.write_file(f"{archive_dir}/{os.path.relpath(path, folder_dir)}", path)

    def close(self) -> None:
        """Complete the file."""
        self.archive_file.write_end_of_file()
        self._stack.close()


class PT2ArchiveReader:
    """Context manager: reads records of a path or a seekable binary file object.

    RuntimeError for a file that is damaged, AssertionError for one that is no .pt2 archive.
    """

    __module__ = public_module("export.pt2_archive")

    def __init__(self, archive_path_or_buffer: str | os.PathLike[str] | IO[bytes]) -> None:
        self._stack = contextlib.ExitStack()
        file: Any = archive_path_or_buffer
        if is_path(file):
            file = self._stack.enter_context(open(file, "rb"))  # noqa: SIM115 - closed with the stack
        else:
            checked(file).seek(0)
        with self._stack:
            try:
                self.archive_file = ArchiveReader(file)
            except RuntimeError as error:
                if "not in a subdirectory" in str(error):
                    error.add_note("Programs that PyTorch saved before 2.8 lie so: load it with PyTorch, and save it again.")
                raise
            if self.read_string(ARCHIVE_FORMAT_PATH) != ARCHIVE_FORMAT_VALUE:
                raise AssertionError("Invalid archive format")
            self._stack = self._stack.pop_all()

    def __enter__(self) -> PT2ArchiveReader:
        return self

    def __exit__(self, *exception: object) -> None:
        self._stack.close()

    def __contains__(self, name: str) -> bool:
        return name in self.archive_file

    def read_bytes(self, name: str) -> bytes:
        """The content of a record. RuntimeError if there is none."""
        with self.archive_file.open(name) as record:
            return record.read()

    def read_string(self, name: str) -> str:
        """The content of a record as text. UnicodeDecodeError if it is none."""
        return self.read_bytes(name).decode()

    def archive_version(self) -> int:
        """The version of the format; 0 for an archive that doesn't say. ValueError for a text that is no number."""
        return int(self.read_string(ARCHIVE_VERSION_PATH)) if ARCHIVE_VERSION_PATH in self else 0

    def get_file_names(self) -> list[str]:
        """The names of all records."""
        return list(self.archive_file.records)
