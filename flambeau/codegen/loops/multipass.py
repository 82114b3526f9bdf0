"""Few long rows: each stage of a nest becomes phases of its own, so that all threads work on a row.

What a stage folds is combined, chunk by chunk, in the plan's working memory, where later stages read it like an operand that is
the same along the row. Stands on nest; used by schedule.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from flambeau.base.dtype import dtype as DType
from flambeau.codegen.plan import SCRATCH
from flambeau.ir.loops import Fold, Loop, Nest, Row, element, folded, steady
from flambeau.ir.scalar import Expr, leaves_of, substitute, topological

Strides = tuple[int, ...]


@dataclass(frozen=True)
class Place:
    """An operand: its storage dtype, slot, offset in bytes, and strides along the outer axes, the lane and the inner axes; the
    stride from chunk to chunk.
    """

    dtype: DType
    slot: int
    outer: Strides
    lane: int
    inner: Strides
    offset: int = 0
    chunk: int = 0


def can_stage(nest: Nest) -> bool:
    """Whether the stages can run one after another over all rows: they don't scan, and pick nothing."""
    loops = [stage for stage in nest.stages if isinstance(stage, Loop)]
    used = [e for stage in nest.stages for e in stage.expressions]
    starts = [e for stage in loops for fold in stage.folds for e in fold.start]
    return (
        any(stage.folds for stage in loops)
        and not any(stage.scan for stage in loops)
        and not leaves_of(*starts)
        and not any(n.op in ("pick", "guard") for n in topological(*used))
    )


class Stager:
    """Makes phases of the stages of a nest.

    outputs, inputs: its operands; outer, lane: extents of the outer axes and of the lane (None without lanes); chunks: how many
    each row is cut in; phase(nest, places, whole, chunked) lays a nest: along the row, in `chunks` if chunked, or (whole: False)
    along the chunks.
    """

    def __init__(
        self,
        nest: Nest,
        outputs: Sequence[Place],
        inputs: Sequence[Place],
        outer: Strides,
        lane: int | None,
        axes: int,
        chunks: int,
        phase: Callable,
    ):
        self.nest, self.outputs, self.inputs = nest, list(outputs), list(inputs)
        self.lanes, self.axes, self.chunks, self.phase = lane is not None, axes, chunks, phase
        lane = self.lane = lane or 1
        strides, step = [], lane
        for size in reversed(outer):
            strides.insert(0, step)
            step *= size
        self.cells, self.cell_strides = step, tuple(strides)
        self.scratch = 0
        self.known: dict[Expr, Place] = {}  # what was folded, by its leaf
        self.phases: list = []

    def run(self) -> None:
        """Make the phases of all stages."""
        for stage in self.nest.stages:
            if isinstance(stage, Row):
                self._add(stage, stage.stores, [], (), False)
                continue
            if self.lanes:
                self._prepare(stage)
            if stage.folds:
                self._fold(stage)
            else:
                self._add(stage, stage.stores, [], (), True)

    def _prepare(self, stage: Loop) -> None:
        """Compute what is the same along the rows once for each: in a loop over lanes it would be computed for every element."""
        found = steady(stage.expressions, self.known.__contains__)
        if found:
            places = self._values([node.dtype for node in found], 1)
            first = len(self.outputs)
            self.outputs += places
            self._add(Row(()), tuple((first + i, node) for i, node in enumerate(found)), [], (), False)
            self.known |= dict(zip(found, places))

    def _values(self, dtypes: Sequence[DType], chunks: int) -> list[Place]:
        """Working memory for a value of each dtype, per row and chunk."""
        places = []
        for dtype in dtypes:
            outer = tuple(s * chunks for s in self.cell_strides)
            places.append(Place(dtype, SCRATCH, outer, 1, (0,) * self.axes, self.scratch, self.lane if chunks > 1 else 0))
            self.scratch += (self.cells * chunks * dtype.itemsize + 63) // 64 * 64
        return places

    def _fold(self, stage: Loop) -> None:
        names = [(name, start.dtype) for fold in stage.folds for name, start in zip(fold.names, fold.start)]
        partial = self._values([dtype for _, dtype in names], self.chunks)
        rest = tuple((len(stage.stores) + i, folded(*name)) for i, name in enumerate(names))
        self._add(stage, stage.stores, partial, rest, True)
        finals, k = [], 0
        for fold in stage.folds:
            lifted = tuple(element(k + i, start.dtype) for i, start in enumerate(fold.start))
            k += len(fold.start)
            finals.append(Fold(fold.names, fold.start, lifted, fold.combine))
        results = self._values([dtype for _, dtype in names], 1)
        stores = tuple((i, folded(*name)) for i, name in enumerate(names))
        final = Nest(
            self.nest.name,
            tuple(p.dtype for p in results),
            tuple(p.dtype for p in partial),
            (Loop(tuple(finals)), Row(stores)),
            self.nest.scalars,
        )
        along = [Place(p.dtype, SCRATCH, p.outer, 1, (self.lane,), p.offset) for p in partial]
        self.phases.append(
            self.phase(final, [*[Place(p.dtype, SCRATCH, p.outer, 1, (0,), p.offset) for p in results], *along], False, False)
        )
        self.known |= {folded(*name): place for name, place in zip(names, results)}

    def _add(self, stage: Loop | Row, stores: tuple, partial: list[Place], rest: tuple, chunked: bool) -> None:
        """The phase of a stage with these stores, whose folds, if any, go to `partial`."""
        folds = stage.folds if isinstance(stage, Loop) else ()
        inputs: list[Place] = []
        replaced: dict[Expr, Expr] = {}
        for x in dict.fromkeys(topological(*[e for _, e in stores], *[e for fold in folds for e in fold.lift])):
            place = self.known.get(x) or self._operand(x)
            if place is not None:
                replaced[x] = element(len(inputs), place.dtype)
                inputs.append(place)
        moved = tuple((i, substitute(e, replaced)) for i, (_, e) in enumerate(stores))
        made: tuple = (Row(moved),)
        if isinstance(stage, Loop):
            own = tuple(Fold(f.names, f.start, tuple(substitute(e, replaced) for e in f.lift), f.combine) for f in folds)
            made = (Loop(own, moved), *((Row(rest),) if rest else ()))
        outputs = [*[self.outputs[j] for j, _ in stores], *partial]
        nest = Nest(self.nest.name, tuple(p.dtype for p in outputs), tuple(p.dtype for p in inputs), made, self.nest.scalars)
        self.phases.append(self.phase(nest, [*outputs, *inputs], True, chunked))

    def _operand(self, x: Expr) -> Place | None:
        """What a leaf reads: an input, or an output that an earlier stage stored."""
        name = str(x.value) if x.op == "leaf" else ""
        if name[:2] == "in" and name[2:].isdigit():
            return self.inputs[int(name[2:])]
        return self.outputs[int(name[3:])] if name[:3] == "out" and name[3:].isdigit() else None
