"""torch.distributed.checkpoint._fsspec_filesystem: checkpoints on the file systems of fsspec: s3://, gs://, memory://, ...

The package is asked for when a writer or reader is made. Stands on `filesystem`.
"""

from __future__ import annotations

import contextlib
import importlib
import os
from collections.abc import Iterator, Sequence
from typing import Any

from flambeau.distributed.checkpoint._extension import StreamTransformExtension
from flambeau.distributed.checkpoint._file_systems import FileSystemBase, PathLike
from flambeau.distributed.checkpoint.filesystem import FileSystemReader, FileSystemWriter, SerializationFormat

__all__ = ["FsspecReader", "FsspecWriter"]


def _fsspec() -> Any:
    try:
        return importlib.import_module("fsspec.core")
    except ImportError as error:
        raise ImportError("checkpoints at addresses such as s3://... need the package fsspec: pip install fsspec") from error


class FileSystem(FileSystemBase):
    """A file system of fsspec, found by the first path. ImportError without fsspec, ValueError for an unknown one."""

    def __init__(self) -> None:
        self.fs: Any = None

    @contextlib.contextmanager
    def create_stream(self, path: PathLike, mode: str) -> Iterator[Any]:
        with self.fs.open(os.fspath(path), mode) as file:
            yield file

    def concat_path(self, path: PathLike, suffix: str) -> PathLike:
        return os.path.join(path, suffix)

    def init_path(self, path: PathLike, **kwargs: Any) -> PathLike:
        self.fs, _ = _fsspec().url_to_fs(os.fspath(path), **kwargs)
        return path

    def rename(self, path: PathLike, new_path: PathLike) -> None:
        self.fs.mv(os.fspath(path), os.fspath(new_path))

    def mkdir(self, path: PathLike) -> None:
        self.fs.makedirs(os.fspath(path), exist_ok=True)

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: PathLike) -> bool:
        text = os.fspath(checkpoint_id)
        if not isinstance(text, str) or "://" not in text:
            return False
        try:
            _fsspec().url_to_fs(text)
        except ValueError:
            return False
        return True

    def exists(self, path: PathLike) -> bool:
        return bool(self.fs.exists(os.fspath(path)))

    def rm_file(self, path: PathLike) -> None:
        self.fs.rm(os.fspath(path))

    def ls(self, path: PathLike) -> list[str]:
        text = os.fspath(path)
        return [str(each) for each in self.fs.ls(text, detail=False)] if self.fs.exists(text) else []


class FsspecWriter(FileSystemWriter):
    """FileSystemWriter on a file system of fsspec; further arguments go to the file system."""

    def __init__(
        self,
        path: PathLike,
        single_file_per_rank: bool = True,
        sync_files: bool = True,
        thread_count: int = 1,
        per_thread_copy_ahead: int = 10_000_000,
        overwrite: bool = True,
        _extensions: Sequence[StreamTransformExtension] | None = None,
        serialization_format: SerializationFormat = SerializationFormat.TORCH_SAVE,
        **kwargs: Any,
    ) -> None:
        fs = FileSystem()
        super().__init__(
            path, single_file_per_rank, sync_files, thread_count, per_thread_copy_ahead, overwrite=overwrite,
            _extensions=_extensions, serialization_format=serialization_format,
        )  # fmt: skip
        self.fs, self.path = fs, fs.init_path(path, **kwargs)

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: PathLike) -> bool:
        return FileSystem.validate_checkpoint_id(checkpoint_id)


class FsspecReader(FileSystemReader):
    """FileSystemReader on a file system of fsspec; further arguments go to the file system."""

    def __init__(self, path: PathLike, **kwargs: Any) -> None:
        super().__init__(path)
        fs = FileSystem()
        self.fs, self.path = fs, fs.init_path(path, **kwargs)

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: PathLike) -> bool:
        return FileSystem.validate_checkpoint_id(checkpoint_id)
