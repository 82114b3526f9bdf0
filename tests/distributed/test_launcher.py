"""torchrun: processes with their environment, restarts, signals, logs, exit codes, and nothing left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from distributed.ranks import HANG, free_port, needs_mpi, shared_memory

from flambeau.distributed import run as torchrun
from flambeau.distributed.elastic.multiprocessing.errors import ChildFailedError, ProcessFailure, record
from flambeau.distributed.elastic.workers import streams_of

# Without import torch: it starts in a twentieth of a second. What is launched is the launcher's business.
ENVIRONMENT = """
import json, os, sys
names = "RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE GROUP_RANK MASTER_ADDR TORCHELASTIC_RESTART_COUNT".split()
with open(sys.argv[1] + "/" + os.environ["RANK"] + ".json", "w") as file:
    json.dump({**{name: os.environ[name] for name in names}, "arguments": sys.argv[2:]}, file)
sys.stdout.write("out of " + os.environ["RANK"] + "\\n")
"""
FAILS = """
import os, sys, time
if os.environ["RANK"] == "1" and int(os.environ["TORCHELASTIC_RESTART_COUNT"]) < int(sys.argv[1]):
    sys.exit(7)
time.sleep(float(sys.argv[2]))
"""
TRAINS = """
import os, sys
import flambeau as torch
import flambeau.distributed as dist
from flambeau.distributed.elastic.multiprocessing.errors import record

@record
def main():
    dist.init_process_group("gloo")
    x = torch.ones(1)
    for step in range(2000):
        if step == 3 and dist.get_rank() == 1 and os.environ["TORCHELASTIC_RESTART_COUNT"] < sys.argv[1]:
            raise ValueError("the reason")
        if step == 20 and sys.argv[1] < "2":
            break
        dist.all_reduce(x.fill_(1))
    sys.stdout.write(f"sum {x.item()} after restart {os.environ['TORCHELASTIC_RESTART_COUNT']}\\n")
    dist.destroy_process_group()

main()
"""


def launch(tmp_path: Path, program: str, *arguments: str, options: tuple[str, ...] = ("--standalone",), wait: bool = True):
    script = tmp_path / "program.py"
    script.write_text(program)
    command = [sys.executable, "-m", "flambeau.distributed.run", *options, str(script), *arguments]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])},
    )
    if not wait:
        return process
    out, err = process.communicate(timeout=HANG)
    return process.returncode, out, err


def processes_of(tmp_path: Path) -> list[str]:
    """Command lines that have to do with this test."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            text = path.read_text()
        except OSError:
            continue
        if str(tmp_path) in text:
            found.append(text)
    return found


def until_there(*paths: Path, seconds: float = HANG) -> None:
    """Wait for files."""
    end = time.monotonic() + seconds
    while not all(path.exists() for path in paths):
        assert time.monotonic() < end, [path.name for path in paths if not path.exists()]
        time.sleep(0.05)


def test_the_environment_of_processes(tmp_path: Path) -> None:
    code, out, err = launch(tmp_path, ENVIRONMENT, str(tmp_path), "--epochs", "3", options=("--standalone", "--nproc_per_node=3"))
    assert code == 0, err
    assert sorted(out.split("\n")) == ["", "out of 0", "out of 1", "out of 2"]
    for rank in range(3):
        told = json.loads((tmp_path / f"{rank}.json").read_text())
        assert told["RANK"] == told["LOCAL_RANK"] == str(rank) and told["arguments"] == ["--epochs", "3"]
        assert told["WORLD_SIZE"] == told["LOCAL_WORLD_SIZE"] == "3" and told["TORCHELASTIC_RESTART_COUNT"] == "0"


def test_two_nodes_started_by_hand(tmp_path: Path) -> None:
    port = str(free_port())
    nodes = [
        launch(
            tmp_path,
            ENVIRONMENT,
            str(tmp_path),
            wait=False,
            options=(
                "--nnodes=2",
                f"--node-rank={node}",
                "--nproc-per-node",
                str(1 + node),
                "--master-addr=127.0.0.1",
                "--master-port",
                port,
            ),
        )
        for node in (1, 0)
    ]
    assert [node.wait(HANG) for node in nodes] == [0, 0]
    told = [json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(3)]
    assert [(each["GROUP_RANK"], each["LOCAL_RANK"], each["WORLD_SIZE"]) for each in told] == [
        ("0", "0", "3"),
        ("1", "0", "3"),
        ("1", "1", "3"),
    ]


ELASTIC = """
import os, pathlib, sys, time
attempt = os.environ["TORCHELASTIC_RESTART_COUNT"]
pathlib.Path(sys.argv[1], f"attempt {attempt}, rank {os.environ['RANK']} of {os.environ['WORLD_SIZE']}").touch()
time.sleep(3000 if attempt < "2" else 0)
"""


def test_a_machine_joins_an_elastic_run_and_leaves(tmp_path: Path) -> None:
    options = (
        "--nnodes=1:2",
        "--rdzv-backend=c10d",
        f"--rdzv-endpoint=127.0.0.1:{free_port()}",
        "--rdzv-id=r",
        "--rdzv-conf=last_call_timeout=0.2",
    )
    first = launch(tmp_path, ELASTIC, str(tmp_path), options=options, wait=False)
    until_there(tmp_path / "attempt 0, rank 0 of 1")
    second = launch(tmp_path, ELASTIC, str(tmp_path), options=options, wait=False)
    until_there(tmp_path / "attempt 1, rank 0 of 2", tmp_path / "attempt 1, rank 1 of 2")
    second.send_signal(signal.SIGTERM)
    assert (second.wait(HANG), first.wait(HANG)) == (128 + signal.SIGTERM, 0)  # the first goes on alone
    assert (tmp_path / "attempt 2, rank 0 of 1").exists() and not processes_of(tmp_path)


def test_a_missing_node_is_named(tmp_path: Path) -> None:
    code, _, err = launch(
        tmp_path, "", options=("--nnodes=2", "--node-rank=0", "--master-port", str(free_port()), "--rdzv-conf", "timeout=2")
    )
    assert code == 1 and "1 of at least 2 nodes came within 2 s; node rank 1 is missing" in err


def test_a_node_fails(tmp_path: Path) -> None:
    port = str(free_port())
    nodes = [
        launch(
            tmp_path,
            FAILS,
            "9",
            "3000",
            wait=False,
            options=("--nnodes=2", f"--node-rank={node}", "--master-addr=127.0.0.1", "--master-port", port),
        )
        for node in (0, 1)
    ]
    errors = [node.communicate(timeout=HANG)[1] for node in nodes]
    assert [node.returncode for node in nodes] == [1, 1] and "exitcode  : 7" in errors[1]
    assert errors[0] == "torchrun: another node ended the run: rank 1 failed with exit code 7\n"
    assert not processes_of(tmp_path)


def test_restarts_and_the_exit_code(tmp_path: Path) -> None:
    code, _, err = launch(tmp_path, FAILS, "1", "0", options=("--standalone", "--nproc-per-node=2", "--max-restarts=1"))
    assert code == 0 and err.count("failed (exitcode: 7) local_rank: 1") == 1
    code, _, err = launch(tmp_path, FAILS, "9", "3000", options=("--standalone", "--nproc-per-node=2"))
    assert code == 1  # the other one is ended
    assert "program.py FAILED" in err and "exitcode  : 7" in err and "rank      : 1 (local_rank: 1)" in err
    assert not processes_of(tmp_path)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_signals(tmp_path: Path, number: signal.Signals) -> None:
    program = (
        "import pathlib, signal, subprocess, sys, time\n"
        "signal.signal(signal.SIGTERM, lambda *_: (print('asked to end', flush=True), sys.exit(0)))\n"
        "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(3000)', sys.argv[1]])\n"
        "pathlib.Path(sys.argv[1], 'up').touch()\ntime.sleep(3000)"
    )
    process = launch(tmp_path, program, str(tmp_path), wait=False)
    end = time.monotonic() + HANG
    while not (tmp_path / "up").exists():
        assert time.monotonic() < end
        time.sleep(0.02)
    process.send_signal(number)
    out, _ = process.communicate(timeout=HANG) if number != signal.SIGKILL else ("", process.wait(HANG))
    assert process.returncode == (128 + number if number != signal.SIGKILL else -number)
    assert ("asked to end" in out) == (number == signal.SIGTERM)
    while number != signal.SIGKILL and processes_of(tmp_path):  # what a killed launcher's processes started, nobody ends
        assert time.monotonic() < end
        time.sleep(0.02)
    for text in Path("/proc").glob("[0-9]*/cmdline"):
        with_path = ""
        try:
            with_path = text.read_text()
        except OSError:
            continue
        if str(tmp_path) in with_path:
            os.kill(int(text.parent.name), signal.SIGKILL)


def test_logs(tmp_path: Path) -> None:
    program = "import os, sys\nprint('out', os.environ['RANK'])\nprint('err', os.environ['RANK'], file=sys.stderr)"
    code, out, err = launch(
        tmp_path,
        program,
        options=("--standalone", "--nproc-per-node=2", "--log-dir", str(tmp_path / "logs"), "--tee", "1:1", "--redirects=0:3"),
    )
    assert code == 0 and out == "[default1]:out 1\n" and "err 1" in err and "err 0" not in err
    found = {"/".join(path.parts[-3:]): path.read_text() for path in (tmp_path / "logs").rglob("*.log")}
    assert found == {
        "attempt_0/0/stdout.log": "out 0\n",
        "attempt_0/0/stderr.log": "err 0\n",
        "attempt_0/1/stdout.log": "out 1\n",
    }


@needs_mpi
def test_a_training_goes_on_after_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = shared_memory()
    for name in ("PMI_FD", "PMI_RANK", "PMI_SIZE", "PMIX_RANK", "PMIX_NAMESPACE"):
        monkeypatch.setenv(name, "7")  # srun sets such for the launcher, and MPI must not take them for its own
    options = ("--standalone", "--nproc-per-node=2", "--max-restarts=1")
    code, out, err = launch(tmp_path, TRAINS, "1", options=options)
    assert code == 0 and out.split("\n").count("sum 2.0 after restart 1") == 2, err
    code, out, err = launch(tmp_path, TRAINS, "2", options=options)
    assert code == 1 and not out and "failed (exitcode: 1) local_rank: 0" not in err
    assert err.count("Traceback") == 2 + 1  # one of each attempt's failure, and that in the frame
    assert "rank 0: all_reduce(float32[1]) of group default_pg: rank 1 is gone, it failed with ValueError: the reason" in err
    assert err.rstrip().endswith("=" * 60) and "ValueError: the reason" in err[err.index("Root Cause") :]
    assert "rank      : 1 (local_rank: 1)" in err[err.index("Root Cause") :]
    assert shared_memory() <= before and not processes_of(tmp_path)


@needs_mpi
def test_mpiexec_needs_no_variables(tmp_path: Path) -> None:
    mpiexec = Path(sys.executable).parent / "mpiexec"
    if not mpiexec.exists():
        pytest.skip("this MPI has its mpiexec elsewhere")
    program = tmp_path / "program.py"
    program.write_text(
        "import flambeau as torch, flambeau.distributed as dist, sys\ndist.init_process_group()\n"
        "dist.all_reduce(x := torch.ones(1))\n"
        "sys.stdout.write(f'{dist.get_rank()} of {x.item():.0f}\\n')"
    )
    answer = subprocess.run(
        [mpiexec, "-n", "2", sys.executable, program],
        capture_output=True,
        text=True,
        timeout=HANG,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])},
        check=False,
    )
    assert (answer.returncode, sorted(answer.stdout.split("\n"))) == (0, ["", "0 of 2", "1 of 2"]), answer.stderr


def test_record_writes_what_a_launcher_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCHELASTIC_ERROR_FILE", str(tmp_path / "error.json"))

    @record
    def fails() -> None:
        raise KeyError("gone")

    with pytest.raises(KeyError):
        fails()
    failure = ProcessFailure(0, 1, 1, str(tmp_path / "error.json"))
    assert "KeyError: 'gone'" in failure.message and "def fails" not in failure.message
    killed = ProcessFailure(1, 2, -9, str(tmp_path / "none"))
    assert killed.message == "Signal 9 (SIGKILL) received by PID 2" and killed.signal_name() == "SIGKILL"
    killed.timestamp = failure.timestamp - 5
    assert ChildFailedError("train.py", {3: failure, 4: killed}).get_first_failure() == (4, killed)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--nnodes=a", "x.py"), 'nnodes=a is not in "MIN:MAX" format'),
        (("--nnodes=3:2", "--rdzv-endpoint=h:1", "x.py"), "MIN <= MAX"),
        (("--nproc-per-node=gpu", "x.py"), "Cuda is not available"),
        (("--nproc-per-node=x", "x.py"), "Unsupported nproc_per_node"),
        (("--nnodes=1:2", "x.py"), "needs --rdzv-endpoint"),
        (("--nnodes=2", "--node-rank=2", "x.py"), "is not one of 2 nodes"),
        (("--nnodes=2", "--rdzv-backend=c10d", "x.py"), "need an endpoint"),
        (("--rdzv-backend=etcd", "x.py"), "static or c10d, not"),
        (("--nnodes=2", "--rdzv-endpoint=host:port", "x.py"), "an endpoint is HOST:PORT"),
        (("--nnodes=0", "x.py"), "0 < MIN"),
        (("--signals-to-handle=SIGFOO", "x.py"), "no signal 'SIGFOO'"),
        (("--local-ranks-filter=x", "x.py"), "takes local ranks"),
        (("--rdzv-conf=timeout=abc", "x.py"), "timeout is a number"),
        (("--monitor-interval=0", "x.py"), "are more than 0"),
        (("--log-dir=/proc/none", "x.py"), "No such file"),
        (("--no-python", "no_such_command"), "No such file"),
        (("--rdzv-conf=a", "x.py"), "takes <name>=<value>"),
        (("--no-python", "-m", "x"), "Don't use both"),
    ],
)
def test_options_that_cannot_be(arguments: tuple[str, ...], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert torchrun.main(arguments) == 1
    assert words in capsys.readouterr().err


def test_options(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PET_NPROC_PER_NODE", "4")
    options = torchrun.parse_args(["--nnodes", "2", "-m", "package.train", "--nnodes=7"])
    config, command, words = torchrun.config_from_args(options)
    assert (config.nproc_per_node, config.max_nodes, config.host, config.port) == (4, 2, "127.0.0.1", 29500)
    assert command == sys.executable and words == ["-u", "-m", "package.train", "--nnodes=7"]
    assert torchrun.determine_local_world_size("auto") == os.cpu_count()
    assert streams_of("3", 2) == [3, 3] and streams_of("1:2,0:1", 3) == [1, 2, 0]
