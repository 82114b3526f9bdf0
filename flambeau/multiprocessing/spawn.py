"""torch.multiprocessing.spawn: a function run in processes of its own, and how their failures are told.

Stands on Python's multiprocessing; tensors among the arguments travel as flambeau.multiprocessing registers it.
"""

from __future__ import annotations

import multiprocessing as _multiprocessing
import signal
import sys
import traceback
from collections.abc import Callable
from multiprocessing.connection import wait as _wait
from typing import Any

__all__ = [
    "ProcessContext", "ProcessException", "ProcessExitedException", "ProcessRaisedException", "SpawnContext", "spawn",
    "start_processes",
]  # fmt: skip


class ProcessException(Exception):
    """A process that spawn started did not end well. Attributes: error_index (which), error_pid."""

    def __init__(self, msg: str, error_index: int, pid: int):
        super().__init__(msg)
        self.msg, self.error_index, self.pid = msg, error_index, pid

    def __reduce__(self) -> Any:
        return type(self), (self.msg, self.error_index, self.pid)


class ProcessRaisedException(ProcessException):
    """A process ended with an exception."""


class ProcessExitedException(ProcessException):
    """A process was ended by a signal or left with an exit code."""

    def __init__(self, msg: str, error_index: int, error_pid: int, exit_code: int, signal_name: str | None = None):
        super().__init__(msg, error_index, error_pid)
        self.exit_code, self.signal_name = exit_code, signal_name

    def __reduce__(self) -> Any:
        return type(self), (self.msg, self.error_index, self.pid, self.exit_code, self.signal_name)


def _run(fn: Callable[..., Any], index: int, args: tuple[Any, ...], errors: Any) -> None:
    try:
        fn(index, *args)
    except KeyboardInterrupt:
        pass
    except Exception:
        errors.put(traceback.format_exc())
        sys.exit(1)


class ProcessContext:
    """The processes that spawn started."""

    def __init__(self, processes: list[Any], error_queues: list[Any]):
        self.processes, self.error_queues = processes, error_queues
        self.sentinels = {process.sentinel: index for index, process in enumerate(processes)}

    def pids(self) -> list[int]:
        """Their process ids."""
        return [int(process.pid) for process in self.processes]

    def join(self, timeout: float | None = None, grace_period: float | None = None) -> bool:
        """Wait for at least one to end; whether all have. If one failed, end the others and raise what it raised."""
        if not self.sentinels:
            return True
        failed = None
        for sentinel in _wait(list(self.sentinels), timeout=timeout):
            index = self.sentinels.pop(sentinel)  # type: ignore[arg-type]
            self.processes[index].join()
            if self.processes[index].exitcode != 0:
                failed = index
                break
        if failed is None:
            return not self.sentinels
        for process in self.processes:
            if process.is_alive():
                process.terminate()
            process.join()
        process = self.processes[failed]
        if self.error_queues[failed].empty():
            code = process.exitcode
            if code < 0:
                name = signal.Signals(-code).name
                raise ProcessExitedException(f"process {failed} terminated with signal {name}", failed, process.pid, code, name)
            raise ProcessExitedException(f"process {failed} terminated with exit code {code}", failed, process.pid, code)
        text = self.error_queues[failed].get()
        raise ProcessRaisedException(f"\n\n-- Process {failed} terminated with the following error:\n{text}", failed, process.pid)


SpawnContext = ProcessContext


def start_processes(
    fn: Callable[..., Any],
    args: tuple[Any, ...] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:
    """Run fn(index, *args) in `nprocs` processes. join: wait for all and return None; else return their ProcessContext."""
    context = _multiprocessing.get_context(start_method)
    processes, queues = [], []
    for index in range(nprocs):
        errors = context.SimpleQueue()
        process = context.Process(target=_run, args=(fn, index, args, errors), daemon=daemon)  # type: ignore[attr-defined]
        process.start()
        processes.append(process)
        queues.append(errors)
    made = ProcessContext(processes, queues)
    if not join:
        return made
    while not made.join():
        pass
    return None


def spawn(
    fn: Callable[..., Any],
    args: tuple[Any, ...] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:
    """start_processes with fresh interpreters. Raises ProcessRaisedException with the traceback of one that failed."""
    return start_processes(fn, args, nprocs, join, daemon, "spawn")
