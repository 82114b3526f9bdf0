"""Other people's test suites under flambeau and, given a Python that has it, under PyTorch: what differs.

    python tools/judge/run.py                                   every suite, under flambeau alone
    python tools/judge/run.py --torch-python PYTHON einops      one, beside PyTorch
    python tools/judge/run.py --torch-python PYTHON --write     results into docs/judged.json and docs/libraries.md

`suites.toml` says where each suite comes from, what it needs and which share of it is run; `departures.json` names the
tests that are known to differ, with reasons. Suites and packages are kept in --home; each suite runs in a process of its own,
with limits of memory and time, and is continued behind a test that ends the process. Outcomes are kept as each test ends:
--resume continues a run of flambeau's that was stopped, and PyTorch's are used again, and continued where its run was stopped,
until the suite, its share or PyTorch changes (--again).

Some suites are in no distribution of their library, only in its repository: those need git and the network. Where git reaches
copies of repositories instead (git's `url.*.insteadOf`), it takes them from there.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import math
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tarfile
import time
import tomllib
from pathlib import Path
from typing import Any

import compare

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
SUITES = HERE / "suites.toml"
DEPARTURES = HERE / "departures.json"
RESULTS = ROOT / "docs" / "judged.json"

MEMORY = 12 << 30  # bytes of address space for a suite's process
COLLECTION = 1800  # seconds until the first test is started
SILENCE = 6  # times a test's limit, which is of processor time, until a process that says nothing is ended
DEATHS = 20  # tests that may end the process before the suite is given up
RUNNER = ["pytest", "hypothesis"]
BUILDERS = ["setuptools", "wheel", "hatchling", "hatch-vcs", "flit_core", "poetry-core", "setuptools_scm", "versioneer"]

TORCHS = """
import importlib.metadata, importlib.util, json, pathlib, sys
import torch
needs = [each for each in importlib.metadata.requires("torch") if "extra ==" not in each and not each.startswith("nvidia")]
names = ("torch", "torchgen", "functorch", "torchvision", "torchaudio", "nvidia", "triton")
found = {}
for name in names:
    spec = importlib.util.find_spec(name)
    if spec is not None and spec.submodule_search_locations:
        folder = pathlib.Path(list(spec.submodule_search_locations)[0])
        found[name] = str(folder)
        for other in folder.parent.glob("*"):
            if other.name.startswith((name + "-", name + ".libs")):
                found[other.name] = str(other)
print(json.dumps({"version": torch.__version__, "python": sys.version_info[:2], "entries": found, "needs": needs}))
"""


class Workplace:
    """An environment with flambeau and the libraries, sources of their tests, and PyTorch beside it as a folder of links."""

    def __init__(self, home: Path, python: str, torch_python: str | None) -> None:
        self.home, self.python = home, home / "env" / "bin" / "python"
        self.torch: dict[str, Any] | None = None
        (home / "runs").mkdir(parents=True, exist_ok=True)
        if not self.python.exists():
            subprocess.run([python, "-m", "venv", home / "env"], check=True)
        self.install("runner", [*RUNNER, *BUILDERS], [])
        self.install(f"flambeau {ROOT}", ["--editable", f"{ROOT}[dist]"], [])
        if torch_python:
            self.torch = self._link_torch(torch_python)

    def _link_torch(self, torch_python: str) -> dict[str, Any]:
        """PyTorch alone, without the packages around it: both implementations then see the same NumPy."""
        said = subprocess.run([torch_python, "-c", TORCHS], capture_output=True, text=True, check=True, cwd=self.home).stdout
        torch = json.loads(said.splitlines()[-1])
        code = "import json, sys; print(json.dumps(sys.version_info[:2]))"
        mine = json.loads(subprocess.run([self.python, "-c", code], capture_output=True, text=True, check=True).stdout)
        if torch["python"] != mine:
            raise SystemExit(
                f"{torch_python} is Python {torch['python']}, {self.python} {mine}: give another --home and --python"
            )
        needs = [each for each in torch["needs"] if not each.startswith(("triton", "cuda"))]
        self.install("what PyTorch stands on", needs, [])
        folder = self.home / f"torch-{torch['version']}"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        for name, target in torch["entries"].items():
            (folder / name).symlink_to(target)
        return {"version": torch["version"], "folder": folder}

    def install(self, what: str, plain: list[str], without: list[str]) -> None:
        """Once, and again when the list changes."""
        stamp = self.home / "installed" / hashlib.sha256(json.dumps([what, plain, without]).encode()).hexdigest()[:16]
        if stamp.exists():
            return
        (self.home / "constraints.txt").write_text("torch<0\n")  # what asks for PyTorch is to be installed without dependencies
        pip = [self.python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--constraint"]
        pip += [self.home / "constraints.txt"]
        for options, names in (([], plain), (["--no-deps"], without)):
            if names:
                subprocess.run([*pip, *options, *names], check=True, stdin=subprocess.DEVNULL)
        stamp.parent.mkdir(exist_ok=True)
        stamp.write_text(what)

    def version(self, package: str) -> str | None:
        code = "import importlib.metadata, sys; print(importlib.metadata.version(sys.argv[1]))"
        said = subprocess.run([self.python, "-c", code, package], capture_output=True, text=True)
        return said.stdout.strip() or None

    def source(self, name: str, suite: dict[str, Any]) -> Path:
        """The folder that pytest starts in, brought here the first time."""
        if "package" in suite:
            return self.home / "env" / suite.get("folder", ".")
        origin = suite.get("sdist") or "@".join(suite["git"])
        into = self.home / "sources" / re.sub(r"[^\w.=-]+", "-", f"{name}-{origin}")
        if not into.exists():
            part = into.with_name(into.name + ".part")
            shutil.rmtree(part, ignore_errors=True)
            part.mkdir(parents=True)
            if "git" in suite:
                url, tag = suite["git"]
                git = ["git", "-C", part / "source"]
                subprocess.run(["git", "init", "--quiet", part / "source"], check=True)
                url, tag = suite["git"]
                subprocess.run([*git, "remote", "add", "origin", url], check=True)
                subprocess.run([*git, "fetch", "--quiet", "--depth", "1", "--filter=blob:none", "origin", tag], check=True)
                if "paths" in suite:
                    subprocess.run([*git, "sparse-checkout", "set", "--no-cone", *suite["paths"]], check=True)
                subprocess.run(
                    [*git, "-c", "advice.detachedHead=false", "checkout", "--quiet", "FETCH_HEAD"],
                    check=True,
                    env={**os.environ, "GIT_LFS_SKIP_SMUDGE": "1"},
                )
                if (part / "source" / ".gitmodules").exists():
                    subprocess.run([*git, "submodule", "--quiet", "update", "--init", "--depth", "1"], check=True)
            else:
                self._unpack(suite["sdist"], part)
            for package in suite.get("packages", []):
                (part / "source" / package / "__init__.py").touch()
            (part / "source").rename(into)
            shutil.rmtree(part)
        return into / suite.get("folder", ".")

    def _unpack(self, requirement: str, part: Path) -> None:
        """Its source distribution; pip asks its builder for the metadata, in an environment of its own."""
        pip = [self.python, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps", "--dest", part]
        package = requirement.partition("==")[0]
        subprocess.run([*pip, "--no-binary", package, requirement], check=True, stdin=subprocess.DEVNULL)
        (archive,) = part.glob("*.tar.gz")
        with tarfile.open(archive) as file:
            file.extractall(part / "all", filter="data")
        (inner,) = (part / "all").iterdir()
        inner.rename(part / "source")


def limited() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def run_suite(
    place: Workplace, name: str, suite: dict[str, Any], implementation: str, longest: float, resume: bool
) -> compare.Outcomes:
    """Run a suite's share under one implementation, again behind a test that ended the process, to its end or its budget's.

    One that is resumed keeps the outcomes that the last run left, and begins with the test at which that one was stopped.
    """
    folder, into = place.source(name, suite), place.home / "runs"
    out, log = into / f"{name}.{implementation}.jsonl", into / f"{name}.{implementation}.log"
    kept = compare.resumable(out.read_text().splitlines()) if resume and out.exists() else []
    out.write_text("".join(f"{line}\n" for line in kept))
    log.write_text("")
    if compare.read(kept).whole:
        return compare.read(kept)
    budget = min(suite.get("budget", 600), longest)
    for _ in range(DEATHS):
        found = compare.read(out.read_text().splitlines())
        ended = run_once(place, folder, suite, implementation, out, log, sorted(found.tests), budget)
        found = compare.read(out.read_text().splitlines())
        if found.whole or ended == "budget":
            break
        unfinished = found.not_ended()
        if not unfinished:
            print(f"  {name} under {implementation}: {ended} outside a test; see {log}")
            break
        with out.open("a") as file:
            file.write(json.dumps({"died": unfinished[-1], "said": ended}) + "\n")
    return compare.read(out.read_text().splitlines())


def run_once(
    place: Workplace,
    folder: Path,
    suite: dict[str, Any],
    implementation: str,
    out: Path,
    log: Path,
    done: list[str],
    budget: float,
) -> str:
    """One process; how it ended. Its budget runs from the end of the collection."""
    limit = suite.get("limit", 30)
    settings = {
        "out": str(out),
        "share": suite.get("share", 1),
        "deselect": suite.get("deselect", []),
        "done": done,
        "limit": limit,
        "seed": suite.get("seed", True),
    }
    paths = [str(HERE)]
    if implementation == "torch":
        assert place.torch is not None
        paths.insert(0, str(place.torch["folder"]))
    environment = {
        **os.environ,
        "JUDGE": json.dumps(settings),
        "PYTHONPATH": ":".join(paths),
        "OMP_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_OFFLINE": "1",
        "MPLBACKEND": "agg",
        "PYTHONDONTWRITEBYTECODE": "1",
        "https_proxy": "http://127.0.0.1:9",
        "http_proxy": "http://127.0.0.1:9",
        "PATH": f"{place.python.parent}:{os.environ['PATH']}",
        **suite.get("env", {}),
    }
    command = (
        [str(place.python), "-m", "flambeau_torch", "run", "-m", "pytest"]
        if implementation == "flambeau"
        else [str(place.python), "-m", "pytest"]
    )
    command += [
        "-p",
        "plugin",
        "-p",
        "no:cacheprovider",
        "-q",
        "--continue-on-collection-errors",
        "--tb=short",
        "-o",
        "addopts=",
        *suite["tests"],
    ]
    with log.open("a") as said:
        child = subprocess.Popen(
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
            start_new_session=True,
            preexec_fn=limited,
        )
        ended = "budget"
        collections = out.read_text().count('"kept"')
        quiet_since, size, until, running = time.monotonic(), out.stat().st_size, time.monotonic() + COLLECTION, False
        while time.monotonic() < until:
            try:
                code = child.wait(0.5)
                ended = signal.Signals(-code).name if code < 0 else f"exit {code}"
                break
            except subprocess.TimeoutExpired:
                pass
            if out.stat().st_size != size:
                quiet_since, size = time.monotonic(), out.stat().st_size
                if not running and out.read_text().count('"kept"') > collections:
                    until, running = quiet_since + budget, True
            elif running and time.monotonic() - quiet_since > SILENCE * limit:
                ended = "didn't answer"
                break
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()
    return ended


def torch_outcomes(place: Workplace, name: str, suite: dict[str, Any], options: argparse.Namespace) -> compare.Outcomes:
    """PyTorch's run of a suite, kept until what decides it changes."""
    assert place.torch is not None
    key = hashlib.sha256(json.dumps([suite, place.torch["version"]], sort_keys=True).encode()).hexdigest()[:16]
    stamp, lines = place.home / "runs" / f"{name}.torch.key", place.home / "runs" / f"{name}.torch.jsonl"
    resume = not options.again and stamp.exists() and stamp.read_text() == key
    stamp.write_text(key)
    if options.last and resume:
        return compare.read(lines.read_text().splitlines())
    return run_suite(place, name, suite, "torch", options.budget, resume)


def judge(place: Workplace, name: str, suite: dict[str, Any], options: argparse.Namespace) -> dict[str, Any]:
    place.install(name, suite.get("install", []), suite.get("install_no_deps", []))
    known = json.loads(DEPARTURES.read_text()).get(name, {})
    theirs = torch_outcomes(place, name, suite, options) if place.torch else None
    ours = (
        compare.read((place.home / "runs" / f"{name}.flambeau.jsonl").read_text().splitlines())
        if options.last
        else run_suite(place, name, suite, "flambeau", options.budget, options.resume)
    )
    found = compare.differing(ours, theirs) if theirs else compare.failing(ours)
    total = compare.counted(ours, theirs) if theirs else len(ours.tests)
    new = compare.unknown(found, known)
    words = "differ" if theirs else "fail"
    print(
        f"{name}: {total} tests, {len(found)} {words} ({len(found) / max(total, 1):.1%}), {len(new)} unknown; "
        f"{ours.seconds:.0f} s{f' / {theirs.seconds:.0f} s' if theirs else ''}{'' if ours.whole else '; NOT WHOLE'}"
        f"{'' if theirs is None or theirs.whole else '; PYTORCH NOT WHOLE'}",
        flush=True,
    )
    for said, files in compare.by_cause(theirs.broken) if theirs else ():
        print(f"  {len(files)} files can't be collected under PyTorch, as {files[0]}: {said}")
    for each, tests in compare.by_cause({test: found[test] for test in (found if options.all else new)}):
        print(f"  {len(tests):4} {each}")
        for test in tests[: options.examples]:
            print(f"         {test}")
    named = [each for each in (*suite.get("install_no_deps", []), *suite.get("install", [])) if "==" in each]
    return {
        "url": suite["url"],
        "versions": {package: place.version(package) for package in (each.split("==")[0] for each in named)},
        "share": suite.get("share", 1),
        "tests": total,
        "differ": len(found),
        "unknown": len(new),
        "whole": bool(total) and ours.whole and (theirs is None or theirs.whole),
        "pytorch": place.torch["version"] if place.torch else None,
        "seconds": round(ours.seconds, 1),
        "pytorch_seconds": round(theirs.seconds, 1) if theirs else None,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("suites", nargs="*", help="their names in suites.toml; all of them if none is given")
    parser.add_argument("--torch-python", help="a Python that has PyTorch")
    parser.add_argument("--python", default=sys.executable, help="the Python of the environment that is made")
    parser.add_argument("--home", type=Path, default=Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")) / "flambeau" / "judge")
    parser.add_argument("--budget", type=float, default=math.inf, help="seconds for a run of a suite, at most")
    parser.add_argument("--resume", action="store_true", help="continue flambeau's last run where it was stopped")
    parser.add_argument("--again", action="store_true", help="run PyTorch's side again too")
    parser.add_argument("--last", action="store_true", help="run nothing of flambeau: compare what the last run left")
    parser.add_argument("--all", action="store_true", help="name the known departures too")
    parser.add_argument("--examples", type=int, default=3, help="how many tests of each cause are named")
    parser.add_argument("--write", action="store_true", help="results into docs/judged.json and docs/libraries.md")
    options = parser.parse_args()
    suites = tomllib.loads(SUITES.read_text())
    if wrong := [name for name in options.suites if name not in suites]:
        parser.error(f"no such suite: {', '.join(wrong)}; there are {', '.join(suites)}")
    place = Workplace(options.home.expanduser(), options.python, options.torch_python)
    results, unknown = {}, 0
    for name in options.suites or suites:
        try:
            results[name] = judge(place, name, suites[name], options)
        except subprocess.CalledProcessError as error:
            print(f"{name}: could not be made ready: {error}", flush=True)
            unknown += 1
            continue
        unknown += results[name]["unknown"]
    if options.write:
        kept = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
        RESULTS.write_text(json.dumps({**kept, **results}, indent=1) + "\n")
        subprocess.run([sys.executable, ROOT / "tools" / "make_libraries.py"], check=True)
    return 1 if unknown else 0


if __name__ == "__main__":
    sys.exit(main())
