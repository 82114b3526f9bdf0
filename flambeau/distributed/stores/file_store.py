"""A store kept in a file that several processes see: a log of what was set, read from where one has got to.

Each request is a frame appended under a lock of the file, and every process has a table of what it has read. Stands on
table_store and frames; rendezvous makes it for file:// addresses.
"""

from __future__ import annotations

import fcntl
import os
import weakref
from collections.abc import Sequence
from typing import Any

from flambeau.base.locks import long_lock
from flambeau.base.naming import called
from flambeau.distributed.errors import DistStoreError
from flambeau.distributed.stores.frames import FrameError, Frames, packed
from flambeau.distributed.stores.table import Table
from flambeau.distributed.stores.table_store import TableStore

_PRESENT, _LEFT = "refcount/", "cleanup/"  # how many stores of the file there are; how many there were
_READING = frozenset("get check num_keys list_keys multi_get queue_len".split())


@called("distributed.distributed_c10d", "FileStore")
class FileStore(TableStore):
    """A table kept in the file `file_name`, which must be new to this group of processes.

    world_size: how many processes use it; the last of them to leave deletes it, unless there is another store of the file still.
    """

    def __init__(self, file_name: str, world_size: int = -1) -> None:
        super().__init__()
        self._open(os.fspath(file_name), os.O_CREAT)
        try:
            self.add(_PRESENT, 1)
        except BaseException:
            os.close(self._descriptor)
            raise
        self._leaving: Any = weakref.finalize(self, _leave, self._path, world_size, os.getpid(), self._descriptor)

    def _open(self, path: str, flags: int) -> None:
        self._path = path
        self._lock = long_lock()
        self._table, self._frames, self._read = Table(), Frames(), 0
        self._descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | flags, 0o644)

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

    def get(self, key: str) -> bytes:
        try:
            return super().get(key)
        except DistStoreError:
            if self.check([key]):
                raise
            milliseconds = round(self.timeout.total_seconds() * 1000)
            raise DistStoreError(f"Timeout waiting for key: {key} after {milliseconds} ms") from None

    def multi_get(self, keys: Sequence[str]) -> list[bytes]:
        return [self.get(key) for key in keys]

    def _catch_up(self) -> None:
        """Read what others have written since."""
        while data := os.pread(self._descriptor, 1 << 20, self._read):
            self._read += len(data)
            try:
                for request, *operands in self._frames.feed(data):
                    self._table.answer(request, *operands)
            except (FrameError, ValueError, TypeError, KeyError):
                raise DistStoreError(f"{self._path} is no file of a store, or damaged: give a name that isn't in use") from None


def _leave(path: str, world_size: int, process: int, descriptor: int) -> None:
    """Count a store as gone, and delete the file after the last."""
    os.close(descriptor)
    if os.getpid() != process:  # a forked child, which never came
        return
    store = FileStore.__new__(FileStore)  # one that isn't counted
    try:
        store._open(path, 0)
    except OSError:
        return
    try:
        left, present = store.add(_LEFT, 1), store.add(_PRESENT, -1)
        if present == 0 and 0 <= world_size <= left:
            os.unlink(path)
    except (OSError, DistStoreError):
        pass
    finally:
        os.close(store._descriptor)
