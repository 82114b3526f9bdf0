"""A function run in a process of its own, with the methods that workers use of a command's process.

Stands on Python's multiprocessing; workers makes them.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pickle
import signal
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flambeau.distributed.elastic.multiprocessing.errors import record


@dataclass
class FunctionCall:
    """A function, its arguments, and how its process begins: "spawn", "fork" or "forkserver"."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    start_method: str = "spawn"


class FunctionProcess:
    """A process that makes a call. outputs: a file for each of the descriptors 1 and 2 that has one. result: a file."""

    stdout = stderr = None

    def __init__(
        self,
        call: FunctionCall,
        environment: Mapping[str, str],
        outputs: Mapping[int, Path],
        result: Path,
        first: Callable[[], None],
    ) -> None:
        self._result = result
        context: Any = multiprocessing.get_context(call.start_method)
        arguments = call.function, call.args, dict(environment), dict(outputs), result, first
        self._process = context.Process(target=_run, args=arguments)
        self._process.start()
        self.pid = int(self._process.pid)

    def poll(self) -> int | None:
        """Its exit code, negative for a signal; None while it runs."""
        code: int | None = self._process.exitcode
        return code

    def wait(self) -> None:
        """Until it has ended."""
        self._process.join()

    def result(self) -> Any:
        """What the function returned."""
        with open(self._result, "rb") as file:
            return pickle.load(file)


def _run(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    environment: dict[str, str],
    outputs: dict[int, Path],
    result: Path,
    first: Callable[[], None],
) -> None:
    with contextlib.suppress(PermissionError):  # it leads one already
        os.setsid()
    first()
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):  # not what the launcher does with them
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.clear()
    os.environ.update(environment)
    for descriptor, path in outputs.items():
        (sys.stdout, sys.stderr)[descriptor - 1].flush()
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        os.dup2(file, descriptor)
        os.close(file)
    made = record(function)(*args)
    with open(result, "wb") as stream:
        pickle.dump(made, stream)
