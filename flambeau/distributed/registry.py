"""Which process groups there are, by what they were made with, and questions about them.

Stands on process_group and backends; groups fills it, and the package offers its functions on.
"""

from __future__ import annotations

import os
import warnings
import weakref
from dataclasses import dataclass
from typing import Any

from flambeau.distributed.backends import Backend, BackendConfig
from flambeau.distributed.mpi.world import World
from flambeau.distributed.process_group import ProcessGroup
from flambeau.distributed.stores import Store

UNINITIALIZED = "Default process group has not been initialized, please make sure to call init_process_group."


@dataclass
class Entry:
    """What a group was made with: its backends, and the ranks in the world of its processes."""

    config: BackendConfig
    ranks: list[int]


class Registry:
    """The groups of this process. world: what those over MPI share, once there is one."""

    def __init__(self) -> None:
        self.default: ProcessGroup | None = None
        self.world: World | None = None
        self.store: Store | None = None
        self.groups: dict[ProcessGroup, Entry] = {}
        self.ended: weakref.WeakSet[ProcessGroup] = weakref.WeakSet()
        self.made = 0

    def name(self) -> str:
        """The next group's name: all processes make groups in the same order."""
        self.made += 1
        return str(self.made - 1)


registry = Registry()


class _GroupMemberType(type):
    """WORLD is asked for each time: a value kept by an import would be that of before."""

    @property
    def WORLD(cls) -> ProcessGroup | None:
        return registry.default

    @WORLD.setter
    def WORLD(cls, group: ProcessGroup | None) -> None:
        registry.default = group


class GroupMember(metaclass=_GroupMemberType):
    """WORLD is the default group, None before init_process_group; NON_GROUP_MEMBER stands for groups one isn't in."""

    NON_GROUP_MEMBER = -100


group = GroupMember


def is_initialized() -> bool:
    """Whether the default group is there."""
    return registry.default is not None


def get_default_group() -> ProcessGroup:
    """The default group. Raises ValueError before init_process_group."""
    if registry.default is None:
        raise ValueError(UNINITIALIZED)
    return registry.default


def outside(group: Any) -> bool:
    """Whether `group` stands for one that this process isn't in."""
    return group is GroupMember.NON_GROUP_MEMBER or (isinstance(group, int) and group == GroupMember.NON_GROUP_MEMBER)


def group_of(group: Any) -> ProcessGroup:
    """The group itself, for None the default one. Raises ValueError if it was destroyed, or never made."""
    if group is None:
        return get_default_group()
    if not isinstance(group, ProcessGroup) or group in registry.ended:
        raise ValueError("Invalid process group specified")
    return group


def ranks_of(group: ProcessGroup) -> list[int]:
    """The ranks in the world of a group's processes; of a group that a program made by itself: as many as it has."""
    return registry.groups[group].ranks if group in registry.groups else list(range(group.size()))


def get_rank(group: Any = None) -> int:
    """This process's rank in a group (default: in the world); -1 if it isn't in it."""
    return -1 if outside(group) else group_of(group).rank()


def get_world_size(group: Any = None) -> int:
    """How many processes a group has (default: the world); -1 if this process isn't in it."""
    return -1 if outside(group) else group_of(group).size()


def get_backend(group: Any = None) -> Backend:
    """The backend that a group was made with."""
    if outside(group):
        raise ValueError("Invalid process group specified")
    return Backend(registry.groups[group_of(group)].config.given or Backend.UNDEFINED)


def get_backend_config(group: Any = None) -> str:
    """The backend of each type of device, as `cpu:gloo`."""
    return str(registry.groups[group_of(group)].config)


def get_process_group_ranks(group: Any) -> list[int]:
    """The ranks in the world of a group's processes, in the order of their ranks in it."""
    return list(ranks_of(group_of(group)))


def get_global_rank(group: Any, group_rank: int) -> int:
    """The rank in the world of a rank in a group. Raises ValueError if there is none."""
    if group is GroupMember.WORLD or group is None:
        return group_rank
    if group not in registry.groups:
        raise ValueError(f"Group {group} is not registered, please create group with torch.distributed.new_group API")
    if not 0 <= group_rank < group.size():
        raise ValueError(f"Group rank {group_rank} is not part of group {group}")
    return registry.groups[group].ranks[group_rank]


def get_group_rank(group: Any, global_rank: int) -> int:
    """The rank in a group of a rank in the world. Raises ValueError if it isn't in it."""
    if group is GroupMember.WORLD or group is None:
        return global_rank
    if group not in registry.groups:
        raise ValueError(f"Group {group} is not registered, please create group with torch.distributed.new_group API")
    if global_rank not in registry.groups[group].ranks:
        raise ValueError(f"Global rank {global_rank} is not part of group {group}")
    return registry.groups[group].ranks.index(global_rank)


def get_pg_count() -> int:
    """How many groups were made; 1 before the first, as PyTorch says."""
    return max(registry.made, 1)


def named_group(name: str) -> ProcessGroup:
    """The group of a name. Raises ValueError if there is none."""
    for each in registry.groups:
        if each.group_name == name:
            return each
    raise ValueError(f"no process group is named {name!r}")


def get_node_local_rank(fallback_rank: int | None = None) -> int:
    """The rank on this machine, from LOCAL_RANK. Raises RuntimeError if neither that nor a fallback is given."""
    if "LOCAL_RANK" in os.environ:
        return int(os.environ["LOCAL_RANK"])
    if fallback_rank is not None:
        return int(fallback_rank)
    raise RuntimeError(
        "LOCAL_RANK is not in the environment. Consider passing fallback_rank to allow `get_node_local_rank` to work, "
        "assuming you are not running in a multi-device context and want the code to run locally instead."
    )


def warn_outside(name: str) -> Any:
    """None, with a warning that a process calls an operation of a group that it isn't in."""
    rank = registry.default.rank() if registry.default is not None else -1
    warnings.warn(f"Running {name} on global rank {rank} which does not belong to the given group.", stacklevel=3)
