"""What two runs of a suite say of each other: outcomes from a run's lines, differences, and the list of known departures.

Pure functions over what `plugin` wrote; used by `run` and by the tests.
"""

from __future__ import annotations

import collections
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

WHOLE = (0, 1, 5)  # pytest's exit codes of runs that reached their end: all passed, some failed, none were left to run
Departures = dict[str, dict[str, str]]  # suite: {test: why it differs}


@dataclass
class Outcomes:
    """What a run left: each test's outcome and words, the files that couldn't be collected, the seconds that tests took."""

    tests: dict[str, str] = field(default_factory=dict)
    said: dict[str, str] = field(default_factory=dict)
    broken: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0
    whole: bool = False

    def not_ended(self) -> list[str]:
        return [name for name, outcome in self.tests.items() if outcome == "started"]


def read(lines: Iterable[str]) -> Outcomes:
    found = Outcomes()
    for line in lines:
        entry = json.loads(line)
        if "start" in entry:
            found.tests[entry["start"]] = "started"
        elif "end" in entry:
            found.tests[entry["end"]], found.said[entry["end"]] = entry["outcome"], entry["said"]
            found.seconds += entry["seconds"]
        elif "died" in entry:
            found.tests[entry["died"]], found.said[entry["died"]] = "died", entry["said"]
        elif "broken" in entry:
            found.broken[entry["broken"]] = entry["said"]
        elif "finished" in entry:
            found.whole = entry["finished"] in WHOLE
    return found


def resumable(lines: Iterable[str]) -> list[str]:
    """The lines of a run that is to go on: without the start of a test that didn't end, and without an end that wasn't one."""
    entries = [(line, json.loads(line)) for line in lines]
    over = {entry.get("end", entry.get("died")) for _, entry in entries}
    return [
        line
        for line, entry in entries
        if entry.get("start", entry.get("end", entry.get("died"))) in over and entry.get("finished", 0) in WHOLE
    ]


def differing(ours: Outcomes, theirs: Outcomes) -> dict[str, str]:
    """The tests that PyTorch passes and flambeau doesn't, each with what was said: failed, died, skipped, not collected.

    A run that was stopped at the end of its time says nothing of the tests that it didn't reach.
    """
    found = {}
    for name, outcome in theirs.tests.items():
        if outcome != "passed":
            continue
        mine = ours.tests.get(name)
        if mine is None and ours.whole:
            file = next((each for each in ours.broken if name.startswith(each)), None)
            found[name] = "not collected" + (f": {ours.broken[file]}" if file is not None else "")
        elif mine not in (None, "passed", "xfailed", "started"):
            found[name] = f"{mine}: {ours.said.get(name, '')}"
    return found


def failing(ours: Outcomes) -> dict[str, str]:
    """Without PyTorch's run: what failed or died, and the files that couldn't be collected."""
    found = {
        name: f"{outcome}: {ours.said.get(name, '')}" for name, outcome in ours.tests.items() if outcome in ("failed", "died")
    }
    return found | {f"{file} (not collected)": said for file, said in ours.broken.items()}


def counted(ours: Outcomes, theirs: Outcomes) -> int:
    """How many tests were compared: those that PyTorch passes and that flambeau's run reached."""
    passed = [name for name, outcome in theirs.tests.items() if outcome == "passed"]
    return len(passed) if ours.whole else sum(ours.tests.get(name, "started") != "started" for name in passed)


def cause(said: str) -> str:
    """A message without what differs between tests of one cause: numbers, quoted texts, shapes."""
    return re.sub(r"\d+", "N", re.sub(r"(?<![\w.])-?\d+\.\d+(e-?\d+)?", "N", re.sub(r"\[[^\]]*\]", "[]", said)))[:160]


def by_cause(found: dict[str, str]) -> list[tuple[str, list[str]]]:
    groups: dict[str, list[str]] = collections.defaultdict(list)
    for name, said in found.items():
        groups[cause(said)].append(name)
    return sorted(groups.items(), key=lambda each: -len(each[1]))


def unknown(found: dict[str, str], known: dict[str, str]) -> list[str]:
    """The differences that the list of departures doesn't name. A name that ends in `*` stands for all that begin so."""
    starts = tuple(name[:-1] for name in known if name.endswith("*"))
    return [name for name in found if name not in known and not (starts and name.startswith(starts))]


def faults_of(suites: dict[str, dict[str, Any]], departures: Departures) -> list[str]:
    """What is wrong with the list of suites or of departures: for the tests, which read both without the network."""
    wrong = []
    for name, suite in suites.items():
        wrong += [f"{name}: {key} is missing" for key in ("url", "tests") if key not in suite]
        wrong += [f"{name}: {key} is no setting" for key in suite if key not in SETTINGS]
        wrong += [f"{name}: tests from a source distribution, a repository or the installed package"] * (
            sum(key in suite for key in ("sdist", "git", "package")) != 1
        )
        pinned = [*suite.get("install", []), *suite.get("install_no_deps", [])]
        wrong += [f"{name}: {each} has no version" for each in pinned if each.partition("==")[0] == name and "==" not in each]
    for name, tests in departures.items():
        wrong += [] if name in suites else [f"departures name {name}, which is no suite"]
        wrong += [f"{name}: {test}: no reason" for test, why in tests.items() if not why.strip()]
    return wrong


SETTINGS = {
    "url": "where the library lives",
    "sdist": "NAME==VERSION: the source distribution that has the tests",
    "git": "[URL, TAG]: the repository that has them, where distributions don't",
    "paths": "of that repository, what is needed (everything)",
    "packages": "folders that are packages in the repository, whose empty __init__.py the source distribution leaves out",
    "package": "the installed package that has them",
    "folder": "where in the source pytest is started",
    "install": "what pip installs with its dependencies",
    "install_no_deps": "what pip installs without: whatever depends on torch",
    "tests": "pytest's arguments",
    "deselect": "regular expressions of tests that need a network, a graphics processor or much time",
    "env": "environment variables",
    "share": "every how many-th test is run (1)",
    "limit": "seconds of the processor for a test (30)",
    "budget": "seconds for a run of the suite (600)",
    "seed": "whether the random numbers start anew at each test (true)",
}
