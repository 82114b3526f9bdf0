"""Steps that may share a kernel, and the nest that they share.

Elements go from operator to operator as they would through memory (`through_memory`), and each operator is computed as in its own
kernel, so that the bits are those of the steps one by one: where that isn't sure there is no nest. Stands on program.py and
codegen.loops; used by fusion.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple

from flambeau.base.dtype import dtype as DType
from flambeau.base.memory_order import overlaps_itself
from flambeau.codegen.loops.memory_access import is_short, length_of
from flambeau.codegen.loops.nest import steps_of_folds
from flambeau.codegen.loops.prologue import FIRST_SCALAR
from flambeau.codegen.loops.schedule import lay
from flambeau.codegen.plan import SCRATCH, Loops, Phase, elementwise
from flambeau.codegen.programs.program import FRESH, Address, Program, Step
from flambeau.ir.functions import expand
from flambeau.ir.loops import Loop, Nest, Row, combined, element, number, stored
from flambeau.ir.scalar import Expr, cast, compute_dtype, leaves_of, substitute, through_memory, topological

MOST_OPERANDS = 24  # of a kernel
MOST_SCALARS = 31  # as launches have
LONGEST = 1500  # instructions of a kernel
SHORT_ROW = 64  # elements, below which it costs more to compute them in a row program than to read what is written anyway


class Place(NamedTuple):
    """Elements in memory: a buffer, bytes into it, and how far one moves along each axis."""

    buffer: int
    offset: int
    dtype: DType
    strides: tuple[int, ...]


@dataclass
class Member:
    """A step that may share a kernel: its nest, over these axes."""

    at: int  # its number in the program
    step: Step
    nest: Nest
    sizes: tuple[int, ...]
    inner: tuple[bool, ...]  # which axes are those of a row
    places: list[Place]  # outputs, then inputs

    @property
    def is_row(self) -> bool:
        """Whether it is a row program, and not pointwise."""
        return not _facts(self.nest).pointwise

    @property
    def written(self) -> list[Place]:
        return self.places[: len(self.nest.outputs)]

    @property
    def read(self) -> list[Place]:
        return self.places[len(self.nest.outputs) :]

    @property
    def handed(self) -> list[Place]:
        """What it may hand on: what it writes; of a row program, what its last loop over elements does."""
        if not self.is_row:
            return self.written
        at = _last_loop(self.nest.stages)
        return [] if at is None else [self.written[j] for j, _ in self.nest.stages[at].stores]

    @property
    def taken(self) -> list[Place]:
        """What it may be handed: what it reads; and what a pointwise one overwrites, which then isn't written before."""
        return self.read if self.is_row else self.places


class Kernel(NamedTuple):
    """A kernel for several members: its loops, with the places of operands and the numbers."""

    loops: Loops
    written: list[Place]
    read: list[Place]
    numbers: tuple[Any, ...]
    scalars: str


# ---------------------------------------------------------------- one step
def member_of(at: int, step: Step) -> Member | None:
    """A step as one that may share a kernel; None if it is neither pointwise nor a row program, or its order matters."""
    plan = step.plan
    if len(plan.steps) != 1 or plan.steps[0].__class__ is not Loops or plan.scratch or plan.keep or not plan.outputs:
        return None
    loops = plan.steps[0]
    nest, facts = loops.nest, _facts(loops.nest)
    if loops.ordered or loops.picks or loops.slots or loops.offsets or loops.scalar_slot is not None or not facts.fits:
        return None
    if any(n.__class__ is Address for n in step.numbers) or len(nest.outputs) + len(nest.inputs) != len(step.operands):
        return None
    if plan.outputs[0].device.type != "cpu" or plan.outputs[0].device.stand_ins is not None:
        return None
    shape = tuple(loops.kept) + tuple(loops.inner)
    strides = [tuple(a) + tuple(b) for a, b in zip(loops.kept_strides, loops.inner_strides)]
    if 0 in shape:
        return None
    dims = [d for d in range(len(shape)) if shape[d] != 1]
    sizes = tuple(shape[d] for d in dims)
    dtypes = nest.outputs + nest.inputs
    places = [Place(o.buffer, o.offset, dtype, tuple(s[d] for d in dims)) for o, dtype, s in zip(step.operands, dtypes, strides)]
    inner = tuple(d >= len(loops.kept) for d in dims)
    for p in places[: len(nest.outputs)]:
        once = [d for d in range(len(dims)) if facts.pointwise or not inner[d]]  # what is stored once a row doesn't move along it
        if overlaps_itself(tuple(sizes[d] for d in once), tuple(p.strides[d] for d in once)):
            return None
    if facts.contracts and len(set(places)) != len(places):
        return None
    return Member(at, step, nest, sizes, inner, places)


class _Facts(NamedTuple):
    """What is known of a nest. fits: it may share a kernel; pointwise: each element is computed of those at its place alone;
    contracts: LLVM may make one instruction of a product and a sum of it.
    """

    fits: bool
    pointwise: bool
    contracts: bool


_known: dict[Any, _Facts] = {}


def _facts(nest: Nest) -> _Facts:
    found = _known.get(nest.key)
    if found is None:
        if len(_known) > 4096:
            _known.clear()
        leaves = leaves_of(*(e for stage in nest.stages for e in _roots(stage)))
        pointwise = nest.pointwise() and len(nest.stages) == 1 and not any(str(x.value)[:3] == "out" for x in leaves)
        fits = not nest.may_refuse and not any(x.value == "r" for x in leaves) and all(map(_fits, nest.stages))
        fits = fits and (pointwise or not nest.pointwise())
        nodes = list(topological(*(expand(e) for stage in nest.stages for e in _roots(stage)))) if fits else []
        contracts = any(map(_is_product, nodes)) and (not pointwise or any(map(_is_sum, nodes)))
        found = _known[nest.key] = _Facts(fits, pointwise, contracts)
    return found


def _roots(stage: Loop | Row) -> list[Expr]:
    """All that a stage computes of an element, and what its folds begin with."""
    return stage.expressions + [e for fold in getattr(stage, "folds", ()) for e in fold.start]


def _fits(stage: Loop | Row) -> bool:
    """Whether a stage goes along rows in any order, and its folds know nothing but what they combine."""
    if isinstance(stage, Row):
        return True
    return not stage.scan and all(str(x.value)[0] in "ab" for fold in stage.folds for x in leaves_of(*combined(fold)))


def _is_product(node: Expr) -> bool:
    """Whether LLVM may contract a node with a sum of it."""
    return node.op in ("mul", "div") and node.value is None and node.dtype.is_floating_point


def _is_sum(node: Expr) -> bool:
    return node.op in ("add", "sub") and node.value is None and node.dtype.is_floating_point


# ---------------------------------------------------------------- several
def aligned(ones: list[Member], here: Place, others: list[Member], there: Place) -> list[Member] | None:
    """Members of two groups over the same axes, along which a place of each is the same one; None if there are none."""
    groups = (ones, here), (others, there)
    orders = [sorted(range(len(members[0].sizes)), key=lambda d: -place.strides[d]) for members, place in groups]
    shapes = [tuple(members[0].sizes[d] for d in order) for (members, _), order in zip(groups, orders)]
    cuts = sorted({count for sizes in shapes for count in _cuts(sizes)})
    if math.prod(shapes[0]) != math.prod(shapes[1]) or any(b % a for a, b in pairwise(cuts)):
        return None
    finer = tuple(b // a for a, b in pairwise(cuts))[::-1]
    aligned, ends = [], []
    for (members, place), order, sizes in zip(groups, orders, shapes):
        axes = _split(order, sizes, cuts)  # of the axes before: which one, and how many of its steps

        def moved(one: Place, axes: list[tuple[int, int]] = axes) -> Place:
            return one._replace(strides=tuple(one.strides[d] * steps for d, steps in axes))

        for m in members:
            aligned.append(replace(m, sizes=finer, inner=tuple(m.inner[d] for d, _ in axes), places=list(map(moved, m.places))))
        ends.append(moved(place))
    return aligned if ends[0] == ends[1] and 0 not in ends[0].strides else None


def _cuts(sizes: Sequence[int]) -> Iterator[int]:
    """How many elements lie in each axis and those behind it."""
    count = 1
    yield count
    for size in reversed(sizes):
        count *= size
        yield count


def _split(axes: list[int], sizes: tuple[int, ...], cuts: list[int]) -> list[tuple[int, int]]:
    """Axes of these sizes cut finer: for each new one the old one, and how many steps along it one step is."""
    found, count = [], 1
    for axis, size in zip(reversed(axes), reversed(sizes)):
        found += [(axis, cut // count) for cut in cuts if count <= cut < count * size]
        count *= size
    return found[::-1]


def kernel_of(members: list[Member], program: Program, touched: dict[int, set[int]]) -> Kernel | None:
    """The kernel that members share, one of which may be a row program; None if there is none that surely gives their bits.

    touched: by buffer, the numbers of the steps that touch it.
    """
    own = {m.at for m in members}
    inputs: dict[Place, Expr] = {}
    values: dict[Place, Expr] = {}  # what is read where a member has written
    stores: dict[Place, Expr] = {}
    computed: list[tuple[Member, tuple[Expr, ...], tuple[Expr, ...]]] = []
    scalars: list[tuple[str, DType]] = []
    numbers: list[Any] = []
    stages: tuple[Loop | Row, ...] = ()
    by_row: list[Place] = []
    row, before = None, set[Place]()  # what was written before it
    for m in members:
        replaced = {}
        for k, place in enumerate(m.read):
            value = values.get(place)
            if value is None:
                if any(_meet(place, other, m.sizes) for other in (*stores, *by_row)):
                    return None
                value = inputs.setdefault(place, element(len(inputs), place.dtype))
            elif m.is_row and not _is_quick(value, element(k, place.dtype), m.nest):
                return None
            replaced[element(k, place.dtype)] = value
        for k, (_, dtype) in enumerate(m.nest.scalars):
            replaced[number(k, dtype)] = number(len(scalars) + k, dtype)
        scalars += m.nest.scalars
        numbers += m.step.numbers
        if m.is_row:
            row, by_row, before = m, m.written, set(stores)
            stages = tuple(_replaced(stage, replaced) for stage in m.nest.stages)
            if any(_meet(place, other, m.sizes) for place in by_row for other in (*stores, *inputs)):
                return None
            folded = tuple(e for stage in stages for fold in getattr(stage, "folds", ()) for e in fold.lift)
            computed.append((m, tuple(e for stage in stages for _, e in stage.stores), folded))
            for j, e in stages[_last_loop(stages) or 0].stores if m.handed else ():
                values[by_row[j]] = through_memory(cast(e, compute_dtype(by_row[j].dtype)), by_row[j].dtype)
            continue
        roots = []
        for j, e in m.nest.stages[0].stores:
            place = m.written[j]
            same = place if row is None else None
            if any(other != same and _meet(place, other, m.sizes) for other in (*stores, *inputs, *by_row)):
                return None
            roots.append((place, substitute(cast(e, compute_dtype(place.dtype)), replaced)))
        for place, root in roots:
            stores[place], values[place] = root, through_memory(root, place.dtype)
        computed.append((m, tuple(root for _, root in roots), ()))

    def needed(place: Place) -> bool:
        buffer = program.buffers[place.buffer]
        return buffer.kind != FRESH or buffer.content is not None or not touched[place.buffer] <= own

    kept = {place: root for place, root in stores.items() if needed(place)}
    at = _last_loop(stages)
    if row is not None:
        if before & kept.keys() and math.prod(n for n, along in zip(row.sizes, row.inner) if along) < SHORT_ROW:
            return None
        stages, by_row = _without(stages, by_row, needed)
    written = [*by_row, *kept]
    if not written or len(written) > 16 or len(written) + len(inputs) > MOST_OPERANDS or len(scalars) > MOST_SCALARS:
        return None
    made = _stages(stages, at, [(len(by_row) + i, root) for i, root in enumerate(kept.values())])
    used = set(leaves_of(*(e for stage in made or () for e in _roots(stage))))
    read = [place for place, e in inputs.items() if e in used]
    renamed = {inputs[place]: element(i, place.dtype) for i, place in enumerate(read)}
    if made is None or length_of([e for stage in made for e in stage.expressions]) > LONGEST:
        return None
    name = "_".join(dict.fromkeys(m.nest.name for m in members))
    nest = Nest(
        name if len(name) <= 60 else f"{name[:57]}...",
        tuple(p.dtype for p in written),
        tuple(p.dtype for p in read),
        tuple(_replaced(stage, renamed) for stage in made),
        tuple(scalars),
    )
    loops = _loops(nest, row or members[-1], [*written, *read])
    if not _same_bits(computed, loops, [*written, *read], inputs, values):
        return None
    return Kernel(loops, written, read, tuple(numbers), "".join(kind for kind, _ in scalars))


def _replaced(stage: Loop | Row, replacements: dict[Expr, Expr]) -> Loop | Row:
    """A stage with other expressions for leaves."""
    stores = tuple((j, substitute(e, replacements)) for j, e in stage.stores)
    if isinstance(stage, Row):
        return Row(stores)
    folds = tuple(
        replace(
            fold,
            start=tuple(substitute(e, replacements) for e in fold.start),
            lift=tuple(substitute(e, replacements) for e in fold.lift),
        )
        for fold in stage.folds
    )
    return replace(stage, folds=folds, stores=stores)


def _last_loop(stages: Sequence[Loop | Row]) -> int | None:
    """Which stage of a row program is its last loop that only stores elements."""
    found = [i for i, s in enumerate(stages) if isinstance(s, Loop) and s.stores and not s.folds]
    return found[-1] if found else None


def _without(
    stages: tuple[Loop | Row, ...], written: list[Place], needed: Callable[[Place], bool]
) -> tuple[tuple[Loop | Row, ...], list[Place]]:
    """Stages and what they write without what nobody needs, nor a later stage reads."""
    leaves = {str(x.value) for stage in stages for e in _roots(stage) for x in leaves_of(e)}
    kept = [j for j, place in enumerate(written) if needed(place) or f"out{j}" in leaves]
    moved = {stored(j, written[j].dtype): stored(i, written[j].dtype) for i, j in enumerate(kept)}
    renamed = [_replaced(stage, moved) for stage in stages]
    stages = tuple(replace(stage, stores=tuple((kept.index(j), e) for j, e in stage.stores if j in kept)) for stage in renamed)
    return stages, [written[j] for j in kept]


def _stages(stages: tuple[Loop | Row, ...], at: int | None, stores: list[tuple[int, Expr]]) -> tuple[Loop | Row, ...] | None:
    """Those of a row program, whose loop `at` stores these, too; of none, a loop that does."""
    if not stages:
        return (Loop((), tuple(stores)),)
    if not stores:
        return stages
    if at is None:
        return None
    return (*stages[:at], replace(stages[at], stores=(*stages[at].stores, *stores)), *stages[at + 1 :])


def _loops(nest: Nest, over: Member, places: list[Place]) -> Loops:
    if not over.is_row:
        return elementwise(nest, over.sizes, [p.strides for p in places])
    kept, inner = ([d for d in range(len(over.sizes)) if over.inner[d] == along] for along in (False, True))
    return Loops(
        nest,
        tuple(over.sizes[d] for d in kept),
        [tuple(p.strides[d] for d in kept) for p in places],
        tuple(over.sizes[d] for d in inner),
        [tuple(p.strides[d] for d in inner) for p in places],
    )


def _is_quick(value: Expr, read: Expr, nest: Nest) -> bool:
    """Whether a value may be computed anew by each stage of a nest that reads it."""
    readers = [stage for stage in nest.stages if read in set(leaves_of(*stage.expressions))]
    return len(readers) < 2 or is_short([value])


def _meet(one: Place, other: Place, sizes: Sequence[int]) -> bool:
    """Whether two places may have bytes in common."""
    if one.buffer != other.buffer:
        return False

    def end(place: Place) -> int:
        reach = sum((n - 1) * s for n, s in zip(sizes, place.strides)) + 1
        return place.offset + reach * place.dtype.itemsize

    return one.offset < end(other) and other.offset < end(one)


def _same_bits(
    computed: list[tuple[Member, tuple[Expr, ...], tuple[Expr, ...]]],
    loops: Loops,
    operands: list[Place],
    inputs: dict[Place, Expr],
    values: dict[Place, Expr],
) -> bool:
    """Whether each member's elements are computed as in its own kernel. computed: members with what they store and fold.

    LLVM contracts a product with the sum that is its only use. So operands must change along the innermost axis if they did: what
    doesn't is computed before the loop; and a product must have as many uses as it had. Rows must be folded in the same order.
    """
    phases, _ = lay(*loops)
    classes = _classes(phases, operands)
    still = {e for place, e in inputs.items() if "0" in classes.get(place, ())}
    contracting = []
    pointwise = not any(m.is_row for m, _, _ in computed)
    for m, elements, folded in computed:
        own, _ = lay(*m.step.plan.steps[0])
        contracts = _facts(m.nest).contracts
        if contracts:
            contracting.append((elements, folded))
        if m.is_row and not _same_order(own, phases):
            return False
        if pointwise and phases[0].kernel.arguments[1].lanes != own[0].kernel.arguments[1].lanes:
            return False  # a transposition, which goes along other axes
        before = _classes(own, m.places)
        for place in set(m.places) & classes.keys():
            if classes[place] != before[place] and {*classes[place]} != {*before[place]}:
                return False
        if contracts and any(p in values and p not in classes and _is_still(values[p], still) for p in m.read):
            return False
    if not contracting:
        return True
    whole = _uses(dict.fromkeys(e for _, *roots in computed for part in roots for e in part), True)
    for elements, folded in contracting:
        ends = {_key(expand(e)) for e in elements} - {_key(expand(e)) for e in folded}
        if any(whole[key] != count and key not in ends for key, count in _uses((*elements, *folded), False).items()):
            return False
    return True


def _classes(phases: Sequence[Phase], operands: list[Place]) -> dict[Place, list[str]]:
    """How operands move along the innermost axis, by phase that has them."""
    found: dict[Place, list[str]] = {}
    for phase in phases:
        form = phase.kernel.arguments[1]
        for slot, kind in zip(form.slots, form.classes):
            if slot != SCRATCH:
                found.setdefault(operands[slot], []).append(kind)
    return found


def _head(phase: Phase) -> list[Any]:
    """How a phase goes over the axes."""
    form = phase.kernel.arguments[1]
    extents = [c for i, c in enumerate(phase.constants[: form.head()]) if i != form.outer + FIRST_SCALAR]
    return [form.outer, form.inner, form.lanes, form.chunked, form.partial, *extents]


def _same_order(own: Sequence[Phase], phases: Sequence[Phase]) -> bool:
    """Whether rows are folded in the same order: in the same units, as many elements at a time."""
    if len(own) != len(phases):
        return False
    for one, other in zip(own, phases):
        (nest, form), (shared, shared_form) = one.kernel.arguments, other.kernel.arguments
        if _head(one) != _head(other) or len(nest.stages) != len(shared.stages):
            return False
        if steps_of_folds(nest, form) != steps_of_folds(shared, shared_form):
            return False
    return True


def _is_still(value: Expr, still: set[Expr]) -> bool:
    """Whether a value is the same along the innermost axis."""
    return all(x in still or str(x.value)[0] == "s" or str(x.value)[:4] == "acc:" for x in leaves_of(value))


def _key(node: Expr) -> Any:
    return node.op, node.dtype, frozenset(map(id, node.args)) if node.op == "mul" else tuple(map(id, node.args))


def _uses(roots: Iterable[Expr], through: bool) -> dict[Any, int]:
    """How often each product under the roots is used; through: beyond what other members compute, too."""
    counts: dict[Any, int] = {}
    pending = [expand(e) for e in roots]
    for e in pending:
        if _is_product(e):
            counts[_key(e)] = counts.get(_key(e), 0) + 1
    seen: set[Expr] = set()
    while pending:
        node = pending.pop()
        if node in seen or (node.op == "through" and not through):
            continue
        seen.add(node)
        for arg in node.args:
            if _is_product(arg):
                counts[_key(arg)] = counts.get(_key(arg), 0) + 1
            pending.append(arg)
    return counts
