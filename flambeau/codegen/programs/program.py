"""What a program is: buffers, steps over them, numbers, outputs, effects. A value, which prints as text.

Stands on codegen.plan; recording.py makes programs, replay.py runs them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple
from weakref import ref

from flambeau.base.layout import Layout
from flambeau.codegen.plan import Loops, Plan

FRESH, OUTPUT, KEPT, EXTERNAL, CONSTANT = "fresh", "output", "kept", "external", "constant"


class Refusal(NamedTuple):
    """Why a call has no program."""

    reason: str


class Unfit(Exception):
    """A program can't answer this call; nothing has happened, and the function itself is to be run."""


class Buffer(NamedTuple):
    """Memory that steps share.

    kind: FRESH (in the arena), OUTPUT (allocated for each replay), KEPT (made in the recorded call, which it outlived: `block` is
    it), EXTERNAL (found by an input, or by a storage that was there before: `block`, a weak reference), CONSTANT (bytes from
    Python). low, high: the bytes that steps touch, counted from where it is found; written: by steps.
    """

    kind: str
    low: int
    high: int
    size: int
    written: bool = False
    input: int | None = None
    block: ref[Any] | Any = None
    content: bytes | None = None  # what it holds before the first step that touches it


class Operand(NamedTuple):
    """A tensor of a step: a layout, `offset` bytes into a buffer."""

    buffer: int
    offset: int
    layout: Layout


class Lifted(NamedTuple):
    """A number that each replay is given."""

    index: int

    def __str__(self) -> str:
        return f"number{self.index}"


class Address(NamedTuple):
    """A number that is the address of a random generator's state, or of the normal sample that waits in it."""

    generator: Any
    spare: bool

    def __str__(self) -> str:
        return "spare" if self.spare else "generator"


class Step(NamedTuple):
    """A launch. words: the plan as it was lowered for the processor, b"" if it isn't yet; operands: results, then inputs."""

    plan: Plan
    words: bytes
    operands: tuple[Operand, ...]
    numbers: tuple[Any, ...]

    @property
    def written(self) -> tuple[Operand, ...]:
        return self.operands[: len(self.plan.outputs)]

    @property
    def read(self) -> tuple[Operand, ...]:
        return self.operands[len(self.plan.outputs) :]


class Input(NamedTuple):
    """A tensor that a replay is given: it lies where `buffer` is found, or so many bytes behind. own: in another storage."""

    layout: Layout
    buffer: int | None
    offset: int = 0
    own: bool = True


class Version(NamedTuple):
    """An effect: the count of writes of a storage, that of an input or one that was there before, grows by `writes`."""

    input: int | None
    block: ref[Any] | None
    writes: int


class Result(NamedTuple):
    """A tensor that a replay gives: an input itself, or a layout over a buffer."""

    operand: Operand | None
    input: int | None = None
    writes: int = 0


class Program(NamedTuple):
    """Launches over buffers.

    generators: random ones, each with whether a normal sample must wait in it, None where that doesn't matter; threads: the
    number that it was planned for.
    """

    inputs: tuple[Input, ...]
    buffers: tuple[Buffer, ...]
    steps: tuple[Step, ...]
    numbers: tuple[float, ...]  # of the recorded call, by index of Lifted
    outputs: tuple[Result, ...]
    versions: tuple[Version, ...]
    generators: tuple[tuple[Any, float | None], ...]
    threads: int

    def __str__(self) -> str:
        given = ", ".join(f"{_brief(x.layout)}" for x in self.inputs)
        lines = [f"program ({given}) on {self.threads} threads"]
        lines += [f"  {_name(i, b)}: {_described(b)}" for i, b in enumerate(self.buffers)]
        for step in self.steps:
            words = " then ".join(str(s) for s in step.plan.steps)
            parts = [*map(self._operand, step.read), *map(str, step.numbers)]
            lines.append(f"  {', '.join(map(self._operand, step.written))} = {words} ({', '.join(parts)})")
        lines += [
            f"  version of {'input' + str(v.input) if v.input is not None else 'a storage'} + {v.writes}" for v in self.versions
        ]
        results = [f"input{r.input}" if r.operand is None else self._operand(r.operand) for r in self.outputs]
        return "\n".join([*lines, f"  -> {', '.join(results) or 'nothing'}"])

    def _operand(self, operand: Operand) -> str:
        name = _name(operand.buffer, self.buffers[operand.buffer])
        place = f"+{operand.offset}" if operand.offset else ""
        return f"{name}{place}:{_brief(operand.layout)}"


_LETTERS = {FRESH: "f", OUTPUT: "o", KEPT: "k", EXTERNAL: "x", CONSTANT: "c"}


def _name(index: int, buffer: Buffer) -> str:
    return f"{_LETTERS[buffer.kind]}{index}"


def _described(buffer: Buffer) -> str:
    found = f" of input {buffer.input}" if buffer.input is not None else ""
    return f"{buffer.kind}{found}, bytes {buffer.low} to {buffer.high}{', written' if buffer.written else ''}"


def _brief(layout: Layout) -> str:
    dense = "" if layout.is_contiguous else f" strides {list(layout.strides)}"
    return f"{layout.dtype.name}{list(layout.shape)}{dense}"


def lifetimes(steps: Sequence[Step], count: int) -> list[tuple[int, int]]:
    """The first and the last step that touches each of `count` buffers; (-1, -1) for one that none does."""
    first, last = [-1] * count, [-1] * count
    for i, step in enumerate(steps):
        for operand in step.operands:
            if first[operand.buffer] < 0:
                first[operand.buffer] = i
            last[operand.buffer] = i
    return list(zip(first, last))


def may_refuse(step: Step) -> bool:
    """Whether a step's kernels may find bad data."""
    return any(_may_refuse(one) for one in step.plan.steps)


def _may_refuse(step: Any) -> bool:
    if step.__class__ is Loops:
        return step.nest.may_refuse
    kind = step.__class__.__name__
    return any(move.indices for move in step.moves) if kind == "Moves" else kind not in _SURE


#: Kinds of steps that do the same whatever the data are.
_SURE = frozenset("Contraction Attend AttendBackward Convolve ConvolveInput ConvolveWeight Recur RecurBackward".split())
