"""Determinants from LU factorizations: the product of the diagonal, or its sign and the logarithm of its size.

Stands on columns.py; the factorization is lu.py's.
"""

from __future__ import annotations

from flambeau.base.dtype import float64
from flambeau.codegen.builder import Value, module
from flambeau.codegen.factorization.columns import FIELDS, Field, Scalar, absolute, root
from flambeau.codegen.jit import compiled
from flambeau.codegen.kernel import Kernel
from flambeau.codegen.llvm import LIGHT
from flambeau.codegen.plan import Phase
from flambeau.codegen.scalar import Lowering
from flambeau.ir import scalar

CONSTANTS = ("n", "lu_slot", "pivots_slot", "first_slot", "second_slot")


def _size(f: Kernel, field: Field, x: Scalar) -> Value:
    """|x|; the larger part is divided out of a complex one, so that squares stay in range."""
    if not field.complex:
        return absolute(f, x[0])
    a, b = (absolute(f, part) for part in x)
    large, small = f.maximum(a, b), f.minimum(a, b)
    ratio = small / f.select(large > 0, large, 1)
    return large * root(f, ratio * ratio + 1)


def _logarithm(f: Kernel, x: Value) -> Value:
    """log(x) as a double."""
    wide = x if x.type == "double" else f.convert(x, "double", "fpext")
    low, operand = Lowering(f.line, f.fresh), scalar.leaf("x", float64)
    result = low.value(scalar.log(operand), {operand: wide.name})
    f.declarations |= low.declarations
    assert isinstance(result, str)
    return Value(f, "double", result)


@compiled(LIGHT)
def determinant_kernel(field: Field, logarithm: bool) -> str:
    """Its range is the batch."""
    f = Kernel()
    c = f.constants(CONSTANTS)
    n = c["n"]
    made = [f.variable(field.real) for _ in range(field.parts)]
    sum = f.variable("double")
    with f.loop(f["begin"], f["end"]) as batch:
        matrix = field.at(f, f.slot(c["lu_slot"]), batch * n * n)
        pivots = f.at("i32", f.slot(c["pivots_slot"]), batch * n)
        for variable, part in zip(made, field.number(f, 1)):
            variable.set(part)
        sum.set(0)
        with f.loop(0, n) as k:
            x = field.element(f, matrix, k * (n + 1))
            if logarithm:
                size = _size(f, field, x)
                sum.add(_logarithm(f, size))
                x = tuple(f.select(size.equals(0), 0, part / size) for part in x)
            moved = f.convert(f.load("i32", pivots, k), "i64", "sext").differs(k + 1)
            x = tuple(f.select(moved, -part, part) for part in x)
            for variable, part in zip(made, field.product(f, tuple(v.get() for v in made), x)):
                variable.set(part)
        field.put(f, tuple(v.get() for v in made), f.slot(c["first_slot"]), batch)
        if logarithm:
            total = sum.get()
            f.store(total if field.real == "double" else f.convert(total, "float", "fptrunc"), f.slot(c["second_slot"]), batch)
    return module(f)


def determinant_phases(
    dtype: str, batch: int, n: int, lu: int, pivots: int, first: int, second: int | None = None
) -> list[Phase]:
    """The phase that writes determinants to buffer `first`, or their signs there and logarithms to buffer `second`."""
    if not batch:
        return []
    kernel = determinant_kernel(FIELDS[dtype], second is not None)
    return [Phase(kernel, batch, max(1, 20000 // max(n, 1)), (n, lu, pivots, first, second or 0))]
