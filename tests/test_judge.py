"""Other people's suites (`tools/judge`): the table of suites, what two runs say of each other, the list of departures."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

#: How many tests may be known to differ from PyTorch. It goes down when one is mended, and never up.
KNOWN = 3


@pytest.fixture
def judge(root: Path) -> Path:
    return root / "tools" / "judge"


@pytest.fixture
def compare(judge: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("judge_compare", judge / "compare.py")
    module = sys.modules["judge_compare"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_suites_and_departures_are_well_formed(judge: Path, compare: ModuleType) -> None:
    suites = tomllib.loads((judge / "suites.toml").read_text())
    departures = json.loads((judge / "departures.json").read_text())
    assert len(suites) >= 20
    assert compare.faults_of(suites, departures) == []
    assert sum(map(len, departures.values())) <= KNOWN


def test_faults_of_the_lists_are_named(compare: ModuleType) -> None:
    good = {"url": "u", "tests": ["t"], "sdist": "a==1", "install": ["a==1"]}
    assert compare.faults_of({"a": good}, {"a": {"t::x": "rounding"}}) == []
    bad = {"a": {**good, "git": ["u", "v1"], "sharing": 2}, "b": {"url": "u", "install": ["b"]}}
    faults = compare.faults_of(bad, {"c": {"t": " "}})
    assert len(faults) == 7, faults


def lines(*entries: dict) -> list[str]:
    return [json.dumps(entry) for entry in entries]


def ran(**outcomes: str) -> list[str]:
    told = [
        each
        for name, outcome in outcomes.items()
        for each in (
            {"start": f"t.py::{name}"},
            {"end": f"t.py::{name}", "outcome": outcome, "said": f"E{len(name)}", "seconds": 0.5},
        )
    ]
    return lines(*told, {"finished": 0})


def test_what_pytorch_passes_alone_differs(compare: ModuleType) -> None:
    theirs = compare.read(ran(a="passed", b="passed", c="failed", d="passed", e="passed", f="skipped", g="passed"))
    mine = ran(a="passed", b="failed", c="failed", d="skipped", f="failed")
    ours = compare.read(
        [*lines({"broken": "u.py", "said": "no"}), *mine, *lines({"start": "t.py::g"}, {"died": "t.py::g", "said": "SIGSEGV"})]
    )
    found = compare.differing(ours, theirs)
    assert found == {"t.py::b": "failed: E1", "t.py::d": "skipped: E1", "t.py::e": "not collected", "t.py::g": "died: SIGSEGV"}
    assert compare.counted(ours, theirs) == 5
    assert set(compare.failing(ours)) == {"t.py::b", "t.py::c", "t.py::f", "t.py::g", "u.py (not collected)"}
    assert compare.unknown(found, {"t.py::b": "why", "t.py::d*": "why"}) == ["t.py::e", "t.py::g"]


def test_a_run_that_was_stopped_says_nothing_of_what_it_did_not_reach(compare: ModuleType) -> None:
    theirs = compare.read(ran(a="passed", b="passed", c="passed"))
    ours = compare.read([*ran(a="failed")[:-1], *lines({"start": "t.py::b"})])
    assert set(compare.differing(ours, theirs)) == {"t.py::a"} and compare.counted(ours, theirs) == 1
    assert ours.not_ended() == ["t.py::b"] and not ours.whole


def test_a_run_is_resumed_at_the_test_that_was_running(compare: ModuleType) -> None:
    died = lines({"start": "t.py::b"}, {"died": "t.py::b", "said": "SIGSEGV"}, {"broken": "u.py", "said": "no"})
    kept = [*ran(a="passed")[:-1], *died]
    assert compare.resumable([*kept, *lines({"start": "t.py::c"})]) == kept
    assert compare.resumable([*kept, *lines({"finished": 3})]) == kept and compare.resumable(ran(a="passed")) == ran(a="passed")


@pytest.mark.parametrize(("code", "whole"), [(0, True), (1, True), (2, False), (3, False)])
def test_a_run_that_pytest_itself_broke_is_not_whole(compare: ModuleType, code: int, whole: bool) -> None:
    assert compare.read([*ran(a="passed")[:-1], *lines({"finished": code})]).whole is whole


def test_causes_are_messages_without_their_numbers(compare: ModuleType) -> None:
    found = {"a": "failed: sizes [2, 3] and 4", "b": "failed: sizes [5] and 6", "c": "failed: other"}
    assert [len(tests) for _, tests in compare.by_cause(found)] == [2, 1]


SUITE = """
import os, pytest, unittest
def test_good(): pass
def test_bad(): raise ValueError("no")
@pytest.mark.skip("why")
def test_skipped(): pass
@pytest.mark.xfail
def test_expected(): assert False
@pytest.mark.parametrize("x", [object(), object()])
def test_objects(x): pass
def test_unwanted(): pass
def test_endless():
    while True: pass
class TestCase(unittest.TestCase):
    def test_left(self): self.fail()
def test_dies(): os._exit(3)
"""


def test_the_plugin_writes_what_tests_do(judge: Path, compare: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(SUITE)
    out = tmp_path / "out.jsonl"
    left = "test_it.py::TestCase::test_left"
    settings = {"out": str(out), "share": 1, "deselect": ["unwanted"], "done": [left], "limit": 1, "seed": True}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "plugin", "-p", "no:cacheprovider", "-p", "no:xdist", "test_it.py"]
    environment = {"PATH": "", "PYTHONPATH": str(judge), "JUDGE": json.dumps(settings)}
    answer = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60)
    found = compare.read(out.read_text().splitlines())
    assert {name.partition("::")[2]: outcome for name, outcome in found.tests.items()} == {
        "test_good": "passed",
        "test_bad": "failed",
        "test_skipped": "skipped",
        "test_expected": "xfailed",
        "test_objects[x0]": "passed",
        "test_objects[x1]": "passed",
        "test_endless": "failed",
        "test_dies": "started",
    }, answer.stdout + answer.stderr
    assert found.said["test_it.py::test_bad"] == "ValueError: no" and not found.whole
    assert "more than 1 s of the processor" in found.said["test_it.py::test_endless"]
