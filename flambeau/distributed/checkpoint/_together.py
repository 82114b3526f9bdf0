"""Steps that every rank does and the coordinator brings together; a failure of one is raised by all. Used by saver and loader."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any

from flambeau.distributed import distributed_c10d as c10d
from flambeau.distributed.checkpoint.api import CheckpointException

__all__ = ["Together", "check_coordinator"]


class _Failure:
    """An exception on its way to the other ranks."""

    def __init__(self, error: BaseException) -> None:
        frames = traceback.extract_tb(error.__traceback__)
        # as texts: from Python 3.13 on a frame's summary has its code with it, which can't be sent
        self.failure = (error, traceback.StackSummary.from_list([(f.filename, f.lineno, f.name, f.line) for f in frames]))


def _tried(step: Callable[[], Any]) -> Any:
    try:
        return step()
    except BaseException as error:
        return _Failure(error)


class Together:
    """The ranks of a group (by default all, this one alone where there are no others); the first is the coordinator."""

    def __init__(self, group: Any = None, alone: bool = False) -> None:
        self.group = group
        self.alone = alone or not c10d.is_initialized()
        self.rank = 0 if self.alone else c10d.get_rank(group)
        self.count = 1 if self.alone else c10d.get_world_size(group)
        self.is_coordinator = self.rank == 0

    def _gathered(self, own: Any) -> list[Any]:
        if self.alone:
            return [own]
        found: list[Any] = [None] * self.count
        c10d.all_gather_object(found, own, group=self.group)
        return found

    @staticmethod
    def _raise_failures(step: str, found: list[Any]) -> None:
        failures = {rank: each.failure for rank, each in enumerate(found) if isinstance(each, _Failure)}
        if failures:
            raise CheckpointException(step, failures)

    def reduce_scatter(self, step: str, local: Callable[[], Any], central: Callable[[list[Any]], list[Any]]) -> Any:
        """`local` on each rank; `central` on the coordinator, of all results, gives each rank its own."""
        found = self._gathered(_tried(local))
        self._raise_failures(step, found)
        own = _tried(lambda: central(found)) if self.is_coordinator else None
        whole = self._gathered(own)[0]
        self._raise_failures(step, [whole])
        return whole[self.rank]

    def all_reduce(self, step: str, local: Callable[[], Any], central: Callable[[list[Any]], Any]) -> Any:
        """`local` on each rank; every rank gets what `central` makes of all results on the coordinator."""
        return self.reduce_scatter(step, local, lambda found: [central(found)] * self.count)


def check_coordinator(rank: int) -> None:
    """NotImplementedError for a coordinator other than the group's first rank."""
    if rank != 0:
        raise NotImplementedError(f"coordinator_rank={rank}: the first rank of the group is the coordinator; leave it out")
