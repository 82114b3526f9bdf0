"""How context parallelism computes: options of the process, read when a context is entered and when attention is computed."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class _RotateMethod(enum.Enum):
    """How keys and values reach the other ranks."""

    ALL_TO_ALL = enum.auto()  # from neighbour to neighbour, one part at a time
    ALL_GATHER = enum.auto()  # all parts at once


@dataclass
class _ContextParallelOptions:
    convert_to_f32: bool = True  # sum the parts of attention in float32
    enable_load_balance: bool = True  # a rank has a piece of the sequence's head and one of its tail
    rotate_method: _RotateMethod = _RotateMethod.ALL_GATHER


_cp_options = _ContextParallelOptions()


def set_rotate_method(rotate_method: str) -> None:
    """Choose how keys and values reach the other ranks.

    Args:
        rotate_method: "allgather" (the default: every rank holds all keys and values for a moment) or "alltoall" (they go from
            neighbour to neighbour, while those that are there are used).

    Raises NotImplementedError for another.
    """
    methods = {"allgather": _RotateMethod.ALL_GATHER, "alltoall": _RotateMethod.ALL_TO_ALL}
    if rotate_method not in methods:
        raise NotImplementedError(f"Context Parallel does not support using {rotate_method} for kv shards rotation")
    _cp_options.rotate_method = methods[rotate_method]
