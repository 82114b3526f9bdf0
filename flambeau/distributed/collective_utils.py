"""torch.distributed.collective_utils: work that one rank does for all, or each for all, whose failure is everybody's.

Stands on object_collectives.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Generic, TypeVar

from flambeau.distributed.object_collectives import all_gather_object, broadcast_object_list
from flambeau.distributed.registry import get_rank, get_world_size

__all__ = ["SyncPayload", "all_gather", "all_gather_object_enforce_type", "broadcast"]

T = TypeVar("T")


@dataclass
class SyncPayload(Generic[T]):
    """What a rank tells the others: a result, or what failed."""

    stage_name: str | None
    success: bool
    payload: T
    exception: Exception | None = None


def _made(data_or_fn: Any, stage_name: str | None, success: bool = True) -> SyncPayload[Any]:
    if not callable(data_or_fn) or not success:
        return SyncPayload(stage_name, success, None if callable(data_or_fn) else data_or_fn)
    try:
        return SyncPayload(stage_name, True, data_or_fn())
    except Exception as error:
        return SyncPayload(stage_name, False, None, error)


def broadcast(
    data_or_fn: T | Callable[[], T], *, success: bool = True, stage_name: str | None = None, rank: int = 0, pg: Any = None
) -> T:
    """A value, or what a function returns, of one rank. success: whether the work before went well there.

    Raises RuntimeError in all if it didn't, or the function raised.
    """
    if not success and data_or_fn is not None:
        raise AssertionError("Data or Function is expected to be None if not successful")
    own: list[Any] = [_made(data_or_fn, stage_name, success) if get_rank(pg) == rank else None]
    if pg is not None:
        broadcast_object_list(own, group=pg, group_src=rank)
    found = own[0]
    if not found.success:
        text = f"Rank {rank} failed" + (f": stage {found.stage_name}" if stage_name is not None else "")
        text += f": exception {found.exception}" if found.exception is not None else ""
        raise RuntimeError(text) from found.exception
    payload: T = found.payload
    return payload


def all_gather(data_or_fn: T | Callable[[], T], stage_name: str | None = None, pg: Any = None) -> list[T]:
    """The values, or what a function returns, of all ranks. Raises RuntimeError in all if it raised in one."""
    own = _made(data_or_fn, stage_name)
    everyone: list[Any] = [own]
    if pg is not None:
        everyone = [None] * get_world_size(pg)
        all_gather_object(everyone, own, group=pg)
    failed = [(rank, each) for rank, each in enumerate(everyone) if not each.success]
    if failed:
        words = [
            f"Rank {rank} failed" + (f": stage {each.stage_name}" if each.stage_name else "") + f": exception {each.exception}"
            for rank, each in failed
        ]
        raise RuntimeError("; ".join(words)) from failed[0][1].exception
    return [each.payload for each in everyone]


def all_gather_object_enforce_type(
    pg: Any, object_list: list[Any], obj: Any, type_checker: Callable[[Any, Any], bool] = lambda x, y: type(x) is type(y)
) -> None:
    """all_gather_object; TypeError if objects are of different types."""
    all_gather_object(object_list, obj, group=pg)
    for rank, (first, second) in enumerate(pairwise(object_list)):
        if not type_checker(first, second):
            raise TypeError(
                f"Object type at index {rank} is {type(first)}, while object type at index {rank + 1} is {type(second)}"
            )
