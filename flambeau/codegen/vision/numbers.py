"""Arithmetic that is rounded after every step, and floats as whole numbers.

Places of samples and overlaps of boxes decide what counts and what doesn't, so that they must come out as torchvision's, to the
last bit: a product that a sum is formed with is not contracted to one instruction. Stands on element_type.py; used by this room.
"""

from __future__ import annotations

from flambeau.codegen.builder import BUFFER_WORDS, Value
from flambeau.codegen.element_type import Kind
from flambeau.codegen.kernel import Kernel, suffix, vector


def product(a: Value, b: Value) -> Value:
    """a * b, rounded by itself."""
    return a.f.emit(a.type, f"fmul {a.type} {a.name}, {b.name}")


def settled(f: Kernel, kind: Kind, x: Value) -> Value:
    """A coordinate in the precision of its dtype: float16, although computed with as float32, is rounded at every step."""
    if kind.storage != "half":
        return x
    lanes = int(x.type[1:].split(" ")[0]) if x.type[0] == "<" else 0
    return f.convert(f.convert(x, vector("half", lanes) if lanes else "half", "fptrunc"), x.type, "fpext")


def whole(f: Kernel, x: Value) -> Value:
    """A float as an int64, towards zero; NaN is 0, what is too large the largest there is."""
    return f.call("i64", f"llvm.fptosi.sat.i64.{suffix(x.type)}", x)


def floor(f: Kernel, x: Value) -> Value:
    """The largest whole number that is not above a float or a vector of floats."""
    return f.call(x.type, f"llvm.floor.{suffix(x.type)}", x)


def ceiling(f: Kernel, x: Value) -> Value:
    """The smallest whole number that is not below a float."""
    return f.call(x.type, f"llvm.ceil.{suffix(x.type)}", x)


def rounded(f: Kernel, x: Value) -> Value:
    """A float as the nearest int64, halves away from zero."""
    below_half = 0.49999999999999994 if x.type == "double" else 0.4999999701976776
    half = f.call(x.type, f"llvm.copysign.{suffix(x.type)}", f.value(below_half, x.type), x)
    return whole(f, x + half)


def scaled_by(f: Kernel, kind: Kind, slot: int) -> Value:
    """The number that coordinates are multiplied by: the double in a slot, in the precision of their dtype."""
    scale = f.load("double", f.at("i64", f["p"], BUFFER_WORDS + slot))
    return scale if kind.compute == "double" else settled(f, kind, f.convert(scale, kind.compute, "fptrunc"))


def as_float(f: Kernel, x: Value, type: str) -> Value:
    """An int64 as a float."""
    return f.convert(x, type, "sitofp")
