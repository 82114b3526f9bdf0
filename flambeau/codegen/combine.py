"""Functions that combine two arrays element by element into the second, with the signature that MPI asks of a reduction.

    void combine(const void *source, void *target, int *count, MPI_Datatype *datatype)

Arrays are contiguous and needn't be aligned. Small floats are widened, combined and rounded once, as operators do. Stands on
scalar.py and kernel.py; used by distributed.mpi.
"""

from __future__ import annotations

from collections.abc import Callable

from flambeau.base.dtype import bool_
from flambeau.base.dtype import dtype as DType
from flambeau.codegen import cpu
from flambeau.codegen.builder import Value, module
from flambeau.codegen.jit import compiled
from flambeau.codegen.kernel import Kernel
from flambeau.codegen.llvm import INDEXED
from flambeau.codegen.scalar import Lowering
from flambeau.ir import scalar
from flambeau.ir.scalar import Expr, compute_dtype, leaf, part_dtype

#: What is made of an element of the target and one of the source.
COMBINATIONS: dict[str, Callable[[Expr, Expr], Expr]] = {
    "sum": lambda a, b: a + b,
    "product": lambda a, b: a * b,
    "min": scalar.minimum,
    "max": scalar.maximum,
    "band": lambda a, b: a & b,
    "bor": lambda a, b: a | b,
    "bxor": lambda a, b: a ^ b,
}
_OF_TRUTHS = {"sum": "bor", "max": "bor", "product": "band", "min": "band"}
PARAMETERS = [("source", "ptr"), ("target", "ptr"), ("count", "ptr"), ("datatype", "ptr")]


@compiled(INDEXED)
def combination(kind: str, dtype: DType) -> str:
    """The function for a key of COMBINATIONS. Among truths, sum and maximum are "or", product and minimum are "and"."""
    if dtype is bool_:
        kind = _OF_TRUTHS.get(kind, kind)
    f = Kernel("kernel", PARAMETERS)
    count = f.convert(f.load("i32", f["count"]), "i64", "sext")
    operands = leaf("a", compute_dtype(dtype)), leaf("b", compute_dtype(dtype))
    result = COMBINATIONS[kind](*operands)
    lanes = max(cpu.vector_bytes() // max(part_dtype(compute_dtype(dtype)).itemsize, dtype.itemsize), 2)

    def step(i: Value, mask: str | None) -> None:
        low = Lowering(f.line, f.fresh, lanes, mask)
        source, target = (f.at("i8", f[name], i * dtype.itemsize).name for name in ("source", "target"))
        given = dict(zip(operands, (low.load(dtype, target), low.load(dtype, source))))
        low.store(dtype, low.value(result, given), target)
        f.declarations |= low.declarations

    whole = count & -lanes
    with f.loop(0, whole, lanes) as i:
        step(i, None)
    with f.when(whole < count):
        step(whole, f.mask(count - whole, lanes).name)
    return module(f)
