"""Launchers that programs make themselves: functions in processes, agents, rendezvous and metrics."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from flambeau.distributed.elastic import metrics
from flambeau.distributed.elastic.agent.server import WorkerSpec, WorkerState
from flambeau.distributed.elastic.agent.server.local_elastic_agent import LocalElasticAgent
from flambeau.distributed.elastic.multiprocessing import DefaultLogsSpecs, Std, start_processes, to_map
from flambeau.distributed.elastic.multiprocessing.errors import ChildFailedError
from flambeau.distributed.elastic.rendezvous import RendezvousParameters, get_rendezvous_handler
from flambeau.distributed.launcher.api import LaunchConfig, elastic_launch


def square(x: int, fails_until: int = 0, folder: str = "") -> tuple[int, int]:
    rank = int(os.environ["RANK"])
    os.write(1, f"here is {rank}\n".encode())
    if int(os.environ["TORCHELASTIC_RESTART_COUNT"]) < fails_until and rank == 1:
        raise ValueError("the reason")
    return rank, x * x


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_function_is_launched(method: str) -> None:
    config = LaunchConfig(1, 1, 2, run_id="r", max_restarts=1, start_method=method, monitor_interval=0.02)
    assert elastic_launch(config, square)(7, int(method == "fork")) == {0: (0, 49), 1: (1, 49)}


def test_a_function_that_fails_too_often_is_told_of() -> None:
    config = LaunchConfig(1, 1, 2, max_restarts=0, start_method="fork", monitor_interval=0.02)
    with pytest.raises(ChildFailedError, match="ValueError: the reason") as caught:
        elastic_launch(config, square)(7, 9)
    rank, failure = caught.value.get_first_failure()
    assert rank == 1 and failure.exitcode == 1


def spec_of(**settings: Any) -> WorkerSpec:
    handler = get_rendezvous_handler(RendezvousParameters("c10d", "localhost:0", "job", 1, 1))
    return WorkerSpec("trainer", 2, handler, monitor_interval=0.02, **settings)


def test_an_agent_runs_a_function(tmp_path: Path) -> None:
    seen: list[str] = []

    class Handler(metrics.MetricHandler):
        def emit(self, metric_data: Any) -> None:
            seen.append(metric_data.name)

    metrics.configure(Handler())
    try:
        logs = DefaultLogsSpecs(str(tmp_path), Std.OUT)
        agent = LocalElasticAgent(spec_of(entrypoint=square, args=(3, 1), max_restarts=1), logs, "fork")
        result = agent.run()
        assert result.state is WorkerState.SUCCEEDED and result.return_values == {0: (0, 9), 1: (1, 9)}
        (run,) = tmp_path.iterdir()
        assert (run / "attempt_1" / "1" / "stdout.log").read_text() == "here is 1\n"
        assert "workers.default.succeeded" in seen and "SimpleElasticAgent.run.success" in seen
        failed = LocalElasticAgent(spec_of(entrypoint=square, args=(3, 9), max_restarts=0), DefaultLogsSpecs(), "fork").run()
        assert failed.is_failed() and failed.failures[1].exitcode == 1 and "the reason" in failed.failures[1].message
    finally:
        metrics.configure(metrics.NullMetricHandler())


def test_commands_are_started_and_ended(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    program = "import os, sys, time; print('rank', os.environ['R']); sys.stdout.flush(); time.sleep(float(sys.argv[1]))"
    made = start_processes(
        "test",
        sys.executable,
        {0: ("-c", program, 0), 1: ("-c", program, 0)},
        {0: {"R": "a"}, 1: {"R": "b"}},
        DefaultLogsSpecs(str(tmp_path), tee={0: Std.OUT}),
    )
    result = made.wait()
    assert result is not None and not result.is_failed() and result.return_values == {0: None, 1: None}
    assert Path(result.stdouts[0]).read_text() == "rank a\n" and "[test0]:rank a\n" in capfd.readouterr().out
    made = start_processes("test", sys.executable, {0: ("-c", program, 60)}, {0: {"R": "a"}}, DefaultLogsSpecs())
    begin = time.monotonic()
    assert made.wait(0) is None
    os.kill(made.pids()[0], signal.SIGSTOP)  # one that is stopped ends as well
    made.close()
    assert time.monotonic() - begin < 20
    assert Std.from_str("0:1,1:2") == {0: Std.OUT, 1: Std.ERR} and to_map(Std.ALL, 2) == {0: Std.ALL, 1: Std.ALL}


def test_parameters_of_a_rendezvous() -> None:
    given = RendezvousParameters("c10d", "localhost:0", "job", 1, 2, timeout="5", strict="yes")
    assert given.get_as_int("timeout") == 5 and given.get_as_bool("strict") and given.get("nothing") is None
    with pytest.raises(ValueError, match="backend 'etcd' is not registered"):
        get_rendezvous_handler(RendezvousParameters("etcd", "localhost:0", "job", 1, 2))
    with pytest.raises(ValueError, match=r"nodes \(2\) must be greater than or equal to .* nodes \(3\)"):
        RendezvousParameters("c10d", "localhost:0", "job", 3, 2)
