"""The command line of the server: what it refuses, and that nobody pays for it who doesn't use it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest


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
    run_python: Any, extra: None, arguments: list[str], status: int, words: str, tmp_path: Path
) -> None:
    answer = run_python("-m", "flambeau_torch", "serve", *arguments, cwd=tmp_path)
    assert answer.returncode == status and words in answer.stderr and "Traceback" not in answer.stderr


def test_a_model_that_is_not_there_ends_the_server(run_python: Any, extra: None, tmp_path: Path) -> None:
    ports = ["--port", "0", "--management-port", "0", "--metrics-port", "0"]
    answer = run_python("-m", "flambeau_torch", "serve", "none.pt2", *ports, cwd=tmp_path)
    assert answer.returncode == 1 and "there is no none.pt2" in answer.stderr and not answer.stdout


def test_flambeau_loads_nothing_of_it(run_python: Any) -> None:
    names = "('flambeau.serve', 'uvicorn', 'starlette', 'prometheus_client')"
    answer = run_python("-c", f"import sys, flambeau; print([name for name in {names} if name in sys.modules])")
    assert answer.stdout.strip() == "[]", answer.stderr


def test_without_the_extra_it_says_what_to_install(run_python: Any, tmp_path: Path) -> None:
    code = "import sys\n"
    code += "from flambeau.serve import command\ncommand.EXTRA = ('surely_not_there',)\nsys.exit(command.main(['x.pt2']))"
    answer = run_python("-c", code, cwd=tmp_path)
    assert answer.returncode == 1 and "pip install 'flambeau[serve]'" in answer.stderr, answer.stderr
