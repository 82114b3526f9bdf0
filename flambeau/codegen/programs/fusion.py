"""Loops that share a kernel: a pass over programs which makes one nest of pointwise steps that hand elements to each other.

A step joins one before it where it reads what that writes (a chain), and what both read is read once; what nobody else reads is
not written any more, what others read still is (a fan). Elements go from operator to operator as they would through memory
(`through_memory`), and each operator is computed as in its own kernel, so that the bits are those of the steps one by one: where
that isn't sure the steps stay apart. Stands on program.py and codegen.loops; used by passes.py.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, NamedTuple

from flambeau.base.dtype import dtype as DType
from flambeau.base.memory_order import overlaps_itself
from flambeau.codegen.loops.memory_access import length_of
from flambeau.codegen.loops.prologue import Form
from flambeau.codegen.loops.schedule import lay
from flambeau.codegen.plan import Loops, Plan, elementwise
from flambeau.codegen.programs.program import FRESH, OUTPUT, Address, Operand, Program, Step, may_refuse
from flambeau.codegen.runtime.launch import bytes_spanned
from flambeau.ir.functions import expand
from flambeau.ir.loops import Loop, Nest, element, number
from flambeau.ir.scalar import Expr, cast, compute_dtype, leaves_of, substitute, through_memory, topological

MOST_STEPS = 32  # that share a kernel
MOST_OPERANDS = 24  # of one
MOST_SCALARS = 31  # as launches have
LONGEST = 1500  # instructions of a kernel
DISTANCE = 64  # how many steps another one is moved over at most


class Place(NamedTuple):
    """Elements in memory: a buffer, bytes into it, and how far one moves along each axis."""

    buffer: int
    offset: int
    dtype: DType
    strides: tuple[int, ...]


class Access(NamedTuple):
    """Bytes of a buffer that a step touches."""

    low: int
    high: int
    written: bool


@dataclass
class _Member:
    """A pointwise step that may share a kernel: its nest, over these axes, and how its own kernel reads and writes operands."""

    at: int  # its number in the program
    step: Step
    nest: Nest
    sizes: tuple[int, ...]
    places: list[Place]  # outputs, then inputs

    @property
    def form(self) -> Form:
        """That of its own kernel."""
        phases, _ = lay(*self.step.plan.steps[0])
        return phases[0].kernel.arguments[1]  # type: ignore[no-any-return]

    @property
    def written(self) -> list[Place]:
        return self.places[: len(self.nest.outputs)]

    @property
    def read(self) -> list[Place]:
        return self.places[len(self.nest.outputs) :]


@dataclass
class _Item:
    """A step, or several in one kernel, where it stands in the new order."""

    accesses: dict[int, list[Access]]
    refuses: bool
    outward: bool  # whether it changes what was there before
    step: Step
    members: list[_Member] = field(default_factory=list)  # what is in its kernel; none, if that can't be shared
    made: _Made | None = None

    def __post_init__(self) -> None:
        self.makes = {p[:3] for m in self.members for p in m.written}
        self.takes = {p[:3] for m in self.members for p in m.places}


class _Made(NamedTuple):
    """A kernel for several members: its loops, with the places of operands and the numbers."""

    loops: Loops
    written: list[Place]
    read: list[Place]
    numbers: tuple[Any, ...]
    scalars: str


def _fused(program: Program) -> list[_Item]:
    """The steps of the program in a new order, some of which share kernels."""
    touched: dict[int, set[int]] = {}
    for i, step in enumerate(program.steps):
        for operand in step.operands:
            touched.setdefault(operand.buffer, set()).add(i)
    items: list[_Item] = []
    for i, step in enumerate(program.steps):
        member = _member(i, step)
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


# ---------------------------------------------------------------- one step
def _member(at: int, step: Step) -> _Member | None:
    """A step as one that may share a kernel; None if it isn't pointwise, or something about its order matters."""
    plan = step.plan
    loops = plan.steps[0]
    if len(plan.steps) != 1 or loops.__class__ is not Loops or plan.scratch or plan.keep or not plan.outputs:
        return None
    nest, facts = loops.nest, _facts(loops.nest)
    if loops.ordered or loops.picks or loops.slots or loops.offsets or loops.scalar_slot is not None or not facts.simple:
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
    if any(overlaps_itself(sizes, p.strides) for p in places[: len(nest.outputs)]):
        return None
    if facts.contracts and len(set(places)) != len(places):
        return None
    return _Member(at, step, nest, sizes, places)


class _Facts(NamedTuple):
    """What is known of a nest. simple: each element is computed of those at its place, and of nothing else; contracts: LLVM may
    make one instruction of a product and a sum of it.
    """

    simple: bool
    contracts: bool


_known: dict[Any, _Facts] = {}


def _facts(nest: Nest) -> _Facts:
    found = _known.get(nest.key)
    if found is None:
        if len(_known) > 4096:
            _known.clear()
        simple = len(nest.stages) == 1 and nest.pointwise() and not nest.stages[0].scan and not nest.may_refuse
        expressions = nest.stages[0].expressions
        simple = simple and not any(x.value == "r" or str(x.value)[:3] == "out" for x in leaves_of(*expressions))
        nodes = list(topological(*map(expand, expressions))) if simple else []
        found = _known[nest.key] = _Facts(simple, any(map(_is_product, nodes)) and any(map(_is_sum, nodes)))
    return found


def _is_product(node: Expr) -> bool:
    """Whether LLVM may contract a node with a sum of it."""
    return node.op in ("mul", "div") and node.value is None and node.dtype.is_floating_point


def _is_sum(node: Expr) -> bool:
    return node.op in ("add", "sub") and node.value is None and node.dtype.is_floating_point


# ---------------------------------------------------------------- several
def _joined(first: _Item, second: _Item, program: Program, touched: dict[int, set[int]]) -> _Item | None:
    """Both as one item; None where they can't share a kernel."""
    if len(first.members) + len(second.members) > MOST_STEPS:
        return None
    made = {p[:3]: p for m in first.members for p in m.written}
    for m in second.members:
        for p in (*m.read, *m.written):
            handed = made.get(p[:3])
            if handed is not None:
                members = _aligned(first.members, handed, second.members, p)
                kernel = _made(members, program, touched) if members else None
                if kernel is None or members is None:
                    return None
                accesses = {b: list(a) for b, a in first.accesses.items()}
                for buffer, more in second.accesses.items():
                    accesses.setdefault(buffer, []).extend(more)
                return _Item(accesses, False, first.outward or second.outward, first.step, members, kernel)
    return None


def _aligned(ones: list[_Member], here: Place, others: list[_Member], there: Place) -> list[_Member] | None:
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

        def moved(one: Place, order: list[int] = order, sizes: tuple[int, ...] = sizes) -> Place:
            return one._replace(strides=_split(tuple(one.strides[d] for d in order), sizes, cuts))

        aligned += [replace(m, sizes=finer, places=list(map(moved, m.places))) for m in members]
        ends.append(moved(place))
    return aligned if ends[0] == ends[1] and 0 not in ends[0].strides else None


def _cuts(sizes: Sequence[int]) -> Iterator[int]:
    """How many elements lie in each axis and those behind it."""
    count = 1
    yield count
    for size in reversed(sizes):
        count *= size
        yield count


def _split(strides: tuple[int, ...], sizes: tuple[int, ...], cuts: list[int]) -> tuple[int, ...]:
    """Strides over axes that are cut finer."""
    found, inner = [], 1
    for stride, size in zip(reversed(strides), reversed(sizes)):
        found += [stride * (cut // inner) for cut in cuts if inner <= cut < inner * size]
        inner *= size
    return tuple(reversed(found))


def _made(members: list[_Member], program: Program, touched: dict[int, set[int]]) -> _Made | None:
    """The kernel that members share; None if it would give other bits, or if it isn't sure that it doesn't."""
    own = {m.at for m in members}
    inputs: dict[Place, Expr] = {}
    values: dict[Place, Expr] = {}  # what is read where a member has written
    stores: dict[Place, Expr] = {}
    computed: list[tuple[_Member, tuple[Expr, ...]]] = []
    scalars: list[tuple[str, DType]] = []
    numbers: list[Any] = []
    for m in members:
        replaced = {}
        for k, place in enumerate(m.read):
            value = values.get(place)
            if value is None:
                if any(_meet(place, other, m.sizes) for other in stores):
                    return None
                value = inputs.setdefault(place, element(len(inputs), place.dtype))
            replaced[element(k, place.dtype)] = value
        for k, (_, dtype) in enumerate(m.nest.scalars):
            replaced[number(k, dtype)] = number(len(scalars) + k, dtype)
        scalars += m.nest.scalars
        numbers += m.step.numbers
        written = m.written
        roots = []
        for j, e in m.nest.stages[0].stores:
            place = written[j]
            if any(place != other and _meet(place, other, m.sizes) for other in (*stores, *inputs)):
                return None
            roots.append((place, substitute(cast(e, compute_dtype(place.dtype)), replaced)))
        for place, root in roots:
            stores[place], values[place] = root, through_memory(root, place.dtype)
        computed.append((m, tuple(root for _, root in roots)))

    def needed(place: Place) -> bool:
        buffer = program.buffers[place.buffer]
        return buffer.kind != FRESH or buffer.content is not None or not touched[place.buffer] <= own

    kept = {place: root for place, root in stores.items() if needed(place)}
    if not kept or len(kept) > 16 or len(kept) + len(inputs) > MOST_OPERANDS or len(scalars) > MOST_SCALARS:
        return None
    used = set(leaves_of(*kept.values()))
    renamed: dict[Expr, Expr] = {}
    read: list[Place] = []
    for place, e in inputs.items():
        if e in used:
            renamed[e] = element(len(read), place.dtype)
            read.append(place)
    roots = [substitute(e, renamed) for e in kept.values()]
    if length_of(roots) > LONGEST:
        return None
    name = "_".join(dict.fromkeys(m.nest.name for m in members))
    nest = Nest(
        name if len(name) <= 60 else f"{name[:57]}...",
        tuple(p.dtype for p in kept),
        tuple(p.dtype for p in read),
        (Loop((), tuple(enumerate(roots))),),
        tuple(scalars),
    )
    loops = elementwise(nest, members[0].sizes, [p.strides for p in (*kept, *read)])
    phases, _ = lay(*loops)
    if len(phases) != 1 or not _same_bits(computed, phases[0].kernel.arguments[1], [*kept, *read], inputs, values):
        return None
    return _Made(loops, list(kept), read, tuple(numbers), "".join(kind for kind, _ in scalars))


def _meet(one: Place, other: Place, sizes: Sequence[int]) -> bool:
    """Whether two places may have bytes in common."""
    if one.buffer != other.buffer:
        return False

    def end(place: Place) -> int:
        reach = sum((n - 1) * s for n, s in zip(sizes, place.strides)) + 1
        return place.offset + reach * place.dtype.itemsize

    return one.offset < end(other) and other.offset < end(one)


def _same_bits(
    computed: list[tuple[_Member, tuple[Expr, ...]]],
    form: Form,
    operands: list[Place],
    inputs: dict[Place, Expr],
    values: dict[Place, Expr],
) -> bool:
    """Whether each member's elements are computed as in its own kernel.

    LLVM contracts a product with the sum that is its only use. So operands must change along the innermost axis if they did: what
    doesn't is computed before the loop; and a product must have as many uses as it had.
    """
    classes = dict(zip(operands, form.classes))
    still = {e for place, e in inputs.items() if classes.get(place) == "0"}
    contracting = []
    for m, roots in computed:
        own, contracts = m.form, _facts(m.nest).contracts
        if contracts:
            contracting.append(roots)
        if own.lanes != form.lanes:
            return False
        for place, kind in zip(m.places, own.classes):
            if place in classes and classes[place] != kind:
                return False
        if contracts and any(p in values and p not in classes and _is_still(values[p], still) for p in m.read):
            return False
    if not contracting:
        return True
    whole = _uses(dict.fromkeys(e for _, roots in computed for e in roots), True)
    for roots in contracting:
        ends = {_key(expand(e)) for e in roots}
        if any(whole[key] != count and key not in ends for key, count in _uses(roots, False).items()):
            return False
    return True


def _is_still(value: Expr, still: set[Expr]) -> bool:
    """Whether a value is the same along the innermost axis."""
    return all(x in still or str(x.value)[0] == "s" for x in leaves_of(value))


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


# ---------------------------------------------------------------- the program
def _plan(item: _Item) -> tuple[Plan, tuple[Operand, ...], tuple[Any, ...]]:
    """The plan of steps that share a kernel, with its operands and numbers."""
    made = item.made
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
        if item.made is None:
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
