"""How much torch.distributed checks: TORCH_DISTRIBUTED_DEBUG = OFF, INFO or DETAIL. Stands on the standard library."""

from __future__ import annotations

import enum
import os

from flambeau.base.naming import called

__all__ = ["DebugLevel", "get_debug_level", "set_debug_level", "set_debug_level_from_env"]


@called("distributed.distributed_c10d", "DebugLevel")
class DebugLevel(enum.IntEnum):
    """How much the library checks and logs."""

    OFF, INFO, DETAIL = range(3)
    __str__ = enum.Enum.__str__


_chosen: DebugLevel | None = None


def get_debug_level() -> DebugLevel:
    """What was chosen; else what TORCH_DISTRIBUTED_DEBUG says."""
    return _of_environment() if _chosen is None else _chosen


def set_debug_level(level: DebugLevel) -> None:
    """Choose, for groups that are made from now on."""
    global _chosen
    _chosen = DebugLevel(level)


def set_debug_level_from_env() -> None:
    """Take what TORCH_DISTRIBUTED_DEBUG says. Raises ValueError for what is no level."""
    global _chosen
    _chosen = None
    _of_environment()


def _of_environment() -> DebugLevel:
    name = os.environ.get("TORCH_DISTRIBUTED_DEBUG") or "OFF"
    if name.upper() not in DebugLevel.__members__:
        raise ValueError(f"The value of TORCH_DISTRIBUTED_DEBUG must be OFF, INFO, or DETAIL; it is {name}.")
    return DebugLevel[name.upper()]
