"""Backends that programs register by a name, and the groups that they make.

A creator is called as creator(store, rank, size, timeout), or with extended_api as creator(_DistributedBackendOptions, options).
What it returns is a ProcessGroup, which is the group then, or an object with a group's operations, which one is given. Stands on
backends and process_group; groups asks it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from flambeau.base.naming import called
from flambeau.distributed.backends import Backend, BackendConfig, Plugin
from flambeau.distributed.process_group import ProcessGroup
from flambeau.distributed.stores import Store


@called("distributed.distributed_c10d", "_DistributedBackendOptions")
@dataclass
class _DistributedBackendOptions:
    """What a creator of the extended kind is told of the group that it is to make."""

    store: Store
    group_rank: int
    group_size: int
    timeout: timedelta
    group_id: str = ""
    global_ranks_in_group: list[int] = field(default_factory=list)


def plugin_of(config: BackendConfig) -> tuple[Plugin, list[str]] | None:
    """Who makes the groups of these backends, and the types of device that they are for; None if the engine does."""
    devices = config.get_device_backend_map()
    name = devices.get("cpu") or next(iter(devices.values()))
    plugin = Backend.plugin(name)
    return None if plugin is None else (plugin, [device for device, each in devices.items() if each == name])


def created(
    plugin: tuple[Plugin, list[str]],
    store: Store,
    ranks: Sequence[int],
    rank: int,
    timeout: timedelta,
    name: str,
    description: str,
    options: Any,
) -> ProcessGroup:
    """The group of a plugin. ranks: its processes' in the world; rank: this one's."""
    (creator, extended), devices = plugin
    own = list(ranks).index(rank)
    if extended:
        made = creator(_DistributedBackendOptions(store, own, len(ranks), timeout, name, list(ranks)), options)
    else:
        made = creator(store, own, len(ranks), timeout)
    if isinstance(made, ProcessGroup):
        group = made
    else:
        group = ProcessGroup(store, own, len(ranks))
        for device in devices:
            group._backends[device] = made
    group._set_group_name(name)
    group._set_group_desc(description)
    return group
