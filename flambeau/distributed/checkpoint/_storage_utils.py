"""Which storage a checkpoint's name means: a folder, or an address of fsspec's. Used by the saver and the loader."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from flambeau.distributed.checkpoint import _fsspec_filesystem
from flambeau.distributed.checkpoint.filesystem import FileSystemReader, FileSystemWriter
from flambeau.distributed.checkpoint.storage import PathLike

__all__ = ["call_with_known", "storage_for"]


def call_with_known(method: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """Calls a storage's method with the options that it takes: a program's storage may be older than they are."""
    parameters = inspect.signature(method).parameters
    takes_all = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
    return method(*args, **{name: value for name, value in options.items() if takes_all or name in parameters})


def storage_for(given: Any, checkpoint_id: PathLike | None, reader: bool) -> Any:
    """The given storage, which goes on to this checkpoint, or one that the name means. RuntimeError where there is neither."""
    if given is not None:
        given.reset(checkpoint_id)
        return given
    if checkpoint_id is None:
        raise RuntimeError("`checkpoint_id` must be specificed if storage_reader/storage_writer is None.")
    local = FileSystemReader if reader else FileSystemWriter
    if local.validate_checkpoint_id(checkpoint_id):
        return local(checkpoint_id)
    remote = _fsspec_filesystem.FsspecReader if reader else _fsspec_filesystem.FsspecWriter
    if remote.validate_checkpoint_id(checkpoint_id):
        return remote(checkpoint_id)
    raise RuntimeError(
        "Cannot detect which StorageReader or StorageWriter to use. Please specify the storage_reader/storage_writer: "
        f"{checkpoint_id!r} is neither a folder nor an address that fsspec knows."
    )
