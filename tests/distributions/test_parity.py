"""The same program under flambeau and under a PyTorch at hand: what distributions give, print and refuse."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

PROGRAM = Path(__file__).parent / "parity_program.py"


def run(python: str, implementation: str, root: Path) -> dict[str, Any]:
    environment = {**os.environ, "PYTHONPATH": str(root), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [python, PROGRAM, implementation], env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)


def equal(ours: Any, theirs: Any) -> bool:
    if isinstance(ours, list):
        return isinstance(theirs, list) and len(ours) == len(theirs) and all(map(equal, ours, theirs))
    if isinstance(ours, float) and isinstance(theirs, float):
        if math.isnan(ours) or math.isnan(theirs):
            return math.isnan(ours) == math.isnan(theirs)
        # 5e-4: PyTorch approximates the derivatives of gamma and beta samples
        return ours == theirs or math.isclose(ours, theirs, rel_tol=5e-4, abs_tol=1e-6)
    return ours == theirs


def test_distributions_agree_with_a_pytorch_at_hand(torch_python: str, root: Path) -> None:
    theirs = run(torch_python, "torch", root)
    ours = run(sys.executable, "flambeau", root)
    assert len(theirs) > 900 and ours.keys() == theirs.keys()
    different = [f"{name}: {ours[name]} is {theirs[name]}" for name in theirs if not equal(ours[name], theirs[name])]
    assert not different, "\n".join(different[:20])
