"""What torch.distributed answers where no process group exists: the questions' answers, and the errors of everything else.

A process here is always alone, which is how PyTorch's CPU build behaves before `init_process_group`: a collective raises
its ValueError. What would make a group, shard a tensor or talk to another process raises NotImplementedError. Stands on
core.operator.unsupported; used by every module of the room.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau.base.naming import public_module
from flambeau.core.operator import unsupported as _unsupported

ADVICE = (
    "flambeau computes in one process; leave the process group uninitialized (programs that ask "
    "torch.distributed.is_initialized() then run alone), or use torch.multiprocessing and send NumPy arrays"
)
UNINITIALIZED = "Default process group has not been initialized, please make sure to call init_process_group."


def absent(room: str, functions: str = "", kinds: str = "") -> dict[str, Any]:
    """Functions and classes of `torch.distributed.<room>` that raise NotImplementedError when they are used."""
    return _unsupported.all_of(f"distributed.{room}." if room else "distributed.", ADVICE, functions, kinds)


def collective(name: str) -> Callable[..., Any]:
    """A function among processes: raises ValueError, for the default process group is never initialized."""

    def uninitialized(*args: Any, **kwargs: Any) -> Any:
        raise ValueError(UNINITIALIZED)

    uninitialized.__name__ = uninitialized.__qualname__ = name
    uninitialized.__module__ = public_module("distributed.distributed_c10d")
    uninitialized.__doc__ = "Needs a process group, and raises ValueError because none is initialized."
    return uninitialized
