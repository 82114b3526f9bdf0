"""Shared by all tests: the checkout, a seeded generator, and the Python that has PyTorch, where there is one."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import flambeau

multiprocessing.set_start_method("fork")  # Python's default until 3.14; the others pickle what tests define in functions
flambeau.manual_seed(0)  # also for what tests draw while they are imported
ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def root() -> Path:
    """The checkout."""
    return ROOT


@pytest.fixture(autouse=True)
def _fresh_random_state(request: pytest.FixtureRequest) -> None:
    """Every test starts from the same seed, whatever ran before it in this process."""
    for name in ("flambeau", "torch"):
        module = sys.modules.get(name)
        if hasattr(module, "manual_seed"):
            module.manual_seed(0)
    for value in vars(request.module).values() if request.module else ():
        if isinstance(value, np.random.Generator):
            value.bit_generator.state = _states.setdefault(id(value), value.bit_generator.state)


_states: dict[int, dict] = {}  # of the generators of test modules, as they were after the import


@pytest.fixture
def run_python(root: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs this Python with some arguments in a fresh process that finds the checkout's flambeau."""

    def run(
        *arguments: str | Path, cwd: Path | None = None, timeout: float = 600, input: str = ""
    ) -> subprocess.CompletedProcess[str]:
        path = os.pathsep.join(filter(None, [str(root), os.environ.get("PYTHONPATH")]))
        return subprocess.run(
            [sys.executable, *map(str, arguments)],
            cwd=cwd,
            env={**os.environ, "PYTHONPATH": path},
            input=input,
            capture_output=True,
            text=True,
            timeout=timeout,
        )

    return run


@pytest.fixture(scope="session")
def torch_python() -> str:
    """A Python that imports PyTorch (TORCH_PYTHON, or this one); without it the test is skipped."""
    for python in filter(None, [os.environ.get("TORCH_PYTHON"), sys.executable]):
        answer = subprocess.run([python, "-c", "import torch"], stdin=subprocess.DEVNULL, capture_output=True)
        if answer.returncode == 0:
            return python
    pytest.skip("no Python with PyTorch (set TORCH_PYTHON)")
