"""The channel of a world of one: what it is given is what it gets, at once and without MPI.

Stands on progress; process groups of one member use it in place of channel.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

from flambeau.base.dtype import dtype as DType
from flambeau.distributed.mpi.progress import Operation

Buffer = tuple[int, int]
Finish = Callable[[], None] | None


class _Over(Operation):
    __slots__ = ()

    def poll(self) -> bool:
        return True


class LocalChannel:
    """The methods of channel.Channel, for one process."""

    rank, size, error, name = 0, 1, None, "a group"

    def close(self) -> None:
        """Nothing is kept."""

    def fail(self, error: BaseException, current: Operation) -> None:
        """Nothing waits."""

    @staticmethod
    def _over(what: Any, tensors: Any, finish: Finish, given: Buffer | None = None, made: Buffer | None = None) -> Operation:
        if given is not None and made is not None and given[0] != made[0]:
            ctypes.memmove(made[0], given[0], given[1])
        operation = _Over(what, tensors, finish)
        operation.settle()
        if operation.error is not None:
            raise operation.error
        return operation

    def all_reduce(self, what: Any, tensors: Any, finish: Finish, buffer: Buffer, kind: str, dtype: DType) -> Operation:
        return self._over(what, tensors, finish)

    def broadcast(self, what: Any, tensors: Any, finish: Finish, buffer: Buffer, root: int) -> Operation:
        return self._over(what, tensors, finish)

    def all_gather(self, what: Any, tensors: Any, finish: Finish, own: Buffer, all: Buffer) -> Operation:
        return self._over(what, tensors, finish, own, all)

    def gather(self, what: Any, tensors: Any, finish: Finish, own: Buffer, all: Buffer | None, root: int) -> Operation:
        return self._over(what, tensors, finish, own, all)

    def scatter(self, what: Any, tensors: Any, finish: Finish, own: Buffer, all: Buffer | None, root: int) -> Operation:
        return self._over(what, tensors, finish, all, own)

    def reduce_scatter(
        self, what: Any, tensors: Any, finish: Finish, all: Buffer, own: Buffer, counts: Sequence[int], kind: str, dtype: DType
    ) -> Operation:
        return self._over(what, tensors, finish, all, own)

    def all_to_all(self, what: Any, tensors: Any, finish: Finish, given: Buffer, made: Buffer) -> Operation:
        return self._over(what, tensors, finish, given, made)

    def exchange(
        self,
        what: Any,
        tensors: Any,
        finish: Finish,
        given: Sequence[tuple[int, Buffer]],
        wanted: Sequence[tuple[int, Buffer]],
        uneven: bool = False,
    ) -> Operation:
        for (_, source), (_, target) in zip(given, wanted):
            if source[1] != target[1]:
                raise RuntimeError(f"{what}: {source[1]} bytes are sent where {target[1]} are expected")
            if source[0] != target[0]:
                ctypes.memmove(target[0], source[0], source[1])
        return self._over(what, tensors, finish)

    def barrier(self, what: Any) -> Operation:
        return self._over(what, (), None)

    def send(self, what: Any, tensors: Any, buffer: Buffer, target: int, tag: int) -> Operation:
        raise ValueError("a world of one has nobody to send to")

    def receive(self, what: Any, tensors: Any, finish: Finish, buffer: Buffer, source: int | None, tag: int) -> Operation:
        raise ValueError("a world of one has nobody to receive from")
