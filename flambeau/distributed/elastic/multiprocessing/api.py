"""start_processes: a function or a command in several processes, each with its own arguments, environment and logs.

Stands on elastic.workers; agents use it.
"""

from __future__ import annotations

import enum
import os
import signal
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from flambeau.distributed.elastic.function_processes import FunctionCall, FunctionProcess
from flambeau.distributed.elastic.multiprocessing.errors import ProcessFailure
from flambeau.distributed.elastic.workers import Workers, streams_of

__all__ = [
    "DefaultLogsSpecs",
    "LogsDest",
    "LogsSpecs",
    "MultiprocessContext",
    "PContext",
    "ProcessFailure",
    "RunProcsResult",
    "SignalException",
    "Std",
    "SubprocessContext",
    "start_processes",
    "to_map",
]


class SignalException(Exception):
    """The launcher itself got a signal, which it hands on to its processes. sigval: which."""

    def __init__(self, msg: str, sigval: signal.Signals) -> None:
        super().__init__(msg)
        self.sigval = sigval


class Std(enum.IntFlag):
    """Streams of a process."""

    NONE, OUT, ERR = 0, 1, 2
    ALL = OUT | ERR

    @classmethod
    def from_str(cls, vm: str) -> Std | dict[int, Std]:
        """ "3" is Std.ALL, "0:1,1:2" of each local rank its own. Raises ValueError for anything else."""
        if not isinstance(vm, str) or not vm:
            raise ValueError(f"vm: {vm!r} is no streams of processes, such as 3 or 0:1,1:2")
        if ":" not in vm:
            return cls(streams_of(vm, 1)[0])
        streams_of(vm, 0)
        return {int(rank): cls(int(chosen)) for rank, _, chosen in (part.partition(":") for part in vm.split(","))}


def to_map(val_or_map: Std | Mapping[int, Std], local_world_size: int) -> dict[int, Std]:
    """The streams of each local rank."""
    if isinstance(val_or_map, Std):
        return dict.fromkeys(range(local_world_size), val_or_map)
    return {rank: val_or_map.get(rank, Std.NONE) for rank in range(local_world_size)}


@dataclass
class LogsDest:
    """The files of each local rank; empty names where there are none."""

    stdouts: dict[int, str] = field(default_factory=dict)
    stderrs: dict[int, str] = field(default_factory=dict)
    tee_stdouts: dict[int, str] = field(default_factory=dict)
    tee_stderrs: dict[int, str] = field(default_factory=dict)
    error_files: dict[int, str] = field(default_factory=dict)


class LogsSpecs(ABC):
    """Where output goes. redirects: into files only; tee: into files and here; local_ranks_filter: the ranks whose is shown."""

    def __init__(
        self,
        log_dir: str | None = None,
        redirects: Any = Std.NONE,
        tee: Any = Std.NONE,
        local_ranks_filter: set[int] | None = None,
    ) -> None:
        self._root_log_dir, self._redirects, self._tee, self._local_ranks_filter = log_dir, redirects, tee, local_ranks_filter

    @abstractmethod
    def reify(self, envs: dict[int, dict[str, str]]) -> LogsDest:
        """The files of processes with these environments."""

    @property
    @abstractmethod
    def root_log_dir(self) -> str:
        """The folder of all logs."""


class DefaultLogsSpecs(LogsSpecs):
    """Files stdout.log, stderr.log and error.json in log_dir/RUN/attempt_N/LOCAL_RANK; a temporary folder unless one is given."""

    def __init__(
        self,
        log_dir: str | None = None,
        redirects: Any = Std.NONE,
        tee: Any = Std.NONE,
        local_ranks_filter: set[int] | None = None,
    ) -> None:
        if log_dir is not None and log_dir != os.devnull:
            if os.path.exists(log_dir) and not os.path.isdir(log_dir):
                raise NotADirectoryError(f"log_dir: {log_dir} is a file")
            os.makedirs(log_dir, exist_ok=True)
        super().__init__(None if log_dir == os.devnull else log_dir, redirects, tee, local_ranks_filter)
        self._run_log_dir: str | None = None

    @property
    def root_log_dir(self) -> str:
        """The folder of all logs."""
        return str(self._root_log_dir)

    def _folder(self, envs: dict[int, dict[str, str]]) -> Path:
        first = envs[0] if envs else {}
        if self._run_log_dir is None:
            run = first.get("TORCHELASTIC_RUN_ID", "test_run_id")
            self._run_log_dir = tempfile.mkdtemp(
                prefix=f"{run}_" if self._root_log_dir else f"torchelastic_{run}_", dir=self._root_log_dir
            )
        return Path(self._run_log_dir) / f"attempt_{first.get('TORCHELASTIC_RESTART_COUNT', '0')}"

    def reify(self, envs: dict[int, dict[str, str]]) -> LogsDest:
        """The files of processes with these environments."""
        folder, count = self._folder(envs), len(envs)
        redirects, tee = to_map(self._redirects, count), to_map(self._tee, count)
        found = LogsDest()
        for rank in range(count):
            for streams, own, bit in ((found.stdouts, found.tee_stdouts, Std.OUT), (found.stderrs, found.tee_stderrs, Std.ERR)):
                path = str(folder / str(rank) / ("stdout.log" if bit is Std.OUT else "stderr.log"))
                streams[rank] = path if (redirects[rank] | tee[rank]) & bit else ""
                own[rank] = path if tee[rank] & bit else ""
            found.error_files[rank] = str(folder / str(rank) / "error.json")
        return found


@dataclass
class RunProcsResult:
    """How processes have ended, by local rank: what functions returned, failures, and the files of their output."""

    return_values: dict[int, Any] = field(default_factory=dict)
    failures: dict[int, ProcessFailure] = field(default_factory=dict)
    stdouts: dict[int, str] = field(default_factory=dict)
    stderrs: dict[int, str] = field(default_factory=dict)

    def is_failed(self) -> bool:
        """Whether one failed."""
        return bool(self.failures)


class PContext:
    """Processes that were started together. start_processes makes and starts one."""

    def __init__(
        self,
        name: str,
        entrypoint: Callable[..., Any] | str,
        args: dict[int, tuple[Any, ...]],
        envs: dict[int, dict[str, str]],
        logs_specs: LogsSpecs,
        log_line_prefixes: dict[int, str] | None = None,
        start_method: str = "spawn",
    ) -> None:
        if sorted(args) != list(range(len(args))) or args.keys() != envs.keys():
            raise RuntimeError(f"args and envs have an entry for each local rank from 0 on, not {sorted(args)}, {sorted(envs)}")
        self.name, self.entrypoint, self.args, self.envs, self.nprocs = name, entrypoint, args, envs, len(args)
        self._specs, self._method, self._prefixes = logs_specs, start_method, log_line_prefixes
        self._logs = logs_specs.reify(envs)
        self.stdouts, self.stderrs, self.error_files = self._logs.stdouts, self._logs.stderrs, self._logs.error_files
        self._workers: Workers | None = None

    def start(self) -> None:
        """Start them."""
        commands = [
            FunctionCall(self.entrypoint, tuple(self.args[rank]), self._method)
            if callable(self.entrypoint)
            else [self.entrypoint, *map(str, self.args[rank])]
            for rank in range(self.nprocs)
        ]
        redirects, tee = (to_map(each, self.nprocs) for each in (self._specs._redirects, self._specs._tee))
        self._workers = Workers(
            commands,
            [{**os.environ, **self.envs[rank]} for rank in range(self.nprocs)],
            Path(self.error_files[0]).parent.parent,
            [*redirects.values()],
            [*tee.values()],
            self.name,
            self._specs._local_ranks_filter,
        )

    def _started(self) -> Workers:
        if self._workers is None:
            raise RuntimeError("the processes aren't started: call start()")
        return self._workers

    def wait(self, timeout: float = -1, period: float = 1) -> RunProcsResult | None:
        """How they have ended; None if that isn't known within `timeout` seconds (0: one look; less: any). A failure ends all."""
        workers, until = self._started(), time.monotonic() + timeout
        while True:
            codes = workers.poll()
            if any(codes):
                failures = workers.failures(0)
                self.close()
                return RunProcsResult(failures=failures, stdouts=self.stdouts, stderrs=self.stderrs)
            if None not in codes:
                self.close()
                values = {
                    rank: process.result() if isinstance(process, FunctionProcess) else None
                    for rank, process in enumerate(workers.processes)
                }
                return RunProcsResult(values, {}, self.stdouts, self.stderrs)
            if timeout >= 0 and time.monotonic() >= until:
                return None
            time.sleep(min(period, 0.05))

    def pids(self) -> dict[int, int]:
        """Their process ids by local rank."""
        return {rank: process.pid for rank, process in enumerate(self._started().processes)}

    def close(self, death_sig: signal.Signals | None = None, timeout: int = 30) -> None:
        """End those that run: by a signal, and by SIGKILL after so many seconds."""
        if self._workers is not None:
            self._workers.end(death_sig or signal.SIGTERM, timeout)


class MultiprocessContext(PContext):
    """Processes of a function."""


class SubprocessContext(PContext):
    """Processes of a command."""


def start_processes(
    name: str,
    entrypoint: Callable[..., Any] | str,
    args: dict[int, tuple[Any, ...]],
    envs: dict[int, dict[str, str]],
    logs_specs: LogsSpecs,
    log_line_prefixes: dict[int, str] | None = None,
    start_method: str = "spawn",
    numa_options: Any = None,
    duplicate_stdout_filters: Any = None,
    duplicate_stderr_filters: Any = None,
) -> PContext:
    """Start a function or a command for each local rank in `args`, in this process's environment and that of `envs`."""
    if numa_options is not None or duplicate_stdout_filters or duplicate_stderr_filters:
        raise NotImplementedError("start_processes takes no numa_options and no duplicate filters: leave them out")
    kind = SubprocessContext if isinstance(entrypoint, str) else MultiprocessContext
    made = kind(name, entrypoint, args, envs, logs_specs, log_line_prefixes, start_method)
    made.start()
    return made
