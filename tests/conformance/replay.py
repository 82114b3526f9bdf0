"""Repeats the recorded samples here: what differs from PyTorch, and from the list of what is known to.

    python tests/conformance/replay.py [--only REGEX] [--write]

Prints every difference; --write makes `departures/` anew, the lists of those that are known, by what differs: where flambeau
does something else on purpose, or can't do it yet. A list begins with those that nobody has judged; a line `# reason` stands over
those that are left as they are, and stays when the list is written again. Stands on `record` and `forms`; used by the tests.
"""

from __future__ import annotations

import argparse
import collections
import re
import sys
from collections.abc import Container, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent.parent)]

from conformance.forms import Sample
from conformance.record import Recorded, read
from fuzz.outcomes import difference, unpacked

import flambeau

DEPARTURES = HERE / "departures"
LISTS = {
    "value": "values",
    "kind": "values",
    "shape": "values",
    "requires_grad": "values",
    "dtype": "dtypes",
    "stride": "strides",
    "items": "items",
    "raises": "raises",
    "raises not": "raises",
    "exception type": "exception_types",
    "words": "words",
}
"""The list in which a kind of difference stands; any other is one of values."""


class Departure(NamedTuple):
    """A form of a sample that gives something else than PyTorch; kind: what differs first."""

    line: str
    form: str
    kind: str
    expected: Any = None
    got: Any = None

    def __str__(self) -> str:
        return f"{self.line}, {self.form}: {self.kind}\n  PyTorch: {brief(self.expected)}\n  here:    {brief(self.got)}"

    @property
    def key(self) -> str:
        """How it stands in the list."""
        return f"{self.kind:15} {self.form:18} {self.line}"


def departures(samples: Iterable[Recorded]) -> Iterator[Departure]:
    """What differs in some samples."""
    for recorded in samples:
        sample = Sample(flambeau, recorded.line)
        for form, expected in recorded.outcomes.items():
            got = sample.outcome(form)
            kind = compared(*map(_as_computed, (expected, got))) if form == "out of float64" else compared(expected, got)
            if kind is not None:
                yield Departure(recorded.line, form, kind, expected, got)


def compared(expected: Any, got: Any) -> str | None:
    """The kind of difference between two outcomes, or None."""
    if expected[0] != got[0]:
        return "raises" if got[0] == "raised" else "raises not"
    if expected[0] == "raised":
        return "exception type" if expected[1] != got[1] else "words" if expected[2] != got[2] else None
    return difference(expected[1], got[1])


def _as_computed(outcome: Any) -> Any:
    """An outcome whose tensors of float64 are said to be of float32, as exact as which they are."""
    if not isinstance(outcome, list):
        return outcome
    parts = [_as_computed(part) for part in outcome]
    return [*parts[:4], "float32", *parts[5:]] if parts[:1] == ["tensor"] and parts[4] == "float64" else parts


def known() -> dict[str, str]:
    """The keys of the departures that are known, with the reasons of those that have one."""
    found = {}
    for path in sorted(DEPARTURES.glob("*.txt")):
        reason = ""
        for line in path.read_text().splitlines():
            if line.startswith("# "):
                reason = line[2:]
            elif line:
                found[line] = reason
    return found


def write(found: Iterable[Departure], reasons: dict[str, str]) -> None:
    """Write the lists, with the reasons that are known."""
    lists: dict[str, dict[str, list[str]]] = {name: {} for name in LISTS.values()}
    for departure in found:
        lists[LISTS.get(departure.kind, "values")].setdefault(reasons.get(departure.key, ""), []).append(departure.key)
    for name, paragraphs in lists.items():
        written = [
            "\n".join([*([f"# {reason}"] if reason else []), *sorted(keys)]) for reason, keys in sorted(paragraphs.items())
        ]
        (DEPARTURES / f"{name}.txt").write_text("\n\n".join(written) + "\n")


MILDER = {"words": {"exception type", "raises", "raises not"}, "exception type": {"raises", "raises not"}}
"""A known departure may become one of a kind on the left from one of a kind on the right."""


def is_known(departure: Departure, keys: Container[str]) -> bool:
    """Whether the list has a departure, or had a worse one in its place."""
    return any(departure._replace(kind=kind).key in keys for kind in (departure.kind, *MILDER.get(departure.kind, ())))


def brief(outcome: Any) -> str:
    """An outcome in readable words."""
    return str(_readable(outcome))[:500]


def _readable(outcome: Any) -> Any:
    if isinstance(outcome, list) and outcome[:1] == ["tensor"]:
        shape, strides, offset, dtype, grad, alias, values = outcome[1:]
        return (
            f"tensor {shape} strides {strides} offset {offset} {dtype} grad {grad} alias {alias} "
            f"{unpacked(values, shape).tolist()}"
        )
    return [_readable(part) for part in outcome] if isinstance(outcome, list) else outcome


def main() -> None:
    """Run."""
    parser = argparse.ArgumentParser(description="the samples, here and under PyTorch")
    parser.add_argument("--only", default="", help="samples whose family or line matches")
    parser.add_argument("--write", action="store_true", help="write the lists of known departures")
    given = parser.parse_args()
    samples = [sample for sample in read() if re.search(given.only, f"{sample.family} {sample.line}")]
    found = []
    for departure in departures(samples):
        found.append(departure)
        print(departure, flush=True)
    print(
        f"{len(samples)} samples, {sum(len(sample.outcomes) for sample in samples)} outcomes; "
        f"departures: {dict(collections.Counter(departure.kind for departure in found))}"
    )
    if given.write:
        write(found, known())


if __name__ == "__main__":
    main()
