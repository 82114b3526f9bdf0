"""What checkpoints need of a file system, and the local one. Used by `filesystem`; `_fsspec_filesystem` has others."""

from __future__ import annotations

import abc
import contextlib
import os
import pathlib
from collections.abc import Iterator
from typing import Any

from flambeau.base.naming import called

__all__ = ["FileSystem", "FileSystemBase", "PathLike"]

PathLike = str | os.PathLike[str]
_ROOM = "distributed.checkpoint.filesystem"


@called(_ROOM, "FileSystemBase")
class FileSystemBase(abc.ABC):
    """What a file system does; paths are its own, made by `init_path`."""

    @abc.abstractmethod
    def create_stream(self, path: PathLike, mode: str) -> Any:
        """A context whose value is the open file; `mode` as open() has it, of bytes."""

    @abc.abstractmethod
    def concat_path(self, path: PathLike, suffix: str) -> PathLike:
        """The path of `suffix` in a folder."""

    @abc.abstractmethod
    def rename(self, path: PathLike, new_path: PathLike) -> None:
        """Gives a file another name, in place of a file that has it."""

    @abc.abstractmethod
    def init_path(self, path: PathLike) -> PathLike:
        """A folder's name as this file system's path."""

    @abc.abstractmethod
    def mkdir(self, path: PathLike) -> None:
        """Makes a folder and those above it, if it isn't there."""

    @classmethod
    @abc.abstractmethod
    def validate_checkpoint_id(cls, checkpoint_id: PathLike) -> bool:
        """Whether a name is one of this file system."""

    @abc.abstractmethod
    def exists(self, path: PathLike) -> bool:
        """Whether there is a file or folder."""

    @abc.abstractmethod
    def rm_file(self, path: PathLike) -> None:
        """Removes a file."""

    def ls(self, path: PathLike) -> list[str]:
        """The paths of what is in a folder; nothing for a file system that can't say, of which no file is then removed."""
        return []


@called(_ROOM, "FileSystem")
class FileSystem(FileSystemBase):
    """The local file system."""

    @contextlib.contextmanager
    def create_stream(self, path: PathLike, mode: str) -> Iterator[Any]:
        with open(path, mode) as file:
            yield file

    def concat_path(self, path: PathLike, suffix: str) -> PathLike:
        return pathlib.Path(path) / suffix

    def rename(self, path: PathLike, new_path: PathLike) -> None:
        os.replace(path, new_path)

    def init_path(self, path: PathLike) -> PathLike:
        return pathlib.Path(path)

    def mkdir(self, path: PathLike) -> None:
        pathlib.Path(path).mkdir(parents=True, exist_ok=True)

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: PathLike) -> bool:
        text = os.fspath(checkpoint_id)
        return isinstance(text, str) and "://" not in text

    def exists(self, path: PathLike) -> bool:
        return pathlib.Path(path).exists()

    def rm_file(self, path: PathLike) -> None:
        pathlib.Path(path).unlink(missing_ok=True)

    def ls(self, path: PathLike) -> list[str]:
        return [str(each) for each in pathlib.Path(path).iterdir()]
