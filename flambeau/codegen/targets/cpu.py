"""The processor as a target: steps become phases, and a plan a call of the native launcher.

Loops are lowered by loops.schedule. Other kinds of steps are lowered by the module that declares them, which says so by
`@CPU.lowers(...)`, and so is loaded when it is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from flambeau.base.flags import flags
from flambeau.codegen import cpu
from flambeau.codegen.loops.schedule import lay
from flambeau.codegen.plan import Loops, Phase, Plan, Prepacked
from flambeau.codegen.runtime import launch, weight_cache
from flambeau.codegen.runtime.threads import planned_threads

Lowered = tuple[list[Phase], int]  # and the bytes of working memory that they share


class _CPU:
    """The only instance is `CPU`."""

    name = "cpu"
    allocate = staticmethod(launch.new_storage)

    def __init__(self) -> None:
        self._lowerings: dict[type, Callable[..., Lowered]] = {Loops: lay}
        self._prepacks: dict[type, Callable[[Any, int], Prepacked | None]] = {}
        self.made: list[Plan] | None = None  # where plans are noted, while somebody wants to know

    @property
    def vector_bytes(self) -> int:
        return cpu.vector_bytes()

    @property
    def threads(self) -> int:
        return planned_threads()

    def lowers(self, kind: type) -> Callable[[Callable[..., Lowered]], Callable[..., Lowered]]:
        """Decorate a function that takes the fields of such a step, and gives phases and the working memory that they share."""

        def note(lower: Callable[..., Lowered]) -> Callable[..., Lowered]:
            self._lowerings[kind] = lower
            return lower

        return note

    def prepacks(self, kind: type) -> Callable[[Callable[[Any, int], Prepacked | None]], Callable[[Any, int], Prepacked | None]]:
        """Decorate a function that takes such a step, and the slot in which it may find what one operand was packed to: it gives
        the step's two halves, or None where that operand isn't packed.
        """

        def note(divide: Callable[[Any, int], Prepacked | None]) -> Callable[[Any, int], Prepacked | None]:
            self._prepacks[kind] = divide
            return divide

        return note

    def prepacked(self, plan: Plan) -> Prepacked | None:
        """The halves of the plan's only step, if it has one that can be divided."""
        if len(plan.steps) != 1 or plan.scalars or not plan.outputs or plan.outputs[0].device.stand_ins is not None:
            return None
        divide = self._prepacks.get(plan.steps[0].__class__)
        return None if divide is None else divide(plan.steps[0], len(plan.outputs) + len(plan.inputs))

    def lower(self, step: Any) -> Lowered:
        if step.__class__ is Phase:
            return [step], 0
        how = self._lowerings.get(step.__class__)
        if how is None:
            raise NotImplementedError(f"the CPU has no kernels for {step}")
        return how(*step)

    def launcher(self, plan: Plan) -> Callable:
        for layout in plan.outputs:
            if layout.device.type == "meta":
                return launch.callable_of(plan, [], 0, meta=True)
        phases: list[Phase] = []
        scratch = plan.scratch
        for step in plan.steps:
            if step.__class__ is Phase:
                phases.append(step)
            else:
                how = self._lowerings.get(step.__class__)
                own, size = how(*step) if how is not None else self.lower(step)
                phases += own
                if size:
                    if plan.scratch:  # each would write where the other keeps something
                        raise NotImplementedError(f"working memory for {step} in a plan whose phases have some between them")
                    scratch = max(scratch, size)
        if self.made is not None:
            self.made.append(plan)
        if flags.debug >= 2:
            print(f"plan {described(plan)}")
        made = launch.callable_of(plan, phases, scratch)
        halves = self.prepacked(plan)
        return made if halves is None or not weight_cache.pays(halves) else weight_cache.keeping(plan, made, halves)


CPU = _CPU()
lowered = CPU.launcher


@contextmanager
def plans_made() -> Iterator[list[Plan]]:
    """A list in which plans are noted as they are lowered in this block."""
    before, CPU.made = CPU.made, []
    try:
        yield CPU.made
    finally:
        CPU.made = before


def described(plan: Plan) -> str:
    """A plan as text: each step with the phases that it is lowered to."""
    head, *steps = str(plan).split("\n")
    lines = [f"{head}  on {planned_threads()} threads"]
    for line, step in zip(steps, plan.steps, strict=True):
        lines.append(line)
        if step.__class__ is not Phase:
            phases, scratch = CPU.lower(step)
            lines += [f"    {phase}" for phase in phases]
            lines += [f"    {scratch} bytes of working memory"] if scratch else []
    return "\n".join(lines)


def plan_of(launcher: Any) -> Plan | None:
    """The plan that a callable runs; None if it is no plan's."""
    plan = getattr(launcher, "__module__", None)
    return plan if isinstance(plan, Plan) else None
