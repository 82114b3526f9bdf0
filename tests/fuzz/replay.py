"""Programs as a file, and their repetition: what differs from what was recorded.

A file holds one program per line, as JSON: its seed, its lines and their outcomes. Stands on `outcomes`; used by
`test_recorded_programs` and by `against`.
"""

from __future__ import annotations

import json
import lzma
from pathlib import Path
from typing import Any, NamedTuple

from fuzz.outcomes import Run, difference, magnitude, unpacked

MILD = frozenset(("words",))
"""Differences after which a program goes on."""


class Program(NamedTuple):
    """A seed, lines of Python, and the outcome of each, then of all variables in the end."""

    seed: int
    lines: list[str]
    outcomes: list[Any]


class Difference(NamedTuple):
    """Where a program's repetition departs from the record: `at` counts lines."""

    seed: int
    at: int
    kind: str
    line: str
    expected: Any
    got: Any

    def __str__(self) -> str:
        return (
            f"{self.kind} in program {self.seed}, line {self.at}: {self.line}\n  PyTorch: {_brief(self.expected)}\n"
            f"  here:    {_brief(self.got)}"
        )


def write(path: Path, programs: list[Program]) -> None:
    """Write programs to a compressed file."""
    text = "\n".join(json.dumps(program, separators=(",", ":")) for program in programs)
    path.write_bytes(lzma.compress(text.encode(), preset=9 | lzma.PRESET_EXTREME))


def read(path: Path) -> list[Program]:
    """The programs of a file."""
    return [Program(*json.loads(line)) for line in lzma.decompress(path.read_bytes()).decode().splitlines()]


def replay(torch: Any, program: Program) -> list[Difference]:
    """What a program's repetition gives differently: at most one difference, and those in words alone before it.

    A line that gives what was recorded, up to rounding, is given the recorded bits, so that rounding doesn't add up.
    """
    run, found, scale = Run(torch, program.seed), [], 1.0
    for at, (line, expected) in enumerate(zip(program.lines, program.outcomes, strict=False)):
        got = run.step(line)
        kind = _compared(expected, got, 0.03 * scale)
        if kind is not None:
            found.append(Difference(program.seed, at, kind, line, expected, got))
            if kind not in MILD:
                return found
        if expected[0] == "gave":
            scale = max(scale, min(magnitude(expected), 1e4))
            name = line.partition(" = ")[0]
            if name in run.space:
                _align(torch, run.space[name], expected[1])
    run.finish()
    at = len(program.lines)
    for expected, got in zip(program.outcomes[at:], run.outcomes[at:], strict=False):
        kind = difference(expected[2], got[2], 0.1 * scale) if expected[1] == got[1] else "names"
        if kind is not None:
            return [*found, Difference(program.seed, at, "end " + kind, expected[1], expected, got)]
    return found


def _compared(expected: Any, got: Any, scale: float) -> str | None:
    """The kind of difference between the outcomes of a line."""
    if expected[0] != got[0]:
        return "raises" if got[0] == "raised" else "raises not"
    if expected[0] == "raised":
        return "exception type" if expected[1] != got[1] else "words" if expected[2] != got[2] else None
    return difference(expected[1], got[1], scale)


def _align(torch: Any, value: Any, recorded: Any) -> None:
    """Put the recorded bits where they differ."""
    if recorded[0] == "items":
        for x, y in zip(value, recorded[2], strict=True):
            _align(torch, x, y)
    elif recorded[0] == "tensor" and recorded[4] != "bfloat16" and 0 not in recorded[2]:
        wanted = unpacked(recorded[7], recorded[1])
        if wanted.size and wanted.dtype.kind in "fc":
            value.data.copy_(torch.from_numpy(wanted.copy()))  # `data` doesn't count as a write


def _brief(outcome: Any) -> str:
    if outcome and outcome[0] == "gave" and outcome[1][0] == "tensor":
        shape, strides, offset, dtype, grad, alias, values = outcome[1][1:]
        elements = unpacked(values, shape).tolist()
        return f"shape {shape} strides {strides} offset {offset} {dtype} grad {grad} alias {alias} {elements}"[:400]
    return str(outcome)[:400]
