"""The frame of a loop nest's kernel: which part of which axes a call works on, and how a loop takes its elements.

A kernel gets a range of units: a unit is a row of the inner axes (or LANE_CHUNK rows side by side) or, for long rows, a chunk of
one. `Frame` finds each unit's place from the plan's constants and leaves the work on it to `unit`; `spans` writes a loop over
vectors. Stands on builder and scalar (expressions); memory_access.py and nest.py build on it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from flambeau.base.dtype import float64, int64
from flambeau.codegen.builder import Odometer, Value, kernel, module
from flambeau.codegen.scalar import STREAMS_METADATA, Lowering, memory_type
from flambeau.ir.loops import Nest
from flambeau.ir.scalar import Expr, cast, leaf

LANE_CHUNK = 4096  # most rows side by side in lane mode
GUARD_ERROR = 2  # error word: a guard's condition held
# the constants of a plan between its outer and its inner extents
LANE_CHUNKS, CHUNKS, LANE_EXTENT, CHUNK_SIZE, LANE_SIZE, FIRST_SCALAR, HEAD_WORDS = range(7)


@dataclass(frozen=True)
class Form:
    """How a nest lies on the axes: numbers of outer and inner axes, lane mode, innermost stride class per operand."""

    outer: int
    inner: int
    lanes: bool
    classes: tuple[str, ...]
    # parameter slots of the operands (SCRATCH: in the plan's working memory) and of the first scalar: a kernel reads from its
    # constants which they are
    slots: tuple[int, ...] = field(compare=False, repr=False)
    scalar_slot: int = field(compare=False, repr=False)
    large: bool = False  # the operands are larger than the caches: results are written past them, inputs fetched ahead
    chunked: bool = True  # a row may be several units; else it is one
    partial: bool = False  # what a unit stores lies apart for every chunk

    @property
    def word(self) -> str:
        """What kernels of this form add to their names."""
        return ".partial" if self.partial else ".lanes" if self.lanes else "" if self.chunked else ".row"

    # ---- constants of the plan, in order
    def operand_constants(self) -> int:
        """Outer strides, chunk stride, lane stride, inner strides, pick stride, pick extent, parameter, byte offset."""
        return self.outer + self.inner + 6

    def head(self) -> int:
        """Outer extents, one word each of LANE_CHUNKS and what follows, inner extents."""
        return self.outer + HEAD_WORDS + self.inner


class Strides:
    """How far an operand moves along the axes, and where it lies: its constants, loaded when they are asked for."""

    def __init__(self, constant: Callable[[int], Value], form: Form, operand: int) -> None:
        self._constant, self._outer, self._inner = constant, form.outer, form.inner
        self._at = form.head() + operand * form.operand_constants()

    @property
    def outer(self) -> list[Value]:
        return [self._constant(self._at + i) for i in range(self._outer)]

    @property
    def chunk(self) -> Value:
        return self._constant(self._at + self._outer)

    @property
    def lane(self) -> Value:
        return self._constant(self._at + self._outer + 1)

    @property
    def inner(self) -> list[Value]:
        return [self._constant(self._at + self._outer + 2 + i) for i in range(self._inner)]

    @property
    def pick(self) -> Value:
        """The stride along the axis that picks move along."""
        return self._constant(self._at + self._outer + self._inner + 2)

    @property
    def extent(self) -> Value:
        """That axis' extent."""
        return self._constant(self._at + self._outer + self._inner + 3)

    @property
    def parameter(self) -> Value:
        """The parameter that has the operand's address."""
        return self._constant(self._at + self._outer + self._inner + 4)

    @property
    def offset(self) -> Value:
        """Bytes from there on."""
        return self._constant(self._at + self._outer + self._inner + 5)


@dataclass(frozen=True)
class Span:
    """Elements that are computed together: `width` of them (0: a single one) from `index` on.

    mask: which of them exist (None: all); streams: whether they are stored past the caches.
    """

    width: int
    index: Value
    mask: str | None = None
    streams: bool = False


class Frame:
    """A kernel under construction; subclasses say what it does to a unit."""

    def __init__(self, nest: Nest, form: Form):
        self.nest, self.form = nest, form
        self.f = kernel()
        self.declarations: set[str] = set()
        self.dtypes = nest.outputs + nest.inputs
        with self.f.at_entry():
            self._block = self.f.pointer(self.f.parameter(0))
        self._constants: dict[int, Value] = {}
        self.env: dict[Expr, str | tuple[str, str]] = {}  # values known for the whole row
        self.error = self.f.variable("i64", 0) if self.nest.may_refuse else None

    def all_expressions(self):
        for stage in self.nest.stages:
            yield from stage.expressions

    def constant(self, i: int) -> Value:
        """A constant of the plan, loaded at the kernel's entry."""
        if i not in self._constants:
            with self.f.at_entry():
                self._constants[i] = self.f.load("i64", self._block, i)
        return self._constants[i]

    def head_constant(self, word: int) -> Value:
        """One of the constants LANE_CHUNKS and what follows."""
        return self.constant(self.form.outer + word)

    def lowering(self, width: int = 0, mask: str | None = None) -> Lowering:
        low = Lowering(self.f.line, self.f.fresh, width, mask)
        low.declarations = self.declarations
        low.report = lambda bad: self.fail(low.any(bad), GUARD_ERROR)
        return low

    def fail(self, bad: str, code: int) -> None:
        """Leave an error word if the condition in register `bad` holds."""
        found = self.f.select(Value(self.f, "i1", bad), self.f.i64(code), self.f.i64(0))
        self.error.set(self.error.get() | found)

    def below(self, width: int, count: Value) -> str:
        """The mask of the first `count` of `width` elements; `count` isn't negative."""
        f = self.f
        few = f.convert(f.minimum(count, width), "i8", "trunc")
        steps = ", ".join(f"i8 {i}" for i in range(width))
        low = self.lowering(width)
        return f.emit(low.type("i1"), f"icmp ugt {low.type('i8')} {low.splat('i8', few.name)}, <{steps}>").name

    def spans(self, low, high, block: int, step: int, streams: Value | None = None) -> Iterator[Span]:
        """Write the body that follows twice: for whole blocks, and for what is left of them, `step` (0: one) at a time; and once
        more for blocks that are stored past the caches if `streams` holds.
        """
        f = self.f
        low, high = f.i64(low), f.i64(high)
        if not block:
            with f.loop(low, high, step) as i:
                yield Span(step, i, self.below(step, high - i))
            return
        whole = low + ((high - low) & -block)
        if streams is None:
            with f.loop(low, whole, block) as i:
                yield Span(block, i)
        else:
            with f.branches(streams) as otherwise:
                with f.loop(low, whole, block) as i:
                    yield Span(block, i, streams=True)
                otherwise()
                with f.loop(low, whole, block) as i:
                    yield Span(block, i)
        with f.loop(whole, high, step or 1) as i:
            yield Span(step, i, self.below(step, high - i) if step else None)

    # ---- the kernel
    def text(self) -> str:
        f, form = self.f, self.form
        k, m = form.outer, form.inner
        extents = [self.constant(i) for i in range(k)]
        self.inner_extents = [self.constant(k + HEAD_WORDS + i) for i in range(m)]
        self.strides = [Strides(self.constant, form, j) for j in range(len(self.dtypes))]
        self.bases = [f.pointer(f.load("i64", f["p"], own.parameter) + own.offset) for own in self.strides]
        self._load_scalars()
        sizes = extents + [self.head_constant(LANE_CHUNKS)] * form.lanes + [self.head_constant(CHUNKS)] * form.chunked
        odometer = Odometer(f, sizes, f["begin"]) if len(sizes) > 1 else None
        with f.loop(f["begin"], f["end"]) as unit:
            place = odometer.read() if odometer else [unit] * len(sizes)
            chunk = place.pop() if form.chunked else None
            lane_chunk = place.pop() if form.lanes else None
            self._unit(place, lane_chunk, chunk)
            if odometer:
                odometer.advance()
        if self.error is not None:
            code = self.error.get()
            with f.when(code.differs(0)):
                f.store(code, f["p"], 2)
        if form.large:
            f.line("fence seq_cst")  # such stores are seen by other threads only after a fence
            f.metadata.append(STREAMS_METADATA)
        text = module(f)
        missing = sorted(d for d in self.declarations if d not in text)
        return "\n".join(missing) + "\n" + text

    def _load_scalars(self) -> None:
        f, at = self.f, 0

        def word(type: str, number: int) -> str:
            return f.load(type, f["p"], self.head_constant(FIRST_SCALAR) + number).name

        for i, (kind, dtype) in enumerate(self.nest.scalars):
            low = self.lowering()
            target = leaf(f"s{i}", dtype)
            if kind == "i":
                raw, source = word("i64", at), int64
            else:
                raw, source = word("double", at), float64
            if kind == "c":
                imaginary = word("double", at + 1)
                at += 1
                part = leaf("part", float64)
                real_dtype = target.dtype.to_real()
                self.env[target] = (
                    low.value(cast(part, real_dtype), {part: raw}),
                    self.lowering().value(cast(part, real_dtype), {part: imaginary}),
                )
            else:
                source_leaf = leaf("number", source)
                self.env[target] = low.value(cast(source_leaf, dtype), {source_leaf: raw})
            at += 1

    def _unit(self, outer: list[Value], lane_chunk: Value | None, chunk: Value | None) -> None:
        f = self.f
        self.low = chunk * self.head_constant(CHUNK_SIZE) if chunk is not None else f.i64(0)
        self.high = self.inner_extents[0] if self.form.inner else self.low
        if self.form.inner and chunk is not None:
            self.high = f.minimum(self.low + self.head_constant(CHUNK_SIZE), self.high)
        if lane_chunk is not None:
            lane_extent, lane_size = self.head_constant(LANE_EXTENT), self.head_constant(LANE_SIZE)
            self.lane_low = lane_chunk * lane_size
            self.lane_count = f.minimum(lane_size, lane_extent - self.lane_low)
        self.rows = []
        for j, dtype in enumerate(self.dtypes):
            own = self.strides[j]
            steps = [index * stride for index, stride in zip(outer, own.outer)]
            if chunk is not None and self.form.partial:
                steps.append(chunk * own.chunk)
            if lane_chunk is not None:
                steps.append(self.lane_low * own.lane)
            self.rows.append(f.at(memory_type(dtype), self.bases[j], sum(steps[1:], steps[0])) if steps else self.bases[j])
        self.unit()

    def unit(self) -> None:
        """Write the work on the unit at `rows` (one address per operand), inner indices `low` to `high`."""
        raise NotImplementedError
