"""Writes down what PyTorch gives for the samples of the catalogue: python tests/conformance/generate.py [--all].

Needs a Python that imports torch. Only lines that aren't recorded yet are tried, and others dropped; --all tries all, after a
change of `inputs` or `forms`. Then `replay.py --write` lists what differs here.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from conformance.catalogue import FAMILIES
from conformance.forms import Sample
from conformance.record import FILE, Recorded, read, write

SECONDS = 600
"""After which a family's samples are given up."""


def tried(torch: Any, wanted: list[tuple[str, str]]) -> list[Any] | None:
    """The outcomes of (line, form), in a child process, because PyTorch too crashes at times; None where it did."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        signal.alarm(SECONDS)
        os.close(reading)
        with open(writing, "w") as file:
            json.dump([Sample(torch, line).outcome(form) for line, form in wanted], file)
        os._exit(0)
    os.close(writing)
    with open(reading) as file:
        text = file.read()
    return None if os.waitpid(child, 0)[1] else json.loads(text)


def outcomes(torch: Any, wanted: list[tuple[str, str]]) -> list[Any]:
    """The outcomes of (line, form); None where PyTorch crashes."""
    found = tried(torch, wanted) if wanted else []
    if found is not None:
        return found
    if len(wanted) == 1:
        print("PyTorch crashed:", *wanted[0], flush=True)
        return [None]
    half = len(wanted) // 2
    return outcomes(torch, wanted[:half]) + outcomes(torch, wanted[half:])


def main() -> None:
    """Try all samples in all forms."""
    torch = importlib.import_module("torch")
    torch.set_num_threads(1)
    kept = {} if "--all" in sys.argv[1:] else {each.line: each.outcomes for each in read()}
    samples, seen = [], set()
    for family, lines in FAMILIES.items():
        wanted = []
        for line in lines:
            sample = Sample(torch, line)
            name = f"{sample.room}.{sample.name}"
            if line not in kept:
                wanted += [(line, form) for form in sample.forms(name not in seen)]
            seen.add(name)
        found = dict(zip(wanted, outcomes(torch, wanted), strict=True))
        for line in dict.fromkeys(lines):
            mine = {form: outcome for (one, form), outcome in found.items() if one == line and outcome is not None}
            samples.append(Recorded(family, line, kept.get(line, mine)))
    write(FILE, samples)
    print(f"{len(samples)} samples of {len(seen)} names, {sum(len(s.outcomes) for s in samples)} outcomes")


if __name__ == "__main__":
    main()
