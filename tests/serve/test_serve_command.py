"""The command line of the server: what it refuses, and that nobody pays for it who doesn't use it."""

from __future__ import annotations

import signal
import socket
import subprocess
from pathlib import Path
from typing import Any

import pytest

from flambeau.serve import command


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        ([], 2, "name a model"),
        (["a.pt2", "--workers", "many"], 2, "workers is 'many'; it must be int"),
        (["a.pt2", "--queue-size", "0"], 2, "queue_size is 0"),
        (["..=a.pt2"], 2, "is no name"),
        (["a.pt2", "--log", "xml"], 2, "log is json or text"),
        (["a.pt2", "a.pt2", "--port", "0"], 1, "two versions 1.0"),
        (["none.mar"], 1, "no archive"),
        (["--config", "none.toml"], 2, "none.toml"),
    ],
)
def test_arguments_that_cannot_be(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    extra: None,
    arguments: list[str],
    status: int,
    words: str,
) -> None:
    monkeypatch.setattr(command.spawning, "start", lambda *_: pytest.fail("a process was started"))
    assert command.main(arguments) == status and words in capsys.readouterr().err


def test_a_model_that_is_not_there_ends_the_server(run_python: Any, extra: None, tmp_path: Path) -> None:
    ports = ["--port", "0", "--management-port", "0", "--metrics-port", "0"]
    answer = run_python("-m", "flambeau_torch", "serve", "none.pt2", *ports, cwd=tmp_path)
    assert answer.returncode == 1 and "there is no none.pt2" in answer.stderr and not answer.stdout


def test_a_port_that_is_taken_leaves_no_process(extra: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What loads models was started before."""
    started = []

    def start(*_: Any) -> Any:
        ours, theirs = socket.socketpair()
        started.append(subprocess.Popen(["sleep", "600"], start_new_session=True))
        theirs.close()
        return started[-1], ours

    monkeypatch.setattr(command.spawning, "start", start)
    monkeypatch.setenv("FLAMBEAU_SERVE_UNPACKED", "")
    monkeypatch.setattr("flambeau.serve.logs.set_up", lambda form: None)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert command.main(["a.pt2", "--port", str(taken.getsockname()[1])]) == 1
    assert [process.returncode for process in started] == [-signal.SIGKILL]


def test_flambeau_loads_nothing_of_it(run_python: Any) -> None:
    names = "('flambeau.serve', 'uvicorn', 'starlette', 'prometheus_client')"
    answer = run_python("-c", f"import sys, flambeau; print([name for name in {names} if name in sys.modules])")
    assert answer.stdout.strip() == "[]", answer.stderr


def test_without_the_extra_it_says_what_to_install(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "EXTRA", ("surely_not_there",))
    assert command.main(["x.pt2"]) == 1 and "pip install 'flambeau[serve]'" in capsys.readouterr().err
