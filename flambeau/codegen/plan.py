"""Plans as values: what a call does, before anything is compiled for it.

A plan has steps. What a step does is said in neutral words, which every target lowers in its own way: `Loops` here, products,
convolutions and attention beside their planners. A `Phase` is a step that is lowered already: a kernel of the CPU over a range of
units. Stands on ir.loops and jit.py (names of kernels); operators' planners make plans, targets lower them, launch.py runs them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, SupportsIndex

from flambeau.base.layout import Layout
from flambeau.codegen.jit import KernelRef
from flambeau.ir.loops import Nest

SCRATCH = -1  # the slot of an operand that lies in the plan's working memory
Strides = tuple[int, ...]
Slots = tuple[int, ...]  # of outputs first, then of inputs


class Phase(NamedTuple):
    """One kernel over [0, total) in chunks of `grain`, with `constants` at p[0]. It may read and write whatever the plan has."""

    kernel: KernelRef
    total: int
    grain: int
    constants: Sequence[SupportsIndex]

    def __str__(self) -> str:
        return f"{self.kernel.name} over {self.total} in chunks of {self.grain}, {len(self.constants)} constants"


class Prepacked(NamedTuple):
    """A step in two halves: `pack` makes of one operand, slot 1, what the kernels read of it, `size` bytes in slot 0; `phases`,
    with `scratch` bytes of working memory, do the rest, and find that in one more input behind the plan's.

    operand: the slot of the operand in the plan; uses: how often each element that is packed is multiplied by something.
    """

    operand: int
    pack: Sequence[Phase]
    size: int
    phases: Sequence[Phase]
    scratch: int
    uses: int


class Loops(NamedTuple):
    """`nest` for every index of `kept`, along the axes `inner`.

    Strides are given per operand (outputs first), one per axis; picks: operand -> (stride, extent) of its pick axis; ordered:
    positions along the inner axes matter, so they keep their order. For pointwise nests, slots, offsets (bytes) and scalar_slot
    say where operands and scalars lie among the plan's, if not in order.
    """

    nest: Nest
    kept: Sequence[int]
    kept_strides: Sequence[Strides]
    inner: Sequence[int]
    inner_strides: Sequence[Strides]
    picks: Mapping[int, tuple[int, int]] | None = None
    ordered: bool = False
    slots: Slots | None = None
    offsets: Mapping[int, int] | None = None
    scalar_slot: int | None = None

    @property
    def writes(self) -> Slots:
        return self._slots()[: len(self.nest.outputs)]

    @property
    def reads(self) -> Slots:
        return self._slots()[len(self.nest.outputs) :]

    def _slots(self) -> Slots:
        return self.slots or tuple(range(len(self.nest.outputs) + len(self.nest.inputs)))

    def __str__(self) -> str:
        axes = f"{list(self.kept)} x {list(self.inner)}" if self.kept else f"{list(self.inner)}"
        return f"loops {self.nest.name} over {axes}"


def elementwise(
    nest: Nest,
    shape: Sequence[int],
    strides: Sequence[Strides],
    slots: Slots | None = None,
    offsets: Mapping[int, int] | None = None,
    scalar_slot: int | None = None,
) -> Loops:
    """`nest` for every index of `shape`: no axis is kept."""
    return Loops(nest, (), ((),) * len(strides), shape, strides, None, False, slots, offsets, scalar_slot)


class Plan(NamedTuple):
    """What one call does: `steps` in order, over tensors of these layouts.

    outputs: the Layout of each result (allocated when the argument is None, returned in any case); inputs: of each input tensor;
    scalars: a letter each, "f" (passed as a double), "i" (int64), "c" (two doubles); scratch: bytes of working memory that its
    phases have between them, for as many threads as `planned_threads` tells the thread that makes the plan, which will have no
    more; release: let other Python threads run meanwhile (worth it from about 100 us of work); keep: what must live as long as
    the plan, because constants are addresses in it; counted: whether a write to a given result makes saved tensors stale.
    """

    steps: Sequence[Any]
    outputs: Sequence[Layout] = ()
    inputs: Sequence[Layout] = ()
    scalars: str = ""
    scratch: int = 0
    release: bool = False
    keep: Sequence[object] = ()
    counted: bool = True

    def __str__(self) -> str:
        taken = ", ".join([*map(_brief, self.inputs), *self.scalars])
        lines = [f"({taken}) -> {', '.join(map(_brief, self.outputs))}"]
        for step in self.steps:
            reads, writes = getattr(step, "reads", None), getattr(step, "writes", None)
            moved = "" if reads is None or writes is None else f": {self._named(reads)} -> {self._named(writes)}"
            lines.append(f"  {step}{moved}")
        return "\n".join(lines)

    def _named(self, slots: Slots) -> str:
        """Operands as `out0`, `in1`, `scratch`."""
        count = len(self.outputs)
        names = ["scratch" if s < 0 else f"out{s}" if s < count else f"in{s - count}" for s in slots]
        return ", ".join(dict.fromkeys(names)) or "nothing"


def _brief(layout: Layout) -> str:
    dense = "" if layout.is_contiguous else f" strides {list(layout.strides)}"
    return f"{layout.dtype.name}{list(layout.shape)}{dense}"
