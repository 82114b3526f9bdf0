"""Measure flambeau against PyTorch, side by side, and rewrite the README's table.

    make bench TORCH_PYTHON=/path/to/python
    python bench/run.py --torch-python /path/to/python --only '^train/'

Every implementation runs in a process of its own, with the same number of threads. For each workload the processes
take turns, in an order that is reversed every round; the figure is the median step of a contender's quietest turn,
since a turn that another program disturbs says nothing. PyTorch runs twice: as it comes, and with a tuned allocator,
which is the real opponent on memory-bound work.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import re
import shutil
import statistics
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from workloads import WORKLOADS

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
START, END = "<!-- bench:start -->", "<!-- bench:end -->"
TUNED = {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1:glibc.malloc.mmap_max=0:glibc.malloc.trim_threshold=17179869184"}


@dataclass
class Contender:
    """One implementation: how to start it, and what came out."""

    title: str
    module: str
    python: str
    threads: int
    environment: dict[str, str] = field(default_factory=dict)
    version: str = ""
    process: subprocess.Popen[str] | None = None

    def command(self, what: str) -> tuple[list[str], dict[str, str]]:
        counts = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), str(self.threads))
        environment = {**os.environ, **counts, **self.environment}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)  # an import is timed as on the second day, for both
        if self.module == "flambeau":
            environment["PYTHONPATH"] = str(ROOT)
        return [self.python, str(HERE / "child.py"), self.module, what], environment

    def once(self, what: str) -> float:
        """The number that `child.py MODULE what` prints."""
        command, environment = self.command(what)
        return float(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout)

    def start(self) -> None:
        command, environment = self.command(str(self.threads))
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, env=environment, stdin=pipe, stdout=pipe, stderr=None, text=True)
        self.version = self.read().get("version", "")

    def read(self) -> dict:
        assert self.process is not None and self.process.stdout is not None
        line = self.process.stdout.readline()
        return json.loads(line) if line else {"error": f"the process ended with status {self.process.wait()}"}

    def ask(self, **request: object) -> dict:
        """One request and its reply; a process that died is started again for the next one."""
        if self.process is None or self.process.poll() is not None:
            self.start()
        assert self.process is not None and self.process.stdin is not None
        try:
            self.process.stdin.write(json.dumps(request) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            return {"error": "the process ended"}
        return self.read()

    def stop(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()


def find_torch(given: str | None) -> str | None:
    """A Python that imports PyTorch: the one given, TORCH_PYTHON, this one, or the first on the path."""
    named = given or os.environ.get("TORCH_PYTHON")
    for python in [named] if named else [sys.executable, shutil.which("python3"), shutil.which("python")]:
        if python and subprocess.run([python, "-c", "import torch"], capture_output=True, cwd="/").returncode == 0:
            return python
        if named:
            sys.exit(f"{named} can't import torch")
    return None


def agree(one: list[float], other: list[float]) -> bool:
    return all(math.isclose(a, b, rel_tol=1e-2, abs_tol=1e-5) for a, b in zip(one, other))


def measure(name: str, contenders: list[Contender], rounds: int, seconds: float) -> dict[str, float | str]:
    """Seconds per step by title (the median of the quietest turn), or the error of a contender that can't run it."""
    results: dict[str, float | str] = {}
    checks: dict[str, list[float]] = {}
    medians: dict[str, list[float]] = {}
    for contender in contenders:
        reply = contender.ask(setup=name)
        if "error" in reply:
            results[contender.title] = reply["error"]
        else:
            checks[contender.title], medians[contender.title] = reply["check"], []
    for turn in range(rounds):
        for contender in contenders if turn % 2 == 0 else reversed(contenders):
            if contender.title in medians:
                reply = contender.ask(measure=seconds)
                medians[contender.title] += [statistics.median(reply["samples"])] if "samples" in reply else []
    results |= {title: min(values) for title, values in medians.items() if values}
    reference = checks.get("PyTorch")
    for title, check in checks.items():
        if reference is not None and not agree(check, reference):
            results[title] = f"computes something else: {check} instead of {reference}"
    return results


def import_times(contenders: list[Contender], rounds: int) -> dict[str, float | str]:
    samples: dict[str, list[float]] = {contender.title: [] for contender in contenders}
    for _ in range(rounds):
        for contender in contenders:
            samples[contender.title].append(contender.once("--import"))
    return {title: statistics.median(values) for title, values in samples.items()}


def duration(seconds: float) -> str:
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds * 1e9:.0f} ns"


def row(name: str, results: dict[str, float | str], titles: list[str], show) -> str:
    """A line of the table: our figure, then each opponent's with the ratio of ours to it."""
    ours = results.get("flambeau")
    cells = [name, show(ours) if isinstance(ours, float) else "–"]
    for title in titles[1:]:
        theirs = results.get(title)
        ratio = f" ({ours / theirs:.2f})" if isinstance(ours, float) and isinstance(theirs, float) else ""
        cells.append(show(theirs) + ratio if isinstance(theirs, float) else "–")
    return f"| {' | '.join(cells)} |"


def mean_ratio(group: list[dict[str, float | str]], title: str) -> str:
    """The geometric mean of our time by theirs."""
    logs = [
        math.log(ours / theirs)
        for results in group
        if isinstance(ours := results.get("flambeau"), float) and isinstance(theirs := results.get(title), float)
    ]
    return f"**{math.exp(sum(logs) / len(logs)):.2f}**" if logs else "–"


def processor() -> str:
    """The processor's name."""
    information = Path("/proc/cpuinfo")
    found = re.search(r"model name\s*:\s*(.+)", information.read_text()) if information.exists() else None
    return found.group(1).strip() if found else platform.processor() or platform.machine()


def table(measured: dict[str, dict], extra: list[str], contenders: list[Contender]) -> str:
    titles = [contender.title for contender in contenders]
    versions = ", ".join(f"{each.title} {each.version}" for each in contenders[:2])
    lines = [
        f"{versions}; {contenders[0].threads} threads of {processor()}. In brackets our time divided by theirs: below "
        "1 flambeau is faster. A dash: can't run yet.",
        "",
        f"| | {' | '.join(titles)} |",
        "|" + " --- |" * (len(titles) + 1),
    ]
    for group in dict.fromkeys(name.partition("/")[0] for name in measured):
        members = {name: results for name, results in measured.items() if name.startswith(f"{group}/")}
        means = [mean_ratio(list(members.values()), title) for title in titles[1:]]
        lines.append(f"| **{group}**, mean ratio | | {' | '.join(means)} |")
        lines += [row(name.partition("/")[2], results, titles, duration) for name, results in members.items()]
    return "\n".join(lines + extra)


def rewrite(readme: Path, text: str) -> None:
    """Put the table between the markers of the README."""
    content = readme.read_text()
    before, rest = content.split(START)
    _, after = rest.split(END)
    readme.write_text(f"{before}{START}\n{text}\n{END}{after}")
    print(f"\n{readme}: table rewritten")


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure flambeau against PyTorch.")
    parser.add_argument("--torch-python", help="a Python that imports torch")
    parser.add_argument("--only", default="", metavar="REGEX", help="the workloads whose names match")
    parser.add_argument("--readme", type=Path, help="rewrite the table of this file (only when everything is measured)")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.2, help="length of each turn")
    options = parser.parse_args()

    contenders = [Contender("flambeau", "flambeau", sys.executable, options.threads)]
    python = find_torch(options.torch_python)
    if python:
        contenders.append(Contender("PyTorch", "torch", python, options.threads))
        contenders.append(Contender("PyTorch, tuned allocator", "torch", python, options.threads, TUNED))
    else:
        print("no Python with PyTorch found (TORCH_PYTHON=...): measuring flambeau alone")
    titles = [contender.title for contender in contenders]
    for contender in contenders:
        contender.start()

    measured = {}
    for name in WORKLOADS:
        if re.search(options.only, name):
            measured[name] = measure(name, contenders, options.rounds, options.seconds)
            print(row(name, measured[name], titles, duration), flush=True)
            for title, result in measured[name].items():
                if isinstance(result, str):
                    print(f"    {title}: {result}")
    for contender in contenders:
        contender.stop()
    extra = []
    if not options.only:
        extra.append(row("**import**", import_times(contenders[:2], options.rounds), titles, duration))
        sizes = {contender.title: contender.once("--size") for contender in contenders[:2]}
        extra.append(row("**installed**", sizes, titles, lambda size: f"{size / 1e6:.0f} MB"))
        print("\n".join(extra))
    if options.readme and python and not options.only:
        rewrite(options.readme, table(measured, extra, contenders))


if __name__ == "__main__":
    main()
