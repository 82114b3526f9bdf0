"""Products and convolutions of quantized activations and weights: bytes are gathered, multiplied, summed in int32 and finished.

A task is some rows of the result (the pixels of a convolution), and some of its columns (output channels). It first puts its rows
of activations into working memory as unsigned bytes, one behind the other: as they lie, as the patches that a convolution sees,
with the zero point for what is outside of the image, or as numbers that are quantized on the way. Weights lie in blocks of
columns (dots.py), each group's behind the other's. Of the sums are taken what the activations' zero point adds to
them, a number for each column, and what the weights' do; then they are scaled, get the bias, and are rounded.

Stands on dots.py; depthwise.py has tasks of another kind, and steps.py plans with both.
"""

from __future__ import annotations

from typing import NamedTuple

from flambeau.codegen.builder import BUFFER_WORDS, Odometer, Value, module
from flambeau.codegen.cpu import vector_bytes
from flambeau.codegen.jit import compiled
from flambeau.codegen.kernel import Kernel, suffix, vector
from flambeau.codegen.llvm import LIGHT
from flambeau.codegen.quantized import dots

#: Sizes of a task and numbers of tasks, the result's sizes and strides, the geometry of patches, and working memory, in bytes.
CONSTANTS = tuple(
    """
    rows columns k depth tasks_rows tasks_columns task_rows task_columns block out_row scale_step
    out_d out_h out_w in_d in_h in_w image plane line pixel channels taps_d taps_h taps_w together
    stride_d stride_h stride_w padding_d padding_h padding_w dilation_d dilation_h dilation_w
    thread_bytes wide_place sums_place factors_place totals_place""".split()
)
OUT, X, WEIGHTS, SCALES, SUMS = range(5)  # buffers; behind them the bias and the weights' zero points, where there are any
#: Numbers of a call: scale and zero point of the activations (as unsigned bytes) and 1 / scale; of the result its scale, its zero
#: point, and the least and the greatest code (or number).
SCALARS = "fifffff"
CHUNK = 16  # bytes that are moved at once
SLACK = 64  # bytes behind the last row, where moves may write


class Form(NamedTuple):
    """How bytes are multiplied; rows to a tile; whether activations are "unsigned" or "signed" bytes, or "floats" to quantize;
    whether there is a bias, and whether weights have zero points; whether results are "codes", "floats", or the "sums".
    """

    how: str
    rows: int
    source: str
    bias: bool
    zeros: bool
    result: str


class Task:
    """Emits the work on a task, number `index` of the range."""

    def __init__(self, f: Kernel, form: Form, index: Value) -> None:
        self.f, self.form = f, form
        c = self.c = f.constants(CONSTANTS)
        self.lanes = vector_bytes() // 4
        group, rest = (
            index.unsigned_div(c["tasks_rows"] * c["tasks_columns"]),
            index.unsigned_rem(c["tasks_rows"] * c["tasks_columns"]),
        )
        self.i0 = rest.unsigned_div(c["tasks_columns"]) * c["task_rows"]
        self.j0 = rest.unsigned_rem(c["tasks_columns"]) * c["task_columns"]
        self.down = f.minimum(c["task_rows"], c["rows"] - self.i0)
        self.across = f.minimum(c["task_columns"], c["columns"] - self.j0)
        self.first = group * c["columns"] + self.j0  # of the columns of all groups
        self.group = group
        memory = f.at("i8", f.scratch(f.i64(0)), f["thread"] * c["thread_bytes"])
        self.a = memory
        self.wide = f.at("i8", memory, c["wide_place"])
        self.sums = f.at("i8", memory, c["sums_place"])
        self.factors = f.at("i8", memory, c["factors_place"])
        self.totals = f.at("i8", memory, c["totals_place"])
        scalars = BUFFER_WORDS + len(_buffers(form))
        names = ("scale", "zero", "inverse", "out_scale", "out_zero", "low", "high")
        words = {name: f.parameter(scalars + i) for i, name in enumerate(names)}
        self.zero = words.pop("zero")
        self.number = {name: f.convert(f.convert(word, "double", "bitcast"), "float", "fptrunc") for name, word in words.items()}

    def emit(self) -> None:
        f, c, form = self.f, self.c, self.form
        self._rows()
        self._widen()
        if form.result != "sums":
            self.factors_of_columns()
        width = dots.columns(form.how)
        before = self.group * f.ceiling_division(c["columns"], width) * width + self.j0  # columns, and those that fill blocks
        weights = f.at("i8", f.buffer(WEIGHTS), before * c["depth"])
        with f.loop(0, self.across, c["block"]) as block:
            columns = f.minimum(c["block"], self.across - block)
            with f.loop(0, self.down, form.rows) as i:
                last = f.minimum(self.down - i, form.rows) - 1
                with f.loop(0, columns, width) as j:
                    self._multiply(i, last, f.at("i8", weights, (block + j) * c["depth"]), f.at("i32", self.sums, j))
                with f.loop(0, last + 1) as row:
                    self.finish(block, i + row, f.at("i32", self.sums, row * c["block"]), columns)

    def _multiply(self, i: Value, last: Value, b: Value, sums: Value) -> None:
        f, c = self.f, self.c

        def call(name: str, rows: Value, item: str) -> None:
            a = f.at(item, rows, i * c["depth"])
            f.call("void", name, c["depth"], a, c["depth"], last, b, sums, c["block"], declare=False)

        if self.form.how != dots.PAIRS:
            call("dots", self.a, "i8")
        elif self.eight_bits is None:
            call("dots", self.wide, "i16")
        else:
            with f.branches(self.eight_bits) as otherwise:
                call("dots", self.wide, "i16")
                otherwise()
                call("quick_dots", self.a, "i8")

    def _widen(self) -> None:
        """Activations in 16 bits each, where they are multiplied as such: not if all are below 128 and that is quicker."""
        f, c, how = self.f, self.c, self.form.how
        self.eight_bits = None
        if how != dots.PAIRS:
            return
        count = self.down * c["depth"]
        if dots.quicker(how) is None:
            dots.widened(f, self.a, self.wide, count)
            return
        with f.loop(0, self.down) as i, f.loop(c["k"], c["depth"]) as at:
            f.store(f.value(0, "i8"), self.a, i * c["depth"] + at)
        self.eight_bits = self._any_above_127(count)
        with f.when(self.eight_bits):
            dots.widened(f, self.a, self.wide, count)

    def _any_above_127(self, count: Value) -> Value:
        """Whether one of so many activations has its eighth bit set."""
        f, size = self.f, vector_bytes()
        type = vector("i8", size)
        any_of, rest = f.variable(type), f.variable("i8", 0)
        any_of.set(0)
        whole = count & -size
        with f.loop(0, whole, size) as at:
            any_of.set(any_of.get() | f.load(type, self.a, at, align=1))
        with f.loop(whole, count) as at:
            rest.set(rest.get() | f.load("i8", self.a, at))
        any_of.set(any_of.get() | f.splat(rest.get(), size))
        signs = f.emit(vector("i1", size), f"icmp slt {type} {any_of.get().name}, zeroinitializer")
        return f.convert(signs, f"i{size}", "bitcast").differs(0)

    # ---------------------------------------------------------------- activations

    def _rows(self) -> None:
        """The task's rows as unsigned bytes."""
        f, c, form = self.f, self.c, self.form
        place = Odometer(f, [f.i64(1 << 62), c["out_d"], c["out_h"], c["out_w"]], self.i0)
        with f.loop(0, self.down) as i:
            goal = f.at("i8", self.a, i * c["depth"])
            if form.source == "floats":
                self._quantized(f.at("float", f.buffer(X), (self.i0 + i) * c["pixel"]), goal)
            else:
                self._patch(place.read(), goal)
            if form.zeros:
                total = f.variable("i32", 0)
                with f.loop(0, c["k"]) as at:
                    total.add(f.convert(f.load("i8", goal, at), "i32", "sext" if form.how == dots.SIGNED else "zext"))
                f.store(total.get(), f.at("i32", self.totals, i))
            place.advance()

    def _quantized(self, source: Value, goal: Value) -> None:
        """Numbers, rounded to integers and held to their range."""
        f, c, lanes = self.f, self.c, self.lanes
        wide = vector("float", lanes)
        inverse, zero, high = (
            f.splat(value, lanes)
            for value in (self.number["inverse"], f.convert(self.zero, "float", "sitofp"), self.number["high"])
        )

        def codes(x: Value) -> Value:
            steps = _round(f, f.fma(x, inverse, zero))
            held = f.select(steps <= 0.0, f.value(0.0, wide), f.select(steps < high, steps, high))
            return f.convert(self._stored(f.convert(held, vector("i32", lanes), "fptosi")), vector("i8", lanes), "trunc")

        whole = c["k"] & -lanes
        with f.loop(0, whole, lanes) as at:
            f.store(codes(f.load(wide, source, at, align=4)), goal, at, align=1)
        with f.loop(whole, c["k"], lanes) as at:
            f.store(codes(f.masked_load(wide, f.at("float", source, at), f.mask(c["k"] - at, lanes), 4)), goal, at, align=1)

    def _stored(self, value: Value) -> Value:
        """An unsigned byte as tiles read it."""
        return value ^ 128 if self.form.how == dots.SIGNED else value

    def _patch(self, place: list[Value], goal: Value) -> None:
        """What one row of the result is made of."""
        f, c = self.f, self.c
        image, d, h, w = place
        source = f.at("i8", f.buffer(X), image * c["image"] + self.group * c["channels"])
        at = f.variable("i64", 0)
        line = c["taps_w"] * c["channels"]
        first_w = w * c["stride_w"] - c["padding_w"]
        with f.loop(0, c["taps_d"]) as tap_d, f.loop(0, c["taps_h"]) as tap_h:
            z = d * c["stride_d"] - c["padding_d"] + tap_d * c["dilation_d"]
            y = h * c["stride_h"] - c["padding_h"] + tap_h * c["dilation_h"]
            inside = f.emit("i1", f"and i1 {z.unsigned_below(c['in_d']).name}, {y.unsigned_below(c['in_h']).name}")
            with f.branches(inside) as otherwise:
                row = f.at("i8", source, z * c["plane"] + y * c["line"])
                with f.loop(0, c["taps_w"], c["together"]) as tap_w:
                    x = first_w + tap_w * c["dilation_w"]
                    many = c["together"]
                    whole = (c["in_w"] >= many) & x.unsigned_below(c["in_w"] - many + 1)
                    with f.branches(whole) as partly:
                        self._copy(f.at("i8", row, x * c["pixel"]), goal, at, many * c["channels"])
                        partly()
                        left = f.minimum(f.maximum(f.i64(0) - x, 0), many)
                        right = f.maximum(f.minimum(c["in_w"] - x, many), left)
                        self._fill(goal, at, left * c["channels"])
                        self._copy(f.at("i8", row, (x + left) * c["pixel"]), goal, at, (right - left) * c["channels"])
                        self._fill(goal, at, (many - right) * c["channels"])
                otherwise()
                self._fill(goal, at, line)

    def _fill(self, goal: Value, at: object, count: Value) -> None:
        """`count` zero points, and perhaps more behind them."""
        f = self.f
        zeros = f.splat(f.convert(self._stored(self.zero), "i8", "trunc"), CHUNK)
        with f.loop(0, count, CHUNK) as more:
            f.store(zeros, goal, at.get() + more, align=1)  # type: ignore[attr-defined]
        at.add(count)  # type: ignore[attr-defined]

    def _copy(self, source: Value, goal: Value, at: object, count: Value) -> None:
        """`count` bytes, none of which is read past the last."""
        f = self.f
        to = f.at("i8", goal, at.get())  # type: ignore[attr-defined]
        flips = (self.form.source == "signed") != (self.form.how == dots.SIGNED)

        def move(place: Value, size: int) -> None:
            type = vector("i8", size) if size > 1 else "i8"
            value = f.load(type, source, place, align=1)
            f.store(value ^ -128 if flips else value, to, place, align=1)

        with f.branches(count < CHUNK) as otherwise:
            done = f.variable("i64", 0)
            for size in (8, 4):
                with f.when(done.get() + size <= count):
                    move(done.get(), size)
                    done.add(size)
            with f.loop(done.get(), count) as place:
                move(place, 1)
            otherwise()
            with f.loop(0, count - CHUNK, CHUNK) as place:
                move(place, CHUNK)
            move(count - CHUNK, CHUNK)
        at.add(count)  # type: ignore[attr-defined]

    # ---------------------------------------------------------------- results

    def factors_of_columns(self) -> None:
        """What sums of the task's columns are multiplied by, and what is added before that (or after it, for floats)."""
        f, c, form, lanes = self.f, self.c, self.form, self.lanes
        wide = vector("float", lanes)
        with f.loop(0, self.across, lanes) as j:
            mask = f.mask(self.across - j, lanes)

            def column(type: str, slot: int, mask: Value = mask, j: Value = j) -> Value:
                element = type[type.index("x") + 2 : -1]
                return f.masked_load(type, f.at(element, f.buffer(slot), self.first + j), mask, 4)

            single = f.splat(c["scale_step"].equals(0), lanes)
            one = f.splat(f.load("float", f.buffer(SCALES)), lanes)
            scales = f.select(single, one, column(wide, SCALES))
            units = scales.exact_mul(f.splat(self.number["scale"], lanes))
            codes = form.result == "codes"
            f.store(units / f.splat(self.number["out_scale"], lanes) if codes else units, self.factors, j * 3, align=4)
            if form.bias:
                bias = column(wide, SUMS + 1)
                if codes:  # where all columns have one scale PyTorch multiplies by its reciprocal
                    bias = f.select(single, bias.exact_mul(f.value(1.0, wide) / units), bias / units)
                f.store(bias, self.factors, j * 3 + lanes, align=4)
            zero = self.zero - 128 if form.how == dots.SIGNED else self.zero
            less = column(vector("i32", lanes), SUMS) * f.splat(f.convert(zero, "i32", "trunc"), lanes)
            f.store(less, self.factors, j * 3 + 2 * lanes, align=4)

    def finish(self, block: Value, row: Value, sums: Value, columns: Value) -> None:
        """A row of sums into the result."""
        f, c, form, lanes = self.f, self.c, self.form, self.lanes
        item = {"codes": "i8", "floats": "float", "sums": "i32"}[form.result]
        goal = f.at(item, f.buffer(OUT), (self.i0 + row) * c["out_row"] + self.first + block)
        whole = columns & -lanes
        total = f.load("i32", f.at("i32", self.totals, row)) if form.zeros else None
        with f.loop(0, whole, lanes) as j:
            f.store(self._finished(sums, block, j, total), goal, j, align=1)
        with f.when(whole < columns):
            rest = f.stack(item, lanes, align=64)
            f.store(self._finished(sums, block, whole, total), rest, align=1)
            with f.loop(whole, columns) as j:
                f.store(f.load(item, rest, j - whole), goal, j)

    def _finished(self, sums: Value, block: Value, j: Value, total: Value | None) -> Value:
        f, form, lanes = self.f, self.form, self.lanes
        wide, integers = vector("float", lanes), vector("i32", lanes)
        value = f.load(integers, sums, j, align=4)
        if form.result == "sums":
            return value
        at = (block + j) * 3
        value = value - f.load(integers, self.factors, at + 2 * lanes, align=4)
        if total is not None:
            place = f.at("i32", f.buffer(SUMS + 1 + form.bias), self.first + block + j)
            zeros = f.masked_load(integers, place, f.mask(self.across - block - j, lanes), 4)
            value = value - zeros * f.splat(total, lanes)
        number = f.convert(value, wide, "sitofp")
        factor = f.load(wide, self.factors, at, align=4)
        added = f.load(wide, self.factors, at + lanes, align=4) if form.bias else None
        low, high, zero = (f.splat(self.number[name], lanes) for name in ("low", "high", "out_zero"))
        if form.result == "floats":
            made = number.exact_mul(factor) if added is None else f.fma(number, factor, added)
            return f.select(made < low, low, made)
        made = (number if added is None else number + added).exact_mul(factor)
        steps = f.select(made < 2.0**31, _round(f, made) + zero, low)  # a NaN, and what is no int32, counts as the least
        steps = f.select(low < steps, steps, low)
        held = f.select(steps < high, steps, high)
        return f.convert(f.convert(held, integers, "fptosi"), vector("i8", lanes), "trunc")


def _buffers(form: Form) -> tuple[str, ...]:
    return ("out", "x", "weights", "scales", "sums", *(("bias",) if form.bias else ()), *(("zeros",) if form.zeros else ()))


def _round(f: Kernel, value: Value) -> Value:
    return f.call(value.type, f"llvm.rint.{suffix(value.type)}", value)


@compiled(LIGHT)
def product_kernel(form: Form) -> str:
    """The range is tasks; its constants are CONSTANTS."""
    f = Kernel()
    with f.loop(f["begin"], f["end"]) as index:
        Task(f, form, index).emit()
    quick = dots.quicker(form.how)
    more = [dots.tile(quick, form.rows, "quick_dots")] if quick else []
    return module(dots.tile(form.how, form.rows), *more, f)
