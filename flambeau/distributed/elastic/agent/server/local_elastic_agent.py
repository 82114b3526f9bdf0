"""LocalElasticAgent: an agent whose processes are this machine's. Stands on elastic.multiprocessing."""

from __future__ import annotations

import os
import signal
import string
from typing import Any

from flambeau.distributed.elastic.agent.server.api import RunResult, SimpleElasticAgent, WorkerGroup, WorkerSpec, WorkerState
from flambeau.distributed.elastic.multiprocessing.api import LogsSpecs, PContext, start_processes

__all__ = ["LocalElasticAgent"]


class LocalElasticAgent(SimpleElasticAgent):
    """Runs a WorkerSpec's function or command in processes of this machine, which find RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR,
    MASTER_PORT and the like in their environment. logs_specs: where their output goes. start_method: of a function's processes.
    """

    def __init__(
        self,
        spec: WorkerSpec,
        logs_specs: LogsSpecs,
        start_method: str = "spawn",
        exit_barrier_timeout: float = 300,
        log_line_prefix_template: str | None = None,
        shutdown_timeout: int = 30,
        health_check_server: Any = None,
        uninterruptible_state_timeout: float | None = None,
    ) -> None:
        super().__init__(spec, exit_barrier_timeout, shutdown_timeout)
        if health_check_server is not None:
            raise NotImplementedError("LocalElasticAgent has no health_check_server: leave it out, and watch the processes")
        self._start_method, self._logs_specs = start_method, logs_specs
        self._context: PContext | None = None

    def _start_workers(self, worker_group: WorkerGroup) -> dict[int, Any]:
        spec, environments, arguments = worker_group.spec, {}, {}
        restarts = spec.max_restarts - self._remaining_restarts
        shared = {
            "GROUP_RANK": worker_group.group_rank,
            "GROUP_WORLD_SIZE": worker_group.group_world_size,
            "LOCAL_WORLD_SIZE": spec.local_world_size,
            "ROLE_NAME": spec.role,
            "MASTER_ADDR": worker_group.master_addr,
            "MASTER_PORT": worker_group.master_port,
            "TORCHELASTIC_RESTART_COUNT": restarts,
            "TORCHELASTIC_MAX_RESTARTS": spec.max_restarts,
            "TORCHELASTIC_RUN_ID": spec.rdzv_handler.get_run_id(),
            "TORCHELASTIC_USE_AGENT_STORE": spec.rdzv_handler.use_agent_store,
            "FLAMBEAU_AGENT_STORE": f"{worker_group.master_addr}:{worker_group.master_port}",
        }
        if spec.local_world_size > 1:
            shared["OMP_NUM_THREADS"] = os.environ.get("OMP_NUM_THREADS", "1")
        for worker in worker_group.workers:
            local = worker.local_rank
            own = {
                "LOCAL_RANK": local,
                "RANK": worker.global_rank,
                "ROLE_RANK": worker.role_rank,
                "WORLD_SIZE": worker.world_size,
                "ROLE_WORLD_SIZE": worker.role_world_size,
            }
            environments[local] = {name: str(value) for name, value in {**shared, **own}.items()}
            arguments[local] = tuple(
                string.Template(each).safe_substitute(local_rank=local) if isinstance(each, str) else each for each in spec.args
            )
        assert spec.entrypoint is not None
        self._context = start_processes(
            spec.role, spec.entrypoint, arguments, environments, self._logs_specs, start_method=self._start_method
        )
        return self._context.pids()

    def _stop_workers(self, worker_group: WorkerGroup, is_restart: bool = False) -> None:
        self._shutdown(is_restart=is_restart)

    def _monitor_workers(self, worker_group: WorkerGroup) -> RunResult:
        assert self._context is not None
        result = self._context.wait(0)
        if result is None:
            return RunResult(WorkerState.HEALTHY)
        ranks = {worker.local_rank: worker.global_rank for worker in worker_group.workers}
        if result.is_failed():
            return RunResult(WorkerState.FAILED, failures={ranks[local]: each for local, each in result.failures.items()})
        return RunResult(WorkerState.SUCCEEDED, {ranks[local]: each for local, each in result.return_values.items()})

    def _shutdown(self, death_sig: signal.Signals | None = None, timeout: int = 30, is_restart: bool = False) -> None:
        if self._context is not None:
            self._context.close(death_sig, timeout)
