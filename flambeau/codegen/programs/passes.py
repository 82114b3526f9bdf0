"""Passes: functions from programs to programs that do the same, to the bit, in less time.

`improve` runs those that `FLAMBEAU_PASSES` lets run. The steps that they make have no words yet
(program.py): their kernels are compiled on threads, and until they are there the program runs as it was recorded. Stands on
program.py and fusion.py; used by replay.py.
"""

from __future__ import annotations

from collections.abc import Callable

from flambeau.base.flags import flags
from flambeau.codegen import jit
from flambeau.codegen.plan import Phase
from flambeau.codegen.programs.fusion import fuse
from flambeau.codegen.programs.program import Program, Step
from flambeau.codegen.runtime import launch
from flambeau.codegen.targets.cpu import CPU

PASSES: dict[str, Callable[[Program], Program]] = {"fusion": fuse}
if flags.passes is not None and not flags.passes <= PASSES.keys():
    raise ValueError(f"FLAMBEAU_PASSES must be on, off, or names out of {', '.join(PASSES)}, got {', '.join(flags.passes)}")


def improve(program: Program) -> Improved | None:
    """What passes make of a program; None if that is the same."""
    made = program
    for name, each in PASSES.items():
        if flags.passes is None or name in flags.passes:
            made = each(made)
    return Improved(made) if made is not program else None


class Improved:
    """A program some of whose kernels may still be compiled."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._lowered: dict[int, tuple[list[Phase], int]] = {}
        for i, step in enumerate(program.steps):
            if not step.words:
                phases, scratch = [], step.plan.scratch
                for each in step.plan.steps:
                    own, size = CPU.lower(each)
                    phases += own
                    scratch = max(scratch, size)
                self._lowered[i] = phases, scratch
        self._missing = [phase.kernel for phases, _ in self._lowered.values() for phase in phases]
        for kernel in self._missing:
            kernel.begin()
        jit.start()

    def take(self, wait: bool = False) -> Program | None:
        """The program, if its kernels are there; wait: until they are."""
        if wait:
            for kernel in self._missing:
                int(kernel)
        elif any(kernel.begin().__class__ is not int for kernel in self._missing):
            return None
        program = self._program
        steps = [self._with_words(i, step, program.threads) for i, step in enumerate(program.steps)]
        return program._replace(steps=tuple(steps))

    def _with_words(self, at: int, step: Step, threads: int) -> Step:
        if at not in self._lowered:
            return step
        phases, scratch = self._lowered[at]
        return step._replace(words=launch.callable_of(step.plan, phases, scratch, threads=threads).__self__)  # type: ignore[attr-defined]
