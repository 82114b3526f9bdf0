"""Attention of few rows, as text generators ask for it: a product of scores, a kernel over their rows, a product of values.

Keys and values are read once, where they lie: packing them would cost more than the products. Stands on scores.py and
products.gemm; forward.py chooses it.
"""

from __future__ import annotations

from flambeau.codegen.attention.scores import Attention, Place, Rows, softmax_address
from flambeau.codegen.builder import module
from flambeau.codegen.cpu import register_rows
from flambeau.codegen.element_type import Kind
from flambeau.codegen.jit import compiled
from flambeau.codegen.kernel import BYTES, Kernel, vector
from flambeau.codegen.llvm import BRIEF
from flambeau.codegen.plan import Phase
from flambeau.codegen.products.epilogue import bits_of
from flambeau.codegen.products.gemm import gemm_phases
from flambeau.codegen.products.matrix import SCRATCH, Matrix

CONSTANTS = ("heads", "rows", "columns", "padded", "m_n", "m_h", "m_row", "m_step", "scale", "softmax")
WORK = 8192  # scores of a piece of the rows' kernel


def is_few(kind: Kind, a: Attention) -> bool:
    """Whether products that pack nothing are the quickest; scores lie in memory as numbers of the operands' kind."""
    return a.rows <= register_rows() and kind.storage == kind.compute


@compiled(BRIEF)
def weights_kernel(kind: Kind, masked: str | None) -> str:
    """Rows of scores in the scratch memory to weights; the range is batches x heads x rows. Slots: [1] logarithms, [5] mask."""
    f = Kernel()
    c = f.constants(CONSTANTS)
    rows = Rows(f, c, kind, "softmax", masked, 5)
    wide, size = vector(kind.compute, kind.lanes), BYTES[kind.compute]
    total = f.stack(kind.compute, 1)
    with f.loop(f["begin"], f["end"]) as index:
        plane, position = index.unsigned_div(c["rows"]), index.unsigned_rem(c["rows"])
        place = Place(plane.unsigned_div(c["heads"]), plane.unsigned_rem(c["heads"]), position)
        row = f.at(kind.compute, f.scratch(f.i64(0)), index * c["padded"])
        rows.call(place, row, f.i64(1), c["columns"], total, f.at(kind.compute, f.buffer(1), index))
        factor = f.splat(f.load(kind.compute, total), kind.lanes)
        with f.loop(0, c["columns"], kind.lanes) as x:
            at = f.at(kind.compute, row, x)
            f.store(f.load(wide, at, align=size) * factor, at, align=size)
    return module(f)


def few_phases(kind: Kind, a: Attention, scale: float) -> tuple[list[Phase], int]:
    """Phases for slots (out, logarithms, query, key, value, [mask]) and the scratch bytes they need."""
    padded = -(-a.columns // kind.lanes) * kind.lanes
    planes = a.batch * a.heads
    reserved = (planes * a.rows * padded * BYTES[kind.compute] + 127) // 64 * 64
    scores = Matrix(SCRATCH, (a.heads * a.rows * padded, a.rows * padded, padded, 1))
    out = Matrix(0, (a.heads * a.rows * a.width, a.rows * a.width, a.width, 1))
    batch = (a.batch, a.heads)
    made, first = gemm_phases(
        kind, a.rows, a.columns, a.depth, Matrix(2, a.query), Matrix(3, a.key).transposed, scores, batch, reserved=reserved
    )
    softmax = softmax_address(kind, a.masked, a.causal)
    words = (a.heads, a.rows, a.columns, padded, *(a.mask or (0, 0, 0, 0)), bits_of(scale, kind), softmax)
    made.append(Phase(weights_kernel(kind, a.masked), planes * a.rows, max(1, WORK // max(a.columns, 1)), words))
    weighed, second = gemm_phases(kind, a.rows, a.width, a.columns, scores, Matrix(4, a.value), out, batch, reserved=reserved)
    return made + weighed, max(first, second, reserved)
