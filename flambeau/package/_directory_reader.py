"""The records of a package that has been unpacked to a folder."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from flambeau.base.naming import public_module
from flambeau.core.tensor import storage_io

__all__ = ["DirectoryReader"]


class DirectoryReader:
    """Reads a folder as PyTorchFileReader reads an archive: a record is a file, its name the path from the folder."""

    __module__ = public_module("package._directory_reader")

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        self.directory = str(directory)

    def _path(self, name: str) -> Path:
        """The file of a record. ValueError for a name that leads out of the folder."""
        top = Path(self.directory).resolve()
        path = (top / name).resolve()
        if not path.is_relative_to(top):
            raise ValueError(f"the record {name!r} lies outside of the package's folder {self.directory}")
        return Path(self.directory) / name

    def get_record(self, name: str) -> bytes:
        """The content of a record."""
        return self._path(name).read_bytes()

    def get_record_size(self, name: str) -> int:
        """The size of a record in bytes."""
        return self._path(name).stat().st_size

    def get_storage_from_record(self, name: str, numel: int, dtype: Any) -> Any:
        """A storage with the content of a record."""
        content = self.get_record(name)
        storage = storage_io.allocate(len(content))
        storage_io.memory_of(storage)[:] = content
        return storage

    def has_record(self, path: str) -> bool:
        """Whether there is a record of that name."""
        return self._path(path).is_file()

    def get_all_records(self) -> list[str]:
        """The names of all records."""
        top = Path(self.directory)
        return [path.relative_to(top).as_posix() for path in sorted(top.rglob("*")) if path.is_file()]

    def serialization_id(self) -> str:
        """Digits that tell this package's content from others'."""
        name = ".data/serialization_id"
        return self.get_record(name).decode() if self.has_record(name) else ""
