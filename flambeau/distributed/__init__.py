"""torch.distributed: processes that compute together, on one machine or several, over MPI.

`is_available()` is whether MPI is installed (the extra `flambeau[dist]`). Importing this loads none of it: MPI comes with
the first process group. Stands on distributed_c10d; what programs rarely use is loaded when it is first asked for.
"""

from __future__ import annotations

import importlib as _importlib
from typing import Any

from flambeau.distributed import distributed_c10d as _c10d
from flambeau.distributed.mpi import lazy_world as _lazy_world
from flambeau.distributed.mpi import library as _library
from flambeau.distributed.without_group import absent as _absent

globals().update((name, getattr(_c10d, name)) for name in _c10d.__all__)
globals().update(_absent("", "breakpoint"))

if _library.started_by_process_manager() is None:
    _lazy_world.install()

_MODULES = frozenset(
    "_composable _functional_collectives _shard _symmetric_memory _tensor algorithms argparse_util autograd checkpoint "
    "collective_utils constants device_mesh elastic fsdp launch launcher nn optim pipelining remote_device rpc run tensor "
    "utils".split()
)


def is_available() -> bool:
    """Whether processes can talk to each other: MPI is there, by the extra `flambeau[dist]` (mpi4py and mpich)."""
    return _library.is_available()


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return _importlib.import_module(f"flambeau.distributed.{name}")
    if name in ("DeviceMesh", "init_device_mesh"):
        return getattr(_importlib.import_module("flambeau.distributed.device_mesh"), name)
    if name == "_remote_device":
        return _importlib.import_module("flambeau.distributed.remote_device")._remote_device
    if name == "GradBucket":
        return getattr(_importlib.import_module("flambeau.nn.parallel.gradient_buckets"), name)
    if name.startswith("_") and not name.startswith("__") and hasattr(_c10d, name):
        return getattr(_c10d, name)
    raise AttributeError(f"module 'flambeau.distributed' has no attribute '{name}'")
