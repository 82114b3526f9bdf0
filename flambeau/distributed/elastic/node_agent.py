"""The launcher's agent on one node: starts the node's processes, watches them, and begins again where one failed.

Stands on nodes and workers; launcher.api makes it.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from flambeau.distributed.elastic.function_processes import FunctionCall, FunctionProcess
from flambeau.distributed.elastic.multiprocessing.api import SignalException
from flambeau.distributed.elastic.multiprocessing.errors import ChildFailedError, ProcessFailure
from flambeau.distributed.elastic.nodes import Attempt, Nodes
from flambeau.distributed.elastic.workers import Workers
from flambeau.distributed.errors import DistError, DistNetworkError
from flambeau.distributed.mpi import library

_FIRST_FAILURE_TAKES = 2.0  # seconds
_SAME_LOSS_TAKES = 10.0  # seconds between a launcher's noticing that a machine is lost, and its processes' noticing it
LOCAL_RANK = "${local_rank}"  # stands for it in a command's arguments


class Agent:
    """Runs a command, or a function, in some processes of this node, and again after a failure, `max_restarts` times.

    config: launcher.api.LaunchConfig. Raises ChildFailedError when no attempt is left, SignalException for a signal, and
    DistError if nodes don't find each other.
    """

    def __init__(self, config: Any, name: str, command: Sequence[str] | FunctionCall) -> None:
        self.config, self.name, self.command = config, name, command
        self.restarts = 0
        self._results: dict[int, Any] = {}

    def run(self) -> dict[int, Any]:
        """Until all processes have ended well: what a function returned, of this node's by their ranks in the world."""
        config = self.config
        with self._logs() as logs, _signals(config.signals):
            nodes = Nodes(
                config.host,
                config.port,
                config.run_id,
                config.min_nodes,
                config.max_nodes,
                config.node_rank,
                config.keeps_store,
                config.join_timeout,
                config.last_call_timeout,
            )
            while True:
                attempt = nodes.join(config.nproc_per_node)
                if self._attempt(nodes, attempt, logs):
                    nodes.leave(attempt)
                    return self._results

    @contextlib.contextmanager
    def _logs(self) -> Iterator[Path]:
        """A folder for logs: kept where one was asked for."""
        given = self.config.logs_specs._root_log_dir
        name = f"{self.config.run_id}_{uuid.uuid4().hex[:8]}"
        if given:
            folder = Path(given) / name
            folder.mkdir(parents=True)
            yield folder
            return
        folder = Path(tempfile.mkdtemp(prefix="torchelastic_"))
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _attempt(self, nodes: Nodes, attempt: Attempt, logs: Path) -> bool:
        """Whether this attempt ended the run well; False if another is to follow."""
        config = self.config
        count = config.nproc_per_node
        environments = [self._environment(nodes, attempt, local) for local in range(count)]
        commands = [
            self.command
            if isinstance(self.command, FunctionCall)
            else [word.replace(LOCAL_RANK, str(local)) for word in self.command]
            for local in range(count)
        ]
        redirects, tee = config.streams()
        began, ended_well = time.time(), False
        workers: Workers | None = None
        try:
            workers = Workers(
                commands,
                environments,
                logs / f"attempt_{attempt.number}",
                redirects,
                tee,
                config.role,
                config.logs_specs._local_ranks_filter,
            )
            ended_well = self._watch(nodes, attempt, workers)
            if ended_well:
                self._results = {
                    attempt.first_rank + local: process.result() if isinstance(process, FunctionProcess) else None
                    for local, process in enumerate(workers.processes)
                }
            return ended_well
        except SignalException as error:
            with contextlib.suppress(DistNetworkError):
                if nodes.least < nodes.most:
                    nodes.open_next(attempt.number)  # the others go on without this node
                else:
                    nodes.fail(attempt, f"a launcher got {error.sigval.name}")
            if workers is not None:
                workers.end(error.sigval)
            raise
        finally:
            if workers is not None:
                workers.end()
            if not ended_well:
                library.remove_orphans(began)

    def _watch(self, nodes: Nodes, attempt: Attempt, workers: Workers) -> bool:
        finished, looked = False, 0.0
        while True:
            codes = workers.poll()
            failures = workers.failures(attempt.first_rank) if any(codes) else {}
            if failures:
                return self._after(nodes, attempt, workers, failures)
            if not finished and all(code == 0 for code in codes):
                finished = True
                nodes.done(attempt)
            if finished and nodes.all_done(attempt):
                return True
            if len(attempt.sizes) > 1 or nodes.most > 1:
                if time.monotonic() - looked > 0.2:
                    looked = time.monotonic()
                    if self._another_attempt(nodes, attempt, workers):
                        return False
            time.sleep(self.config.monitor_interval)

    def _another_attempt(self, nodes: Nodes, attempt: Attempt, workers: Workers) -> bool:
        """Whether another node has begun the next attempt. Raises DistError if one has ended the run, or keeps the store and is
        gone; ChildFailedError if the processes here have noticed that as well.
        """
        try:
            reason = nodes.failed(attempt)
            if reason:
                raise DistError(f"another node ended the run: {reason}")
            if len(attempt.sizes) < nodes.most and nodes.newcomers(attempt.number):
                nodes.open_next(attempt.number)
            if nodes.current() == attempt.number:
                return False
        except DistNetworkError as error:
            _say(f"the node that keeps the store is lost: {error}")
            failures = self._soon(workers, attempt, _SAME_LOSS_TAKES)
            if failures:
                raise ChildFailedError(self.name, failures) from None
            raise
        _say(f"another node begins attempt {attempt.number + 1}: restarting")
        return True

    @staticmethod
    def _soon(workers: Workers, attempt: Attempt, seconds: float) -> dict[int, ProcessFailure]:
        """What fails within some seconds: until there is a failure that isn't another's consequence, or all have ended."""
        until = time.monotonic() + seconds
        while True:
            failures = workers.failures(attempt.first_rank)
            if (
                time.monotonic() > until
                or None not in workers.poll()
                or not all(failure.secondary for failure in failures.values())
            ):
                return failures
            time.sleep(0.02)

    def _after(self, nodes: Nodes, attempt: Attempt, workers: Workers, failures: dict[int, ProcessFailure]) -> bool:
        """A process failed: begin again, or raise."""
        if all(failure.secondary for failure in failures.values()):  # noticed before the process that failed has ended
            failures = self._soon(workers, attempt, _FIRST_FAILURE_TAKES)
            with contextlib.suppress(DistNetworkError):
                if nodes.current() != attempt.number:  # another node's failure, or its leaving
                    return False
        error = ChildFailedError(self.name, failures)
        rank, first = error.get_first_failure()
        _say(
            f"failed (exitcode: {first.exitcode}) local_rank: {first.local_rank} (pid: {first.pid}) of "
            + (f"fn: {self.name}" if isinstance(self.command, FunctionCall) else f"binary: {self.command[0]}")
        )
        if self.restarts >= self.config.max_restarts:
            with contextlib.suppress(DistNetworkError):
                nodes.fail(attempt, f"rank {rank} failed with exit code {first.exitcode}")
            raise error
        self.restarts += 1
        workers.end()
        try:
            nodes.open_next(attempt.number)
        except DistNetworkError as lost:
            _say(f"no restart, the node that keeps the store is lost: {lost}")
            raise error from None
        _say(f"restarting: {self.config.max_restarts - self.restarts} restarts are left")
        return False

    def _environment(self, nodes: Nodes, attempt: Attempt, local: int) -> dict[str, str]:
        config, rank = self.config, attempt.first_rank + local
        made = dict(os.environ)
        made.update(
            LOCAL_RANK=str(local),
            RANK=str(rank),
            GROUP_RANK=str(attempt.node_rank),
            ROLE_RANK=str(rank),
            ROLE_NAME=config.role,
            LOCAL_WORLD_SIZE=str(config.nproc_per_node),
            WORLD_SIZE=str(attempt.world_size),
            GROUP_WORLD_SIZE=str(len(attempt.sizes)),
            ROLE_WORLD_SIZE=str(attempt.world_size),
            MASTER_ADDR=nodes.host,
            MASTER_PORT=str(nodes.port),
            TORCHELASTIC_RESTART_COUNT=str(attempt.number),
            TORCHELASTIC_MAX_RESTARTS=str(config.max_restarts),
            TORCHELASTIC_RUN_ID=config.run_id,
            TORCHELASTIC_USE_AGENT_STORE="True",
            FLAMBEAU_AGENT_STORE=f"{nodes.host}:{nodes.port}",
        )
        if config.nproc_per_node > 1:
            made.setdefault("OMP_NUM_THREADS", "1")
        return made


def _say(text: str) -> None:
    print(f"torchrun: {text}", file=sys.stderr, flush=True)


@contextlib.contextmanager
def _signals(names: Sequence[str]) -> Iterator[None]:
    """Signals that a launcher gets raise SignalException inside, once."""
    before: dict[int, Any] = {}

    def handle(number: int, frame: Any) -> None:
        for each in before:
            signal.signal(each, signal.SIG_IGN)
        raise SignalException(f"Process {os.getpid()} got signal: {number}", signal.Signals(number))

    try:
        for name in names:
            number = getattr(signal, name)
            before[number] = signal.signal(number, handle)
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
