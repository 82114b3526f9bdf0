"""A store kept in a file that several processes see: a log of what was set, read from where one has got to.

Each request is a frame appended under a lock of the file, and every process has a table of what it has read. Stands on table and
frames; rendezvous makes it for file:// addresses.
"""

from __future__ import annotations

import fcntl
import os
import weakref
from typing import Any

from flambeau.base.locks import long_lock
from flambeau.base.naming import called
from flambeau.distributed.errors import DistStoreError
from flambeau.distributed.stores.frames import FrameError, Frames, packed
from flambeau.distributed.stores.store import Store
from flambeau.distributed.stores.table import Table

_READING = frozenset("get check num_keys list_keys multi_get queue_len".split())


@called("distributed.distributed_c10d", "FileStore")
class FileStore(Store):
    """A table kept in the file `file_name`, which must be new to this group of processes.

    world_size: how many processes use it; the last of them to leave deletes it.
    """

    def __init__(self, file_name: str, world_size: int = -1) -> None:
        super().__init__()
        self._path, self._world_size = os.fspath(file_name), world_size
        self._lock = long_lock()
        self._table, self._frames, self._read = Table(), Frames(), 0
        self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        self._leaving: Any
        if world_size > 0:
            self._leaving = weakref.finalize(self, _leave, self._path, world_size, os.getpid(), self._descriptor)
        else:
            self._leaving = weakref.finalize(self, _close, self._descriptor)

    @property
    def path(self) -> str:
        """The file's name."""
        return self._path

    def _ask(self, request: str, *operands: Any) -> Any:
        with self._lock:
            reads = request in _READING
            fcntl.flock(self._descriptor, fcntl.LOCK_SH if reads else fcntl.LOCK_EX)
            try:
                self._catch_up()
                answer = self._table.answer(request, *operands)
                if not reads:
                    data = packed([request, *operands])
                    os.pwrite(self._descriptor, data, self._read)
                    self._read += len(data)
                return answer
            finally:
                fcntl.flock(self._descriptor, fcntl.LOCK_UN)

    def _catch_up(self) -> None:
        """Read what others have written since."""
        while data := os.pread(self._descriptor, 1 << 20, self._read):
            self._read += len(data)
            try:
                for request, *operands in self._frames.feed(data):
                    self._table.answer(request, *operands)
            except (FrameError, ValueError, TypeError, KeyError):
                raise DistStoreError(f"{self._path} is no file of a store, or damaged: give a name that isn't in use") from None


def _close(descriptor: int) -> None:
    os.close(descriptor)


def _leave(path: str, world_size: int, process: int, descriptor: int) -> None:
    """Count this process as gone, and delete the file after the last."""
    os.close(descriptor)
    if os.getpid() != process:      # a forked child, which never came
        return
    try:
        store = FileStore(path)
        if store.add("left/", 1) >= world_size:
            os.unlink(path)
    except (OSError, DistStoreError):
        pass
