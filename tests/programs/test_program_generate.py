"""The demo examples/generate.py: a model that is rounded to bfloat16, int8 and int4 says nearly what it said before."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from implementation import NAME

LEAD = {"flambeau": ["-m", "flambeau_torch", "run"], "torch": []}
ROW = re.compile(r"(float32|bfloat16|int8|int4) +\d+ +(\d+\.\d\d) MB +(\d+\.\d)%")


def test_the_demo_of_generation(run_python: Callable, root: Path) -> None:
    options = ["--steps", "8", "--characters", "12", "--width", "64"]
    answer = run_python(*LEAD[NAME], root / "examples" / "generate.py", *options, timeout=300)
    assert answer.returncode == 0, answer.stderr
    losses = [float(loss) for loss in re.findall(r"loss (\d\.\d+)", answer.stdout)]
    assert len(losses) == 8 and losses[-1] < losses[0] - 0.3
    rows = {label: (float(size), float(share)) for label, size, share in ROW.findall(answer.stdout)}
    assert list(rows) == ["float32", "bfloat16", "int8", "int4"]
    sizes = [size for size, _ in rows.values()]
    assert sizes == sorted(sizes, reverse=True) and sizes[-1] < 0.35 * sizes[0]
    assert rows["float32"][1] == 100 and all(share > 80 for _, share in rows.values())
