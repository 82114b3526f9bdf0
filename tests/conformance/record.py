"""What PyTorch gave for every sample, as a file: `recorded.json.xz`, one sample per line.

The values of a sample's outcomes are kept once, those of other forms refer to them. Stands on nothing; used by `generate`,
`replay` and the tests.
"""

from __future__ import annotations

import json
import lzma
from pathlib import Path
from typing import Any, NamedTuple

FILE = Path(__file__).with_name("recorded.json.xz")


class Recorded(NamedTuple):
    """A sample's family and line, and its outcomes by form."""

    family: str
    line: str
    outcomes: dict[str, Any]


def write(path: Path, samples: list[Recorded]) -> None:
    """Write samples to a compressed file."""
    lines = []
    for sample in samples:
        values: list[Any] = []
        short = {form: _shortened(outcome, values) for form, outcome in sample.outcomes.items()}
        lines.append(json.dumps([sample.family, sample.line, short, values], separators=(",", ":")))
    path.write_bytes(lzma.compress("\n".join(lines).encode(), preset=9 | lzma.PRESET_EXTREME))


def read(path: Path = FILE) -> list[Recorded]:
    """The samples of a file."""
    samples = []
    for text in lzma.decompress(path.read_bytes()).decode().splitlines():
        family, line, short, values = json.loads(text)
        samples.append(Recorded(family, line, {form: _lengthened(outcome, values) for form, outcome in short.items()}))
    return samples


def _shortened(outcome: Any, values: list[Any]) -> Any:
    """An outcome with places in `values` instead of the elements of tensors."""
    if not isinstance(outcome, list):
        return outcome
    if outcome[:1] == ["tensor"]:
        if outcome[-1] not in values:
            values.append(outcome[-1])
        return [*outcome[:-1], values.index(outcome[-1])]
    return [_shortened(part, values) for part in outcome]


def _lengthened(outcome: Any, values: list[Any]) -> Any:
    if not isinstance(outcome, list):
        return outcome
    if outcome[:1] == ["tensor"]:
        return [*outcome[:-1], values[outcome[-1]]]
    return [_lengthened(part, values) for part in outcome]
