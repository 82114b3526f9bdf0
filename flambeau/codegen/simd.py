"""What is done to all lanes of a vector: a function of the scalar language applied to each, and their sum.

Stands on kernel.py and scalar.py; used by the kernels of attention and of losses.
"""

from __future__ import annotations

from flambeau.base.dtype import dtype as DType
from flambeau.codegen.builder import Value, scalar_type
from flambeau.codegen.kernel import Kernel, suffix
from flambeau.codegen.scalar import Lowering
from flambeau.ir import scalar


def apply_function(f: Kernel, name: str, dtype: DType, value: Value) -> Value:
    """A function of the scalar language applied to a value, or to each element of a vector."""
    low = Lowering(f.line, f.fresh, lanes_of(value))
    x = scalar.leaf("x", dtype)
    result = low.value(getattr(scalar, name)(x), {x: value.name})
    f.declarations |= low.declarations
    return Value(f, value.type, result)


def lanes_of(value: Value) -> int:
    """How many elements a vector has; 0 for a single number."""
    return int(value.type[1 : value.type.index("x")]) if value.type[0] == "<" else 0


def total_of(f: Kernel, value: Value) -> Value:
    """The sum of a vector's elements."""
    kind = scalar_type(value.type)
    return f.call(kind, f"llvm.vector.reduce.fadd.{suffix(value.type)}", f.value(0, kind), value, fast="reassoc")
