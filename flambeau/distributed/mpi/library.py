"""MPI as a library: whether it is there, how it is loaded, initialized and ended.

All calls of MPI are made under `LOCK` and don't wait, so that the thread level SERIALIZED is enough; those that must wait
(MPI_Init, MPI_Finalize, making a communicator) run on a thread of their own while the caller looks at the clock. Stands on
the package mpi4py, which is imported when a group is first made; used by the modules beside it.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import os
import queue
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from flambeau.base.locks import long_lock
from flambeau.distributed.mpi import lazy_world

T = TypeVar("T")
INSTALL = "torch.distributed needs MPI: install flambeau's extra, `pip install 'flambeau[dist]'` (that is mpi4py and mpich)"
LOCK = long_lock()  # held by who calls MPI

_SHARED = "/dev/shm"
_SERIALIZED_LEVEL = 2  # MPI_THREAD_SERIALIZED of MPICH and of the standard's binary interface; Open MPI's is the same
_BY_PROCESS_MANAGERS = (("PMI_RANK", "PMI_SIZE"), ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"), ("PMIX_RANK", None))


@functools.cache
def is_available() -> bool:
    """Whether the package mpi4py is installed."""
    return importlib.util.find_spec("mpi4py") is not None


@functools.cache
def load() -> Any:
    """The module mpi4py.MPI, not yet initialized. Raises RuntimeError that says what to install."""
    if not is_available():
        raise RuntimeError(INSTALL)
    # More ranks than cores is usual here: what waits inside of MPI gives its core away.
    os.environ.setdefault("MPIR_CVAR_POLLS_BEFORE_YIELD", "0")
    os.environ.setdefault("OMPI_MCA_mpi_yield_when_idle", "1")
    os.environ.setdefault("UCX_DEBUG_SIGNO", "0")  # by default UCX takes SIGHUP, which is to end a process
    import mpi4py

    lazy_world.restore()
    mpi4py.rc.initialize = False
    mpi4py.rc.finalize = False
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:
        raise RuntimeError(f"{INSTALL}. mpi4py is there, but it finds no MPI library: {error}") from None
    return MPI


@functools.cache
def native() -> ctypes.CDLL:
    """MPI's own functions, called without the interpreter's lock: the extension module finds those of its library."""
    return ctypes.CDLL(load().__file__)


def started_by_process_manager() -> tuple[int, int] | None:
    """(rank, size) where mpiexec or srun started this process, which then tell MPI what it asks; else None."""
    for rank, size in _BY_PROCESS_MANAGERS:
        if rank in os.environ and (size is None or size in os.environ):
            try:
                return int(os.environ[rank]), int(os.environ[size]) if size else -1
            except ValueError:
                raise ValueError(
                    f"{rank} or {size} of the environment is no whole number: {os.environ[rank]!r}, "
                    f"{os.environ.get(size or '')!r}"
                ) from None
    return None


def initialize() -> None:
    """MPI_Init_thread, as long as it takes. RuntimeError where another library has initialized MPI already."""
    if load().Is_initialized():
        raise RuntimeError(
            "MPI is initialized already in this process, by another library and without the other ranks, which can't be undone; "
            "import torch.distributed before mpi4py.MPI is imported, or set MPI4PY_RC_INITIALIZE=0"
        )
    level = ctypes.c_int()
    check(native().MPI_Init_thread(None, None, _SERIALIZED_LEVEL, ctypes.byref(level)), "MPI_Init_thread")
    MPI = load()
    for communicator in (MPI.COMM_WORLD, MPI.COMM_SELF):
        communicator.Set_errhandler(MPI.ERRORS_RETURN)
    if level.value < _SERIALIZED_LEVEL:
        raise RuntimeError(f"this MPI lets one thread only call it (level {level.value}): {MPI.Get_library_version()}")


def finalize() -> None:
    """MPI_Finalize, as long as it takes."""
    native().MPI_Finalize()


def forget_names() -> None:
    """Take the names off the shared memory of this machine's processes, all of which have it: so it goes when they do,
    however they end.
    """
    if not load().Get_library_version().startswith("MPICH"):
        return  # others open it when they first need it
    with open("/proc/self/maps") as maps:
        names = {line.split(maxsplit=5)[5].strip() for line in maps if f"{_SHARED}/mpich_shm" in line}
    for name in names:
        with suppress(FileNotFoundError):
            os.unlink(name)


def remove_orphans(since: float) -> None:
    """Take away shared memory of MPI's, made since then (time.time()), that no process has: its makers were killed meanwhile."""
    try:
        made = [
            path
            for path in Path(_SHARED).iterdir()
            if path.name.startswith(("mpich_shm_", "ucx_shm_posix_"))
            and path.stat().st_mtime >= since - 1
            and path.stat().st_uid == os.getuid()
        ]
    except OSError:
        return
    for process in Path("/proc").glob("[0-9]*") if made else ():
        with suppress(OSError):
            if process.stat().st_uid != os.getuid():
                continue
            mapped = (process / "maps").read_text()
            opened = {os.readlink(each) for each in (process / "fd").iterdir()}
            made = [path for path in made if str(path) not in mapped and str(path) not in opened]
    for path in made:
        with suppress(OSError):
            path.unlink()


def check(code: int, name: str) -> None:
    """Raise RuntimeError for MPI's error code."""
    if code:
        raise RuntimeError(f"{name} failed: {load().Get_error_string(code)}")


_tasks: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()


@functools.cache
def _thread() -> threading.Thread:
    """The thread of calls that wait. It lives as long as the process: MPI keeps memory of the thread that initialized it."""

    def run() -> None:
        while True:
            _tasks.get()()

    made = threading.Thread(target=run, name="flambeau MPI", daemon=True)
    made.start()
    return made


def patiently(call: Callable[[], T], until: float, look: Callable[[], None]) -> T:
    """What a call of MPI that waits returns. It runs on a thread of its own, so that `look` can raise meanwhile.

    until: the time (time.monotonic()) after which TimeoutError is raised; the thread is of no use then.
    """
    done = threading.Event()
    outcome: list[Any] = [None, None]

    def run() -> None:
        try:
            outcome[0] = call()
        except BaseException as error:
            outcome[1] = error
        done.set()

    _thread()
    _tasks.put(run)
    while not done.wait(0.02):
        look()
        if time.monotonic() > until:
            raise TimeoutError
    if outcome[1] is not None:
        raise outcome[1]
    return outcome[0]
