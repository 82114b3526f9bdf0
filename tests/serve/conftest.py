"""A running server per test module, with small models; tests are skipped where the extra flambeau[serve] is absent."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import flambeau as torch

MODELS = Path(__file__).parent / "models"


class RunningServer:
    """A server in a process of its own, and its addresses."""

    def __init__(self, root: Path, arguments: list[str], log: Path) -> None:
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, [str(root), os.environ.get("PYTHONPATH")]))
        environment["PYTHONPYCACHEPREFIX"] = str(log.parent.parent / "bytecode")  # its processes import the same modules
        command = [sys.executable, "-m", "flambeau_torch", "serve", *arguments]
        for name in ("--port", "--management-port", "--metrics-port"):
            command += [name, "0"]
        self.log = log
        with open(log, "w") as errors:
            self.process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=errors, text=True)
        assert self.process.stdout is not None
        readable, _, _ = select.select([self.process.stdout], [], [], 300)
        line = self.process.stdout.readline() if readable else ""
        if not line:
            self.end()
            pytest.fail("the server didn't start:\n" + log.read_text()[-4000:])
        found = json.loads(line)
        self.inference, self.management, self.metrics = found["inference"], found["management"], found["metrics"]
        self.page = found["page"]
        self.token_file = found["token_file"]
        self.token = Path(self.token_file).read_text()
        self.bearer = f"Bearer {self.token}"

    def end(self, number: int = signal.SIGTERM) -> int:
        if self.process.poll() is None:
            self.process.send_signal(number)
            try:
                self.process.wait(60)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()
        return self.process.returncode


@pytest.fixture(scope="session")
def extra() -> None:
    for name in ("starlette", "uvicorn", "httptools", "prometheus_client"):
        pytest.importorskip(name, reason="flambeau[serve] isn't installed")


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Callable[[float, str], Path]:
    """Writes a program y = scale * (x @ A), for inputs (any, 4), and gives its path."""
    folder = tmp_path_factory.mktemp("programs")

    def write(scale: float, name: str) -> Path:
        class Scaled(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.weight = torch.nn.Parameter(scale * (torch.arange(8.0).reshape(4, 2) + 1))

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                return x @ self.weight

        exported = torch.export.export(
            Scaled(), (torch.ones(2, 4),), dynamic_shapes=({0: torch.export.Dim("rows", min=1, max=64)},)
        )
        torch.export.save(exported, folder / name)
        return folder / name

    return write


@pytest.fixture(scope="module")
def start(root: Path, extra: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., RunningServer]]:
    """Starts servers, which end with the module's tests."""
    running: list[RunningServer] = []

    def make(*arguments: Any) -> RunningServer:
        log = tmp_path_factory.mktemp("server") / "log"
        running.append(RunningServer(root, [str(argument) for argument in arguments], log))
        return running[-1]

    yield make
    for server in running:
        server.end()
