"""torch.distributed for one process: what libraries import and ask, as in PyTorch's CPU build before init_process_group.

`is_available()` is True and `is_initialized()` False, which is the state in which libraries run on a single process. Making
a group raises NotImplementedError, and a collective raises PyTorch's ValueError for want of one. Parts that are values
(placements, FSDP's settings, wrap policies) are what they are in PyTorch.
"""

from __future__ import annotations

import importlib as _importlib
from typing import Any

from flambeau.distributed import distributed_c10d as _c10d
from flambeau.distributed.without_group import absent as _absent

globals().update((name, value) for name, value in vars(_c10d).items() if not name.startswith("_"))
globals().update(_absent("", "breakpoint set_debug_level set_debug_level_from_env", "_remote_device"))

_MODULES = frozenset(
    "_composable _functional_collectives _shard _tensor algorithms autograd checkpoint constants device_mesh elastic fsdp "
    "launch launcher nn optim pipelining rpc run tensor utils".split()
)


def is_available() -> bool:
    """True: the names are there. Whether processes can talk to each other, `is_initialized` tells."""
    return True


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return _importlib.import_module(f"flambeau.distributed.{name}")
    if name in ("DeviceMesh", "init_device_mesh"):
        return getattr(_importlib.import_module("flambeau.distributed.device_mesh"), name)
    if name.startswith("_") and not name.startswith("__") and hasattr(_c10d, name):
        return getattr(_c10d, name)
    raise AttributeError(f"module 'flambeau.distributed' has no attribute '{name}'")
