"""Making process groups and ending them: the default one, and others of some of its processes.

Stands on rendezvous, engine, plugins and registry; the package offers its functions on.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from flambeau.distributed.backends import BackendConfig, checked_backend
from flambeau.distributed.constants import default_pg_timeout
from flambeau.distributed.engine.gloo import ProcessGroupGloo
from flambeau.distributed.mpi import library
from flambeau.distributed.mpi.world import World
from flambeau.distributed.plugins import created, plugin_of
from flambeau.distributed.process_group import ProcessGroup
from flambeau.distributed.registry import Entry, GroupMember, get_default_group, group_of, outside, ranks_of, registry
from flambeau.distributed.rendezvous import check_rank, rendezvous
from flambeau.distributed.stores import PrefixStore, Store


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
    if registry.default is not None:
        raise ValueError("trying to initialize the default process group twice!")
    timeout = _timeout_of(timeout)
    if store is not None and init_method is not None:
        raise AssertionError("Cannot specify both init_method and store.")
    if store is not None:
        if world_size <= 0:
            raise AssertionError("world_size must be positive if using store")
        if rank < 0:
            raise AssertionError("rank must be non-negative if using store")
    if plugin_of(BackendConfig(name)) is None and not library.is_available():
        raise RuntimeError(library.INSTALL)
    if store is None:
        store, rank, world_size = next(rendezvous(init_method or "env://", rank, world_size, timeout=timeout))
    check_rank(rank, world_size)
    store.set_timeout(timeout)
    if plugin_of(BackendConfig(name)) is None:
        registry.world = World(store, rank, world_size, timeout)
    registry.made, registry.store = 0, store
    own = group_name or registry.name()
    try:
        made = _made(rank, range(world_size), PrefixStore("default_pg", store), timeout, own, name, "default_pg", pg_options)
    except BaseException:
        registry.world = registry.store = None
        raise
    registry.default = made


def _made(
    rank: int,
    ranks: Sequence[int],
    store: Store,
    timeout: timedelta,
    name: str,
    backend: str | None,
    description: str,
    options: Any,
) -> ProcessGroup:
    """The group of some ranks, by the engine or by a plugin. rank: this process's in the world."""
    config = BackendConfig(backend)
    plugin = plugin_of(config)
    made: ProcessGroup
    if plugin is None:
        assert registry.world is not None
        made = ProcessGroupGloo.of_world(registry.world, ranks, store, timeout, name, config.of_cpu(), description)
    else:
        made = created(plugin, store, ranks, rank, timeout, name, description, options)
    registry.groups[made] = Entry(config, list(ranks))
    return made


def destroy_process_group(group: ProcessGroup | None = None) -> None:
    """End a group; the default one with all others. Raises AssertionError before init_process_group."""
    if outside(group):
        return
    chosen = registry.default if group is None else group
    if chosen is None:
        raise AssertionError("Process group cannot be None")
    if chosen not in registry.groups:
        raise ValueError("Invalid process group specified")
    ended = list(registry.groups) if chosen is registry.default else [chosen]
    for each in ended:
        each.shutdown()
        del registry.groups[each]
        registry.ended.add(each)
    if chosen is registry.default:
        if registry.world is not None:
            registry.world.leave()
        registry.default = registry.world = registry.store = None


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
    default, store = get_default_group(), registry.store
    assert store is not None
    size = default.size()
    timeout = _timeout_of(timeout) if timeout is not None else getattr(default, "_timeout", default_pg_timeout)
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
    name = checked_backend(backend) if backend is not None else registry.groups[default].config.given
    if use_local_synchronization:
        own = f"{zlib.crc32(str(members).encode()):08x}_{_count_of(members)}"
    else:
        own = registry.name()
    if registry.world is None and plugin_of(BackendConfig(name)) is None:
        if use_local_synchronization:
            raise NotImplementedError("all processes make the first group of MPI: leave out use_local_synchronization")
        registry.world = World(PrefixStore("world", store), default.rank(), size, timeout)
    if default.rank() not in members:
        return GroupMember.NON_GROUP_MEMBER
    return _made(default.rank(), members, PrefixStore(own, store), timeout, own, name, group_desc or "undefined", pg_options)


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
            "on CUDA,please pass in 'group_size' correctly."
        )
    if group_size <= 0:
        raise ValueError(f"The arg 'group_size' ({group_size}) must be positive")
    ranks = ranks_of(group_of(group))
    size = len(ranks)
    if size < group_size:
        raise ValueError(f"The arg 'group_size' ({group_size}) must not exceed the world size ({size})")
    if size % group_size:
        raise ValueError(f"The world size ({size}) must be divisible by 'group_size={group_size}'")
    parts = [ranks[start : start + group_size] for start in range(0, size, group_size)]
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
        members = [ranks_of(parent)[rank] for rank in ranks]
        made = new_group(
            members,
            timeout or getattr(parent, "_timeout", None),
            backend,
            pg_options,
            True,
            group_desc=group_desc or f"{parent.group_desc}:split",
        )
        own = own if outside(made) else made
    return own


def shrink_group(
    ranks_to_exclude: list[int], group: ProcessGroup | None = None, shrink_flags: int = 0, pg_options: Any = None
) -> ProcessGroup:
    """A group without some of its ranks, by backends that go on when ranks are lost. As with Gloo, none does here: TypeError."""
    own = group_of(group)
    raise TypeError(
        f"shrink_group() requires a backend that supports shrinking, which {own.name()} does not: make a group of "
        "the ranks that stay by new_group, and begin again with fewer processes when some are lost"
    )
