"""The records of a TorchScript archive: the code's texts, the objects' pickle, the constants and the extra files.

Stands on the zip reader of torch.load and on unpickler; used by loading. What a file says of sizes is limited before anything is
read: `LARGEST_TEXT` and `LARGEST_CODE` characters of code, whatever its compression.
"""

from __future__ import annotations

import os
from typing import IO, Any

from flambeau.base.device import device
from flambeau.core.tensor.tensor import Tensor
from flambeau.jit.archive.unpickler import ArchiveUnpickler, Tagged
from flambeau.serialize.archive import ArchiveReader, is_archive
from flambeau.serialize.reading import ZipLoad

__all__ = ["Archive", "opened"]

#: Bytes of one text of code, and of all.
LARGEST_TEXT, LARGEST_CODE = 4 << 20, 32 << 20
LARGEST_PICKLE = 256 << 20


class _Records(ZipLoad):
    """The tensors that a pickle of the archive refers to, in a folder of their own."""

    def __init__(self, reader: ArchiveReader, map_location: Any, folder: str) -> None:
        super().__init__(reader, map_location, mmap=False)
        self.folder = folder

    def unpickled(self, name: str) -> Any:
        """The records of a pickle."""
        if self.reader.size(name) > LARGEST_PICKLE:
            raise RuntimeError(f"refusing {name}, a pickle of {self.reader.size(name)} bytes")
        with self.reader.open(name) as file:
            return ArchiveUnpickler(file, self.persistent_load).load()


class Archive:
    """A TorchScript archive in a seekable binary file. RuntimeError for any other."""

    def __init__(self, file: IO[bytes], map_location: Any = None) -> None:
        if not is_archive(file):
            raise RuntimeError("PytorchStreamReader failed reading zip archive: not a ZIP archive")
        self.reader, self.map_location = ArchiveReader(file), map_location
        if "constants.pkl" not in self.reader:
            raise RuntimeError("PytorchStreamReader failed locating file constants.pkl: file not found")
        self.texts = self._texts()

    def _texts(self) -> dict[str, str]:
        names = [n for n in self.reader.records if n.startswith("code/") and n.endswith(".py")]
        sizes = [self.reader.size(n) for n in names]
        if sum(sizes) > LARGEST_CODE or max(sizes, default=0) > LARGEST_TEXT:
            raise RuntimeError(f"refusing an archive with {sum(sizes)} bytes of code")
        return dict.fromkeys(names, "")

    def code(self, prefix: str) -> str | None:
        """The text of the definitions whose qualified names begin with `prefix`; None where there is none."""
        name = f"code/{prefix.replace('.', '/')}.py"
        if name not in self.texts:
            return None
        if not self.texts[name]:
            with self.reader.open(name) as record:
                self.texts[name] = record.read().decode()
        return self.texts[name]

    def version(self) -> int:
        """The version of the operators that the code calls."""
        name = "version" if "version" in self.reader else ".data/version"
        return int(self.reader.beginning(name).split()[0])

    def objects(self) -> Any:
        """What data.pkl holds."""
        return _Records(self.reader, self.map_location, "data").unpickled("data.pkl")

    def constants(self) -> tuple[Any, ...]:
        """What CONSTANTS means in the code: c0, c1, ..."""
        made = _Records(self.reader, self.map_location, "constants").unpickled("constants.pkl")
        if type(made) is not tuple:
            raise RuntimeError(f"expected a tuple of constants, but got {type(made).__name__}")
        for value in made:
            _check_constant(value)
        return made

    def extra(self, names: dict[str, Any]) -> None:
        """Fill a dict whose keys are names of extra files with their contents, for those that there are."""
        for name in names:
            if f"extra/{name}" in self.reader:
                with self.reader.open(f"extra/{name}") as record:
                    names[name] = record.read()


def opened(f: Any) -> IO[bytes]:
    """The file of a path, in PyTorch's words where it isn't there; a file object itself."""
    if not isinstance(f, (str, os.PathLike)):
        return f  # type: ignore[no-any-return]
    if not os.path.exists(f):
        raise ValueError(f"The provided filename {os.fspath(f)} does not exist")
    if os.path.isdir(f):
        raise ValueError(f"The provided filename {os.fspath(f)} is a directory")
    return open(f, "rb")


def _check_constant(value: Any, depth: int = 0) -> None:
    """RuntimeError for what no constant of a program is."""
    if depth > 20:
        raise RuntimeError("refusing constants that are nested too deeply")
    if isinstance(value, Tagged):
        value = value.value
    if isinstance(value, (list, tuple)):
        for item in value:
            _check_constant(item, depth + 1)
    elif isinstance(value, dict):
        _check_constant([*value, *value.values()], depth + 1)
    elif value is not None and not isinstance(value, (Tensor, str, int, float, complex, device)):
        raise RuntimeError(f"a {type(value).__name__} is no constant of a program")
