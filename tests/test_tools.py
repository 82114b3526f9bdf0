"""The tools that write documents: what they make of what they are given."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

import pytest


@pytest.fixture
def libraries(root: Path):
    spec = importlib.util.spec_from_file_location("make_libraries", root / "tools" / "make_libraries.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_table_of_libraries_is_that_of_its_data(libraries) -> None:
    suites = libraries.suites(json.loads(libraries.JUDGED.read_text()))
    assert libraries.TABLE.read_text() == libraries.table(json.loads(libraries.DATA.read_text())) + suites


def test_the_table_of_suites(libraries) -> None:
    judged = {
        "url": "u",
        "versions": {"a": "1.0", "b": None},
        "share": 4,
        "tests": 1200,
        "differ": 3,
        "whole": True,
        "pytorch": "2.13.0",
        "seconds": 3.4,
        "pytorch_seconds": 5.6,
    }
    table = libraries.suites({"a": judged, "b": {**judged, "pytorch": None}})
    assert "| [a](u) | a 1.0 | 4 | 1200 | 3 | 3 / 6 |" in table and "1 suites, 1,200 tests: 3 differ." in table
    assert libraries.suites({}) == ""


def test_runs_are_taken_over(libraries, tmp_path: Path) -> None:
    (tmp_path / "res").mkdir()
    (tmp_path / "ours" / "bin").mkdir(parents=True)
    python = tmp_path / "ours" / "bin" / "python"
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    ran = {"ok": True, "check": True, "said": "outputs 1e-6", "cpus": [3.2, 2.5], "refrun": {"torch": "2.13.0+flambeau"}}
    (tmp_path / "res" / "a.ours.json").write_text(json.dumps(ran))
    (tmp_path / "res" / "a.torch.json").write_text(json.dumps({"ok": True, "cpus": [5.0]}))
    program = {"id": "a", "what": "A program", "url": "", "libraries": ["pytest", "no-such-library"], "lacks": "nothing"}
    program["result"] = libraries.result_of(tmp_path, program)
    names = f"pytest {pytest.__version__}, no-such-library"
    assert libraries.row(program) == f"| A program | {names} | yes | same | 2.5 / 5.0 | nothing |"
    assert libraries.result_of(tmp_path, {**program, "id": "b"}) is None
    table = libraries.table([program, {**program, "result": None, "what": "Another"}])
    assert "1 were run: 1 to their end, 1 with the same results." in table and "Another" not in table


def test_kernels_that_a_change_leaves_alone_have_the_same_digests(root: Path, run_python, tmp_path: Path) -> None:
    tool, file = root / "tools" / "kernel_digests.py", tmp_path / "before.json"
    only = ["--only", r"^torch\.(exp\(f\(37, 50\)\.abs|amax\(f\(37, 500\), 1|addmm\()"]
    answer = run_python(tool, "record", file, *only)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert "3 calls" in answer.stdout
    answer = run_python(tool, "compare", file, *only)
    assert answer.returncode == 0 and answer.stdout == "0 calls changed\n", answer.stdout + answer.stderr

    recorded = json.loads(file.read_text())
    product, exponential = (
        next(parts for line, parts in recorded["calls"].items() if line.startswith(f"torch.{name}(")) for name in ("addmm", "exp")
    )
    assert all(part["kernels"] and part["plans"] for part in (*product.values(), *exponential.values()))
    exponential["forward"]["kernels"][0] = "another"
    product["backward"]["plans"][0].append([1, 1, 1])
    file.write_text(json.dumps(recorded))
    answer = run_python(tool, "compare", file, *only)
    assert answer.returncode == 1 and "2 calls changed" in answer.stdout
    assert "forward: 1 of 1 kernels are no longer made, 1 of 1 are new" in answer.stdout
    assert "backward: plans of" in answer.stdout
