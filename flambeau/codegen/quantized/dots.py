"""Dot products of bytes: tiles of up to 3 rows of activations and 4 rows of weights, both contiguous along k, summed in int32.

Activations are unsigned, weights signed, and sums exact. A processor with VNNI multiplies and adds four bytes in one instruction;
one without has them widened to 16 bits, of which an instruction multiplies and adds pairs. (The one that takes pairs of bytes,
vpmaddubsw, saturates: it is used where activations have 7 bits.) On ARM both are signed, if the processor has dot products,
and multiplied one by one if not. Stands on kernel.py and cpu.py; integer_products.py puts loops around it.
"""

from __future__ import annotations

from flambeau.codegen.builder import Value
from flambeau.codegen.cpu import ARM, features, vector_bytes
from flambeau.codegen.kernel import Kernel, vector

#: How bytes are multiplied: by VNNI, by ARM's signed dot products, as pairs of 16-bit integers by x86, or by anything.
VNNI, SIGNED, PAIRS, PLAIN = "vnni", "signed", "pairs", "plain"
CHANNELS = "channels"  # each channel by weights of its own, as depthwise.py does
SEVEN_BITS = "seven bits"  # by x86, of activations below 128: pairs of products then fit into 16 bits
MOST_ROWS = 3
STORED = 4  # sums that a tile stores in each row


def way() -> str:
    """The quickest way of this processor."""
    if ARM:
        return SIGNED if "asimddp" in features() else PLAIN
    return VNNI if ("avx512_vnni" if vector_bytes() == 64 else "avx_vnni") in features() and vector_bytes() > 16 else PAIRS


def step(how: str) -> int:
    """Bytes along k that a turn of the loop takes."""
    return vector_bytes() if how in (VNNI, SEVEN_BITS) else 16 if how == SIGNED else vector_bytes() // 2


def quicker(how: str) -> str | None:
    """A quicker way for activations of 7 bits, if there is one."""
    return SEVEN_BITS if how == PAIRS and vector_bytes() > 16 else None


def whole_steps(how: str) -> int:
    """Rows of bytes are padded to a multiple of this."""
    return step(quicker(how) or how)


def columns(rows: int) -> int:
    """Rows of weights to a tile of so many rows: sums and operands stay in 16 registers."""
    return 3 if rows == MOST_ROWS else 4


def _multiply_add(f: Kernel, how: str, a: Value, b: Value, total: Value) -> Value:
    """total + the dot products of unsigned bytes a and signed ones b, four or two to a lane."""
    if how == VNNI:
        bits = 8 * vector_bytes()
        return f.call(total.type, f"llvm.x86.avx512.vpdpbusd.{bits}", total, a, b)
    if how == SIGNED:
        return f.call(total.type, "llvm.aarch64.neon.sdot.v4i32.v16i8", total, a, b)
    if how == SEVEN_BITS:
        bits = 8 * vector_bytes()
        half, name = ("avx512.pmaddubs.w.512", "avx512.pmaddw.d.512") if bits == 512 else ("avx2.pmadd.ub.sw", "avx2.pmadd.wd")
        pairs = f.call(vector("i16", bits // 16), f"llvm.x86.{half}", a, b)
        return total + f.call(total.type, f"llvm.x86.{name}", pairs, f.value(1, pairs.type))
    if how == PAIRS:
        name = {16: "sse2.pmadd.wd", 32: "avx2.pmadd.wd", 64: "avx512.pmaddw.d.512"}[vector_bytes()]
        return total + f.call(total.type, f"llvm.x86.{name}", a, b)
    product = a * b  # of a byte without and one with a sign: it fits in 16 bits
    lanes = vector_bytes() // 4
    low, high = (f.convert(f.shuffle(product, product, range(at, at + lanes)), total.type, "sext") for at in (0, lanes))
    return total + low + high


def _operand(f: Kernel, how: str, place: Value, at: Value, signed: bool) -> Value:
    size = step(how)
    loaded = f.load(vector("i8", size), place, at, align=1)
    if how in (SIGNED, VNNI, SEVEN_BITS):
        return loaded
    return f.convert(loaded, vector("i16", size), "sext" if signed else "zext")


def _folded(f: Kernel, sums: list[Value]) -> Value:
    """The sums of the lanes of four vectors, as four lanes."""
    lanes = int(sums[0].type[1:].split(" ")[0])
    parts = sums
    while len(parts) > 1:  # neighbouring lanes within 16 bytes
        pairs = []
        for x, y in zip(parts[::2], parts[1::2], strict=True):
            order = [source + at + i for at in range(0, lanes, 4) for source in (0, lanes) for i in (0, 2)]
            pairs.append(f.shuffle(x, y, order) + f.shuffle(x, y, [i + 1 for i in order]))
        parts = pairs
    whole = parts[0]
    while lanes > 4:
        lanes //= 2
        whole = f.shuffle(whole, whole, range(lanes)) + f.shuffle(whole, whole, range(lanes, 2 * lanes))
    return whole


def tile(how: str, rows: int, name: str = "dots") -> Kernel:
    """void name(k, a, a_row, last, b, b_row, left, sums, sums_row): `rows` of a (the last one is `last`, repeated behind it) by
    columns(rows) rows of b, of which `left` are there; four sums of each row are stored. k and strides count bytes, whole steps.
    """
    parameters = [("k", "i64"), ("a", "ptr"), ("a_row", "i64"), ("last", "i64"), ("b", "ptr"), ("b_row", "i64"), ("left", "i64")]
    f = Kernel(name, [*parameters, ("sums", "ptr"), ("sums_row", "i64")], internal=True)
    across, lanes = columns(rows), 4 if how == SIGNED else vector_bytes() // 4
    a = [f.at("i8", f["a"], f.minimum(f["last"], i) * f["a_row"]) for i in range(rows)]
    b = [f.at("i8", f["b"], f.minimum(f["left"] - 1, j) * f["b_row"]) for j in range(across)]
    sums = [[f.variable(vector("i32", lanes)) for _ in b] for _ in a]
    for row in sums:
        for cell in row:
            cell.set(0)
    with f.loop(0, f["k"], step(how)) as at:
        left = [_operand(f, how, place, at, False) for place in a]
        for j, place in enumerate(b):
            right = _operand(f, how, place, at, True)
            for i, row in enumerate(sums):
                row[j].set(_multiply_add(f, how, left[i], right, row[j].get()))
    for i, row in enumerate(sums):
        cells = [cell.get() for cell in row]
        four = _folded(f, [*cells, *[cells[0]] * (STORED - across)])
        f.store(four, f.at("i32", f["sums"], f["sums_row"] * i), align=4)
    return f
