"""Process groups by name: making the default one and others, ending them, and questions about them.

Stands on rendezvous, mpi and process_group; the package offers its functions on.
"""

from __future__ import annotations

import os
import warnings
import zlib
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from flambeau.distributed.backends import Backend, BackendConfig, checked_backend
from flambeau.distributed.constants import default_pg_timeout
from flambeau.distributed.debug_level import DebugLevel, get_debug_level
from flambeau.distributed.mpi import library
from flambeau.distributed.mpi.world import World
from flambeau.distributed.process_group import ProcessGroup
from flambeau.distributed.rendezvous import check_rank, rendezvous
from flambeau.distributed.stores import PrefixStore, Store

UNINITIALIZED = "Default process group has not been initialized, please make sure to call init_process_group."


class _Registry:
    """The groups of this process."""

    def __init__(self) -> None:
        self.default: ProcessGroup | None = None
        self.world: World | None = None
        self.store: Store | None = None
        self.groups: dict[ProcessGroup, BackendConfig] = {}
        self.made = 0

    def name(self) -> str:
        """The next group's name: all processes make groups in the same order."""
        self.made += 1
        return str(self.made - 1)


_registry = _Registry()


class _GroupMemberType(type):
    """WORLD is asked for each time: a value kept by an import would be that of before."""

    @property
    def WORLD(cls) -> ProcessGroup | None:
        return _registry.default

    @WORLD.setter
    def WORLD(cls, group: ProcessGroup | None) -> None:
        _registry.default = group


class GroupMember(metaclass=_GroupMemberType):
    """WORLD is the default group, None before init_process_group; NON_GROUP_MEMBER stands for groups one isn't in."""

    NON_GROUP_MEMBER = -100


group = GroupMember


def is_initialized() -> bool:
    """Whether the default group is there."""
    return _registry.default is not None


def get_default_group() -> ProcessGroup:
    """The default group. Raises ValueError before init_process_group."""
    if _registry.default is None:
        raise ValueError(UNINITIALIZED)
    return _registry.default


def outside(group: Any) -> bool:
    """Whether `group` stands for one that this process isn't in."""
    return group is GroupMember.NON_GROUP_MEMBER or (isinstance(group, int) and group == GroupMember.NON_GROUP_MEMBER)


def group_of(group: Any) -> ProcessGroup:
    """The group itself, for None the default one. Raises ValueError if it was destroyed, or never made."""
    if group is None:
        return get_default_group()
    if group not in _registry.groups:
        raise ValueError("Invalid process group specified")
    return group


# ---------------------------------------------------------------------------------------------------- making groups


def _timeout_of(timeout: timedelta | None) -> timedelta:
    if timeout is None:
        return default_pg_timeout
    if not isinstance(timeout, timedelta):
        raise TypeError(f"Expected timeout argument to be of type datetime.timedelta, got {timeout}")
    return timeout


def _check_device(device_id: Any) -> None:
    """A group may be bound to an accelerator, of which there is none: ValueError, in PyTorch's words, for all but None."""
    advice = "Please use a different compiled version that supports your accelerator."
    if device_id is None:
        return
    if isinstance(device_id, int):
        raise ValueError(f"device_id is an int, but no accelerator support is found from the current compilation. {advice}")
    if device_id.index is None or device_id.type == "cpu":
        raise ValueError("init_process_group device_id parameter must be an accelerator with an index")
    raise ValueError(f"device_id {device_id} does not match the current compilation's accelerator support: None. {advice}")


def init_process_group(
    backend: str | None = None,
    init_method: str | None = None,
    timeout: timedelta | None = None,
    world_size: int = -1,
    rank: int = -1,
    store: Store | None = None,
    group_name: str = "",
    pg_options: Any = None,
    device_id: Any = None,
    _ranks: list[int] | None = None,
) -> None:
    """Make the default group of all processes, which all call this.

    backend: "gloo", "mpi", "cpu:gloo" or None: MPI by whatever name. init_method: where processes meet (env://, tcp://host:port,
    file:///path), or `store` with rank and world_size. timeout: how long operations may take (30 minutes). Raises RuntimeError
    that says what to install where MPI isn't there; DistStoreError or DistNetworkError that names the ranks that did not come.
    """
    _check_device(device_id)
    name = checked_backend(backend)
    if _registry.default is not None:
        raise ValueError("trying to initialize the default process group twice!")
    timeout = _timeout_of(timeout)
    if store is not None and init_method is not None:
        raise AssertionError("Cannot specify both init_method and store.")
    if store is not None:
        if world_size <= 0:
            raise AssertionError("world_size must be positive if using store")
        if rank < 0:
            raise AssertionError("rank must be non-negative if using store")
    if not library.is_available():
        raise RuntimeError(library.INSTALL)
    if store is None:
        store, rank, world_size = next(rendezvous(init_method or "env://", rank, world_size, timeout=timeout))
    check_rank(rank, world_size)
    store.set_timeout(timeout)
    world = World(store, rank, world_size, timeout)
    _registry.made = 0
    own = group_name or _registry.name()
    _registry.default = _made(world, range(world_size), PrefixStore("default_pg", store), timeout, own, name, "default_pg")
    _registry.world, _registry.store = world, store


def _made(world: World, ranks: Sequence[int], store: Store, timeout: timedelta, name: str, backend: str | None,
          description: str) -> ProcessGroup:
    config = BackendConfig(backend)
    made = ProcessGroup(world, ranks, store, timeout, name, config.of_cpu(), description,
                        get_debug_level() == DebugLevel.DETAIL)
    _registry.groups[made] = config
    return made


def destroy_process_group(group: ProcessGroup | None = None) -> None:
    """End a group; the default one with all others. Raises AssertionError before init_process_group."""
    if outside(group):
        return
    chosen = _registry.default if group is None else group
    if chosen is None:
        raise AssertionError("Process group cannot be None")
    if chosen not in _registry.groups:
        raise ValueError("Invalid process group specified")
    ended = list(_registry.groups) if chosen is _registry.default else [chosen]
    for each in ended:
        each.shutdown()
        del _registry.groups[each]
    if chosen is _registry.default:
        if _registry.world is not None:
            _registry.world.leave()
        _registry.default = _registry.world = _registry.store = None


def new_group(
    ranks: Sequence[int] | None = None,
    timeout: timedelta | None = None,
    backend: str | None = None,
    pg_options: Any = None,
    use_local_synchronization: bool = False,
    group_desc: str | None = None,
    device_id: Any = None,
    sort_ranks: bool = True,
) -> Any:
    """A group of some ranks (None: all). All processes call this for every group, in the same order; with
    use_local_synchronization only its members do. Returns GroupMember.NON_GROUP_MEMBER in the others.
    """
    default, world = get_default_group(), _registry.world
    assert world is not None and _registry.store is not None
    size = default.size()
    timeout = _timeout_of(timeout) if timeout is not None else default._timeout
    members = list(range(size)) if ranks is None else list(ranks)
    for rank in members:
        if not 0 <= rank < size:
            raise ValueError(f"Rank {rank} is out of range. Valid ranks are 0 to {size - 1} (world_size={size})")
    if len(set(members)) != len(members):
        raise ValueError(f"ranks list must not contain duplicate entries, got {members}")
    if len(members) > size:
        raise ValueError("the new group's world size should be less or equal to the world size set by init_process_group")
    if sort_ranks:
        members.sort()
    name = checked_backend(backend) if backend is not None else _registry.groups[default].given
    if use_local_synchronization:
        own = f"{zlib.crc32(str(members).encode()):08x}_{_count_of(members)}"
    else:
        own = _registry.name()
    if world.rank not in members:
        return GroupMember.NON_GROUP_MEMBER
    return _made(world, members, PrefixStore(own, _registry.store), timeout, own, name, group_desc or "undefined")


_local_counts: dict[tuple[int, ...], int] = {}


def _count_of(ranks: Sequence[int]) -> int:
    """How many groups of just these ranks were made before."""
    _local_counts[tuple(ranks)] = _local_counts.get(tuple(ranks), -1) + 1
    return _local_counts[tuple(ranks)]


def new_subgroups(
    group_size: int | None = None,
    group: ProcessGroup | None = None,
    timeout: timedelta | None = None,
    backend: str | None = None,
    pg_options: Any = None,
    group_desc: str | None = None,
) -> tuple[Any, list[Any]]:
    """Groups of `group_size` successive ranks each: this process's, and all."""
    if group_size is None:
        raise ValueError(
            "Default group size only takes effect when CUDA is available.If your subgroup using a backend that does not depend "
            "on CUDA,please pass in 'group_size' correctly.")
    if group_size <= 0:
        raise ValueError(f"The arg 'group_size' ({group_size}) must be positive")
    ranks = group_of(group)._ranks
    size = len(ranks)
    if size < group_size:
        raise ValueError(f"The arg 'group_size' ({group_size}) must not exceed the world size ({size})")
    if size % group_size:
        raise ValueError(f"The world size ({size}) must be divisible by 'group_size={group_size}'")
    parts = [ranks[start:start + group_size] for start in range(0, size, group_size)]
    return new_subgroups_by_enumeration(parts, timeout, backend, pg_options, group_desc)


def new_subgroups_by_enumeration(
    ranks_per_subgroup_list: Sequence[Sequence[int]],
    timeout: timedelta | None = None,
    backend: str | None = None,
    pg_options: Any = None,
    group_desc: str | None = None,
) -> tuple[Any, list[Any]]:
    """Groups of these ranks: this process's (None if it is in none), and all. Raises ValueError if two have a rank in common."""
    if not ranks_per_subgroup_list:
        raise ValueError("The arg 'ranks_per_subgroup_list' cannot be empty")
    where: dict[int, Sequence[int]] = {}
    for ranks in ranks_per_subgroup_list:
        for rank in ranks:
            if rank in where:
                raise ValueError(f"Rank {rank} has appeared in both subgroup {where[rank]} and {ranks}")
            where[rank] = ranks
    made = [new_group(list(ranks), timeout, backend, pg_options, group_desc=group_desc) for ranks in ranks_per_subgroup_list]
    own = next((each for each in made if not outside(each)), None)
    return own, made


def split_group(
    parent_pg: ProcessGroup | None = None,
    split_ranks: list[list[int]] | None = None,
    timeout: timedelta | None = None,
    pg_options: Any = None,
    group_desc: str | None = None,
    backend: str | None = None,
) -> ProcessGroup | None:
    """Divide a group: split_ranks lists ranks in it. All its processes call this; returns this process's part, None if it is in
    none. Raises ValueError if parts are empty or have ranks in common.
    """
    parent = group_of(parent_pg)
    if not split_ranks:
        raise ValueError("split_ranks cannot be None or empty")
    if any(not ranks for ranks in split_ranks):
        raise ValueError("the split group cannot be empty")
    listed = [rank for ranks in split_ranks for rank in ranks]
    if len(set(listed)) != len(listed):
        raise ValueError("the split group cannot have duplicate ranks")
    if len(listed) > parent.size():
        raise ValueError("the split group's size should be less or equal to the world_size set by init_process_group")
    own = None
    for ranks in split_ranks:
        members = [parent._ranks[rank] for rank in ranks]
        made = new_group(members, timeout or parent._timeout, backend, pg_options, use_local_synchronization=True,
                         group_desc=group_desc or f"{parent.group_desc}:split")
        own = own if outside(made) else made
    return own


# ---------------------------------------------------------------------------------------------------- questions


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
    return Backend(_registry.groups[group_of(group)].given or Backend.UNDEFINED)


def get_backend_config(group: Any = None) -> str:
    """The backend of each type of device, as `cpu:gloo`."""
    return str(_registry.groups[group_of(group)])


def get_process_group_ranks(group: Any) -> list[int]:
    """The ranks in the world of a group's processes, in the order of their ranks in it."""
    return list(group_of(group)._ranks)


def get_global_rank(group: Any, group_rank: int) -> int:
    """The rank in the world of a rank in a group. Raises ValueError if there is none."""
    if group is GroupMember.WORLD or group is None:
        return group_rank
    if group not in _registry.groups:
        raise ValueError(f"Group {group} is not registered, please create group with torch.distributed.new_group API")
    if not 0 <= group_rank < group.size():
        raise ValueError(f"Group rank {group_rank} is not part of group {group}")
    return group._ranks[group_rank]


def get_group_rank(group: Any, global_rank: int) -> int:
    """The rank in a group of a rank in the world. Raises ValueError if it isn't in it."""
    if group is GroupMember.WORLD or group is None:
        return global_rank
    if group not in _registry.groups:
        raise ValueError(f"Group {group} is not registered, please create group with torch.distributed.new_group API")
    if global_rank not in group._ranks:
        raise ValueError(f"Global rank {global_rank} is not part of group {group}")
    return group._ranks.index(global_rank)


def get_pg_count() -> int:
    """How many groups were made; 1 before the first, as PyTorch says."""
    return max(_registry.made, 1)


def named_group(name: str) -> ProcessGroup:
    """The group of a name. Raises ValueError if there is none."""
    for each in _registry.groups:
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
    rank = _registry.default.rank() if _registry.default is not None else -1
    warnings.warn(f"Running {name} on global rank {rank} which does not belong to the given group.", stacklevel=3)


