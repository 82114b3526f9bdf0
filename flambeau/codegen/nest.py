"""Loop nests to kernels.

A kernel is written for a number of outer axes, of inner axes, the presence of a lane axis and the stride class of each operand
along the innermost loop (0, 1 or "x": any); extents and strides are constants of the plan. The innermost loop is written with
vectors: a block of several while they last, then single ones whose mask ends with the row. In row mode the inner axes hold the
row, and a reduction's partial results are the elements of a vector; in lane mode a kept axis is innermost, so that a reduction
over an outer axis reads whole cache lines. A unit of work is a row (or LANE_CHUNK rows side by side) or, for long rows, a chunk
of one. Stands on builder, scalar (expressions) and ir.loops; used by schedule.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from flambeau.base.dtype import float64, int64
from flambeau.base.flags import flags
from flambeau.codegen.builder import Value, Variable, kernel, module
from flambeau.codegen.jit import INDEXED, compile_kernel
from flambeau.codegen.scalar import LINE, STREAMS_METADATA, Lowering, llvm_type, memory_type
from flambeau.ir.functions import expand
from flambeau.ir.loops import Fold, Loop, Nest, Row
from flambeau.ir.scalar import Expr, cast, compute_dtype, leaf, leaves_of, part_dtype, topological

VECTOR = 64        # bytes of a machine vector; LLVM splits them where the machine's are shorter
BLOCK = 4          # vectors of a block, if an element takes but a few instructions
LONG = 200         # instructions of a body that is not worth writing twice
AHEAD = 16384      # bytes between what a block reads and what it asks for
LANE_CHUNK = 256   # rows side by side in lane mode
LANE_STEP = 4      # elements of each that are combined before they reach the partial results in memory
SHORT_OPS = frozenset(
    (  # a few instructions each; a loop body with any other op counts as long
        "leaf",
        "constant",
        "add",
        "sub",
        "mul",
        "cast",
        "where",
        "neg",
        "abs",
        "minimum",
        "maximum",
        "lt",
        "gt",
        "le",
        "ge",
        "eq",
        "ne",
        "and",
        "or",
        "not",
        "xor",
        "bitcast",
        "fma",
        "pick",
    )
)
PICK_ERROR = 1     # error word: a picked index is out of range
GUARD_ERROR = 2    # error word: a guard's condition held
SCRATCH = -1


@dataclass(frozen=True)
class Form:
    """How a nest lies on the axes: numbers of outer and inner axes, lane mode, innermost stride class per operand."""

    outer: int
    inner: int
    lanes: bool
    classes: tuple[str, ...]
    slots: tuple[int, ...]      # parameter slot of each operand; SCRATCH: in the plan's working memory
    scalar_slot: int            # parameter slot of the first scalar
    large: bool = False         # the operands are larger than the caches: results are written past them, inputs fetched ahead

    # ---- constants of the plan, in order
    def operand_constants(self) -> int:
        """Outer strides, chunk stride, lane stride, inner strides, pick stride, pick extent, byte offset."""
        return self.outer + self.inner + 5

    def head(self) -> int:
        return self.outer + 5 + self.inner


@dataclass(frozen=True)
class Span:
    """Elements that are computed together: `width` of them (0: a single one) from `index` on.

    mask: which of them exist (None: all); streams: whether they are stored past the caches.
    """

    width: int
    index: Value
    mask: str | None = None
    streams: bool = False


class _Emitter:
    def __init__(self, nest: Nest, form: Form):
        self.nest, self.form = nest, form
        self.f = kernel()
        self.declarations: set[str] = set()
        self.dtypes = nest.outputs + nest.inputs
        self.constants = self.f.pointer(self.f.parameter(0))
        self.env: dict[Expr, str | tuple[str, str]] = {}   # values known for the whole row
        self.arrays: dict[str, list[Value]] = {}            # lane mode: fold name -> array(s) of results
        self.error = self.f.variable("i64", 0) if self._may_fail() else None

    # ---- small helpers
    def _may_fail(self) -> bool:
        return any(n.op in ("pick", "guard") for e in self._all_expressions() for n in topological(e))

    def _all_expressions(self):
        for s in self.nest.stages:
            for _, e in s.stores:
                yield e
            if isinstance(s, Loop):
                for fold in s.folds:
                    yield from fold.lift

    def constant(self, i: int) -> Value:
        return self.f.load("i64", self.constants, i)

    def lowering(self, width: int = 0, mask: str | None = None) -> Lowering:
        low = Lowering(self.f.line, self.f.fresh, width, mask)
        low.declarations = self.declarations
        low.report = lambda bad: self._fail(low.any(bad), GUARD_ERROR)
        return low

    def _fail(self, bad: str, code: int) -> None:
        """Leave an error word if the condition in register `bad` holds."""
        found = self.f.select(Value(self.f, "i1", bad), self.f.i64(code), self.f.i64(0))
        self.error.set(self.error.get() | found)

    def _below(self, width: int, count: Value) -> str:
        """The mask of the first `count` of `width` elements."""
        f = self.f
        few = f.convert(f.minimum(f.maximum(count, 0), width), "i8", "trunc")
        steps = ", ".join(f"i8 {i}" for i in range(width))
        low = self.lowering(width)
        return f.emit(low.type("i1"), f"icmp ugt {low.type('i8')} {low.splat('i8', few.name)}, <{steps}>").name

    def _steps(self, expressions, outputs, blocks: int = 1) -> tuple[int, int]:
        """How many elements a loop takes at a time, and at its end: vectors as long as the widest operand allows; where memory
        is read or written one by one, a vector and then single elements; 0 and a vector for a long body, which is written once:
        masks cost little beside it.
        """
        nodes = list(topological(*expressions))
        used = {j for node in nodes if (j := self._operand_of(node)) is not None}.union(outputs)
        width = VECTOR // max((part_dtype(compute_dtype(self.dtypes[j])).itemsize for j in used), default=8)
        if any(self.form.classes[j] == "x" for j in used) or any(self.form.classes[j] != "1" for j in outputs) or any(
                node.op == "pick" and not self._known(node) for node in nodes):
            return width, 0
        if all(node.op in SHORT_OPS for node in nodes):
            return blocks * width, width
        length = len(set(topological(*(expand(e) for e in expressions))))
        return (width if length < (LONG if outputs else 0) or self.form.large else 0), width

    def _known(self, pick: Expr) -> bool:
        """Whether a pick's index is the same along the innermost loop."""
        return all(x in self.env or ((j := self._operand_of(x)) is not None and self.form.classes[j] == "0")
                   for x in leaves_of(*pick.args))

    def spans(self, low, high, block: int, step: int, streams: Value | None = None) -> Iterator[Span]:
        """Write the body that follows twice: for whole blocks, and for what is left of them, `step` (0: one) at a time; and once
        more for blocks that are stored past the caches if `streams` holds.
        """
        f = self.f
        low, high = f.i64(low), f.i64(high)
        if not block:
            with f.loop(low, high, step) as i:
                yield Span(step, i, self._below(step, high - i))
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
            yield Span(step, i, self._below(step, high - i) if step else None)

    # ---- the kernel
    def text(self) -> str:
        f, form = self.f, self.form
        k, m = form.outer, form.inner
        extents = [self.constant(i) for i in range(k)]
        lane_chunks, chunks, self.lane_extent, self.chunk_size = (self.constant(k + i) for i in range(4))
        self.lane_size = self.constant(k + 4)
        self.inner_extents = [self.constant(k + 5 + i) for i in range(m)]
        self.strides: list[dict] = []
        for j in range(len(self.dtypes)):
            at = form.head() + j * form.operand_constants()
            self.strides.append({
                "outer": [self.constant(at + i) for i in range(k)], "chunk": self.constant(at + k),
                "lane": self.constant(at + k + 1), "inner": [self.constant(at + k + 2 + i) for i in range(m)],
                "pick": self.constant(at + k + 2 + m), "extent": self.constant(at + k + 3 + m)})
        self.bases = [f.pointer(f.parameter(1 if slot == SCRATCH else 4 + slot) + self.constant(
            form.head() + (j + 1) * form.operand_constants() - 1)) for j, slot in enumerate(form.slots)]
        self._load_scalars()
        # coordinates of the first unit by division, of the following ones by carrying
        sizes = [*extents, lane_chunks, chunks]
        rest = f["begin"]
        coordinates: list[Any] = [None] * (k + 2)
        for i in reversed(range(k + 2)):
            if i == 0:
                coordinates[i] = f.variable("i64", rest)
            else:
                coordinates[i] = f.variable("i64", rest.unsigned_rem(sizes[i]))
                rest = rest.unsigned_div(sizes[i])
        with f.loop(f["begin"], f["end"]):
            at = [c.get() for c in coordinates]
            self._unit(at[:k], at[k], at[k + 1])
            self._advance(coordinates, sizes)
        if self.error is not None:
            code = self.error.get()
            with f.when(code.differs(0)):
                f.store(code, f["p"], 2)
        if form.large:
            f.line("fence seq_cst")     # such stores are seen by other threads only after a fence
            f.metadata.append(STREAMS_METADATA)
        text = module(f)
        missing = sorted(d for d in self.declarations if d not in text)
        return "\n".join(missing) + "\n" + text

    def _advance(self, coordinates, sizes) -> None:
        f = self.f
        carry = f.value(1, "i1")
        for i in reversed(range(len(sizes))):
            following = coordinates[i].get() + f.convert(carry, "i64", "zext")
            if i == 0:
                coordinates[i].set(following)
                return
            full = following >= sizes[i]
            coordinates[i].set(f.select(full, f.i64(0), following))
            carry = full

    def _load_scalars(self) -> None:
        f = self.f
        at = 4 + self.form.scalar_slot
        for i, (kind, dtype) in enumerate(self.nest.scalars):
            low = self.lowering()
            target = leaf(f"s{i}", dtype)
            if kind == "i":
                raw, source = f.parameter(at).name, int64
            else:
                raw, source = f.load("double", f["p"], at).name, float64
            if kind == "c":
                imaginary = f.load("double", f["p"], at + 1).name
                at += 1
                part = leaf("part", float64)
                real_dtype = target.dtype.to_real()
                self.env[target] = (low.value(cast(part, real_dtype), {part: raw}),
                                    self.lowering().value(cast(part, real_dtype), {part: imaginary}))
            else:
                source_leaf = leaf("number", source)
                self.env[target] = low.value(cast(source_leaf, dtype), {source_leaf: raw})
            at += 1

    def _unit(self, outer: list[Value], lane_chunk: Value, chunk: Value) -> None:
        f = self.f
        self.low = chunk * self.chunk_size
        self.high = f.minimum(self.low + self.chunk_size, self.inner_extents[0]) if self.form.inner else self.low
        if self.form.lanes:
            self.lane_low = lane_chunk * self.lane_size
            self.lane_count = f.minimum(self.lane_size, self.lane_extent - self.lane_low)
        self.rows = []
        for j, dtype in enumerate(self.dtypes):
            s = self.strides[j]
            offset = chunk * s["chunk"]
            for index, stride in zip(outer, s["outer"]):
                offset = offset + index * stride
            if self.form.lanes:
                offset = offset + self.lane_low * s["lane"]
            self.rows.append(f.at(memory_type(dtype), self.bases[j], offset))
        saved, self.arrays = dict(self.env), {}
        for stage in self.nest.stages:
            if isinstance(stage, Row):
                self._row(stage)
            elif stage.scan:
                self._scan(stage)
            else:
                self._loop(stage)
        self.env = saved

    # ---- stages
    def _nested(self, then) -> None:
        """Loops over all inner axes but the last; `then(indices)` writes the innermost."""
        f, m = self.f, self.form.inner

        def level(i: int, indices: list[Value]) -> None:
            if i == m - (0 if self.form.lanes else 1):
                then(indices)
                return
            low, high = (self.low, self.high) if i == 0 else (f.i64(0), self.inner_extents[i])
            with f.loop(low, high) as index:
                level(i + 1, [*indices, index])
        level(0, [])

    def _shifted(self, j: int, indices: list[Value]) -> Value:
        """Operand j's row moved by the indices of the outer inner-axes."""
        f = self.f
        if not indices:
            return self.rows[j]
        offset = None
        for index, stride in zip(indices, self.strides[j]["inner"]):
            part = index * stride
            offset = part if offset is None else offset + part
        return f.at(memory_type(self.dtypes[j]), self.rows[j], offset)

    def _innermost_stride(self, j: int) -> Value:
        return self.strides[j]["lane"] if self.form.lanes else self.strides[j]["inner"][-1]

    def _address(self, j: int, base: Value, index: Value) -> Value:
        kind = self.form.classes[j]
        type = memory_type(self.dtypes[j])
        if kind == "0":
            return base
        return self.f.at(type, base, index if kind == "1" else index * self._innermost_stride(j))

    def _position(self, indices: list[Value], innermost: Value | None) -> Value:
        """The index along the inner axes in row-major order."""
        all_indices = indices if self.form.lanes else [*indices, innermost]
        result = all_indices[0]
        for extent, index in zip(self.inner_extents[1:], all_indices[1:]):
            result = result * extent + index
        return result

    def _operand_of(self, node: Expr) -> int | None:
        """The operand that a node reads: an input, or an output that an earlier stage stored."""
        if node.op == "pick":
            return len(self.nest.outputs) + node.value
        name = str(node.value) if node.op == "leaf" else ""
        if name.startswith("in"):
            return len(self.nest.outputs) + int(name[2:])
        return int(name[3:]) if name.startswith("out") else None

    def _prepare(self, expressions, indices: list[Value]) -> dict:
        """Bases of the operands read, and the values that do not change along the innermost loop."""
        hoisted: dict = {}
        bases: dict = {}
        low = self.lowering()
        nodes = list(topological(*expressions))
        for node in nodes:
            if node.op == "leaf" and (j := self._operand_of(node)) is not None:
                bases[node] = self._shifted(j, indices)
                if self.form.classes[j] == "0":
                    hoisted[node] = low.load(self.dtypes[j], bases[node].name)
        for node in nodes:
            if node.op == "pick":
                j = self._operand_of(node)
                bases[node] = self._shifted(j, indices)
                if self._known(node):
                    offset = self._pick_offset(low, j, low.value(node.args[0], {**self.env, **hoisted}))
                    bases[node] = self.f.at(memory_type(self.dtypes[j]), bases[node], offset)
                    if self.form.classes[j] == "0":
                        hoisted[node] = low.load(self.dtypes[j], bases[node].name)
        return {"hoisted": hoisted, "bases": bases, "nodes": nodes}

    def _pick_offset(self, low: Lowering, j: int, index: str) -> Value:
        """How far a pick moves, in elements; an index out of range is reported and moves nothing."""
        f, s, type = self.f, self.strides[j], low.type("i64")
        position = Value(f, type, index)
        fits = position.unsigned_below(Value(f, type, low.splat("i64", s["extent"].name)))
        self._fail(low.any((fits ^ f.value(1, fits.type)).name), PICK_ERROR)
        return f.select(fits, position, 0) * Value(f, type, low.splat("i64", s["pick"].name))

    def _places(self, low: Lowering, j: int, base: Value, i: Value) -> list[str]:
        """The addresses of operand `j`'s elements from index `i` of the innermost loop on."""
        places, type = [self._address(j, base, i)], memory_type(self.dtypes[j])
        step = self.f.i64(int(self.form.classes[j])) if self.form.classes[j] != "x" else self._innermost_stride(j)
        while len(places) < low.width:
            places.append(self.f.at(type, places[-1], step))
        return [place.name for place in places]

    def _load(self, low: Lowering, j: int, base: Value, i: Value):
        """Elements of operand `j` from index `i` of the innermost loop on."""
        if low.width and self.form.classes[j] == "x":
            return low.gather(self.dtypes[j], self._places(low, j, base, i))
        return low.load(self.dtypes[j], self._address(j, base, i).name)

    def _load_picked(self, low: Lowering, j: int, base: Value, index: str, i: Value):
        """The same, each moved by its own index along the pick axis."""
        f, type = self.f, memory_type(self.dtypes[j])
        offsets = self._pick_offset(low, j, index)
        if not low.width:
            return low.load(self.dtypes[j], f.at(type, self._address(j, base, i), offsets).name)
        moved = []
        for k, place in enumerate(self._places(low, j, base, i)):
            offset = f.emit("i64", f"extractelement {offsets.type} {offsets.name}, i64 {k}")
            moved.append(f.emit("ptr", f"getelementptr {type}, ptr {place}, i64 {offset.name}").name)
        return low.gather(self.dtypes[j], moved)

    def _environment(self, low: Lowering, prepared: dict, indices: list[Value], i: Value) -> dict:
        """Values of all leaves from innermost index `i` on."""
        known = {**self.env, **prepared["hoisted"]}
        env: dict = {}
        for node in prepared["nodes"]:
            if node in known:
                env[node] = low.spread(node.dtype, known[node])
            elif node.op == "leaf":
                name = str(node.value)
                if (j := self._operand_of(node)) is not None:
                    env[node] = self._load(low, j, prepared["bases"][node], i)
                elif name == "r":
                    place = self._position(indices, i).name
                    env[node] = low.splat("i64", place) if self.form.lanes else low.counting(place)
                elif name.startswith("acc:") and name[4:] in self.arrays:
                    env[node] = self._read(low, self.arrays[name[4:]], i, node)
            elif node.op == "pick":
                j, base = self._operand_of(node), prepared["bases"][node]
                if self._known(node):
                    env[node] = self._load(low, j, base, i)
                else:
                    env[node] = self._load_picked(low, j, base, low.value(node.args[0], env), i)
        return env

    def _read(self, low: Lowering, array: list[Value], index: Value, node: Expr):
        """Elements of a fold's array(s) from `index` on."""
        type = llvm_type(node.dtype)
        parts = []
        for a in array:
            part = self.f.load(low.type(_slot(type)), a, index, align=_bytes(node))
            parts.append(self.f.convert(part, low.type("i1"), "trunc").name if type == "i1" else part.name)
        return parts[0] if len(parts) == 1 else tuple(parts)

    def _write(self, low: Lowering, array: list[Value], index: Value, value, node: Expr) -> None:
        type = llvm_type(node.dtype)
        for a, part in zip(array, value if isinstance(value, tuple) else (value,)):
            register = Value(self.f, low.type(type), part)
            if type == "i1":
                register = self.f.convert(register, low.type("i8"), "zext")
            self.f.store(register, a, index, align=_bytes(node))

    def _new_arrays(self, fold: Fold, size: int) -> list[list[Value]]:
        return [[self.f.stack(_slot(llvm_type(s.dtype)), size, 64) for _ in range(2 if s.dtype.is_complex else 1)]
                for s in fold.start]

    def _streamed(self, stage: Loop) -> set[int]:
        """The outputs of a stage that are stored past the caches: those that no stage reads, and no other writes."""
        if not self.form.large:
            return set()
        read = {self._operand_of(node) for e in self._all_expressions() for node in topological(e)}
        written = [j for s in self.nest.stages for j, _ in s.stores]
        return {j for j, _ in stage.stores if self.form.classes[j] == "1" and j not in read and written.count(j) == 1}

    def _may_stream(self, streamed: set[int], indices: list[Value], first: Value) -> Value | None:
        """Whether all streamed outputs begin a cache line at index `first` of the innermost loop, and lie elsewhere than the
        inputs: what was just read is in the caches already.
        """
        f, classes = self.f, self.form.classes
        addresses = {j: f.address(self._address(j, self._shifted(j, indices), first)) for j in range(len(classes))
                     if j in streamed or (streamed and j >= len(self.nest.outputs) and classes[j] == "1")}
        result = None
        for j in sorted(streamed):
            for k, other in addresses.items():
                good = (addresses[j] & (LINE - 1)).equals(0) if k == j else addresses[j].differs(other)
                result = good if result is None else result & good
        return result

    def _fetch_ahead(self, prepared: dict, span: Span) -> None:
        """Ask for the cache lines that a later block reads: the processor's own prefetching ends at every page."""
        f = self.f
        self.declarations.add("declare void @llvm.prefetch.p0(ptr, i32, i32, i32)")
        for node, base in prepared["bases"].items():
            j = self._operand_of(node)
            if self.form.classes[j] == "1":
                first = self._address(j, base, span.index)
                for line in range(0, span.width * self.dtypes[j].itemsize, LINE):
                    f.line(f"call void @llvm.prefetch.p0(ptr {f.at('i8', first, AHEAD + line).name}, i32 0, i32 3, i32 1)")

    def _store_elements(self, low: Lowering, stores, env: dict, indices: list[Value], i: Value, streamed=frozenset()) -> None:
        for j, expression in stores:
            value = low.value(cast(expression, compute_dtype(self.dtypes[j])), env)
            base = self._shifted(j, indices)
            if low.width and self.form.classes[j] != "1":
                low.scatter(self.dtypes[j], value, self._places(low, j, base, i))
            else:
                low.store(self.dtypes[j], value, self._address(j, base, i).name, j in streamed)

    def _loop(self, stage: Loop) -> None:
        expressions = [e for _, e in stage.stores] + [e for fold in stage.folds for e in fold.lift]
        if self.form.lanes:
            self._loop_over_lanes(stage, expressions)
            return
        block, step = self._steps(expressions, [j for j, _ in stage.stores], BLOCK)
        streamed = self._streamed(stage)
        partials = [(fold, _Partials(self, fold, block or step, step)) for fold in stage.folds]

        def innermost(indices: list[Value]) -> None:
            prepared = self._prepare(expressions, indices)
            low, high = (self.low, self.high) if self.form.inner == 1 else (self.f.i64(0), self.inner_extents[-1])
            for span in self.spans(low, high, block, step, self._may_stream(streamed, indices, low)):
                if self.form.large and span.width == block:
                    self._fetch_ahead(prepared, span)
                lower = self.lowering(span.width, span.mask)
                env = self._environment(lower, prepared, indices, span.index)
                for fold, partial in partials:
                    partial.add(lower, [lower.value(e, env) for e in fold.lift])
                self._store_elements(lower, stage.stores, env, indices, span.index, streamed if span.streams else frozenset())

        self._nested(innermost)
        count = self.high - self.low if self.form.inner == 1 else self.inner_extents[-1]
        for fold, partial in partials:
            for name, start, value in zip(fold.names, fold.start, partial.total(count)):
                self.env[leaf(f"acc:{name}", start.dtype)] = value

    def _start_arrays(self, accumulators) -> None:
        width = VECTOR // 8
        for span in self.spans(0, self.lane_count, width, width):
            low = self.lowering(span.width)
            for fold, arrays in accumulators:
                for start, array in zip(fold.start, arrays):
                    self._write(low, array, span.index, self._start(low, start), start)

    def _start(self, low: Lowering, start: Expr):
        return low.value(start, {x: low.spread(x.dtype, self.env[x]) for x in leaves_of(start)})

    def _loop_over_lanes(self, stage: Loop, expressions) -> None:
        accumulators = [(fold, self._new_arrays(fold, LANE_CHUNK)) for fold in stage.folds]
        if accumulators:
            self._start_arrays(accumulators)

        def fold_into_arrays(low: Lowering, i: Value, values: list[list]) -> None:
            for (fold, arrays), lifted in zip(accumulators, values):
                old = [self._read(low, array, i, s) for array, s in zip(arrays, fold.start)]
                for new, array, s in zip(self._combine(low, fold, old, lifted), arrays, fold.start):
                    self._write(low, array, i, new, s)

        def innermost(indices: list[Value]) -> None:
            prepared = self._prepare(expressions, indices)
            for span in self.spans(0, self.lane_count, *self._steps(expressions, [j for j, _ in stage.stores])):
                low = self.lowering(span.width, span.mask)
                env = self._environment(low, prepared, indices, span.index)
                fold_into_arrays(low, span.index, [[low.value(e, env) for e in fold.lift] for fold in stage.folds])
                self._store_elements(low, stage.stores, env, indices, span.index)

        if stage.folds and not stage.stores and self.form.inner:
            self._fold_columns(stage.folds, expressions, fold_into_arrays)
        else:
            self._nested(innermost)
        for fold, arrays in accumulators:
            self.arrays.update(zip(fold.names, arrays))

    def _fold_columns(self, folds, expressions, fold_into_arrays) -> None:
        """Lane mode: LANE_STEP elements of each row (one of a long body) are combined, and then with the partial results."""
        f, m = self.f, self.form.inner
        short = all(node.op in SHORT_OPS for node in topological(*expressions))

        def several(outer: list[Value], index: Value, count: int) -> None:
            places = [[*outer, index + k if k else index] for k in range(count)]
            prepared = [self._prepare(expressions, place) for place in places]
            for span in self.spans(0, self.lane_count, *self._steps(expressions, [], 2)):
                lows = [self.lowering(span.width, span.mask) for _ in places]
                environments = [self._environment(low, ready, place, span.index)
                                for low, ready, place in zip(lows, prepared, places)]
                totals = []
                for fold in folds:
                    values = [[low.value(e, env) for e in fold.lift] for low, env in zip(lows, environments)]
                    while len(values) > 1:
                        values = [self._combine(lows[0], fold, *values[i:i + 2]) for i in range(0, len(values), 2)]
                    totals.append(values[0])
                fold_into_arrays(lows[0], span.index, totals)

        def level(i: int, outer: list[Value]) -> None:
            low, high = (self.low, self.high) if i == 0 else (f.i64(0), self.inner_extents[i])
            if i < m - 1:
                with f.loop(low, high) as index:
                    level(i + 1, [*outer, index])
                return
            if short:
                whole = low + ((high - low) & -LANE_STEP)
                with f.loop(low, whole, LANE_STEP) as index:
                    several(outer, index, LANE_STEP)
                low = whole
            with f.loop(low, high) as index:
                several(outer, index, 1)
        level(0, [])

    def _combine(self, like: Lowering, fold: Fold, a: list, b: list) -> list:
        """Two partial results as one, in registers like those of `like`."""
        left = tuple(leaf(f"a{i}", s.dtype) for i, s in enumerate(fold.start))
        right = tuple(leaf(f"b{i}", s.dtype) for i, s in enumerate(fold.start))
        results = fold.combine(left, right)
        low = self.lowering(like.width, like.mask)
        env = {**dict(zip(left, a)), **dict(zip(right, b))}
        env.update({x: low.spread(x.dtype, self.env[x]) for x in leaves_of(*results) if x not in env})
        return [low.value(e, env) for e in results]

    def _row(self, stage: Row) -> None:
        expressions = [e for _, e in stage.stores]
        prepared = self._prepare(expressions, [])
        if self.form.lanes:
            for span in self.spans(0, self.lane_count, *self._steps(expressions, [j for j, _ in stage.stores])):
                low = self.lowering(span.width, span.mask)
                self._store_elements(low, stage.stores, self._environment(low, prepared, [], span.index), [], span.index)
            return
        low = self.lowering()
        env = self._environment(low, prepared, [], self.f.i64(0))
        for out, expression in stage.stores:
            value = low.value(cast(expression, compute_dtype(self.dtypes[out])), env)
            low.store(self.dtypes[out], value, self.rows[out].name)

    def _scan(self, stage: Loop) -> None:
        """Running values along the (single) inner axis, stored in order."""
        f, lanes = self.f, self.form.lanes
        expressions = [e for _, e in stage.stores] + [e for fold in stage.folds for e in fold.lift]
        accumulators = [(fold, self._new_arrays(fold, LANE_CHUNK if lanes else 1)) for fold in stage.folds]

        def element(low: Lowering, prepared: dict, indices: list[Value], i: Value, place: Value) -> None:
            env = self._environment(low, prepared, indices, i)
            for fold, arrays in accumulators:
                lifted = [low.value(e, env) for e in fold.lift]
                old = [self._read(low, array, place, s) for array, s in zip(arrays, fold.start)]
                for name, new, array, s in zip(fold.names, self._combine(low, fold, old, lifted), arrays, fold.start):
                    self._write(low, array, place, new, s)
                    env[leaf(f"acc:{name}", s.dtype)] = new
            self._store_elements(low, stage.stores, env, indices, i)

        def innermost(indices: list[Value]) -> None:
            prepared = self._prepare(expressions, indices)
            if lanes:
                for span in self.spans(0, self.lane_count, *self._steps(expressions, [j for j, _ in stage.stores])):
                    element(self.lowering(span.width, span.mask), prepared, indices, span.index, span.index)
                return
            with f.loop(self.low, self.high) as i:
                element(self.lowering(), prepared, indices, i, f.i64(0))

        if lanes:
            self._start_arrays(accumulators)
        else:
            for fold, arrays in accumulators:
                for start, array in zip(fold.start, arrays):
                    low = self.lowering()
                    self._write(low, array, f.i64(0), self._start(low, start), start)
        self._nested(innermost)
        for fold, arrays in accumulators:
            for name, s, array in zip(fold.names, fold.start, arrays):
                if lanes:
                    self.arrays[name] = array
                else:
                    self.env[leaf(f"acc:{name}", s.dtype)] = self._read(self.lowering(), array, f.i64(0), s)


class _Partials:
    """Row mode: the partial results of a fold, in one register per component and part: of a block, and of what is left."""

    def __init__(self, emitter: _Emitter, fold: Fold, block: int, step: int):
        self.emitter, self.fold, self.f = emitter, fold, emitter.f
        self.block, self.step = block, step
        self.rest = self._registers(step)
        self.main = self._registers(block) if block != step else self.rest

    def _registers(self, width: int) -> list[list[Variable]]:
        low = self.emitter.lowering(width)
        registers = []
        for start in self.fold.start:
            value = self.emitter._start(low, start)
            type = low.type(llvm_type(start.dtype))
            registers.append([self.f.variable(type, Value(self.f, type, part)) for part in _parts(value)])
        return registers

    def _values(self, registers: list[list[Variable]]) -> list:
        values = [[part.get().name for part in parts] for parts in registers]
        return [_joined(parts) for parts in values]

    def _set(self, registers: list[list[Variable]], values: list) -> None:
        for parts, value in zip(registers, values):
            for variable, part in zip(parts, _parts(value)):
                variable.set(Value(self.f, variable.type, part))

    def add(self, low: Lowering, lifted: list) -> None:
        registers = self.main if low.width == self.block else self.rest
        old = self._values(registers)
        self._set(registers, self._masked(low, low.mask, self.emitter._combine(low, self.fold, old, lifted), old))

    def _masked(self, low: Lowering, mask: str | None, new: list, old: list) -> list:
        """`new` where the mask is set, else `old`."""
        if mask is None:
            return new
        return [_joined([low.select(mask, llvm_type(start.dtype), a, b) for a, b in zip(_parts(fresh), _parts(former))])
                for start, fresh, former in zip(self.fold.start, new, old)]

    def _half(self, width: int, values: list, upper: bool) -> list:
        """The lower or upper half of registers of `width` elements; a single element is no vector."""
        low, half = self.emitter.lowering(width), width // 2
        order = ", ".join(f"i32 {i + half * upper}" for i in range(half))
        result = []
        for start, value in zip(self.fold.start, values):
            kind = llvm_type(start.dtype)
            type = low.type(kind)
            text = f"extractelement {type} %s, i64 {int(upper)}" if half == 1 else \
                f"shufflevector {type} %s, {type} poison, <{half} x i32> <{order}>"
            result.append(_joined([self.f.emit(kind, text % part).name for part in _parts(value)]))
        return result

    def _halved(self, width: int, values: list, count: Value | None) -> list:
        """The two halves combined; count: how many elements hold something (None: all)."""
        half = width // 2
        low = self.emitter.lowering(half if half > 1 else 0)
        lower, upper = (self._half(width, values, side) for side in (False, True))
        both = self.emitter._combine(low, self.fold, lower, upper)
        if count is None:
            return both
        mask = self.emitter._below(half, count - half) if half > 1 else (count > 1).name
        return self._masked(low, mask, both, lower)

    def total(self, count: Value) -> list:
        """All partial results as one; count: length of the innermost runs, whose first elements alone may exist."""
        f, width = self.f, self.block
        if self.main is not self.rest:
            with f.when(count >= self.block):
                values = self._values(self.main)
                while width > max(self.step, 1):
                    values = self._halved(width, values, None)
                    width //= 2
                low = self.emitter.lowering(self.step)
                both = self.emitter._combine(low, self.fold, values, self._values(self.rest))
                left = count & (self.block - 1)
                mask = self.emitter._below(width, left) if self.step else (left > 0).name
                self._set(self.rest, self._masked(low, mask, both, values))
        values, width = self._values(self.rest), self.step
        while width > 1:
            values = self._halved(width, values, count)
            width //= 2
        return values


def _parts(value) -> tuple[str, ...]:
    """The registers of a number: one, or two of a complex one."""
    return value if isinstance(value, tuple) else (value,)


def _joined(parts) -> str | tuple[str, ...]:
    return parts[0] if len(parts) == 1 else tuple(parts)


def _bytes(node: Expr) -> int:
    return part_dtype(node.dtype).itemsize


def _slot(type: str) -> str:
    """How a register type is kept in an array."""
    return "i8" if type == "i1" else type


def show(nest: Nest, form: Form) -> str:
    """A nest as text: its operands and, stage by stage, what it folds and stores."""
    lines = [f"{nest.name}: {', '.join(map(str, nest.inputs)) or 'nothing'} -> {', '.join(map(str, nest.outputs))}; "
             f"{form.outer} outer axes, {form.inner} inner, {'lanes, ' if form.lanes else ''}strides {''.join(form.classes)}"]
    for stage in nest.stages:
        if isinstance(stage, Row):
            lines.append("  once per row")
        else:
            lines.append("  along the row, in order" if stage.scan else "  along the row")
            for fold in stage.folds:
                lines += [f"    fold {name} from {start} with "
                          f"{lift}" for name, start, lift in zip(fold.names, fold.start, fold.lift)]
        lines += [f"    store {nest.outputs[j]} <- {expression}" for j, expression in stage.stores]
    return "\n".join(lines)


_kernels: dict[tuple, int] = {}


def kernel_address(nest: Nest, form: Form) -> int:
    """Machine code of `nest` in this form (compiled once)."""
    key = (nest.key(), form)
    found = _kernels.get(key)
    if found is None:
        if flags.debug >= 3:
            print(show(nest, form))
        found = _kernels[key] = compile_kernel(_Emitter(nest, form).text(), level=INDEXED)
    return found


