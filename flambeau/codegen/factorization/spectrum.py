"""What the kernels for eigenvalues and singular values share: the parts of a matrix's scratch memory, its scaling, the state of
an iteration that is logged, and its values in order. Stands on columns.py and rotations.py; used by eigh.py and svd.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from flambeau.codegen.builder import Value
from flambeau.codegen.factorization.columns import Field, absolute, call, floor_to, helper
from flambeau.codegen.factorization.householder import block_of
from flambeau.codegen.factorization.iteration import STATE
from flambeau.codegen.factorization.rotations import insert_in_order
from flambeau.codegen.kernel import Kernel, suffix

MILD = 60  # the exponent from which a matrix is scaled
LINE = 64
WORDS = (*STATE, "scale", "made", "made_before")


def laid_out(sizes: dict[str, int]) -> tuple[dict[str, int], int]:
    """(where each part begins, all of it) in bytes, in lines of the cache; a line in front of each part is spare."""
    places, at = {}, 0
    for name, size in sizes.items():
        places[name] = at + LINE
        at += LINE + -(-size // LINE) * LINE
    return places, at


def full_sweeps(n: int) -> int:
    """Full sweeps that a log has room for."""
    return min(64, max(8, n // 8))


@cache
def largest_text(field: Field) -> Kernel:
    """double largest(matrix, ld, rows, columns, slope): the largest part, from row j of column j on if `slope` is 1; NaN if one
    is NaN."""
    f = helper("largest", ("matrix", "ld", "rows", "columns", "slope"), ("matrix",))
    f.result = "double"
    best, strange = (f.variable(field.vector, 0) for _ in range(2))

    def look(x: Value) -> None:
        size = absolute(f, x)
        best.set(f.select(best.get() > size, best.get(), size))
        strange.set(f.select(size.differs(size), size, strange.get()))

    with f.loop(0, f["columns"]) as j:
        column, first = field.at(f, f["matrix"], j * f["ld"]), j * f["slope"]
        start = floor_to(f, first, field.lanes)
        look(f.select(field.rows(f, "sge", first - start), field.load(f, column, start), 0))
        with f.loop(start + field.lanes, f["rows"], field.lanes) as i:
            look(field.load(f, column, i))
    most = f.call(field.real, f"llvm.vector.reduce.fmax.{suffix(field.vector)}", best.get())
    none = f.call(
        field.real, f"llvm.vector.reduce.fadd.{suffix(field.vector)}", f.value(0, field.real), strange.get(), fast="reassoc"
    )
    f.ret(as_double(f, most + none))
    return f


def as_double(f: Kernel, x: Value) -> Value:
    return x if x.type == "double" else f.convert(x, "double", "fpext")


def as_real(f: Kernel, field: Field, x: Value) -> Value:
    return x if field.real == "double" else f.convert(x, "float", "fptrunc")


class Spectral:
    """One matrix of a kernel's range and the parts of its scratch memory; c: the plan's constants, which `shape` names."""

    def __init__(self, f: Kernel, field: Field, batch: Value, place: Value, shape: Sequence[str], parts: Sequence[str]):
        self.f, self.field, self.batch = f, field, batch
        self.c = f.constants(shape)
        base = f.at("i8", f.pointer(f.parameter(1)), place * self.c["size"])
        self.parts = {name: f.at("i8", base, self.c[name]) for name in parts}

    def __getitem__(self, name: str) -> Value:
        return self.parts[name]

    def word(self, name: str) -> Value:
        """The place of a word of the state."""
        return self.f.at("i64", self["state"], WORDS.index(name))

    def turn(self, part: str, turn: Value | int) -> Value:
        """One of the two logs, or of their heads; a constant tells how far they are apart."""
        return self.f.at("i8", self[part], (self.f.i64(turn) & 1) * self.c["heads_size" if part == "heads" else "log_size"])

    def whole(self, count: Value) -> Value:
        """Rounded up to whole vectors."""
        return floor_to(self.f, count + (self.field.lanes - 1), self.field.lanes)

    def copy_in(self, first: Value | int, columns: Value, rows: Value) -> None:
        """Copy columns from the source, `rows` elements each."""
        f, c, field = self.f, self.c, self.field
        source = field.at(f, f.slot(c["source"]), self.batch * c["source_batch"] + f.i64(first) * c["source_column"])
        target = field.at(f, self["matrix"], f.i64(first) * c["ld"])
        call(f, "copy", source, c["source_row"], c["source_column"], target, 1, c["ld"], rows, columns)
        call(f, "clear", target, c["ld"], rows, self.whole(rows), columns)

    def begin_scaled(self, rows: Value, columns: Value, slope: int, negligible: float) -> Value:
        """Scale the matrix by a power of two if it has to be, and begin the iteration's state; gives the size of the largest part
        as it was. A matrix that holds NaN or infinities becomes NaN. negligible: couplings, in units of that size."""
        f, field = self.f, self.field
        ld = self.c["ld"]
        most = f.call("double", "largest", self["matrix"], ld, rows, columns, f.i64(slope), declare=False)
        assert most is not None
        exponent = ((f.convert(most, "i64", "bitcast") >> 52) & 2047) - 1023
        limit = 120 if field.real == "float" else 1000
        exponent = f.maximum(f.minimum(exponent, limit), -limit)
        exponent = f.select((exponent > MILD) | (exponent < -MILD), exponent, f.i64(0))
        factor = f.convert((1023 - exponent) << 52, "double", "bitcast")
        factor = f.select(most < float("inf"), factor, f.value(float("nan"), "double"))
        with f.when(factor.differs(1)):
            wide = f.splat(as_real(f, field, factor), field.width)
            with f.loop(0, columns) as j:
                column = field.at(f, self["matrix"], j * ld)
                with f.loop(floor_to(f, j * slope, field.lanes), rows, field.lanes) as i:
                    field.store(f, field.load(f, column, i) * wide, column, i)
        values = {"first": 0, "end": -1, "step": -1, "sweeps": 0, "failed": 0, "made": 0, "made_before": 0}
        for name, value in values.items():
            f.store(f.i64(value), self.word(name))
        f.store(most * factor * negligible, self.word("cutoff"))
        f.store((exponent + 1023) << 52, self.word("scale"))
        return most

    def triangle(self, part: str, first: Value) -> Value:
        """-T of the block of reflectors that begins at `first`."""
        size = block_of(self.field)
        return self.field.at(self.f, self[part], first.unsigned_div(self.f.i64(size)) * (2 * size * size))

    def make_triangle(self, part: str, v: str, tau: str, ld: Value, rows: Value, first: Value, total: Value) -> None:
        """The triangle of the block of reflectors from `first` on, of `total` in all."""
        f = self.f
        with f.when(first < total):
            call(
                f,
                "triangle",
                self.triangle(part, first),
                self[v],
                ld,
                self[tau],
                rows,
                first,
                f.minimum(total - first, block_of(self.field)),
            )

    def identity(self, part: str, ld: Value, rows: Value, first: Value | int, last: Value) -> None:
        """Columns [first, last) of the identity."""
        f, field = self.f, self.field
        call(f, "clear", field.at(f, self[part], f.i64(first) * ld), ld, 0, rows, last - first)
        one = field.number(f, 1)
        with f.loop(first, last) as j:
            field.put(f, one, self[part], j * ld + j)

    def multiply(
        self, part: str, triangles: str, v: str, ld: Value, rows: Value, total: Value, first: Value | int, last: Value
    ) -> None:
        """The product of `total` reflectors times columns [first, last) of the identity, from the last block to the first."""
        f, field = self.f, self.field
        block = block_of(field)
        panels = f.ceiling_division(total, block)
        with f.loop(0, panels) as step:
            k = (panels - 1 - step) * block
            start = f.minimum(f.maximum(f.i64(first), k), last)  # columns in front have zeros in those rows
            call(
                f,
                "reflect",
                field.at(f, self[part], start * ld + k),
                ld,
                field.at(f, self[v], k * ld + k),
                ld,
                self.triangle(triangles, k),
                rows - k,
                f.minimum(total - k, block),
                last - start,
            )

    def multiply_singly(
        self, part: str, v: str, tau: str, ld: Value, rows: Value, total: Value, columns: Value, ahead: int
    ) -> None:
        """The same for all columns, reflector by reflector; ahead: how many rows behind its column one begins."""
        f, field = self.f, self.field
        with f.loop(0, total) as step:
            k = total - 1 - step + ahead
            call(
                f,
                "one",
                self[part],
                ld,
                field.at(f, self[v], ld * -ahead),
                field.at(f, self[tau], -ahead),
                rows,
                k,
                k,
                columns,
                1,
            )

    def rotate(self, part: str, ld: Value, log: str, turn: Value | int, sweeps: Value, first: Value | int, last: Value) -> None:
        """Apply sweeps to rows [first, last), counted in parts."""
        call(
            self.f,
            "rotate",
            self[part],
            ld * self.field.parts,
            first,
            last,
            self.turn(log, turn),
            self.turn("heads", turn),
            sweeps,
        )

    def give_in_order(self, slot: int, count: Value, descending: bool, info_slot: Value) -> None:
        """Sort the values and give them, and how many failed to converge."""
        f, field = self.f, self.field
        insert_in_order(f, self["d"], self["order"], count, descending)
        target = f.at(field.real, f.buffer(slot), self.batch * count)
        scale = f.load("double", self.word("scale"))
        with f.loop(0, count) as k:
            f.store(as_real(f, field, f.load("double", self["d"], k) * scale), target, k)
        f.store(f.convert(f.load("i64", self.word("failed")), "i32", "trunc"), f.at("i32", f.slot(info_slot), self.batch))
