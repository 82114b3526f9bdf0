"""A pytest plugin: runs a share of a suite's tests and writes each one's outcome as a line of JSON.

`run.py` loads it into the child that runs a suite, under either implementation, by `-p plugin` and the environment variable
JUDGE: `{"out": file, "share": N, "deselect": [regex], "done": [id], "limit": seconds, "seed": bool}`. A test is chosen by a
digest of its name, so that both implementations choose the same ones whatever else they collect. It knows nothing of either.
"""

from __future__ import annotations

import importlib.util
import json
import os
import random
import re
import signal
import sys
import time
import zlib
from collections.abc import Generator
from typing import Any

import pytest

SETTINGS: dict[str, Any] = json.loads(os.environ["JUDGE"])
RANKS = ("passed", "xfailed", "skipped", "failed")  # the worst phase of a test is its outcome
NAMES: dict[str, str] = {}  # pytest's name of a test: ours
LIMIT: int = SETTINGS["limit"]

_worst: dict[str, dict[str, str]] = {}


def write(line: dict[str, Any]) -> None:
    with open(SETTINGS["out"], "a") as file:
        file.write(json.dumps(line) + "\n")


def steady(name: str) -> str:
    """A test's name without what differs from run to run: addresses, where an object without a name is a parameter."""
    return re.sub(r"0x[0-9a-f]{6,}", "0x", name)


def chosen(name: str, share: int) -> bool:
    return zlib.crc32(name.encode()) % share == 0


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    done, seen = set(SETTINGS["done"]), dict[str, int]()
    unwanted = [re.compile(pattern) for pattern in SETTINGS["deselect"]]
    kept = []
    for item in items:
        name = steady(item.nodeid)
        seen[name] = seen.get(name, 0) + 1
        if seen[name] > 1:
            name = f"{name}#{seen[name]}"
        if chosen(name, SETTINGS["share"]) and name not in done and not any(each.search(name) for each in unwanted):
            NAMES[item.nodeid] = name
            kept.append(item)
    write({"collected": len(items), "kept": len(kept)})
    items[:] = kept


def pytest_collectstart(collector: pytest.Collector) -> None:
    """Modules that draw their data when they are imported draw the same ones each time."""
    if SETTINGS["seed"] and isinstance(collector, pytest.Module):
        if importlib.util.find_spec("torch"):
            importlib.import_module("torch")
        sow()


def pytest_collectreport(report: pytest.CollectReport) -> None:
    if report.failed:
        write({"broken": report.nodeid, "said": last_error(report.longrepr)})


def last_error(representation: object) -> str:
    """The line of a report that says what was wrong."""
    lines = str(representation).splitlines()
    marked = [line[1:].strip() for line in lines if line.startswith("E ")]
    return (
        next((line for line in marked if re.match(r"[\w.]*(Error|Exception|Failed|Interrupt|Exit)\b", line)), "")
        or (marked[0] if marked else lines[-1] if lines else "")
    )[:300]


def too_long(signum: int, frame: object) -> None:
    pytest.fail(f"TestTimeout: took more than {LIMIT} s of the processor", pytrace=False)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    name = NAMES[item.nodeid]
    write({"start": name})
    _worst[item.nodeid] = {"outcome": "passed", "said": ""}
    if SETTINGS["seed"]:
        sow()
    before = time.process_time()
    signal.signal(signal.SIGPROF, too_long)
    signal.setitimer(signal.ITIMER_PROF, LIMIT)  # not by the clock, which goes on while other programs have the processor
    try:
        return (yield)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        write({"end": name, "seconds": round(time.process_time() - before, 3), **_worst[item.nodeid]})


def sow() -> None:
    """The same random numbers for both implementations, whichever tests ran before."""
    random.seed(0)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(0)
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(0)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    outcome = "xfailed" if report.skipped and hasattr(report, "wasxfail") else report.outcome
    worst = _worst.get(report.nodeid)
    if worst is not None and RANKS.index(outcome) > RANKS.index(worst["outcome"]):
        worst["outcome"] = outcome
        worst["said"] = (
            str(report.longrepr[2])[:300]
            if outcome == "skipped" and isinstance(report.longrepr, tuple)
            else (last_error(report.longrepr))
        )


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    write({"finished": int(exitstatus)})
