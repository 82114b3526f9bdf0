"""Agents: one on each node starts its processes, watches them, and begins again where one failed or a node came.

SimpleElasticAgent is the loop; a subclass says how processes are started, watched and stopped. Stands on elastic.rendezvous and
elastic.metrics.
"""

from __future__ import annotations

import abc
import contextlib
import enum
import json
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from flambeau.distributed.elastic.metrics import prof, put_metric
from flambeau.distributed.elastic.multiprocessing.api import SignalException
from flambeau.distributed.elastic.multiprocessing.errors import ProcessFailure
from flambeau.distributed.elastic.rendezvous.api import RendezvousGracefulExitError, RendezvousHandler
from flambeau.distributed.errors import DistError
from flambeau.distributed.stores import Store

__all__ = ["ElasticAgent", "RunResult", "SimpleElasticAgent", "Worker", "WorkerGroup", "WorkerSpec", "WorkerState"]

DEFAULT_ROLE = "default"


def _get_fq_hostname() -> str:
    return socket.getfqdn(socket.gethostname())


@dataclass
class WorkerSpec:
    """What runs on a node: a function or command, how many of it, and where nodes meet.

    fn is the older name of entrypoint. args: of all processes; monitor_interval: seconds between two looks at them.
    """

    role: str
    local_world_size: int
    rdzv_handler: RendezvousHandler
    fn: Callable[..., Any] | None = None
    entrypoint: Callable[..., Any] | str | None = None
    args: tuple[Any, ...] = ()
    max_restarts: int = 3
    monitor_interval: float = 0.1
    master_port: int | None = None
    master_addr: str | None = None
    local_addr: str | None = None
    event_log_handler: str = "null"

    def __post_init__(self) -> None:
        if self.local_world_size <= 0:
            raise AssertionError(f"a node has at least one process, not {self.local_world_size}")
        if self.monitor_interval <= 0:
            raise AssertionError(f"the seconds between two looks at the processes are more than 0, not {self.monitor_interval}")
        if self.fn is not None:
            self.entrypoint = self.fn
        if not self.entrypoint:
            raise AssertionError("a WorkerSpec needs an entrypoint")

    def get_entrypoint_name(self) -> str:
        """The name of the function, or the command."""
        return str(getattr(self.entrypoint, "__qualname__", self.entrypoint))


class Worker:
    """A process: `id` is the process id once it runs; its ranks may change from attempt to attempt."""

    def __init__(
        self, local_rank: int, global_rank: int = -1, role_rank: int = -1, world_size: int = -1, role_world_size: int = -1
    ) -> None:
        self.id: Any = None
        self.local_rank, self.global_rank, self.role_rank = local_rank, global_rank, role_rank
        self.world_size, self.role_world_size = world_size, role_world_size

    def __repr__(self) -> str:
        return (
            f"Worker(local_rank={self.local_rank}, global_rank={self.global_rank}, role_rank={self.role_rank}, "
            f"world_size={self.world_size}, role_world_size={self.role_world_size})"
        )


class WorkerState(str, enum.Enum):  # noqa: UP042 - its str is PyTorch's
    """How the processes of a node are."""

    UNKNOWN, INIT, HEALTHY, UNHEALTHY, STOPPED, SUCCEEDED, FAILED = (
        "UNKNOWN",
        "INIT",
        "HEALTHY",
        "UNHEALTHY",
        "STOPPED",
        "SUCCEEDED",
        "FAILED",
    )

    __str__ = enum.Enum.__str__

    @staticmethod
    def is_running(state: WorkerState) -> bool:
        """Whether processes run in this state."""
        return state in (WorkerState.HEALTHY, WorkerState.UNHEALTHY)


class WorkerGroup:
    """The processes of a node, and the node's place among all."""

    def __init__(self, spec: WorkerSpec) -> None:
        self.spec = spec
        self.workers = [Worker(each) for each in range(spec.local_world_size)]
        self.store: Store | None = None
        self.group_rank: int | None = None
        self.group_world_size: int | None = None
        self.master_addr: str | None = None
        self.master_port: int | None = None
        self.state = WorkerState.INIT


@dataclass
class RunResult:
    """How the processes of a node are: when all have ended what they returned, or failures, by their ranks in the world."""

    state: WorkerState
    return_values: dict[int, Any] = field(default_factory=dict)
    failures: dict[int, ProcessFailure] = field(default_factory=dict)

    def is_failed(self) -> bool:
        """Whether they have failed."""
        return self.state == WorkerState.FAILED


class ElasticAgent(abc.ABC):
    """What runs the processes of a node."""

    @abc.abstractmethod
    def run(self, role: str = DEFAULT_ROLE) -> RunResult:
        """Run them until they have ended, or have failed as often as they may."""

    @abc.abstractmethod
    def get_worker_group(self, role: str = DEFAULT_ROLE) -> WorkerGroup:
        """The processes."""


class SimpleElasticAgent(ElasticAgent):
    """The loop of an agent. A subclass defines _start_workers, _stop_workers, _monitor_workers and _shutdown."""

    def __init__(self, spec: WorkerSpec, exit_barrier_timeout: float = 300, shutdown_timeout: int = 30) -> None:
        self._worker_group, self._remaining_restarts = WorkerGroup(spec), spec.max_restarts
        self._exit_barrier_timeout, self._shutdown_timeout, self._total_execution_time = exit_barrier_timeout, shutdown_timeout, 0

    def get_worker_group(self, role: str = DEFAULT_ROLE) -> WorkerGroup:
        """The processes."""
        return self._worker_group

    @abc.abstractmethod
    def _start_workers(self, worker_group: WorkerGroup) -> dict[int, Any]:
        """Start the processes; their ids by local rank."""

    @abc.abstractmethod
    def _stop_workers(self, worker_group: WorkerGroup, is_restart: bool = False) -> None:
        """End the processes."""

    @abc.abstractmethod
    def _monitor_workers(self, worker_group: WorkerGroup) -> RunResult:
        """How the processes are."""

    @abc.abstractmethod
    def _shutdown(self, death_sig: Any = None, timeout: int = 30, is_restart: bool = False) -> None:
        """Give back what the agent holds, and end processes by a signal."""

    @prof
    def _rendezvous(self, worker_group: WorkerGroup) -> None:
        """Find the other nodes, and the processes' ranks."""
        spec = worker_group.spec
        info = spec.rdzv_handler.next_rendezvous()
        worker_group.store, worker_group.group_rank, worker_group.group_world_size = info.store, info.rank, info.world_size
        worker_group.master_addr = spec.master_addr or info.bootstrap_store_info.master_addr
        worker_group.master_port = spec.master_port or info.bootstrap_store_info.master_port
        worker_group.workers = self._assign_worker_ranks(info.store, info.rank, info.world_size, spec)

    @prof
    def _assign_worker_ranks(self, store: Store, group_rank: int, group_world_size: int, spec: WorkerSpec) -> list[Worker]:
        """The processes' ranks, from what each node says of itself: in the order of nodes, and of nodes of one role."""
        store.set(f"torchelastic/role_info/{group_rank}", json.dumps([spec.role, spec.local_world_size]))
        everyone = [
            json.loads(each) for each in store.multi_get([f"torchelastic/role_info/{rank}" for rank in range(group_world_size)])
        ]
        sizes = [size for _, size in everyone]
        alike = [size if role == spec.role else 0 for role, size in everyone]
        return [
            Worker(local, sum(sizes[:group_rank]) + local, sum(alike[:group_rank]) + local, sum(sizes), sum(alike))
            for local in range(spec.local_world_size)
        ]

    @prof
    def _initialize_workers(self, worker_group: WorkerGroup) -> None:
        self._rendezvous(worker_group)
        for local, identity in self._start_workers(worker_group).items():
            worker_group.workers[local].id = identity
        worker_group.state = WorkerState.HEALTHY

    @prof
    def _restart_workers(self, worker_group: WorkerGroup) -> None:
        self._stop_workers(worker_group, is_restart=True)
        worker_group.state = WorkerState.STOPPED
        self._initialize_workers(worker_group)

    @prof
    def run(self, role: str = DEFAULT_ROLE) -> RunResult:
        """Run the processes until they have ended, or have failed as often as they may. Raises SignalException for a signal."""
        begin, ended = time.monotonic(), False
        try:
            result = self._invoke_run(role)
            self._worker_group.state, ended = result.state, True
            return result
        except RendezvousGracefulExitError:
            return RunResult(WorkerState.SUCCEEDED)
        except SignalException as error:
            ended = True
            self._shutdown(error.sigval)
            raise
        finally:
            if not ended:
                self._shutdown()
            self._total_execution_time = int(time.monotonic() - begin)

    def _invoke_run(self, role: str = DEFAULT_ROLE) -> RunResult:
        group, spec = self._worker_group, self._worker_group.spec
        self._initialize_workers(group)
        while True:
            time.sleep(spec.monitor_interval)
            result = self._monitor_workers(group)
            group.state = result.state
            put_metric(f"workers.{role}.remaining_restarts", self._remaining_restarts)
            put_metric(f"workers.{role}.{result.state.name.lower()}", 1)
            if result.state == WorkerState.SUCCEEDED:
                self._exit_barrier()
                return result
            if result.state in (WorkerState.UNHEALTHY, WorkerState.FAILED):
                if self._remaining_restarts <= 0:
                    self._stop_workers(group)
                    group.state = WorkerState.FAILED
                    return result
                self._remaining_restarts -= 1
                self._restart_workers(group)
            elif result.state == WorkerState.HEALTHY:
                if spec.rdzv_handler.num_nodes_waiting() > 0:
                    self._restart_workers(group)
            else:
                raise RuntimeError(f"[{role}] Worker group in {result.state.name} state")

    def _exit_barrier(self) -> None:
        """Wait until the processes of all nodes have ended."""
        group = self._worker_group
        assert group.store is not None and group.group_world_size is not None
        with contextlib.suppress(DistError):
            group.store.barrier(
                "torchelastic/agent/terminal_state", group.group_world_size, timedelta(seconds=self._exit_barrier_timeout)
            )
