"""torch.distributed.elastic.multiprocessing.errors: how a failure in a started process is told to its launcher.

A process writes its first failure to the file named by TORCHELASTIC_ERROR_FILE; the launcher reads it and shows the first of
all. Stands on distributed.errors; `elastic.workers` and programs (`@record`) use it.
"""

from __future__ import annotations

import functools
import json
import os
import signal
import socket
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from flambeau.distributed.errors import PeerError

__all__ = ["ChildFailedError", "ErrorHandler", "ProcessFailure", "get_error_handler", "record"]

_NO_TRACEBACK = "To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html"
_WIDTH = 60


class ErrorHandler:
    """Writes a failure of this process where its launcher reads it."""

    def initialize(self) -> None:
        """Nothing is needed."""

    def record_exception(self, e: BaseException) -> None:
        """Write an exception to the error file, if a launcher named one and nothing is in it yet."""
        path = os.environ.get("TORCHELASTIC_ERROR_FILE")
        if not path or (os.path.exists(path) and os.path.getsize(path)):
            return
        callstack = "".join(traceback.format_exception(e))
        message = {
            "message": f"{type(e).__name__}: {e}",
            "extraInfo": {"py_callstack": callstack, "timestamp": str(int(time.time()))},
        }
        try:
            with open(path, "w") as file:
                json.dump({"message": message, "secondary": isinstance(e, PeerError)}, file)
        except OSError:
            pass  # the failure itself is what matters


def get_error_handler() -> ErrorHandler:
    """What `record` uses."""
    return ErrorHandler()


@dataclass
class ProcessFailure:
    """How a started process ended: its local rank, process id, exit code (negative: a signal), and its error file."""

    local_rank: int
    pid: int
    exitcode: int
    error_file: str
    error_file_data: dict[str, Any] = field(init=False, default_factory=dict)
    message: str = field(init=False, default="")
    timestamp: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        self.timestamp = int(time.time())
        try:
            with open(self.error_file) as file:
                self.error_file_data = json.load(file)
            told = self.error_file_data["message"]
            self.message = told if isinstance(told, str) else told["message" if self.secondary else "extraInfo"]
            if isinstance(self.message, dict):
                self.message = self.message["py_callstack"]
            self.timestamp = int(self.timestamp if isinstance(told, str) else told["extraInfo"]["timestamp"])
        except (OSError, ValueError, KeyError, TypeError):
            self.error_file_data = {"message": "<NONE>"}
            name = self.signal_name()
            self.message = f"Signal {-self.exitcode} ({name}) received by PID {self.pid}" if self.exitcode < 0 else _NO_TRACEBACK
            self.error_file = "<N/A>"

    @property
    def secondary(self) -> bool:
        """Whether it says that it follows from the failure of another process."""
        return self.error_file_data.get("secondary") is True

    def signal_name(self) -> str:
        """The name of the signal that ended it; "<N/A>" for none."""
        try:
            return signal.Signals(-self.exitcode).name if self.exitcode < 0 else "<N/A>"
        except ValueError:
            return f"<Invalid signal: {-self.exitcode}>"

    def timestamp_isoformat(self) -> str:
        """When it failed, in this machine's time."""
        return time.strftime("%Y-%m-%d_%H:%M:%S", time.localtime(self.timestamp))


class ChildFailedError(Exception):
    """Processes that a launcher started have failed. failures: by their ranks in the world."""

    def __init__(self, name: str, failures: dict[int, ProcessFailure]) -> None:
        if not failures:
            raise ValueError("a ChildFailedError is of at least one failure")
        self.name, self.failures = name, failures
        super().__init__(self.format_msg())

    def get_first_failure(self) -> tuple[int, ProcessFailure]:
        """(rank, failure) of the one that failed first, unless it only followed from that of another."""
        return min(self.failures.items(), key=lambda pair: (pair[1].secondary, pair[1].timestamp, pair[0]))

    def format_msg(self, boarder_delim: str = "=", section_delim: str = "-") -> str:
        """The failures in a frame."""
        first, root = self.get_first_failure()
        others = [pair for pair in sorted(self.failures.items()) if pair[0] != first]
        listed = "\n".join(_described(i + 1, *pair) for i, pair in enumerate(others)) or "  <NO_OTHER_FAILURES>"
        title = f"{self.name} FAILED"
        frame, section = boarder_delim * _WIDTH, section_delim * _WIDTH
        return "\n".join(
            [
                "",
                frame,
                title,
                section,
                "Failures:",
                listed,
                section,
                "Root Cause (first observed failure):",
                _described(0, first, root),
                frame,
            ]
        )


def _described(index: int, rank: int, failure: ProcessFailure) -> str:
    told = failure.message.rstrip().replace("\n", "\n    ")
    return (
        f"[{index}]:\n  time      : {failure.timestamp_isoformat()}\n  host      : {socket.gethostname()}\n"
        f"  rank      : {rank} (local_rank: {failure.local_rank})\n"
        f"  exitcode  : {failure.exitcode} (pid: {failure.pid})\n  error_file: {failure.error_file}\n"
        f"  traceback : {told}"
    )


def record(fn: Callable[..., Any], error_handler: ErrorHandler | None = None) -> Callable[..., Any]:
    """Decorator of a program's main function: what it raises is written for the launcher, and raised on."""
    handler = error_handler or get_error_handler()

    @functools.wraps(fn)
    def main(*args: Any, **kwargs: Any) -> Any:
        handler.initialize()
        try:
            return fn(*args, **kwargs)
        except SystemExit:
            raise
        except ChildFailedError:
            raise
        except Exception as error:
            handler.record_exception(error)
            raise

    return main
