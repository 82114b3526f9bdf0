"""Watching the worker processes of a loader: their death is an error of the program. Used by other libraries' loaders.

flambeau's own loader sees it at the worker's connection.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterable
from typing import Any

_workers: dict[int, set[int]] = {}
_watching = False


def _set_worker_pids(key: int, pids: Iterable[int]) -> None:
    """Watch these processes for the loader with this key. ValueError if it has others already."""
    if key in _workers:
        raise ValueError("_set_worker_pids should be called only once for each _BaseDataLoaderIter.")
    _workers[key] = set(pids)


def _remove_worker_pids(key: int) -> None:
    """Watch the processes of a loader no more. ValueError if it has none."""
    if key not in _workers:
        raise ValueError("Cannot find worker information for _BaseDataLoaderIter with id " + str(key))
    del _workers[key]


def _error_if_any_worker_fails() -> None:
    """RuntimeError if a process that is watched was killed, or ended with an error; it is then watched no more."""
    for pids in _workers.values():
        for pid in pids:
            found = None
            with contextlib.suppress(ChildProcessError):
                found = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if found is None or (found.si_code == os.CLD_EXITED and found.si_status == 0):
                continue
            pids.clear()
            if found.si_code == os.CLD_EXITED:
                raise RuntimeError(
                    f"DataLoader worker (pid {pid}) exited unexpectedly with exit code {found.si_status}. Details "
                    "are lost due to multiprocessing. Rerunning with num_workers=0 may give better error trace."
                )
            raise RuntimeError(f"DataLoader worker (pid {pid}) is killed by signal: {signal.strsignal(found.si_status)}. ")


def _set_SIGCHLD_handler() -> None:
    """From now on `_error_if_any_worker_fails` is asked whenever a child process ends. Nothing outside the main thread."""
    global _watching
    if _watching or threading.current_thread() is not threading.main_thread():
        return
    before = signal.getsignal(signal.SIGCHLD)
    if not callable(before):
        before = None

    def ended(number: int, frame: Any) -> None:
        _error_if_any_worker_fails()
        if before is not None:
            before(number, frame)

    signal.signal(signal.SIGCHLD, ended)
    _watching = True


def _set_worker_signal_handlers() -> None:
    """In a worker: its program's SIGTERM ends it without a word."""
    parent = os.getppid()

    def end(number: int, frame: Any) -> None:
        os._exit(0 if os.getppid() == parent else 128 + number)

    signal.signal(signal.SIGTERM, end)
