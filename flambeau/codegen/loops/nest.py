"""Loop nests to kernels.

A kernel is written for a number of outer axes, of inner axes, the presence of a lane axis and the stride class of each
operand along the innermost loop (0, 1 or "x": any); extents and strides are constants of the plan. The innermost loop is
written with vectors: a block of several while they last, then single ones whose mask ends with the row. In row mode the
inner axes hold the row, and a reduction's partial results are the elements of a vector (accumulators.py); in lane mode a
kept axis is innermost, so that a reduction over an outer axis reads whole cache lines. Stands on prologue.py and
memory_access.py; used by schedule.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from flambeau.base.dtype import bool_
from flambeau.base.flags import flags
from flambeau.codegen.builder import Value
from flambeau.codegen.jit import KernelRef
from flambeau.codegen.llvm import COMBINED, QUICK, Pipeline
from flambeau.codegen.loops.accumulators import Partials, combine, start_of
from flambeau.codegen.loops.memory_access import VECTOR, Operands, Prepared, is_short
from flambeau.codegen.loops.prologue import GUARD_ERROR, LANE_CHUNK, Form, Span
from flambeau.codegen.scalar import Lowering, joined, llvm_type, parts_of
from flambeau.ir.loops import Fold, Loop, Nest, Row, combined, steady
from flambeau.ir.scalar import Expr, cast, compute_dtype, leaf, substitute, topological

BLOCK = 4  # vectors of a block, if an element takes but a few instructions
FOLD_BLOCK = 8  # the same where elements are only folded: each vector waits for its own last partial result
HELD = 1536  # bytes of partial results that registers can hold
SCANNED = 1 << 12  # steps of a scan in lane mode between two looks whether the job is to end
LANE_STEP = 8  # elements of each row of lane mode that are combined before they reach the partial results in memory


class _Emitter(Operands):
    """Writes the stages of a nest."""

    def unit(self) -> None:
        saved, self.arrays = dict(self.env), {}
        for stage in self.nest.stages:
            if isinstance(stage, Row):
                self._row(stage)
            elif stage.scan and stage.grouped and not self.form.lanes:
                self._scan_vectors(stage)
            elif stage.scan:
                self._scan(stage)
            else:
                self._loop(stage)
        self.env = saved

    def _nested(self, then, stretch: int = 0) -> None:
        """Loops over all inner axes but the last; `then(indices)` writes the innermost. stretch: after how many steps of the
        first it is looked whether the job is to end (0: never).
        """
        f, m = self.f, self.form.inner

        def level(i: int, indices: list[Value]) -> None:
            if i == m - (0 if self.form.lanes else 1):
                then(indices)
                return
            low, high = (self.low, self.high) if i == 0 else (f.i64(0), self.inner_extents[i])
            if stretch and i == 0:
                with f.stretches(low, high, stretch) as (first, last), f.loop(first, last) as index:
                    level(i + 1, [*indices, index])
                return
            with f.loop(low, high) as index:
                level(i + 1, [*indices, index])

        level(0, [])

    def steps_of(self, stage: Loop) -> tuple[int, int]:
        """How many elements a stage takes at a time along a row, and at its end: in this order elements are folded."""
        blocks = BLOCK if stage.stores else FOLD_BLOCK
        block, step = self.steps(stage.expressions, [j for j, _ in stage.stores], blocks, not stage.folds)
        held = sum(start.dtype.itemsize for fold in stage.folds for start in fold.start)
        while block > step and block * held > HELD:
            block //= 2
        return block, step

    def _loop(self, stage: Loop) -> None:
        if self.form.lanes:
            stage = self._with_lanes_prepared(stage)
        expressions = stage.expressions
        if self.form.lanes:
            self._loop_over_lanes(stage, expressions)
            return
        block, step = self.steps_of(stage)
        streamed, fetched = self.streamed(stage), self.fetched(stage) if self.form.large else {}
        partials = [(fold, Partials(self, fold, block or step, step)) for fold in stage.folds]
        guarded = any(n.op == "guard" for _, e in stage.stores for n in topological(e))

        def innermost(indices: list[Value]) -> None:
            prepared = self.prepare(expressions, indices)
            low, high = (self.low, self.high) if self.form.inner == 1 else (self.f.i64(0), self.inner_extents[-1])
            for span in self.spans(low, high, block, step, self.may_stream(streamed, indices, low)):
                if fetched and span.width == block:
                    self.fetch_ahead(prepared, span, fetched)
                lower = self.lowering(span.width, span.mask)
                env = self.environment(lower, prepared, indices, span.index)
                for fold, partial in partials:
                    partial.add(lower, [lower.value(e, env) for e in fold.lift])
                to_stream = streamed if span.streams else frozenset()
                if guarded:
                    self._store_checked(lower, stage.stores, env, indices, span, to_stream)
                else:
                    self.store_elements(lower, stage.stores, env, indices, span.index, to_stream)

        self._nested(innermost)
        count = self.high - self.low if self.form.inner == 1 else self.inner_extents[-1]
        for fold, partial in partials:
            for name, start, value in zip(fold.names, fold.start, partial.total(count)):
                self.env[leaf(f"acc:{name}", start.dtype)] = value

    def _store_checked(self, low: Lowering, stores, env: dict, indices: list[Value], span: Span, streamed: frozenset) -> None:
        """Store elements up to the first one that a guard complains of, and nothing from there on."""
        f = self.f
        found: list[str] = []
        low.report = found.append
        values = [low.value(cast(e, compute_dtype(self.dtypes[j])), env) for j, e in stores]
        bad = found[0]
        for other in found[1:]:
            bad = f.emit(low.type("i1"), f"or {low.type('i1')} {bad}, {other}").name
        failed_before = self.error.get().differs(0)  # type: ignore[union-attr]
        self.fail(low.any(bad), GUARD_ERROR)
        with f.branches(self.error.get().differs(0)) as otherwise:  # type: ignore[union-attr]
            if low.width:
                with f.loop(0, f.select(failed_before, f.i64(0), Value(f, "i64", low.first(bad)))) as k:
                    for (j, _), value in zip(stores, values):
                        kind = llvm_type(compute_dtype(self.dtypes[j]))
                        one = f.emit(kind, f"extractelement {low.type(kind)} {value}, i64 {k.name}").name
                        address = self.address(j, self._shifted(j, indices), span.index + k)
                        self.lowering().store(self.dtypes[j], one, address.name)
            otherwise()
            self.store_elements(low, stores, env, indices, span.index, streamed)

    def _with_lanes_prepared(self, stage: Loop) -> Loop:
        """The stage with what is the same along its rows in an array, like a fold's results: computed once for each row."""

        def known(x: Expr) -> bool:
            return x.op == "leaf" and str(x.value)[:4] == "acc:" and str(x.value)[4:] in self.arrays

        found = steady(stage.expressions, known)
        if not found:
            return stage
        arrays = [self.new_array(e, LANE_CHUNK) for e in found]
        prepared = self.prepare(found, [])
        for span in self.spans(0, self.lane_count, *self.steps(found, [])):
            low = self.lowering(span.width, span.mask)
            env = self.environment(low, prepared, [], span.index)
            for e, array in zip(found, arrays):
                self.write(low, array, span.index, low.value(e, env), e)
        names = [f"steady{len(self.arrays) + i}" for i in range(len(found))]
        self.arrays.update(zip(names, arrays))
        replaced = {e: leaf(f"acc:{name}", e.dtype) for e, name in zip(found, names)}
        return replace(
            stage,
            stores=tuple((j, substitute(e, replaced)) for j, e in stage.stores),
            folds=tuple(replace(fold, lift=tuple(substitute(e, replaced) for e in fold.lift)) for fold in stage.folds),
        )

    def _lane_spans(self, stage: Loop | Row, expressions) -> Iterator[Span]:
        return self.spans(0, self.lane_count, *self.steps(expressions, [j for j, _ in stage.stores]))

    def _start_arrays(self, accumulators) -> None:
        width = VECTOR // 8
        for span in self.spans(0, self.lane_count, width, width):
            low = self.lowering(span.width)
            for fold, arrays in accumulators:
                for start, array in zip(fold.start, arrays):
                    self.write(low, array, span.index, start_of(self, low, start), start)

    def _loop_over_lanes(self, stage: Loop, expressions) -> None:
        accumulators = [(fold, self.new_arrays(fold, LANE_CHUNK)) for fold in stage.folds]
        if accumulators:
            self._start_arrays(accumulators)

        def fold_into_arrays(low: Lowering, i: Value, values: list[list]) -> None:
            for (fold, arrays), lifted in zip(accumulators, values):
                old = [self.read(low, array, i, s) for array, s in zip(arrays, fold.start)]
                for new, array, s in zip(combine(self, low, fold, old, lifted), arrays, fold.start):
                    self.write(low, array, i, new, s)

        def innermost(indices: list[Value]) -> None:
            prepared = self.prepare(expressions, indices)
            for span in self._lane_spans(stage, expressions):
                low = self.lowering(span.width, span.mask)
                env = self.environment(low, prepared, indices, span.index)
                fold_into_arrays(low, span.index, [[low.value(e, env) for e in fold.lift] for fold in stage.folds])
                self.store_elements(low, stage.stores, env, indices, span.index)

        if stage.folds and not stage.stores and self.form.inner:
            self._fold_columns(stage.folds, expressions, fold_into_arrays)
        else:
            self._nested(innermost)
        for fold, arrays in accumulators:
            self.arrays.update(zip(fold.names, arrays))

    def _fold_columns(self, folds, expressions, fold_into_arrays) -> None:
        """Lane mode: LANE_STEP elements of each row (one of a long body) are combined, and then with the partial results."""
        f, m = self.f, self.form.inner
        short = is_short(expressions)

        def several(outer: list[Value], index: Value, count: int) -> None:
            places = [[*outer, index + k if k else index] for k in range(count)]
            prepared = [self.prepare(expressions, place) for place in places]
            for span in self.spans(0, self.lane_count, *self.steps(expressions, [], 2)):
                lows = [self.lowering(span.width, span.mask) for _ in places]
                environments = [
                    self.environment(low, ready, place, span.index) for low, ready, place in zip(lows, prepared, places)
                ]
                totals = []
                for fold in folds:
                    values = [[low.value(e, env) for e in fold.lift] for low, env in zip(lows, environments)]
                    while len(values) > 1:
                        values = [combine(self, lows[0], fold, *values[i : i + 2]) for i in range(0, len(values), 2)]
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

    def _row(self, stage: Row) -> None:
        expressions = stage.expressions
        prepared = self.prepare(expressions, [])
        if self.form.lanes:
            for span in self._lane_spans(stage, expressions):
                low = self.lowering(span.width, span.mask)
                self.store_elements(low, stage.stores, self.environment(low, prepared, [], span.index), [], span.index)
            return
        low = self.lowering()
        env = self.environment(low, prepared, [], self.f.i64(0))
        for out, expression in stage.stores:
            value = low.value(cast(expression, compute_dtype(self.dtypes[out])), env)
            low.store(self.dtypes[out], value, self.rows[out].name)

    def _scan_vectors(self, stage: Loop) -> None:
        """Running values along the (single) inner axis, a vector at a time: each element is combined with the one before it,
        then with the two before those, and so on, and all of them with what came before the vector.

        Where a fold takes but a few instructions, it is first seen whether the vector changes what came before at all.
        """
        f = self.f
        expressions = stage.expressions
        width = self.steps(expressions, [j for j, _ in stage.stores])[1]
        if not width:  # elements that lie apart
            self._scan(stage)
            return
        outcomes = [combined(fold) for fold in stage.folds]
        short = all(is_short(outcome) for outcome in outcomes)
        accumulators = [(fold, self.new_arrays(fold, 1)) for fold in stage.folds]
        low = self.lowering()
        for fold, arrays in accumulators:
            for start, array in zip(fold.start, arrays):
                self.write(low, array, f.i64(0), start_of(self, low, start), start)

        def vector(prepared: Prepared, indices: list[Value], span: Span) -> None:
            low = self.lowering(width, span.mask)
            env = self.environment(low, prepared, indices, span.index)
            lifted, before = [], []
            for fold, arrays in accumulators:
                values = [low.value(e, env) for e in fold.lift]
                if span.mask is not None:  # what isn't there changes nothing
                    starts = [low.spread(s.dtype, start_of(self, self.lowering(), s)) for s in fold.start]
                    values = [self._chosen(low, span.mask, s, a, b) for s, a, b in zip(fold.start, values, starts)]
                lifted.append(values)
                before.append(
                    [low.spread(s.dtype, self.read(self.lowering(), array, f.i64(0), s)) for array, s in zip(arrays, fold.start)]
                )

            def store(results: list[list]) -> None:
                own = self.lowering(width, span.mask)
                known = dict(env)
                for (fold, _), values in zip(accumulators, results):
                    known.update({leaf(f"acc:{name}", s.dtype): v for name, s, v in zip(fold.names, fold.start, values)})
                self.store_elements(own, stage.stores, known, indices, span.index)

            def grouped() -> None:
                results = []
                for (fold, arrays), values, old in zip(accumulators, lifted, before):
                    distance = 1
                    while distance < width:
                        values = combine(self, low, fold, self._moved_up(low, fold, values, distance), values)
                        distance *= 2
                    values = combine(self, low, fold, old, values)
                    for value, array, s in zip(values, arrays, fold.start):
                        self.write(self.lowering(), array, f.i64(0), self._last(low, s, value), s)
                    results.append(values)
                store(results)

            if not short:
                grouped()
                return
            changes = None
            for (fold, _), values, old in zip(accumulators, lifted, before):
                for s, new, former in zip(fold.start, combine(self, low, fold, old, values), old):
                    a, b = leaf("new", s.dtype), leaf("former", s.dtype)
                    test = (a ^ b) if s.dtype is bool_ else a != b
                    differs = Value(f, low.type("i1"), self.lowering(width).value(test, {a: new, b: former}))
                    changes = differs if changes is None else changes | differs
            with f.branches(Value(f, "i1", low.any(changes.name))) as otherwise:
                grouped()
                otherwise()
                store(before)

        def innermost(indices: list[Value]) -> None:
            prepared = self.prepare(expressions, indices)
            with f.stretches(self.low, self.high) as (first, last):
                for span in self.spans(first, last, width if short else 0, width):
                    vector(prepared, indices, span)

        self._nested(innermost)
        for fold, arrays in accumulators:
            for name, s, array in zip(fold.names, fold.start, arrays):
                self.env[leaf(f"acc:{name}", s.dtype)] = self.read(self.lowering(), array, f.i64(0), s)

    def _chosen(self, low: Lowering, mask: str, like: Expr, a, b):
        """Elements of a where the mask holds, else of b."""
        kind = llvm_type(like.dtype)
        return joined([low.select(mask, kind, x, y) for x, y in zip(parts_of(a), parts_of(b))])

    def _moved_up(self, low: Lowering, fold: Fold, values: list, distance: int) -> list:
        """Registers with every element `distance` places further, the fold's first values in front."""
        width = low.width
        order = ", ".join(f"i32 {width + i if i < distance else i - distance}" for i in range(width))
        moved = []
        for start, value in zip(fold.start, values):
            type = low.type(llvm_type(start.dtype))
            first = low.spread(start.dtype, start_of(self, self.lowering(), start))
            moved.append(
                joined(
                    [
                        self.f.emit(type, f"shufflevector {type} {part}, {type} {begin}, <{width} x i32> <{order}>").name
                        for part, begin in zip(parts_of(value), parts_of(first))
                    ]
                )
            )
        return moved

    def _last(self, low: Lowering, like: Expr, value):
        """The last element of a register."""
        kind = llvm_type(like.dtype)
        return joined(
            [self.f.emit(kind, f"extractelement {low.type(kind)} {part}, i64 {low.width - 1}").name for part in parts_of(value)]
        )

    def _scan(self, stage: Loop) -> None:
        """Running values along the (single) inner axis, stored in order."""
        f, lanes = self.f, self.form.lanes
        expressions = stage.expressions
        accumulators = [(fold, self.new_arrays(fold, LANE_CHUNK if lanes else 1)) for fold in stage.folds]

        def element(low: Lowering, prepared: Prepared, indices: list[Value], i: Value, place: Value) -> None:
            env = self.environment(low, prepared, indices, i)
            for fold, arrays in accumulators:
                lifted = [low.value(e, env) for e in fold.lift]
                old = [self.read(low, array, place, s) for array, s in zip(arrays, fold.start)]
                for name, new, array, s in zip(fold.names, combine(self, low, fold, old, lifted), arrays, fold.start):
                    self.write(low, array, place, new, s)
                    env[leaf(f"acc:{name}", s.dtype)] = new
            self.store_elements(low, stage.stores, env, indices, i)

        def innermost(indices: list[Value]) -> None:
            prepared = self.prepare(expressions, indices)
            if lanes:
                for span in self._lane_spans(stage, expressions):
                    element(self.lowering(span.width, span.mask), prepared, indices, span.index, span.index)
                return
            with f.stretches(self.low, self.high) as (first, last), f.loop(first, last) as i:
                element(self.lowering(), prepared, indices, i, f.i64(0))

        if lanes:
            self._start_arrays(accumulators)
        else:
            for fold, arrays in accumulators:
                for start, array in zip(fold.start, arrays):
                    low = self.lowering()
                    self.write(low, array, f.i64(0), start_of(self, low, start), start)
        self._nested(innermost, SCANNED)
        for fold, arrays in accumulators:
            for name, s, array in zip(fold.names, fold.start, arrays):
                if lanes:
                    self.arrays[name] = array
                else:
                    self.env[leaf(f"acc:{name}", s.dtype)] = self.read(self.lowering(), array, f.i64(0), s)


def show(nest: Nest, form: Form) -> str:
    """A nest as text: its operands and, stage by stage, what it folds and stores."""
    lines = [
        f"{nest.name}: {', '.join(map(str, nest.inputs)) or 'nothing'} -> {', '.join(map(str, nest.outputs))}; "
        f"{form.outer} outer axes, {form.inner} inner, {'lanes, ' if form.lanes else ''}strides {''.join(form.classes)}"
    ]
    for stage in nest.stages:
        if isinstance(stage, Row):
            lines.append("  once per row")
        else:
            lines.append("  along the row, in order" if stage.scan else "  along the row")
            for fold in stage.folds:
                lines += [
                    f"    fold {name} from {start} with {lift}" for name, start, lift in zip(fold.names, fold.start, fold.lift)
                ]
        lines += [f"    store {nest.outputs[j]} <- {expression}" for j, expression in stage.stores]
    return "\n".join(lines)


def steps_of_folds(nest: Nest, form: Form) -> list[tuple]:
    """What the order depends on in which a kernel folds elements, beside its constants."""
    emitter = _Emitter(nest, form)
    loops = [stage for stage in nest.stages if isinstance(stage, Loop) and stage.folds]
    return [(emitter.steps_of(stage), is_short(stage.expressions)) for stage in loops]


_kernels: dict[tuple, KernelRef] = {}


def _pipeline(nest: Nest) -> Pipeline:
    """Neighbouring instructions are worth combining in long bodies and where truths are folded or kept in memory; of the
    comparisons that other folds consist of LLVM would make slower ones, and short bodies have nothing to combine.
    """
    starts = [start for stage in nest.stages if isinstance(stage, Loop) for fold in stage.folds for start in fold.start]
    if any(x.dtype is bool_ for x in starts) or bool_ in nest.outputs + nest.inputs:
        return COMBINED
    return QUICK if starts or is_short([e for stage in nest.stages for _, e in stage.stores]) else COMBINED


def kernel_of(nest: Nest, form: Form) -> KernelRef:
    """The kernel that runs `nest` in this form."""
    key = (nest.key, form)
    found = _kernels.get(key)
    if found is None:
        if flags.debug >= 3:
            print(show(nest, form))
        dtype = (nest.inputs or nest.outputs)[0]
        found = _kernels[key] = KernelRef(
            _text, (nest, form), _pipeline(nest), name=f"{nest.name}.{dtype.name}{form.word}", describe=_description
        )
    return found


def _text(nest: Nest, form: Form) -> str:
    return _Emitter(nest, form).text()


def _description(nest: Nest, form: Form) -> str:
    return f"{form}\n{nest.description()}"
