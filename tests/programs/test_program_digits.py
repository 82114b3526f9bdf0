"""The demo, examples/digits.py, as a newcomer runs it."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from implementation import NAME

FIRST_LOSSES = [  # PyTorch 2.13, seed 0
    2.798633,
    2.447572,
    2.491462,
    2.414311,
    2.331385,
    2.344881,
    2.339940,
    2.330499,
    2.230746,
    2.269036,
    2.251957,
    2.226847,
    2.101115,
    2.095900,
    2.110639,
    2.128747,
    2.126777,
    2.084150,
    2.090789,
    1.887384,
]
LEAD = {"flambeau": ["-m", "flambeau_torch", "run"], "torch": []}


@pytest.fixture
def digits(run_python: Callable, root: Path) -> Callable[..., str]:
    """Runs the demo and returns what it prints."""

    def run(*arguments: str | Path) -> str:
        answer = run_python(*LEAD[NAME], root / "examples" / "digits.py", *arguments, timeout=300)
        assert answer.returncode == 0, answer.stderr
        return answer.stdout

    return run


def test_the_first_losses_are_those_of_pytorch(digits: Callable[..., str]) -> None:
    lines = digits("--print-losses", str(len(FIRST_LOSSES))).splitlines()
    assert all(re.fullmatch(r"step +\d+ loss \d\.\d{6}", line) for line in lines)
    assert [float(line.split()[-1]) for line in lines] == pytest.approx(FIRST_LOSSES, abs=1e-4)


def test_ten_losses_agree_with_a_pytorch_at_hand(digits: Callable[..., str], torch_python: str, root: Path) -> None:
    command = [torch_python, root / "examples" / "digits.py", "--print-losses", "10", "--seed", "3"]
    theirs = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    ours = digits("--print-losses", "10", "--seed", "3")
    losses = [[float(line.split()[-1]) for line in output.splitlines()] for output in (ours, theirs)]
    assert losses[0] == pytest.approx(losses[1], abs=2e-3)


def test_a_short_training_learns_and_leaves_a_checkpoint(digits: Callable[..., str], tmp_path: Path) -> None:
    output = digits("--epochs", "4", "--out", tmp_path)
    accuracy = re.search(r"^test loss [\d.]+, accuracy ([\d.]+)%", output, re.MULTILINE)
    assert accuracy is not None and float(accuracy.group(1)) > 93
    assert (tmp_path / "best.pt").stat().st_size > 100_000
