"""How importlib.resources reads the files of a package."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from flambeau.package._directory_reader import DirectoryReader
from flambeau.package._mangling import demangle

if TYPE_CHECKING:
    from flambeau.package.package_importer import PackageImporter

__all__ = ["PackageResourceReader"]


class PackageResourceReader:
    """The resources of one package, for importlib.resources."""

    def __init__(self, importer: PackageImporter, fullname: str) -> None:
        self.importer, self.fullname = importer, demangle(fullname)

    def open_resource(self, resource: str) -> io.BytesIO:
        """The bytes of a resource as a file."""
        return io.BytesIO(self.importer.load_binary(self.fullname, resource))

    def resource_path(self, resource: str) -> str:
        """The path of a resource where the package is a folder; FileNotFoundError in an archive, so that a copy is made."""
        reader: Any = self.importer.zip_reader
        if not isinstance(reader, DirectoryReader):
            raise FileNotFoundError
        return os.path.join(reader.directory, self.importer._zipfile_path(self.fullname, resource))

    def is_resource(self, name: str) -> bool:
        """Whether there is a file of that name in the package."""
        return self.importer.zip_reader.has_record(self.importer._zipfile_path(self.fullname, name))

    def contents(self) -> Iterator[str]:
        """The names of files and packages in the package."""
        path = self.importer._zipfile_path(self.fullname) + "/"
        found = {
            name[len(path) :].partition("/")[0]: None
            for name in self.importer.zip_reader.get_all_records()
            if name.startswith(path)
        }
        return iter(found)
