"""Register tiles that multiply rows of activations with columns of weights in int32: some rows by two vectors of columns.

Weights lie in blocks of as many columns as a tile has, in each of which the bytes along k that are summed in one lane lie side by
side, column behind column. Activations are bytes without a sign, or with one where the processor multiplies such; as many of them
as a lane sums are read by all lanes at once. x86 without VNNI multiplies pairs of 16-bit integers: every second byte along k
with every second one, so that a shift widens weights, while activations are `widened` before. Where all of these are below 128 it
multiplies bytes, whose products fit into 16 bits by pairs. Stands on kernel.py and cpu.py; integer_products.py loops around it.
"""

from __future__ import annotations

from flambeau.codegen.builder import Value
from flambeau.codegen.cpu import ARM, features, vector_bytes
from flambeau.codegen.kernel import Kernel, vector

#: How bytes are multiplied: by VNNI, by ARM's signed dot products, as pairs of 16-bit integers by x86, or by anything.
VNNI, SIGNED, PAIRS, PLAIN = "vnni", "signed", "pairs", "plain"
CHANNELS = "channels"  # each channel by weights of its own, as depthwise.py does
SEVEN_BITS = "seven bits"  # by x86, of activations below 128
MOST_ROWS = 5  # with two vectors of columns: sums and operands stay in 16 registers
VECTORS = 2


def way() -> str:
    """The quickest way of this processor."""
    if ARM:
        return SIGNED if "asimddp" in features() else PLAIN
    return VNNI if ("avx512_vnni" if vector_bytes() == 64 else "avx_vnni") in features() and vector_bytes() > 16 else PAIRS


def quicker(how: str) -> str | None:
    """A quicker way for activations of 7 bits, if there is one."""
    return SEVEN_BITS if how == PAIRS and vector_bytes() > 16 else None


def together(how: str) -> int:
    """Bytes along k that are summed in a lane."""
    return 1 if how == PLAIN else 4


def lanes(how: str) -> int:
    """Columns to a vector."""
    return 4 if how == SIGNED else vector_bytes() // 4


def columns(how: str) -> int:
    """Columns to a tile."""
    return VECTORS * lanes(how)


def rows(count: int) -> int:
    """Rows to a tile of a product of so many: few are computed in vain, and the weights are read by many."""
    if count <= MOST_ROWS:
        return max(count, 1)
    return min(range(MOST_ROWS, MOST_ROWS - 3, -1), key=lambda n: -(-count // n) * (n + 1))


def widened(f: Kernel, source: Value, goal: Value, count: Value) -> None:
    """Bytes as PAIRS reads them: of four the first and the third, then the others, in 16 bits each. Whole 16 bytes are read."""
    narrow, pairs = vector("i16", 8), vector("i32", 4)
    with f.loop(0, count, 16) as at:
        both = f.load(narrow, f.at("i8", source, at), align=1)
        even, odd = (f.convert(part, pairs, "bitcast") for part in (both & 255, both >> 8))
        f.store(f.shuffle(even, odd, [0, 4, 1, 5, 2, 6, 3, 7]), f.at("i16", goal, at), align=1)


def _weights(f: Kernel, how: str, place: Value, part: int) -> Value:
    """Those of a vector of columns."""
    count = lanes(how) * together(how)
    if how == PAIRS:
        both = f.load(vector("i16", count // 2), place, align=1)
        both = both if part else both << 8
        return f.emit(both.type, f"ashr {both.type} {both.name}, {f.value(8, both.type).name}")
    loaded = f.load(vector("i8", count), place, align=1)
    return f.convert(loaded, vector("i32", count), "sext") if how == PLAIN else loaded


def _activations(f: Kernel, how: str, place: Value) -> Value:
    """Those of a row, in every lane."""
    if how == PLAIN:
        return f.splat(f.convert(f.load("i8", place), "i32", "zext"), lanes(how))
    four = f.splat(f.load("i32", place, align=1), lanes(how))
    items = vector("i16", 2 * lanes(how)) if how == PAIRS else vector("i8", 4 * lanes(how))
    return f.convert(four, items, "bitcast")


def _multiply_add(f: Kernel, how: str, a: Value, b: Value, total: Value) -> Value:
    """total + the products of activations a and weights b, some to a lane."""
    bits = 8 * vector_bytes()
    if how == VNNI:
        return f.call(total.type, f"llvm.x86.avx512.vpdpbusd.{bits}", total, a, b)
    if how == SIGNED:
        return f.call(total.type, "llvm.aarch64.neon.sdot.v4i32.v16i8", total, a, b)
    if how == PLAIN:
        return total + a * b
    pairs = {128: "sse2.pmadd.wd", 256: "avx2.pmadd.wd", 512: "avx512.pmaddw.d.512"}[bits]
    if how == SEVEN_BITS:
        bytes = "avx512.pmaddubs.w.512" if bits == 512 else "avx2.pmadd.ub.sw"
        a = f.call(vector("i16", bits // 16), f"llvm.x86.{bytes}", a, b)
        b = f.value(1, a.type)
    return total + f.call(total.type, f"llvm.x86.{pairs}", a, b)


def tile(how: str, rows: int, name: str = "dots") -> Kernel:
    """void name(k, a, a_row, last, b, sums, sums_row): `rows` of a (the last one is `last`, repeated behind it), a_row items
    apart, by a block b of weights; sums are sums_row apart. k is whole groups of `together`.
    """
    parameters = [("k", "i64"), ("a", "ptr"), ("a_row", "i64"), ("last", "i64"), ("b", "ptr")]
    f = Kernel(name, [*parameters, ("sums", "ptr"), ("sums_row", "i64")], internal=True)
    wide, step, item = vector("i32", lanes(how)), together(how), "i16" if how == PAIRS else "i8"
    a = [f.at(item, f["a"], f.minimum(f["last"], i) * f["a_row"]) for i in range(rows)]
    sums = [[f.variable(wide) for _ in range(VECTORS)] for _ in a]
    for row in sums:
        for cell in row:
            cell.set(0)
    with f.loop(0, f["k"], step) as at:
        for part in range(2 if how == PAIRS else 1):
            block = f.at("i8", f["b"], at * columns(how))
            b = [_weights(f, how, f.at("i8", block, j * step * lanes(how)), part) for j in range(VECTORS)]
            for place, row in zip(a, sums, strict=True):
                x = _activations(f, how, f.at(item, f.at(item, place, at), 2 * part))
                for weights, cell in zip(b, row, strict=True):
                    cell.set(_multiply_add(f, how, x, weights, cell.get()))
    for i, row in enumerate(sums):
        for j, cell in enumerate(row):
            f.store(cell.get(), f.at("i32", f["sums"], f["sums_row"] * i), j * lanes(how), align=4)
    return f
