"""Rewrite docs/libraries.md: libraries and programs that were run, from docs/libraries.json, and suites, from judged.json.

    python tools/make_libraries.py                    the table from the data
    python tools/make_libraries.py --results FOLDER   first take over what ran there into the data

FOLDER holds `res/ID.ours.json` and `res/ID.torch.json`, one run of a program each (rc, check, said, cpus), `ours/bin/python` and
`tv/`, whose installed distributions give the versions. What a program is, which libraries it stands for and what doesn't work
are written into the data by hand; a run replaces only its `result`. What suites gave is written by `make judge`.
"""

from __future__ import annotations

import argparse
import json
import subprocess
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT / "docs" / "libraries.json"
JUDGED = ROOT / "docs" / "judged.json"
TABLE = ROOT / "docs" / "libraries.md"

HEAD = """\
# Libraries that were run

Other people's libraries and programs, unmodified, under `flambeau run`: each as it is installed from PyPI, or as its repository
has it. *Same* means that losses, outputs or test results agree with those recorded under PyTorch 2.13, within the bounds that
differently rounded sums need. Seconds are of processor time, flambeau's with its kernels cached, beside PyTorch's on the same
machine.

Written by `tools/make_libraries.py` from [libraries.json](libraries.json).
"""

SUITES_HEAD = """
## Their test suites

Suites of libraries, run by `make judge TORCH_PYTHON=/path/bin/python` under flambeau and under PyTorch with the same packages.
*Tests* are those that PyTorch passes, of every how many-th of the suite's as said; *differ* are those of them that fail, are
skipped or end the process under flambeau: [departures.json](../tools/judge/departures.json) says why of those that are known.
Seconds are of processor time, on one thread, flambeau's with the compilation of kernels that weren't cached.
"""

VERSIONS = """
import importlib.metadata, json, sys
found = {}
for name in sys.argv[2:]:
    places = importlib.metadata.distributions(name=name, path=[*sys.path, sys.argv[1]])
    found[name] = next((each.version for each in places), None)
print(json.dumps(found))
"""


def run_of(folder: Path, program: str, implementation: str) -> dict[str, Any] | None:
    path = folder / "res" / f"{program}.{implementation}.json"
    return json.loads(path.read_text()) if path.exists() else None


def versions(folder: Path, names: list[str]) -> dict[str, str | None]:
    """The versions of distributions in the environment that the programs ran in."""
    python = folder / "ours" / "bin" / "python"
    answer = subprocess.run(
        [python, "-c", VERSIONS, str(folder / "tv"), *names], capture_output=True, text=True, check=True, cwd=folder
    )
    return json.loads(answer.stdout)


def result_of(folder: Path, program: dict[str, Any]) -> dict[str, Any] | None:
    """What a run left, as the data keeps it; None if there was none."""
    ours, theirs = run_of(folder, program["id"], "ours"), run_of(folder, program["id"], "torch")
    if ours is None:
        return None
    return {
        "flambeau": (ours.get("refrun") or {}).get("torch"),
        "versions": versions(folder, program["libraries"]) if program["libraries"] else {},
        "runs": bool(ours["ok"]),
        "same": ours.get("check"),
        "said": ours.get("said", ""),
        "seconds": min(ours["cpus"]) if ours.get("cpus") else None,
        "pytorch_seconds": min(theirs["cpus"]) if theirs and theirs.get("cpus") else None,
    }


def row(program: dict[str, Any]) -> str:
    result = program["result"]
    names = [f"{name} {version}" if version else name for name, version in result["versions"].items()]
    what = f"[{program['what']}]({program['url']})" if program.get("url") else program["what"]
    same = {True: "same", False: "differs", None: ""}[result["same"]]
    seconds = "" if result["seconds"] is None else f"{result['seconds']:.1f}"
    if seconds and result["pytorch_seconds"] is not None:
        seconds += f" / {result['pytorch_seconds']:.1f}"
    return f"| {what} | {', '.join(names)} | {'yes' if result['runs'] else 'no'} | {same} | {seconds} | {program['lacks']} |"


def table(programs: list[dict[str, Any]]) -> str:
    lines = ["| | with | runs | results | s, flambeau / PyTorch | what doesn't work |", "| --- | --- | --- | --- | --- | --- |"]
    lines += [row(program) for program in programs if program["result"]]
    ran = [program["result"] for program in programs if program["result"]]
    count = f"{len(ran)} were run: {sum(each['runs'] for each in ran)} to their end, {sum(each['same'] is True for each in ran)} "
    return f"{HEAD}\n{count}with the same results.\n\n" + "\n".join(lines) + "\n"


def suites(judged: dict[str, dict[str, Any]]) -> str:
    """The table of test suites; nothing where none was judged beside PyTorch."""
    lines = ["| suite | with | every | tests | differ | s, flambeau / PyTorch |", "| --- | --- | --- | --- | --- | --- |"]
    for name, found in sorted(judged.items()):
        if found["pytorch"] is None:
            continue
        versions = ", ".join(f"{package} {version}" for package, version in found["versions"].items() if version)
        share = f"{found['share']}{'' if found['whole'] else ', to the end of its time'}"
        lines.append(
            f"| [{name}]({found['url']}) | {versions} | {share} | {found['tests']} | {found['differ']} | "
            f"{found['seconds']:.0f} / {found['pytorch_seconds']:.0f} |"
        )
    if len(lines) == 2:
        return ""
    tests, differ = (sum(found[key] for found in judged.values() if found["pytorch"]) for key in ("tests", "differ"))
    return f"{SUITES_HEAD}\n{len(lines) - 2} suites, {tests:,} tests: {differ} differ.\n\n" + "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--results", type=Path, help="a folder whose runs are taken over")
    options = parser.parse_args()
    programs = json.loads(DATA.read_text())
    if options.results:
        for program in programs:
            program["result"] = result_of(options.results, program) or program["result"]
        DATA.write_text(json.dumps(programs, indent=1, ensure_ascii=False) + "\n")
    TABLE.write_text(table(programs) + suites(json.loads(JUDGED.read_text())))


if __name__ == "__main__":
    main()
