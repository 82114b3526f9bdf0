"""Loop nests to kernels.

A kernel is written for a number of outer axes, of inner axes, the presence of a lane axis and the stride class of each operand
along the innermost loop (0, 1 or "x": any); extents and strides are constants of the plan. In row mode the inner axes hold the
row, and reductions keep LANES partial results that LLVM turns into vectors; in lane mode a kept axis is innermost, so that a
reduction over an outer axis reads whole cache lines. A unit of work is a row (or LANE_CHUNK rows side by side) or, for long
rows, a chunk of one. Stands on builder, scalar (expressions) and ir.loops; used by schedule.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from flambeau.base.dtype import float64, int64
from flambeau.base.flags import flags
from flambeau.codegen.builder import Value, kernel, module
from flambeau.codegen.jit import compile_kernel
from flambeau.codegen.scalar import Lowering, llvm_type, memory_type
from flambeau.ir.loops import Fold, Loop, Nest, Row
from flambeau.ir.scalar import Expr, cast, compute_dtype, leaf, leaves_of, topological

LANES = 64         # partial results of a row's reduction
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

    # ---- constants of the plan, in order
    def operand_constants(self) -> int:
        """Outer strides, chunk stride, lane stride, inner strides, pick stride, pick extent, byte offset."""
        return self.outer + self.inner + 5

    def head(self) -> int:
        return self.outer + 5 + self.inner


class _Emitter:
    def __init__(self, nest: Nest, form: Form):
        self.nest, self.form = nest, form
        self.f = f = kernel()
        self.lines = f.lines
        self.group: str | None = None
        self.group_count = 0
        self.declarations: set[str] = set()
        self.dtypes = nest.outputs + nest.inputs
        self.constants = f.pointer(f.parameter(0))
        self.env: dict[Expr, str | tuple[str, str]] = {}   # values known for the whole row
        self.arrays: dict[str, list[Value]] = {}            # lane mode: fold name -> array(s) of results
        self.error = f.variable("i64", 0) if self._may_fail() else None

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

    def lowering(self) -> Lowering:
        low = Lowering(self._line, self.f.fresh)
        low.declarations = self.declarations
        low.report = self._report
        return low

    def _report(self, bad: str) -> None:
        """Leave the error word of a guard if the condition in register `bad` holds."""
        code = self.f.select(Value(self.f, "i1", bad), self.f.i64(GUARD_ERROR), self.f.i64(0))
        self.error.set(self.error.get() | code)

    def _line(self, text: str) -> None:
        if self.group and ("= load " in text or text.startswith("store ")):
            text += f", !llvm.access.group {self.group}"
        self.f.line(text)

    @contextmanager
    def parallel_loop(self, begin, end, short: bool = False, rolled: bool = False):
        """A loop whose iterations touch different elements: LLVM may vectorise it without checking for aliases.

        short: few iterations (the rest of a row, lanes being combined): one masked vector loop, which compiles faster than a
        vector loop with a scalar one behind. rolled: a long body, which is not worth repeating per vector of a block.
        """
        f = self.f
        first = 8 * self.group_count + 1
        self.group_count += 1
        group, loop = f"!{first}", f"!{first + 1}"
        hints = [f'!{{!"llvm.loop.parallel_accesses", {group}}}']
        if short:
            hints += ['!{!"llvm.loop.vectorize.predicate.enable", i1 true}']
        if short or rolled:
            hints += ['!{!"llvm.loop.interleave.count", i32 1}', '!{!"llvm.loop.unroll.disable"}']
        f.metadata += [f"{group} = distinct !{{}}", *(f"!{first + 2 + i} = {hint}" for i, hint in enumerate(hints)),
                       f"{loop} = distinct !{{{loop}, {', '.join(f'!{first + 2 + i}' for i in range(len(hints)))}}}"]
        before, self.group = self.group, group
        with f.loop(begin, end, metadata=f", !llvm.loop {loop}") as i:
            yield i
        self.group = before

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
    def _needed(self, expressions) -> list[Expr]:
        return list(leaves_of(*expressions))

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

    def _operand(self, name: str) -> int | None:
        """The operand whose current element a leaf stands for: an input, or an output that an earlier stage stored."""
        if name.startswith("in"):
            return len(self.nest.outputs) + int(name[2:])
        return int(name[3:]) if name.startswith("out") else None

    def _prepare(self, expressions, indices: list[Value]) -> dict:
        """Bases of the operands read, and the values that do not change along the innermost loop."""
        n_out = len(self.nest.outputs)
        hoisted: dict = {}
        bases: dict[int, Value] = {}
        low = self.lowering()
        nodes = list(topological(*expressions))
        for node in nodes:
            if node.op == "leaf" and (j := self._operand(str(node.value))) is not None:
                bases[j] = self._shifted(j, indices)
                if self.form.classes[j] == "0":
                    hoisted[node] = low.load(self.dtypes[j], bases[j].name)
        for node in nodes:
            if node.op == "pick":
                j = n_out + node.value
                base = self._shifted(j, indices)
                index_leaves = leaves_of(*node.args)
                fixed = {x: hoisted.get(x, self.env.get(x)) for x in index_leaves}
                if all(v is not None for v in fixed.values()):
                    bases[("pick", node)] = self._pick_base(j, base, low.value(node.args[0], {**self.env, **hoisted}))
                    if self.form.classes[j] == "0":
                        hoisted[node] = low.load(self.dtypes[j], bases[("pick", node)].name)
                else:
                    bases[("row", node)] = base
        return {"hoisted": hoisted, "bases": bases, "nodes": nodes}

    def _pick_base(self, j: int, base: Value, index: str) -> Value:
        f = self.f
        index = Value(f, "i64", index)
        s = self.strides[j]
        fits = index.unsigned_below(s["extent"])
        bad = f.emit("i1", f"xor i1 {fits.name}, true")
        self.error.set(self.error.get() | f.convert(bad, "i64", "zext"))
        safe = f.select(fits, index, f.i64(0))
        return f.at(memory_type(self.dtypes[j]), base, safe * s["pick"])

    def _environment(self, low: Lowering, prepared: dict, indices: list[Value], i: Value, lane: Value | None) -> dict:
        """Values of all leaves at innermost index `i` (lane index `lane` for folded arrays)."""
        n_out = len(self.nest.outputs)
        env = {**self.env, **prepared["hoisted"]}
        for node in prepared["nodes"]:
            if node.op == "leaf" and node not in env:
                name = str(node.value)
                if (j := self._operand(name)) is not None:
                    env[node] = low.load(self.dtypes[j], self._address(j, prepared["bases"][j], i).name)
                elif name == "r":
                    env[node] = self._position(indices, i).name
                elif name.startswith("acc:") and name[4:] in self.arrays:
                    env[node] = self._read(self.arrays[name[4:]], lane, node)
            elif node.op == "pick" and node not in env:
                j = n_out + node.value
                if ("pick", node) in prepared["bases"]:
                    base = prepared["bases"][("pick", node)]
                else:
                    base = self._pick_base(j, prepared["bases"][("row", node)], low.value(node.args[0], env))
                env[node] = low.load(self.dtypes[j], self._address(j, base, i).name)
        return env

    def _read(self, array: list[Value], index: Value, node: Expr):
        type = llvm_type(node.dtype)
        parts = []
        for a in array:
            pointer = self.f.at(_slot(type), a, index)
            parts.append(self._load_slot(type, pointer))
        return parts[0] if len(parts) == 1 else tuple(parts)

    def _load_slot(self, type: str, pointer: Value) -> str:
        self._line(f"{(name := self.f.fresh())} = load {_slot(type)}, ptr {pointer.name}")
        if type == "i1":
            return self.f.convert(Value(self.f, "i8", name), "i1", "trunc").name
        return name

    def _write(self, array: list[Value], index: Value, value, node: Expr) -> None:
        type = llvm_type(node.dtype)
        for a, part in zip(array, value if isinstance(value, tuple) else (value,)):
            if type == "i1":
                part = self.f.convert(Value(self.f, "i1", part), "i8", "zext").name
            pointer = self.f.at(_slot(type), a, index)
            self._line(f"store {_slot(type)} {part}, ptr {pointer.name}")

    def _new_arrays(self, fold: Fold, size: int) -> list[list[Value]]:
        return [[self.f.stack(_slot(llvm_type(s.dtype)), size, 64) for _ in range(2 if s.dtype.is_complex else 1)]
                for s in fold.start]

    def _store_elements(self, low: Lowering, stores, env: dict, indices: list[Value], i: Value) -> None:
        for j, expression in stores:
            value = low.value(cast(expression, compute_dtype(self.dtypes[j])), env)
            base = self._shifted(j, indices)
            low.store(self.dtypes[j], value, self._address(j, base, i).name)

    def _loop(self, stage: Loop) -> None:
        f, lanes = self.f, self.form.lanes
        expressions = [e for _, e in stage.stores] + [e for fold in stage.folds for e in fold.lift]
        size = LANE_CHUNK if lanes else LANES
        accumulators = [(fold, self._new_arrays(fold, size)) for fold in stage.folds]
        long = sum(node.op not in SHORT_OPS for node in topological(*expressions)) > 0
        inner = None if lanes else (self.high - self.low if self.form.inner == 1 else self.inner_extents[-1])
        if stage.folds:
            with self.parallel_loop(0, self.lane_count if lanes else LANES) as j:
                for fold, arrays in accumulators:
                    low = self.lowering()
                    for start, array in zip(fold.start, arrays):
                        self._write(array, j, low.value(start, self.env), start)

        def body(prepared: dict, indices: list[Value], i: Value, lane: Value) -> None:
            low = self.lowering()
            env = self._environment(low, prepared, indices, i, lane)
            for fold, arrays in accumulators:
                lifted = [low.value(e, env) for e in fold.lift]
                old = [self._read(array, lane, s) for array, s in zip(arrays, fold.start)]
                for new, array, s in zip(self._combine(fold, old, lifted), arrays, fold.start):
                    self._write(array, lane, new, s)
            self._store_elements(low, stage.stores, env, indices, i)

        def innermost(indices: list[Value]) -> None:
            prepared = self._prepare(expressions, indices)
            if lanes:
                with self.parallel_loop(0, self.lane_count) as j:
                    body(prepared, indices, j, j)
                return
            low, high = (self.low, self.high) if self.form.inner == 1 else (f.i64(0), self.inner_extents[-1])
            if not stage.folds:
                with self.parallel_loop(low, high, rolled=long) as i:
                    body(prepared, indices, i, i)
                return
            count = high - low
            whole = low + (count & -LANES)
            with f.loop(low, whole, LANES) as block:
                with self.parallel_loop(0, LANES, rolled=long) as j:
                    body(prepared, indices, block + j, j)
            with self.parallel_loop(0, high - whole, short=True) as j:
                body(prepared, indices, whole + j, j)

        if lanes and stage.folds and not stage.stores and self.form.inner:
            self._fold_columns(accumulators, expressions)
        else:
            self._nested(innermost)
        for fold, arrays in accumulators:
            if lanes:
                for name, array in zip(fold.names, arrays):
                    self.arrays[name] = array
            else:
                self._fold_lanes(fold, arrays, inner)

    def _fold_columns(self, accumulators, expressions) -> None:
        """Lane mode: LANE_STEP elements of each row are combined with each other, and then with the partial results."""
        f, m = self.f, self.form.inner

        def step(outer: list[Value], index: Value, count: int) -> None:
            places = [[*outer, index + k if k else index] for k in range(count)]
            prepared = [self._prepare(expressions, place) for place in places]
            with self.parallel_loop(0, self.lane_count) as j:
                environments = []
                for place, ready in zip(places, prepared):
                    low = self.lowering()
                    environments.append((low, self._environment(low, ready, place, j, j)))
                for fold, arrays in accumulators:
                    values = [[low.value(e, env) for e in fold.lift] for low, env in environments]
                    while len(values) > 1:
                        values = [self._combine(fold, *values[i:i + 2]) for i in range(0, len(values), 2)]
                    old = [self._read(array, j, s) for array, s in zip(arrays, fold.start)]
                    for new, array, s in zip(self._combine(fold, old, values[0]), arrays, fold.start):
                        self._write(array, j, new, s)

        def level(i: int, outer: list[Value]) -> None:
            low, high = (self.low, self.high) if i == 0 else (f.i64(0), self.inner_extents[i])
            if i < m - 1:
                with f.loop(low, high) as index:
                    level(i + 1, [*outer, index])
                return
            whole = low + ((high - low) & -LANE_STEP)
            with f.loop(low, whole, LANE_STEP) as index:
                step(outer, index, LANE_STEP)
            with f.loop(whole, high) as index:
                step(outer, index, 1)
        level(0, [])

    def _combine(self, fold: Fold, a: list, b: list) -> list:
        left = tuple(leaf(f"a{i}", s.dtype) for i, s in enumerate(fold.start))
        right = tuple(leaf(f"b{i}", s.dtype) for i, s in enumerate(fold.start))
        low = self.lowering()
        env = {**self.env, **dict(zip(left, a)), **dict(zip(right, b))}
        return [low.value(e, env) for e in fold.combine(left, right)]

    def _fold_lanes(self, fold: Fold, arrays: list[list[Value]], count: Value) -> None:
        """Row mode: combine the partial results of the lanes into one, pairwise for whole rows."""
        f = self.f

        def merge(into: Value, of: Value) -> None:
            a = [self._read(array, into, s) for array, s in zip(arrays, fold.start)]
            b = [self._read(array, of, s) for array, s in zip(arrays, fold.start)]
            for new, array, s in zip(self._combine(fold, a, b), arrays, fold.start):
                self._write(array, into, new, s)
        with f.branches(count >= LANES) as otherwise:
            width = f.variable("i64", LANES // 2)
            with f.repeat(lambda: width.get() > 0):
                half = width.get()
                with self.parallel_loop(0, half, short=True) as j:
                    merge(j, j + half)
                width.set(half >> 1)
            otherwise()
            with f.loop(1, count) as j:
                merge(f.i64(0), j)
        with f.when(count <= 0):
            low = self.lowering()
            for start, array in zip(fold.start, arrays):
                self._write(array, f.i64(0), low.value(start, self.env), start)
        for name, s, array in zip(fold.names, fold.start, arrays):
            self.env[leaf(f"acc:{name}", s.dtype)] = self._read(array, f.i64(0), s)

    def _row(self, stage: Row) -> None:
        f = self.f
        expressions = [e for _, e in stage.stores]
        if self.form.lanes:
            prepared = self._prepare(expressions, [])
            with self.parallel_loop(0, self.lane_count) as j:
                low = self.lowering()
                env = self._environment(low, prepared, [], j, j)
                for out, expression in stage.stores:
                    value = low.value(cast(expression, compute_dtype(self.dtypes[out])), env)
                    low.store(self.dtypes[out], value, self._address(out, self.rows[out], j).name)
            return
        prepared = self._prepare(expressions, [])
        low = self.lowering()
        zero = f.i64(0)
        env = self._environment(low, prepared, [], zero, zero)
        for out, expression in stage.stores:
            value = low.value(cast(expression, compute_dtype(self.dtypes[out])), env)
            low.store(self.dtypes[out], value, self.rows[out].name)

    def _scan(self, stage: Loop) -> None:
        """Running values along the (single) inner axis, stored in order."""
        f, lanes = self.f, self.form.lanes
        expressions = [e for _, e in stage.stores] + [e for fold in stage.folds for e in fold.lift]
        accumulators = [(fold, self._new_arrays(fold, LANE_CHUNK if lanes else 1)) for fold in stage.folds]
        with f.loop(0, self.lane_count if lanes else 1) as j:
            for fold, arrays in accumulators:
                low = self.lowering()
                for start, array in zip(fold.start, arrays):
                    self._write(array, j, low.value(start, self.env), start)

        def body(prepared: dict, indices: list[Value], i: Value, lane: Value) -> None:
            low = self.lowering()
            env = self._environment(low, prepared, indices, i, lane)
            for fold, arrays in accumulators:
                lifted = [low.value(e, env) for e in fold.lift]
                old = [self._read(array, lane, s) for array, s in zip(arrays, fold.start)]
                for name, new, array, s in zip(fold.names, self._combine(fold, old, lifted), arrays, fold.start):
                    self._write(array, lane, new, s)
                    env[leaf(f"acc:{name}", s.dtype)] = new
            self._store_elements(low, stage.stores, env, indices, i)

        def innermost(indices: list[Value]) -> None:
            prepared = self._prepare(expressions, indices)
            if lanes:
                with self.parallel_loop(0, self.lane_count) as j:
                    body(prepared, indices, j, j)
                return
            with f.loop(self.low, self.high) as i:
                body(prepared, indices, i, f.i64(0))
        self._nested(innermost)
        for fold, arrays in accumulators:
            for name, s, array in zip(fold.names, fold.start, arrays):
                if lanes:
                    self.arrays[name] = array
                else:
                    self.env[leaf(f"acc:{name}", s.dtype)] = self._read(array, f.i64(0), s)


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
        found = _kernels[key] = compile_kernel(_Emitter(nest, form).text(), level=2)
    return found


