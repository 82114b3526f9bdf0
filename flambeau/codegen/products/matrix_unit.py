"""Products of bfloat16 by a processor's matrix unit (Intel's AMX), which multiplies tiles of 16 rows of 64 bytes.

Four tiles of sums, 32 x 32, take the products of two tiles of A and two of B. A tile of A is 16 rows of 16 pairs of steps along
k; they lie one after the other in a panel. A tile of B is 16 pairs of steps, of 16 columns each, as pack.py packs them. Stands on
element_type.py and pack.py; gemm.py plans with it where cpu.py says that there is such a unit.
"""

from __future__ import annotations

from flambeau.codegen.builder import Value, module
from flambeau.codegen.element_type import TILE_SIDE as SIDE
from flambeau.codegen.element_type import Kind
from flambeau.codegen.jit import compiled
from flambeau.codegen.kernel import Kernel, vector
from flambeau.codegen.llvm import BRIEF, DIRECT
from flambeau.codegen.products.pack import interleaved, pack_function, packed_of

ROWS, VECTORS = 2 * SIDE, 2  # of four tiles
BLOCK_STEPS = 512  # pairs of steps of a block: panels of A and B then stay in the second-level cache

_CONFIGURATION = (1, 0, *[0x0040_0040_0040_0040] * 2, 0, 0, 0x1010_1010_1010_1010, 0)  # eight tiles of 16 rows of 64 bytes


def configure(f: Kernel) -> None:
    """Emit: give the calling thread its tiles."""
    words = f.stack("i64", len(_CONFIGURATION), align=64)
    for i, word in enumerate(_CONFIGURATION):
        f.store(f.i64(word), words, i)
    f.call("void", "llvm.x86.ldtilecfg", words)


def release(f: Kernel) -> None:
    """Emit: take them away again, so that nothing has to be kept of them."""
    f.call("void", "llvm.x86.tilerelease")


def _tile(f: Kernel, operation: str, number: int, *place: Value) -> None:
    f.call("void", f"llvm.x86.{operation}", f.value(number, "i8"), *place)


def _micro() -> Kernel:
    """void tiles(k, a, b, c, c_stride, first): a 32 x 32 tile of C (+)= a panel of A * a panel of B; k counts pairs of steps."""
    f = Kernel("tiles", [("k", "i64"), ("a", "ptr"), ("b", "ptr"), ("c", "ptr"), ("c_stride", "i64"), ("first", "i64")])
    stride, row = f["c_stride"] * 4, f.i64(4 * SIDE)
    sums = [(2 * i + j, f.at("float", f["c"], f["c_stride"] * (i * SIDE) + j * SIDE)) for i in range(2) for j in range(2)]
    with f.branches(f["first"].equals(0)) as otherwise:
        for number, place in sums:
            _tile(f, "tileloadd64", number, place, stride)
        otherwise()
        for number, _ in sums:
            _tile(f, "tilezero", number)
    with f.loop(0, f["k"], SIDE) as step:
        for i in range(2):
            _tile(f, "tileloadd64", 4 + i, f.at("i32", f["a"], step * ROWS + i * SIDE * SIDE), row)
        for j in range(2):
            _tile(f, "tileloadd64", 6 + j, f.at("i32", f["b"], step * ROWS + j * SIDE), row * VECTORS)
        for number, _ in sums:
            f.call("void", "llvm.x86.tdpbf16ps", *(f.value(n, "i8") for n in (number, 4 + number // 2, 6 + number % 2)))
    for number, place in sums:
        _tile(f, "tilestored64", number, place, stride)
    return f


@compiled(DIRECT, "tiles")
def micro() -> str:
    """Address of the register tile."""
    return module(_micro())


def _pack_rows(kind: Kind, order: str) -> Kernel:
    """The `pack_function` of panels of A; past its edges are zeros."""
    f = pack_function()
    storage, pairs = kind.storage, vector(kind.item, SIDE)

    def elements(lane: Value, k: Value, count: Value, wanted: int) -> Value:
        """`wanted` elements from (lane, k) on, zeros from `count` on."""
        place = f.at(storage, f["source"], lane * f["lane_stride"] + k * f["k_stride"])
        return f.masked_load(vector(storage, wanted), place, f.mask(count, wanted), 2)

    with f.loop(0, f["depth"], 2 * SIDE) as k, f.loop(0, ROWS, SIDE) as first:
        target = f.at(kind.item, f["destination"], k.unsigned_div(f.i64(2)) * ROWS + first * SIDE)
        left, lanes = f["depth"] - k, f["lanes"] - first
        if order == "depth":
            with f.loop(0, SIDE) as row:
                count = f.select(first + row < f["lanes"], left, f.i64(0))
                f.store(f.convert(elements(first + row, k, count, 2 * SIDE), pairs, "bitcast"), target, row * SIDE, align=64)
        elif order == "lane":
            steps = []
            for step in range(0, 2 * SIDE, 2):
                low, high = (elements(first, k + s, f.select(left > s, lanes, f.i64(0)), SIDE) for s in (step, step + 1))
                both = f.shuffle(low, high, [h * SIDE + i for i in range(SIDE) for h in (0, 1)])
                steps.append(f.convert(both, pairs, "bitcast"))
            for row, value in enumerate(interleaved(f, steps, SIDE)):
                f.store(value, target, row * SIDE, align=64)
        else:
            with f.loop(0, SIDE) as row, f.loop(0, 2 * SIDE) as step:
                value = f.variable(storage, 0)
                with f.when((row < lanes) & (step < left)):
                    place = f.at(storage, f["source"], (first + row) * f["lane_stride"] + (k + step) * f["k_stride"])
                    value.set(f.load(storage, place))
                f.store(value.get(), f.at(storage, target, row * (2 * SIDE) + step))
    return f


@compiled(BRIEF)
def pack_rows_kernel(kind: Kind, order: str) -> str:
    """Packs A; its constants and its range are those of pack.py."""
    return packed_of(_pack_rows(kind, order), kind, ROWS)
