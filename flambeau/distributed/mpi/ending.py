"""How a process ends that was in a world: MPI is finalized together with the others, or left alone where one of them can't.

What Python runs when the process ends is installed by whoever initializes MPI. Stands on the modules beside it; world uses it.
"""

from __future__ import annotations

import os
import sys
import threading
import time
import weakref
from contextlib import suppress
from datetime import timedelta
from multiprocessing.process import BaseProcess
from multiprocessing.util import Finalize
from types import FrameType
from typing import Any

from flambeau.distributed.elastic.multiprocessing.errors import get_error_handler
from flambeau.distributed.errors import DistNetworkError, DistStoreError, PeerError
from flambeau.distributed.mpi import library
from flambeau.distributed.mpi.lifeline import Lifeline
from flambeau.distributed.mpi.process_manager import ProcessManager
from flambeau.distributed.mpi.progress import Background
from flambeau.distributed.stores import Store

_FINALIZE_TAKES = 60.0  # seconds that a process waits at its end for others to end as well
_OTHERS_ARE_THROUGH = 2.0  # seconds for which it goes on waiting when another's process has ended, which was through then
_LAST_QUESTIONS = timedelta(seconds=5)  # for which the keeper of a store waits
background = Background()
lifelines: weakref.WeakSet[Lifeline] = weakref.WeakSet()  # of all worlds, those that are destroyed too
broken: list[BaseException] = []  # why MPI can't end in good order


def at_exit(manager: ProcessManager | None, store: Store | None, size: int) -> None:
    """Have MPI end when the process does. manager: whom MPI asks, where that is this process; store: shared by all `size`."""
    Finalize(None, _end, (manager, store, size, _frame_of_process()), exitpriority=0)


def say_failures_once(rank: int) -> None:
    """One traceback of one failure: whoever only waited for a process that failed says that in a line."""
    before = sys.excepthook

    def uncaught(kind: type[BaseException], error: BaseException, traceback: Any) -> None:
        if isinstance(error, Exception):
            get_error_handler().record_exception(error)
        if isinstance(error, PeerError):
            print(f"rank {rank}: {error}", file=sys.stderr, flush=True)
        else:
            before(kind, error, traceback)

    sys.excepthook = uncaught


def _frame_of_process() -> FrameType | None:
    """In a process that multiprocessing has started, the frame of what runs it there."""
    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    while frame is not None and frame.f_code is not BaseProcess._bootstrap.__code__:
        frame = frame.f_back
    return frame


def _failure(process: FrameType | None) -> BaseException | None:
    """The exception with which this process ends, as far as it is known."""
    # From Python 3.13 on multiprocessing has forgotten it when it asks for the end, and only knows its exit code.
    if process is not None and (code := process.f_locals.get("exitcode")):
        return SystemExit(code)
    error = sys.exc_info()[1] or getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)
    if isinstance(error, SystemExit):
        return error if error.code not in (None, 0) else None
    return error


def _end(manager: ProcessManager | None, store: Store | None, size: int, process: FrameType | None) -> None:
    try:
        background.stop()
        failure = _failure(process) or (broken[0] if broken else None)
        if failure is None:
            _end_together(store, size)
        else:  # the others needn't wait for this one's MPI_Finalize
            why = f"exit code {failure.code}" if isinstance(failure, SystemExit) else f"{type(failure).__name__}: {failure}"
            for line in list(lifelines):
                line.fail(why[:500], isinstance(failure, PeerError))
            library.forget_names()
    finally:
        if manager is not None:
            manager.end()


def _end_together(store: Store | None, size: int) -> None:
    lines = list(lifelines)
    for line in lines:
        line.leave()
    until: list[float] = []

    def look() -> None:
        if not until and any(line.ended for line in lines):
            until.append(time.monotonic() + _OTHERS_ARE_THROUGH)
        if any(line.gone for line in lines) or (until and time.monotonic() > until[0]):
            raise DistNetworkError("another process is gone")

    with suppress(TimeoutError, DistNetworkError, DistStoreError):
        library.patiently(library.finalize, time.monotonic() + _FINALIZE_TAKES, look)
        if store is not None:  # whoever keeps it stays until all have asked it for the last time
            store.barrier("ended", size, _LAST_QUESTIONS)


def _in_child() -> None:
    """A forked child is no part of its parent's worlds."""
    for line in list(lifelines):
        line.forget()
    lifelines.clear()


os.register_at_fork(after_in_child=_in_child)
