"""torch.numa.binding: the options by which a launcher says where its processes run."""

from __future__ import annotations

import enum
from dataclasses import dataclass

__all__ = ["AffinityMode", "NumaOptions"]


class AffinityMode(enum.StrEnum):
    """What a process is bound to."""

    NODE = "node"
    SOCKET = "socket"
    EXCLUSIVE = "exclusive"
    CORE_COMPLEX = "core-complex"

    __str__ = enum.Enum.__str__  # AffinityMode.NODE, not node


@dataclass(frozen=True)
class NumaOptions:
    """How to bind processes to the processors near their device; or, if that fails, whether to go on without."""

    affinity_mode: AffinityMode
    should_fall_back_if_binding_fails: bool = False
