"""Rewrite what pages say of what is there: the marked regions of docs/coverage.md and README.md.

    python tools/make_coverage.py                          the regions, from what was measured before and from the package
    python tools/make_coverage.py --measured out.json      first take over what a conformance run has written (`run.py --json`)
    python tools/make_coverage.py --check                  exit with 1 and say what isn't as it would be written

Figures come from docs/coverage.json (a conformance run), and from libraries.json and judged.json (programs and suites that were
run).

The prose is checked as well: under the heading of what isn't there, every quoted name that begins with `torch.` must be missing,
or be a name without an implementation; everywhere else in README.md and docs every one must be there. What isn't there is
written once, in coverage.md: the README's line is made of the bold words that begin its entries.
"""

from __future__ import annotations

import argparse
import importlib
import json
import re
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from textwrap import fill
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tools")]

import list_absent  # noqa: E402

import flambeau  # noqa: E402
from flambeau.core.operator import unsupported  # noqa: E402

DATA, PAGE, README = ROOT / "docs" / "coverage.json", ROOT / "docs" / "coverage.md", ROOT / "README.md"
MISSING = "## What isn't there\n"
QUOTED = re.compile(r"`(torch(?:\.[A-Za-z_]\w*)+)")
SUITES = {"core": "operators of ordinary programs", "extended": "all other operators", "supplement": "other ordinary calls"}
MODULES = {"modules": "`torch.nn`: modules", "modules_supplement": "`torch.nn`: others"}
ROOMS = {"optimizers": "`torch.optim`: optimizers", "schedulers": "`torch.optim.lr_scheduler`: schedulers"}


# ---------------------------------------------------------------- figures


def taken(run: dict[str, Any]) -> dict[str, Any]:
    """Of what a conformance run has written, what is kept."""
    if run["impl"] != "flambeau" or run["import_error"]:
        raise SystemExit(f"this is no run of flambeau: {run['impl']} {run['import_error'] or ''}")
    spaces = run["surface"]["spaces"].values() if run["surface"] else ()
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "summary": run["summary"],
        "names": [sum(each[0] for each in spaces), sum(each[1] for each in spaces)],
        "failing": {
            suite: sorted(r["name"] for r in run["results"] if r["suite"] == suite and r["status"] != "pass")
            for suite in run["summary"]
        },
    }


def table(found: dict[str, Any]) -> str:
    """Of a conformance run."""
    summary = found["summary"]
    lines = [f"Measured on {found['date']}:", "", "| Area | forward | backward | differ |", "| --- | --- | --- | --- |"]

    def row(suite: str, what: str, forward: str, backward: str) -> None:
        names = found["failing"].get(suite, [])
        some = ", ".join(f"`{name}`" for name in names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
        lines.append(f"| {what} | {forward} | {backward} | {some} |")

    for suite, what in SUITES.items():
        if data := summary.get(suite):
            row(suite, what, f"{data['forward_pass']} of {data['ops']}", f"{data['backward_pass']} of {data['backward_ops']}")
    for suite, what in MODULES.items():
        if data := summary.get(suite):
            row(suite, what, f"{data['forward_pass']} of {data['total']}", f"{data['backward_pass']} of {data['backward_mods']}")
    for suite, what in ROOMS.items():
        if data := summary.get(suite):
            configurations = f"in {data['configs'][0]} of {data['configs'][1]} configurations"
            row(suite, what, f"{data['pass']} of {data['total']}, {configurations}", "")
    lines.append(f"| public names | {found['names'][0]} of {found['names'][1]} | | |")
    dtypes: dict[str, list[int]] = {}
    for suite in SUITES:
        for name, counts in summary.get(suite, {}).get("dtypes", {}).items():
            passing = dtypes.setdefault(name, [0, 0])
            passing[0] += counts["ops"][0]
            passing[1] += counts["ops"][1]
    others = ", ".join(f"{name} {count} of {of}" for name, (count, of) in sorted(dtypes.items()))
    return "\n".join(lines) + f"\n\nOperators that pass in other dtypes too: {others}.\n"


def passing(found: dict[str, Any]) -> str:
    """Of operators, in a line."""
    data = [found["summary"][suite] for suite in ("core", "extended") if suite in found["summary"]]
    forward, backward = (sum(each[key] for each in data) for key in ("forward_pass", "backward_pass"))
    operators, differentiable = (sum(each[key] for each in data) for key in ("ops", "backward_ops"))
    return (
        f"{forward} of {operators} operators give PyTorch's results for each of its own samples, in every form, and "
        f"{backward} of {differentiable} its gradients."
    )


def programs() -> list[str]:
    """Of programs and suites that were run."""
    libraries = [each["result"] for each in json.loads((ROOT / "docs" / "libraries.json").read_text()) if each["result"]]
    suites = [each for each in json.loads((ROOT / "docs" / "judged.json").read_text()).values() if each["pytorch"]]
    ended, same = sum(each["runs"] for each in libraries), sum(each["same"] is True for each in libraries)
    lines = [
        f"{ended} of {len(libraries)} programs and libraries of others that were run come to their end, {same} with "
        "PyTorch's results ([libraries.md](docs/libraries.md))."
    ]
    if suites:
        lines.append(
            f"Of {sum(each['tests'] for each in suites):,} tests in {len(suites)} suites of such libraries "
            f"{sum(each['differ'] for each in suites)} differ from PyTorch."
        )
    return lines


# ---------------------------------------------------------------- pages


def regions() -> Iterator[tuple[Path, str, str]]:
    """(page, name of a region, what it holds)."""
    data = json.loads(DATA.read_text())
    yield PAGE, "measured", table(data)
    heads = re.findall(r"^- \*\*(.+?)\*\*", PAGE.read_text().partition(MISSING)[2].partition("\n## ")[0], re.M)
    absent = f"Not there: {', '.join(heads)} ([what isn't there](docs/coverage.md#what-isnt-there))."
    yield README, "status", "".join(map(entry, [passing(data), *programs(), absent]))


def entry(line: str) -> str:
    """Of a list."""
    return fill(f"- {line}", 128, subsequent_indent="  ", break_on_hyphens=False, break_long_words=False) + "\n"


def with_region(text: str, name: str, content: str) -> str:
    """A page with a region's content in its place."""
    head, mark, rest = text.partition(f"<!-- {name}:start -->\n")
    _, end, tail = rest.partition(f"<!-- {name}:end -->")
    if not mark or not end:
        raise SystemExit(f"the page has no region {name}")
    return head + mark + content + end + tail


def is_there(name: str) -> bool:
    """Whether a name of PyTorch's, as `torch.nn.Linear`, is there and no mere name."""
    if name.removeprefix("torch.") in unsupported.ADVICE:
        return False
    found: Any = flambeau
    for part in name.split(".")[1:]:
        try:
            found = getattr(found, part)
        except Exception:
            try:
                found = importlib.import_module(f"{found.__name__}.{part}")
            except ModuleNotFoundError as error:  # one that needs a package which isn't installed is there
                return not str(error.name).startswith("flambeau")
            except Exception:
                return False
    return True


def wrong_names(text: str) -> Iterator[str]:
    """What a page says of names that isn't so."""
    before, _, rest = text.partition(MISSING)
    missing, _, after = rest.partition("\n## ")
    for name in sorted({*QUOTED.findall(before), *QUOTED.findall(after)}):
        if not is_there(name):
            yield f"{name} is said to be there, and isn't"
    for name in sorted(set(QUOTED.findall(missing))):
        if is_there(name):
            yield f"{name} is said not to be there, and is"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--measured", type=Path, help="what a conformance run has written")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    if options.measured:
        DATA.write_text(json.dumps(taken(json.loads(options.measured.read_text())), indent=1) + "\n")
    list_absent.import_everything()
    faults = []
    for page, name, content in regions():
        text = page.read_text()
        if (wanted := with_region(text, name, content)) != text:
            faults.append(f"{page.name}: {name} isn't up to date: run make coverage")
            if not options.check:
                page.write_text(wanted)
                print(f"wrote {name} of {page.name}")
    pages = [README, *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "docs" / "internals").glob("*.md"))]
    names = [
        f"{page.name}: {fault}" for page in pages if page.name != "not_implemented.md" for fault in wrong_names(page.read_text())
    ]
    faults = names + faults * options.check
    for fault in faults:
        print(fault)
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main())
