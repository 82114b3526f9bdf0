"""The inner pieces of the contraction template: element kinds, register tiles, epilogues and vector helpers, as LLVM IR.

A register tile is `rows` x `vectors` accumulators; for each step along k it loads the vectors of B and broadcasts one element of
A per row, several steps to a turn of the loop. Stands on builder.py; gemm.py, pack.py and conv.py put loops around it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import NamedTuple

from flambeau.codegen.builder import KERNEL_PARAMETERS, Function, Value, module, scalar_type
from flambeau.codegen.cpu import features, matrix_unit, vector_bytes
from flambeau.codegen.jit import DIRECT, compile_kernel

MOST_ROWS = 14  # of any register tile
STEPS_TOGETHER, STEPS_IN_PLACE = 4, 2  # steps along k to a turn of a tile's loop, where both operands are packed or not
TILE_SIDE = 16  # rows of a matrix unit's tile, and pairs of bfloat16 in each
BYTES = {"float": 4, "double": 8, "half": 2, "i8": 1, "i16": 2, "i32": 4, "i64": 8}
_SUFFIX = {"float": "f32", "double": "f64", "half": "f16"}


def vector(element: str, lanes: int) -> str:
    return f"<{lanes} x {element}>"


def suffix(type: str) -> str:
    """How intrinsics spell a type."""
    if type[0] == "<":
        lanes, element = type[1:-1].split(" x ")
        return f"v{lanes}{_SUFFIX.get(element, element)}"
    return _SUFFIX.get(type, type)


class Kernel(Function):
    """A Function with vector helpers; `internal` helpers of a module are Kernels as well."""

    def __init__(
        self, name: str = "kernel", parameters: Sequence[tuple[str, str]] = KERNEL_PARAMETERS, internal: bool = False
    ):
        super().__init__(
            name,
            list(parameters),
            linkage="internal" if internal else "",
            attributes="noinline nounwind" if internal else "nounwind",
        )

    def shuffle(self, a: Value, b: Value, order: Sequence[int]) -> Value:
        mask = ", ".join(f"i32 {i}" for i in order)
        return self.emit(
            vector(scalar_type(a.type), len(order)),
            f"shufflevector {a.type} {a.name}, {b.type} {b.name}, <{len(order)} x i32> <{mask}>",
        )

    def mask(self, count: Value, lanes: int) -> Value:
        """Lane i is on where i < count."""
        narrow = self.minimum(self.maximum(count, 0), lanes)
        wide = self.splat(self.convert(narrow, "i32", "trunc"), lanes)
        steps = "<" + ", ".join(f"i32 {i}" for i in range(lanes)) + ">"
        return self.emit(vector("i1", lanes), f"icmp slt <{lanes} x i32> {steps}, {wide.name}")

    def masked_load(self, type: str, pointer: Value, mask: Value, align: int = 1) -> Value:
        name = f"llvm.masked.load.{suffix(type)}.p0"
        self.declarations.add(f"declare {type} @{name}(ptr, i32, {mask.type}, {type})")
        return self.emit(
            type,
            f"call {type} @{name}(ptr {pointer.name}, i32 {align}, {mask.type} {mask.name}, {type} zeroinitializer)",
        )

    def masked_store(self, value: Value, pointer: Value, mask: Value, align: int = 1) -> None:
        name = f"llvm.masked.store.{suffix(value.type)}.p0"
        self.declarations.add(f"declare void @{name}({value.type}, ptr, i32, {mask.type})")
        self.line(
            f"call void @{name}({value.type} {value.name}, ptr {pointer.name}, i32 {align}, {mask.type} {mask.name})"
        )

    def ceiling_division(self, a: Value, b: Value | int) -> Value:
        b = self.i64(b)
        return (a + b - 1).unsigned_div(b)

    def constants(self, names: Sequence[str]) -> dict[str, Value]:
        """The phase's constants by name, in the order in which the plan lists them."""
        block = self.load("ptr", self["p"])
        return {name: self.load("i64", block, i) for i, name in enumerate(names)}

    def slot(self, index: Value) -> Value:
        """Address of the buffer whose number is a value."""
        return self.pointer(self.load("i64", self["p"], index + 4))

    def scratch(self, offset: Value) -> Value:
        return self.at("i8", self.load("ptr", self["p"], 1), offset)


class Kind(NamedTuple):
    """How elements of a dtype are stored, and in what they are multiplied and added."""

    name: str
    storage: str
    compute: str
    pair: bool = False  # two k steps per lane (bfloat16 dot products)
    tiles: bool = False  # pairs multiplied by the processor's matrix unit, 16 rows and columns at a time

    @property
    def lanes(self) -> int:
        return vector_bytes() // BYTES[self.compute]

    @property
    def accumulator(self) -> str:
        return vector(self.compute, self.lanes)

    @property
    def item(self) -> str:
        """Element type of packed panels."""
        return "i32" if self.pair else self.compute

    @property
    def floating(self) -> bool:
        return self.compute in ("float", "double")


_KINDS = {
    "float32": Kind("float32", "float", "float"),
    "float64": Kind("float64", "double", "double"),
    "float16": Kind("float16", "half", "float"),
    "bfloat16": Kind("bfloat16", "i16", "float"),
    "int8": Kind("int8", "i8", "i32"),
    "uint8": Kind("uint8", "i8", "i32"),
    "int16": Kind("int16", "i16", "i32"),
    "int32": Kind("int32", "i32", "i32"),
    "int64": Kind("int64", "i64", "i64"),
}


def kind_of(dtype: object) -> Kind:
    """The Kind of a dtype (an object with a name, or the name)."""
    name = getattr(dtype, "name", dtype)
    if name not in _KINDS:
        raise NotImplementedError(f"contractions of dtype {name} are not supported; convert the operands first")
    return _KINDS[name]


def paired(kind: Kind) -> Kind:
    """The same kind, packed for the CPU's matrix unit or bfloat16 dot products where it has them."""
    if kind.name != "bfloat16" or vector_bytes() < 64:
        return kind
    tiles = matrix_unit()
    return kind._replace(pair=tiles or "avx512_bf16" in features(), tiles=tiles)


def widen(f: Kernel, kind: Kind, value: Value) -> Value:
    """A stored scalar or vector as the compute type."""
    if kind.storage == kind.compute:
        return value
    lanes = int(value.type[1:].split(" ")[0]) if value.type[0] == "<" else 0
    wide = vector(kind.compute, lanes) if lanes else kind.compute
    if kind.name == "bfloat16":
        bits = vector("i32", lanes) if lanes else "i32"
        return f.convert(f.convert(value, bits, "zext") << 16, wide, "bitcast")
    return f.convert(value, wide, "fpext" if kind.floating else "zext" if kind.name == "uint8" else "sext")


def narrow(f: Kernel, kind: Kind, value: Value) -> Value:
    """A computed vector rounded once to the stored type."""
    if kind.storage == kind.compute:
        return value
    lanes = int(value.type[1:].split(" ")[0]) if value.type[0] == "<" else 0
    shape = (lambda t: vector(t, lanes)) if lanes else (lambda t: t)
    if kind.name == "bfloat16":
        bits = f.convert(value, shape("i32"), "bitcast")
        rounded = (bits + ((bits >> 16) & 1) + 0x7FFF) >> 16
        ordered = f.emit(shape("i1"), f"fcmp ord {value.type} {value.name}, {value.name}")
        return f.convert(f.select(ordered, rounded, (bits >> 16) | 0x40), shape("i16"), "trunc")
    return f.convert(value, shape(kind.storage), "fptrunc" if kind.floating else "trunc")


def multiply_add(f: Kernel, kind: Kind, a: Value, b: Value, c: Value) -> Value:
    """c + a * b in the accumulator's type."""
    if kind.pair:
        halves = vector("bfloat", 2 * kind.lanes)
        return f.call(
            kind.accumulator,
            "llvm.x86.avx512bf16.dpbf16ps.512",
            c,
            f.convert(a, halves, "bitcast"),
            f.convert(b, halves, "bitcast"),
        )
    return f.fma(a, b, c) if kind.floating else a * b + c


def micro(kind: Kind, rows: int, vectors: int, height: int, a_packed: bool, b_packed: bool, counted: bool = False) -> Kernel:
    """void micro_rows(k, a, b, c, c_stride, first, a_row, a_step, b_step, columns): C tile (+)= A rows * B columns.

    Packed A has `height` elements per step, packed B one full tile row; otherwise strides (in stored elements) are arguments.
    C is of the compute type, complete vectors. counted: one more argument says how many of A's rows are there; beside packed B
    these have unit stride. Where B is not packed, it is read under a mask of `columns` lanes, and memory `ahead` is asked for,
    which is as B is: the last argument.
    """
    f = Kernel(
        f"micro_{rows}",
        [
            ("k", "i64"),
            ("a", "ptr"),
            ("b", "ptr"),
            ("c", "ptr"),
            ("c_stride", "i64"),
            ("first", "i64"),
            ("a_row", "i64"),
            ("a_step", "i64"),
            ("b_step", "i64"),
            ("columns", "i64"),
            *((("count", "i64"),) if counted else ()),
            *(() if b_packed else (("ahead", "ptr"),)),
        ],
    )
    lanes, accumulator, compute = kind.lanes, kind.accumulator, kind.compute
    a_item = kind.item if a_packed else kind.storage
    b_item = kind.item if b_packed else kind.storage
    unit = counted and b_packed
    tile = [[f.variable(accumulator, 0) for _ in range(vectors)] for _ in range(rows)]
    masks = [] if b_packed else [f.mask(f["columns"] - j * lanes, lanes) for j in range(vectors)]
    if counted:
        # past the last row the last one again
        bases = [f.at(a_item, f["a"], f["a_row"] * f.minimum(f["count"] - 1, i)) for i in range(rows)]
    else:
        # pointers three rows apart: the two rows between are reached by scaled addressing, which keeps registers free
        bases = [] if a_packed else [f.at(a_item, f["a"], f["a_row"] * i) for i in range(0, rows, 3)]

    def element(i: int, offset: Value) -> Value:
        """What A has in row i, `offset` on."""
        if counted:
            return widen(f, kind, f.load(a_item, f.at(a_item, bases[i], offset)))
        return widen(f, kind, f.load(a_item, f.at(a_item, f.at(a_item, bases[i // 3], offset), f["a_row"] * (i % 3))))

    def columns_of(p: Value, turn: int, panel: Value | None) -> list[Value]:
        if panel is not None:
            places = [(turn * vectors + j) * lanes for j in range(vectors)]
            return [f.load(vector(b_item, lanes), panel, place, align=vector_bytes()) for place in places]
        offset = (p + turn) * f["b_step"]
        row = f.at(b_item, f["b"], offset)
        f.fetch(f.at(b_item, f["ahead"], offset))
        loaded = (f.masked_load(vector(b_item, lanes), f.at(b_item, row, j * lanes), masks[j], BYTES[b_item])
                  for j in range(vectors))
        return [widen(f, kind, x) for x in loaded]

    def steps(begin: Value | int, end: Value, together: int) -> None:
        with f.loop(begin, end, together) as p:
            a_panel = f.at(a_item, f["a"], p * height) if a_packed else None
            b_panel = f.at(b_item, f["b"], p * (vectors * lanes)) if b_packed else None
            for turn in range(together):
                columns = columns_of(p, turn, b_panel)
                offset = p + turn if unit else (p + turn) * f["a_step"]
                for i, row in enumerate(tile):
                    one = element(i, offset) if a_panel is None else f.load(a_item, a_panel, turn * height + i)
                    broadcast = f.splat(one, lanes)
                    for j, cell in enumerate(row):
                        cell.set(multiply_add(f, kind, broadcast, columns[j], cell.get()))

    together = STEPS_TOGETHER if b_packed and (a_packed or unit) else STEPS_IN_PLACE
    whole = f["k"] & -together
    steps(0, whole, together)
    steps(whole, f["k"], 1)
    # what C holds is added at the end, so that the first steps need not wait for it
    c_rows = [f.at(compute, f["c"], f["c_stride"] * i) for i in range(rows)]
    with f.when(f["first"].equals(0)):
        for i, row in enumerate(tile):
            for j, cell in enumerate(row):
                cell.add(f.load(accumulator, c_rows[i], j * lanes, align=BYTES[compute]))
    for i, row in enumerate(tile):
        for j, cell in enumerate(row):
            f.store(cell.get(), c_rows[i], j * lanes, align=BYTES[compute])
    return f


@cache
def micro_address(kind: Kind, rows: int, vectors: int, a_packed: bool, b_packed: bool) -> int:
    """Address of the register tile of all heights up to `rows`."""
    made = micro(kind, rows, vectors, rows, a_packed, b_packed, not a_packed)
    return compile_kernel(module(made), made.name, DIRECT)


_tables: dict[tuple, ctypes.Array] = {}


def row_counts(rows: int, step: int) -> set[int]:
    """The heights of register tiles that cover `rows` rows in steps of `step`."""
    return {min(rows, step), rows % step or step} if rows else set()


def table_of(key: tuple, function: Callable[[int], Kernel], rows: Iterable[int]) -> int:
    """Address of an array, one per key, whose element r is the address of function(r); those of `rows` are there."""
    table = _tables.get(key)
    if table is None:
        table = _tables[key] = (ctypes.c_int64 * (MOST_ROWS + 1))()
    for r in rows:
        if not table[r]:
            made = function(r)
            table[r] = compile_kernel(module(made), made.name, DIRECT)
    return ctypes.addressof(table)


def micro_table(kind: Kind, vectors: int, height: int, a_packed: bool, b_packed: bool, rows: Iterable[int]) -> int:
    """The register tiles of the numbers of rows in `rows`, at most `height`, as a table for `call_tile`."""
    return table_of(
        ("micro", kind, vectors, height, a_packed, b_packed),
        lambda r: micro(kind, r, vectors, height, a_packed, b_packed),
        rows,
    )


def call_tile(f: Kernel, table: Value, rows: Value, *arguments: Value) -> None:
    """Call the register tile for `rows` rows."""
    f.call_pointer("void", f.load("ptr", f.pointer(table + rows * 8)), *arguments)


class Epilogue(NamedTuple):
    """What happens to a finished tile: activation(alpha * tile + beta * addend), stored in the output's dtype.

    addend: None, or its stride along n: "unit", "zero" (one value per row) or "any". activation: a key for the cache, and
    `apply(f, value) -> value` over a vector or a scalar of the compute type. columns: stride class of C along n.
    """

    columns: str = "unit"
    addend: str | None = None
    scaled: bool = False
    activation: str | None = None
    apply: Callable[[Kernel, Value], Value] | None = None

    @property
    def plain(self) -> bool:
        """Nothing but a copy: tiles may be accumulated in C itself."""
        return self.columns == "unit" and self.addend is None and not self.scaled and self.activation is None


def relu(f: Kernel, value: Value) -> Value:
    """max(value, 0), NaN kept."""
    if scalar_type(value.type) in ("float", "double"):
        keep = f.emit(
            "i1" if value.type[0] != "<" else value.type[: value.type.index("x") + 2] + "i1>",
            f"fcmp ugt {value.type} {value.name}, {f.value(0, value.type).name}",
        )
        return f.select(keep, value, 0)
    return f.maximum(value, 0)


def scalar_constant(f: Kernel, kind: Kind, bits: Value) -> Value:
    """alpha or beta from its word in the constants (the bits of a double, or an integer)."""
    if not kind.floating:
        return bits if kind.compute == "i64" else f.convert(bits, kind.compute, "trunc")
    wide = f.convert(bits, "double", "bitcast")
    return wide if kind.compute == "double" else f.convert(wide, "float", "fptrunc")


def epilogue(kind: Kind, out: Kind, spec: Epilogue, width: int, name: str = "finish") -> Kernel:
    """void finish(tile, rows, columns, c, c_row, c_column, d, d_row, d_column, alpha, beta): a tile `width` wide into C."""
    f = Kernel(
        name,
        [
            ("tile", "ptr"),
            ("rows", "i64"),
            ("columns", "i64"),
            ("c", "ptr"),
            ("c_row", "i64"),
            ("c_column", "i64"),
            ("d", "ptr"),
            ("d_row", "i64"),
            ("d_column", "i64"),
            ("alpha", "i64"),
            ("beta", "i64"),
        ],
        internal=True,
    )
    alpha, beta = (scalar_constant(f, kind, f[word]) for word in ("alpha", "beta"))

    # the processor's own rounding takes tiny numbers for zeros; its products of pairs have left none
    exact = kind.pair and out.name == "bfloat16" and spec.addend is None and not spec.scaled and spec.activation in (None, "relu")

    def quickly(value: Value) -> Value:
        rounded = f.call(vector("bfloat", kind.lanes), "llvm.x86.avx512bf16.cvtneps2bf16.512", value)
        return f.convert(rounded, vector(out.storage, kind.lanes), "bitcast")

    def finish(value: Value, addend: Value | None) -> Value:
        if spec.scaled:
            value = value * (f.splat(alpha, kind.lanes) if value.type[0] == "<" else alpha)
        if addend is not None:
            if spec.scaled:
                factor = f.splat(beta, kind.lanes) if value.type[0] == "<" else beta
                addend = f.select(factor.equals(0), 0, addend * factor) if kind.floating else addend * factor
            value = value + addend
        if spec.apply is not None:
            value = spec.apply(f, value)
        return quickly(value) if exact and value.type[0] == "<" else narrow(f, out, value)

    by_vector = spec.columns == "unit" and spec.addend != "any"
    if by_vector:
        masks = [f.mask(f["columns"] - j, kind.lanes) for j in range(0, width, kind.lanes)]
    with f.loop(0, f["rows"]) as i:
        tile, c = f.at(kind.compute, f["tile"], i * width), f.at(out.storage, f["c"], i * f["c_row"])
        d = None if spec.addend is None else f.at(out.storage, f["d"], i * f["d_row"])
        if by_vector:
            for j, mask in enumerate(masks):
                addend = None
                if spec.addend == "unit":
                    loaded = f.masked_load(vector(out.storage, kind.lanes), f.at(out.storage, d, j * kind.lanes), mask)
                    addend = widen(f, out, loaded)
                elif spec.addend == "zero":
                    addend = f.splat(widen(f, out, f.load(out.storage, d)), kind.lanes)
                value = finish(f.load(kind.accumulator, tile, j * kind.lanes, align=BYTES[kind.compute]), addend)
                f.masked_store(value, f.at(out.storage, c, j * kind.lanes), mask)
        else:
            with f.loop(0, f["columns"]) as j:
                addend = (
                    None if d is None else widen(f, out, f.load(out.storage, f.at(out.storage, d, j * f["d_column"])))
                )
                value = finish(f.load(kind.compute, tile, j), addend)
                f.store(value, f.at(out.storage, c, j * f["c_column"]))
    return f


def bits_of(value: float | int, kind: Kind) -> int:
    """alpha or beta as a word of the constants."""
    return ctypes.c_int64.from_buffer(ctypes.c_double(value)).value if kind.floating else int(value)


def transpose_tile(f: Kernel, item: str, tile: Value, lanes: int, column: Value) -> list[Value]:
    """Columns `column`, `column` + 1, ... (as many as 16 bytes hold) of a tile of `lanes` rows of `lanes` items.

    Pieces of rows are loaded side by side, so that all that is left are transpositions within 16 bytes: little code to compile.
    """
    count = 16 // BYTES[item]
    pieces = []
    for i in range(count):
        parts = [
            f.load(vector(item, count), tile, column + r * lanes, align=BYTES[item]) for r in range(i, lanes, count)
        ]
        while len(parts) > 1:
            size = 2 * int(parts[0].type[1:].split(" ")[0])
            parts = [f.shuffle(a, b, range(size)) for a, b in zip(parts[::2], parts[1::2], strict=True)]
        pieces.append(parts[0])
    distance = 1
    while distance < count:
        low: list[int] = []
        for start in range(0, lanes, count):
            for first in range(start, start + count // 2, distance):
                low += [source + first + e for source in (0, lanes) for e in range(distance)]
        high = [i + count // 2 for i in low]
        following = list(pieces)
        for i in range(count):
            if not i & distance:
                a, b = pieces[i], pieces[i + distance]
                following[i], following[i + distance] = f.shuffle(a, b, low), f.shuffle(a, b, high)
        pieces, distance = following, distance * 2
    return [pieces[i] for i in ((0, 2, 1, 3) if count == 4 else range(count))]
