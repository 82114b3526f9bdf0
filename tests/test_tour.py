"""docs/tour.md walks the way that the program goes."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

WALK = """
import sys, flambeau as torch
root, calls = torch.__file__.rsplit("/", 1)[0] + "/", []
def note(frame, event, argument):
    if event == "call":
        calls.append(frame.f_code.co_filename.removeprefix(root) + ":" + frame.f_code.co_name)
def walk(program):
    sys.setprofile(note); program(); sys.setprofile(None)
    print("\\n".join(calls), end="\\n\\n"); calls.clear()
a, b, x = torch.ones(3, 4), torch.ones(3, 4), torch.ones(3, 4, requires_grad=True)
walk(lambda: a + b)
walk(lambda: a + b)
loss = (x * b).sum()
walk(loss.backward)
"""


def test_the_tour_goes_where_the_program_goes(root: Path, tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", WALK],
        capture_output=True,
        text=True,
        timeout=300,
        env={"FLAMBEAU_CACHE": str(tmp_path), "PATH": ""},
    )
    assert ran.returncode == 0, ran.stderr
    walks = [walk.split("\n") for walk in ran.stdout.strip().split("\n\n")]
    sections = re.split(r"(?m)^## .*$", (root / "docs" / "tour.md").read_text())[1:]
    assert len(walks) == len(sections) == 3
    for section, walk in zip(sections, walks):
        named = re.findall(r"`(\S+\.py:\w+|<[^>]+>:\w+)`", section)
        assert named and [name for name in named if name not in walk] == []
    assert len([call for call in walks[1] if not call.startswith("<string>")]) == 1  # the second time is one function
