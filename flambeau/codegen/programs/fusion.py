"""Loops that share a kernel: a pass over programs which makes one nest of steps that hand elements to each other.

A step joins one before it where it reads what that writes (a chain), and what both read is read once; what nobody else reads is
not written any more, what others read still is (a fan). The steps are pointwise; one may be a row program (a reduction, a
softmax, a norm), which then computes its elements, and what is computed of those. Stands on program.py and sharing.py, which
makes the nest; used by passes.py.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from flambeau.codegen.plan import Plan
from flambeau.codegen.programs.program import FRESH, OUTPUT, Address, Operand, Program, Step, may_refuse
from flambeau.codegen.programs.sharing import Kernel, Member, aligned, kernel_of, member_of
from flambeau.codegen.runtime.launch import bytes_spanned

MOST_STEPS = 32  # that share a kernel
DISTANCE = 64  # how many steps another one is moved over at most


class Access(NamedTuple):
    """Bytes of a buffer that a step touches."""

    low: int
    high: int
    written: bool


@dataclass
class _Item:
    """A step, or several in one kernel, where it stands in the new order."""

    accesses: dict[int, list[Access]]
    refuses: bool
    outward: bool  # whether it changes what was there before
    step: Step
    members: list[Member] = field(default_factory=list)  # what is in its kernel; none, if that can't be shared
    kernel: Kernel | None = None

    def __post_init__(self) -> None:
        self.makes = {p[:3] for m in self.members for p in m.handed}
        self.takes = {p[:3] for m in self.members for p in m.taken}


def _fused(program: Program) -> list[_Item]:
    """The steps of the program in a new order, some of which share kernels."""
    touched: dict[int, set[int]] = {}
    for i, step in enumerate(program.steps):
        for operand in step.operands:
            touched.setdefault(operand.buffer, set()).add(i)
    items: list[_Item] = []
    for i, step in enumerate(program.steps):
        member = member_of(i, step)
        outward = any(program.buffers[o.buffer].kind not in (FRESH, OUTPUT) for o in step.written)
        outward = outward or any(n.__class__ is Address for n in step.numbers)
        item = _Item(_accesses(step), may_refuse(step), outward, step, [member] if member else [])
        items.append(item)
        if member is not None:
            _absorb(items, len(items) - 1, program, touched)
    return items


def _absorb(items: list[_Item], at: int, program: Program, touched: dict[int, set[int]]) -> None:
    """Have the item at `at` share a kernel with items before it that write what it reads, as long as there are any."""
    other = at - 1
    while other >= max(0, at - DISTANCE):
        first, second = items[other], items[at]
        if not first.makes.isdisjoint(second.takes):
            sinks = all(_may_pass(first, between) for between in items[other + 1 : at])
            if sinks or all(_may_pass(second, between) for between in items[other + 1 : at]):
                joined = _joined(first, second, program, touched)
                if joined is not None:
                    place = at if sinks else other
                    items[place] = joined
                    del items[other if sinks else at]
                    at = at - 1 if sinks else other
                    other = at - 1
                    continue
        other -= 1


def _may_pass(moved: _Item, other: _Item) -> bool:
    """Whether an item may be run on the other side of another one."""
    if (other.refuses and moved.outward) or moved.refuses:
        return False
    for buffer, own in moved.accesses.items():
        for a in own:
            for b in other.accesses.get(buffer, ()):
                if (a.written or b.written) and a.low < b.high and b.low < a.high:
                    return False
    return True


def _accesses(step: Step) -> dict[int, list[Access]]:
    found: dict[int, list[Access]] = {}
    count = len(step.plan.outputs)
    for i, operand in enumerate(step.operands):
        span = bytes_spanned(operand.layout)
        if span:
            found.setdefault(operand.buffer, []).append(Access(operand.offset, operand.offset + span, i < count))
    return found


def _joined(first: _Item, second: _Item, program: Program, touched: dict[int, set[int]]) -> _Item | None:
    """Both as one item; None where they can't share a kernel."""
    together = [*first.members, *second.members]
    if len(together) > MOST_STEPS or sum(m.is_row for m in together) > 1:
        return None
    made = {p[:3]: p for m in first.members for p in m.handed}
    for m in second.members:
        for p in m.taken:
            handed = made.get(p[:3])
            if handed is not None:
                members = aligned(first.members, handed, second.members, p)
                kernel = kernel_of(members, program, touched) if members else None
                if kernel is None or members is None:
                    return None
                accesses = {b: list(a) for b, a in first.accesses.items()}
                for buffer, more in second.accesses.items():
                    accesses.setdefault(buffer, []).extend(more)
                return _Item(accesses, False, first.outward or second.outward, first.step, members, kernel)
    return None


# ---------------------------------------------------------------- the program
def _plan(item: _Item) -> tuple[Plan, tuple[Operand, ...], tuple[Any, ...]]:
    """The plan of steps that share a kernel, with its operands and numbers."""
    made = item.kernel
    assert made is not None
    found = {place: operand for m in item.members for place, operand in zip(m.places, m.step.operands)}
    written, read = [found[p] for p in made.written], [found[p] for p in made.read]
    plan = Plan(
        [made.loops],
        [operand.layout for operand in written],
        [operand.layout for operand in read],
        made.scalars,
        release=any(m.step.plan.release for m in item.members),
    )
    return plan, (*written, *read), made.numbers


def fuse(program: Program) -> Program:
    """The program with pointwise steps in kernels that they share, where they hand elements to each other."""
    items = _fused(program)
    if len(items) == len(program.steps):
        return program
    steps = []
    for item in items:
        if item.kernel is None:
            steps.append(item.step)
            continue
        plan, operands, numbers = _plan(item)
        steps.append(Step(plan, b"", operands, numbers))
    used = {operand.buffer for step in steps for operand in step.operands}
    buffers = tuple(
        b if i in used or b.kind != FRESH or b.content is not None else b._replace(low=0, high=0, size=0)
        for i, b in enumerate(program.buffers)
    )
    return program._replace(steps=tuple(steps), buffers=buffers)
