"""What collectives ask of their arguments, with PyTorch's words. Stands on the public tensor; the collectives use it."""

from __future__ import annotations

from typing import Any

import flambeau as torch
from flambeau.distributed.registry import get_global_rank, get_group_rank, get_rank, group_of


def check_tensor(value: Any, name: str) -> None:
    """Raise TypeError unless it is a tensor."""
    if not isinstance(value, torch.Tensor):
        raise TypeError(
            f"Invalid function argument. Expected parameter `{name}` of type torch.Tensor\n             "
            f"but got {type(value)} instead."
        )


def check_tensors(value: Any, name: str) -> None:
    """Raise TypeError unless it is a list of tensors."""
    if not isinstance(value, (list, tuple)):
        raise TypeError(
            f"Invalid function argument. Expected parameter `{name}` of type List[torch.Tensor]\n             "
            f"but got {type(value)} instead."
        )
    if not all(isinstance(each, torch.Tensor) for each in value):
        raise TypeError(
            f"Invalid function argument. Expected parameter `{name}` of type List[torch.Tensor]\n             "
            f"but got {type(value)} with elements of type {[type(each) for each in value]}."
        )


def check_same_dtype(*tensors: Any) -> None:
    """Raise ValueError unless all tensors, or lists of them, have one dtype."""
    flat = [each for given in tensors for each in (given if isinstance(given, (list, tuple)) else [given])]
    for each in flat:
        if each.dtype is not flat[0].dtype:
            raise ValueError(f"Invalid usage of tensors with different dtypesFound {flat[0].dtype} and  {each.dtype}")


def group_rank_of(group: Any, world_rank: int | None, group_rank: int | None, default: int | None = None) -> int:
    """The rank in a group that is given by either number. Raises ValueError for both, or neither without a default."""
    if world_rank is None and group_rank is None:
        if default is None:
            raise ValueError("Must specify global_rank or group_rank")
        return default
    if group_rank is not None:
        if world_rank is not None:
            raise ValueError("Can't specify both group_rank and global_rank")
        return group_rank
    assert world_rank is not None
    return world_rank if group is None else get_group_rank(group_of(group), world_rank)


def refuse_self(group: Any, group_rank: int, kind: str) -> None:
    """Raise ValueError if it is this process's own rank."""
    if get_rank(group) == group_rank:
        raise ValueError(f"Invalid {kind} rank: {kind} rank should not be the same as the rank of the current process.")


def world_rank_of(group: Any, group_rank: int) -> int:
    """The rank in the world of a rank in a group."""
    return get_global_rank(group_of(group), group_rank) if group is not None else group_rank
