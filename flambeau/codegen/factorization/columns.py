"""Matrices in columns, as LAPACK keeps them: elements of a real or complex field, vectors of them along a column, and the update
C -= A B that blocked factorizations spend their time in.

A complex element lies as its two parts, so that a vector holds half as many; times a complex scalar it takes two fused products,
of the vector and of the vector turned by i. Factorizations (lu.py, cholesky.py, householder.py) work on a copy in scratch memory
whose columns are padded with zeros to whole vectors: no access is masked, and rows that must stay are put back by `kept`.
Stands on kernel.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import NamedTuple

from flambeau.codegen.builder import Value
from flambeau.codegen.cpu import vector_bytes
from flambeau.codegen.kernel import BYTES, Kernel, suffix, vector
from flambeau.codegen.runtime.threads import planned_threads

PIVOT_ERROR = 1  # error word: a row exchange names a row that isn't there
MOST_DEPTH = 64  # columns of A in one update: what of it is copied together stays in the first-level cache
Scalar = tuple[Value, ...]  # the parts of one element


class Field(NamedTuple):
    """What the elements of a matrix are."""

    real: str  # LLVM's type of a part
    complex: bool

    @property
    def parts(self) -> int:
        return 2 if self.complex else 1

    @property
    def bytes(self) -> int:
        return BYTES[self.real] * self.parts

    @property
    def width(self) -> int:
        """Parts in a vector."""
        return vector_bytes() // BYTES[self.real]

    @property
    def lanes(self) -> int:
        """Elements in a vector."""
        return self.width // self.parts

    @property
    def vector(self) -> str:
        return vector(self.real, self.width)

    @property
    def smallest(self) -> float:
        """The least number whose reciprocal is finite."""
        return 2.0**-126 if self.real == "float" else 2.0**-1022

    # ---- memory
    def at(self, f: Kernel, pointer: Value, index: Value | int) -> Value:
        """Address of element `index`."""
        return f.at(self.real if not self.complex else vector(self.real, 2), pointer, index)

    def load(self, f: Kernel, pointer: Value, index: Value | int = 0) -> Value:
        """The vector from element `index` on."""
        return f.load(self.vector, self.at(f, pointer, index), align=BYTES[self.real])

    def store(self, f: Kernel, value: Value, pointer: Value, index: Value | int = 0) -> None:
        f.store(value, self.at(f, pointer, index), align=BYTES[self.real])

    def element(self, f: Kernel, pointer: Value, index: Value | int = 0) -> Scalar:
        """Element `index`."""
        place = self.at(f, pointer, index)
        return tuple(f.load(self.real, place, part) for part in range(self.parts))

    def put(self, f: Kernel, value: Scalar, pointer: Value, index: Value | int = 0) -> None:
        place = self.at(f, pointer, index)
        for part, x in enumerate(value):
            f.store(x, place, part)

    @property
    def whole(self) -> str:
        """A type to move an element by."""
        return {4: "i32", 8: "i64", 16: "<2 x i64>"}[self.bytes]

    def move(self, f: Kernel, source: Value, target: Value) -> None:
        f.store(f.load(self.whole, source, align=BYTES[self.real]), target, align=BYTES[self.real])

    # ---- scalars
    def number(self, f: Kernel, value: float) -> Scalar:
        return (f.value(value, self.real), *([f.value(0, self.real)] if self.complex else []))

    def product(self, f: Kernel, a: Scalar, b: Scalar) -> Scalar:
        if not self.complex:
            return (a[0] * b[0],)
        return a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]

    def conjugate(self, f: Kernel, a: Scalar) -> Scalar:
        return (a[0], -a[1]) if self.complex else a

    def negative(self, a: Scalar) -> Scalar:
        return tuple(-x for x in a)

    def nonzero(self, f: Kernel, a: Scalar) -> Value:
        """Whether a differs from zero; NaN does."""
        made = a[0].differs(0)
        return made | a[1].differs(0) if self.complex else made

    def inverse(self, f: Kernel, a: Scalar) -> Scalar:
        """1 / a; of complex numbers by Smith's method, which divides by the larger part first (Smith 1962)."""
        one = f.value(1, self.real)
        if not self.complex:
            return (one / a[0],)
        wide = absolute(f, a[1]) > absolute(f, a[0])
        large, small = f.select(wide, a[1], a[0]), f.select(wide, a[0], a[1])
        ratio = small / large
        scale = large + small * ratio
        first, second = one / scale, ratio / scale
        return f.select(wide, second, first), -f.select(wide, first, second)

    # ---- vectors
    def spread(self, f: Kernel, a: Scalar) -> Scalar:
        """Vectors whose elements are each a part of a."""
        return tuple(f.splat(x, self.width) for x in a)

    def turned(self, f: Kernel, x: Value) -> Value:
        """i x."""
        swapped = f.shuffle(x, x, [i ^ 1 for i in range(self.width)])
        signs = ", ".join(f"{self.real} {'-1.0' if i % 2 == 0 else '1.0'}" for i in range(self.width))
        return swapped * Value(f, self.vector, f"<{signs}>")

    def times(self, f: Kernel, x: Value, a: Scalar) -> Value:
        """x a, where a is spread."""
        return x * a[0] if not self.complex else f.fma(self.turned(f, x), a[1], x * a[0])

    def less(self, f: Kernel, y: Value, x: Value, a: Scalar) -> Value:
        """y - x a, where a is spread."""
        y = f.fma(-x, a[0], y)
        return f.fma(-self.turned(f, x), a[1], y) if self.complex else y

    def more(self, f: Kernel, y: Value, x: Value, a: Scalar) -> Value:
        """y + x a, where a is spread."""
        y = f.fma(x, a[0], y)
        return f.fma(self.turned(f, x), a[1], y) if self.complex else y

    def rows(self, f: Kernel, condition: str, bound: Value) -> Value:
        """A mask of the elements whose place in the vector is `condition` ("sgt", "sge", "slt") `bound`."""
        steps = ", ".join(f"i32 {i // self.parts}" for i in range(self.width))
        narrow = f.splat(f.convert(bound, "i32", "trunc"), self.width)
        return f.emit(vector("i1", self.width), f"icmp {condition} <{self.width} x i32> <{steps}>, {narrow.name}")

    def sizes(self, f: Kernel, x: Value) -> Value:
        """|x|, or |re| + |im| in both parts."""
        x = absolute(f, x)
        return x + f.shuffle(x, x, [i ^ 1 for i in range(self.width)]) if self.complex else x


FIELDS = {
    "float32": Field("float", False),
    "float64": Field("double", False),
    "complex64": Field("float", True),
    "complex128": Field("double", True),
}


def absolute(f: Kernel, x: Value) -> Value:
    made = f.call(x.type, f"llvm.fabs.{suffix(x.type)}", x)
    assert made is not None
    return made


def root(f: Kernel, x: Value) -> Value:
    made = f.call(x.type, f"llvm.sqrt.{suffix(x.type)}", x)
    assert made is not None
    return made


def total(f: Kernel, x: Value) -> Value:
    """The sum of a vector's parts, in any order."""
    kind = x.type[1:-1].split(" x ")[1]
    made = f.call(kind, f"llvm.vector.reduce.fadd.{suffix(x.type)}", f.value(0, kind), x, fast="reassoc")
    assert made is not None
    return made


def helper(name: str, parameters: Sequence[str], pointers: Sequence[str]) -> Kernel:
    """A function of a kernel's module; parameters are 64-bit integers but for `pointers`."""
    return Kernel(name, [(n, "ptr" if n in pointers else "i64") for n in parameters], internal=True)


def floor_to(f: Kernel, x: Value, step: int) -> Value:
    """x rounded down to a multiple of a power of two."""
    return x & -step


def divide(f: Kernel, field: Field, column: Value, first: Value, rows: Value, divisor: Scalar) -> None:
    """Divide rows [first, rows) of a column by a number: times its reciprocal, as LAPACK does, where that is finite.

    rows: a multiple of a vector; the vector that row `first` is in may begin before it.
    """
    start = floor_to(f, first, field.lanes)
    below = field.rows(f, "sge", first - start)

    def each(change: Callable[[Value], Value]) -> None:
        head = field.load(f, column, start)
        field.store(f, f.select(below, change(head), head), column, start)
        with f.loop(start + field.lanes, rows, field.lanes) as i:
            field.store(f, change(field.load(f, column, i)), column, i)

    inverse = field.spread(f, field.inverse(f, divisor))
    with f.when(first < rows):
        if field.complex:
            each(lambda x: field.times(f, x, inverse))
            return
        with f.branches(absolute(f, divisor[0]) < field.smallest) as otherwise:
            wide = f.splat(divisor[0], field.width)
            each(lambda x: x / wide)
            otherwise()
            each(lambda x: x * inverse[0])


def depth_of(field: Field) -> int:
    """Columns that are factorized before the others take part: four vectors, at most MOST_DEPTH."""
    return min(MOST_DEPTH, 4 * field.lanes)


def tile_of(field: Field, narrow: bool) -> tuple[int, int]:
    """(vectors, columns) of a register tile of the update."""
    if vector_bytes() == 64:
        return (4, 1) if narrow else (2, 6)
    return (2, 1) if narrow else (1 if field.complex else 2, 4)


UPDATE = ("c", "c_column", "a", "a_column", "b", "b_row", "b_column", "rows", "columns", "depth", "sign")


@cache
def update_text(field: Field) -> Kernel:
    """void update(c, c_column, a, a_column, b, b_row, b_column, rows, columns, depth, sign): C -= A B.

    rows: a multiple of a vector, at least one; depth: at most MOST_DEPTH; sign: -1 takes the conjugate of B, 1 does not.
    Tiles past the edges repeat its last rows and columns.
    """
    f = helper("update", UPDATE, "abc")
    vectors, columns = tile_of(field, False)
    lanes = field.lanes
    kept = f.stack(field.real, MOST_DEPTH * vectors * field.width, align=64)
    sign = f.splat(f.convert(f["sign"], field.real, "sitofp"), field.width) if field.complex else None
    with f.loop(0, f["rows"], vectors * lanes) as i:
        places = [i] + [f.minimum(i + v * lanes, f["rows"] - lanes) for v in range(1, vectors)]
        with f.loop(0, f["depth"]) as k:
            column = field.at(f, f["a"], k * f["a_column"])
            for v, place in enumerate(places):
                field.store(f, field.load(f, column, place), kept, (k * vectors + v) * lanes)
        with f.loop(0, f["columns"], columns) as j:
            last = f["columns"] - 1
            across = [f.minimum(j + c, last) for c in range(columns)]
            tile = [[[f.variable(field.vector, 0) for _ in range(field.parts)] for _ in range(vectors)] for _ in across]
            sources = [field.at(f, f["b"], c * f["b_column"]) for c in across]
            with f.loop(0, f["depth"]) as k:
                left = [field.load(f, kept, (k * vectors + v) * lanes) for v in range(vectors)]
                down = k * f["b_row"]
                for source, cells in zip(sources, tile):
                    factor = field.spread(f, field.element(f, source, down))
                    for x, cell in zip(left, cells):
                        for part, sum in zip(factor, cell):
                            sum.set(f.fma(x, part, sum.get()))
            _take_off(f, field, tile, [field.at(f, f["c"], c * f["c_column"]) for c in across], places, sign)
    return f


def _take_off(f: Kernel, field: Field, tile: list, columns: list[Value], places: list[Value], sign: Value | None) -> None:
    """Subtract a tile from C; all of it is read before any is written, since edges repeat."""
    made = []
    for column, cells in zip(columns, tile):
        for place, cell in zip(places, cells):
            value = field.load(f, column, place) - cell[0].get()
            if sign is not None:
                value = f.fma(-field.turned(f, cell[1].get()), sign, value)
            made.append((value, column, place))
    for value, column, place in made:
        field.store(f, value, column, place)


def call_update(f: Kernel, *arguments: Value | int) -> None:
    """Call `update` with its parameters in order; sign may be left out."""
    values = [x if isinstance(x, Value) else f.i64(x) for x in (*arguments, *([1] if len(arguments) < len(UPDATE) else []))]
    f.call("void", "update", *values, declare=False)


# ---------------------------------------------------------------- between tensors and scratch memory

COPY = ("from", "from_row", "from_column", "to", "to_row", "to_column", "rows", "columns")
STRIP = 16  # columns that are copied together: so many rows or columns of one cache line


@cache
def copy_text(field: Field) -> Kernel:
    """void copy(from, from_row, from_column, to, to_row, to_column, rows, columns): a matrix from strides to strides."""
    f = helper("copy", COPY, ("from", "to"))

    def element(i: Value, j: Value) -> None:
        field.move(
            f,
            field.at(f, f["from"], i * f["from_row"] + j * f["from_column"]),
            field.at(f, f["to"], i * f["to_row"] + j * f["to_column"]),
        )

    with f.branches(f["from_row"].equals(1) & f["to_row"].equals(1)) as otherwise:
        whole = floor_to(f, f["rows"], field.lanes)
        rest = f.mask((f["rows"] - whole) * field.parts, field.width)
        with f.loop(0, f["columns"]) as j:
            source, target = field.at(f, f["from"], j * f["from_column"]), field.at(f, f["to"], j * f["to_column"])
            with f.loop(0, whole, field.lanes) as i:
                field.store(f, field.load(f, source, i), target, i)
            with f.when(whole < f["rows"]):
                f.masked_store(f.masked_load(field.vector, field.at(f, source, whole), rest), field.at(f, target, whole), rest)
        otherwise()
        with f.loop(0, f["columns"], STRIP) as first:
            last = f.minimum(first + STRIP, f["columns"])
            with f.loop(0, f["rows"]) as i, f.loop(first, last) as j:
                element(i, j)
    return f


@cache
def clear_text(field: Field) -> Kernel:
    """void clear(matrix, column, first, last, columns): zeros in rows [first, last) of columns as far apart as `column`."""
    f = helper("clear", ("matrix", "column", "first", "last", "columns"), ("matrix",))
    zero = f.value(0, field.vector)
    with f.loop(f["first"], f["last"], field.lanes) as i:
        inside = f.mask((f["last"] - i) * field.parts, field.width)
        with f.loop(0, f["columns"]) as j:
            f.masked_store(zero, field.at(f, f["matrix"], j * f["column"] + i), inside)
    return f


def call(f: Kernel, name: str, *arguments: Value | int) -> None:
    """Call a helper of the same module."""
    f.call("void", name, *(x if isinstance(x, Value) else f.i64(x) for x in arguments), declare=False)


def places(total: int, grain: int) -> int:
    """How many threads' working memory a phase takes: any thread may run any of its chunks, even if there are fewer of those."""
    return 1 if total <= grain else planned_threads()


def padded(rows: int, field: Field) -> int:
    """Elements from one column to the next in scratch memory: whole vectors, and not so many that columns lie a power of
    two apart, which share the sets of a cache."""
    vectors = -(-max(rows, 1) // field.lanes)
    return (vectors + (vectors % 8 == 0)) * field.lanes
