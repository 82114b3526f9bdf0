"""Kinds of elements: how a dtype is stored, and in what its elements are multiplied and added.

Stands on kernel.py and cpu.py; used by matrix products and what is made of them.
"""

from __future__ import annotations

from typing import NamedTuple

from flambeau.codegen.builder import Value
from flambeau.codegen.cpu import ARM, features, matrix_unit, vector_bytes
from flambeau.codegen.kernel import BYTES, Kernel, vector

TILE_SIDE = 16  # rows of a matrix unit's tile, and pairs of bfloat16 in each


class Kind(NamedTuple):
    """How elements of a dtype are stored, and in what they are multiplied and added."""

    name: str
    storage: str
    compute: str
    pair: bool = False  # two k steps per lane (dot products of bfloat16, and of integers as 16-bit ones)
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

_PAIRED_INTEGERS = frozenset({"int8", "uint8", "int16"})


def kind_of(dtype: object) -> Kind:
    """The Kind of a dtype (an object with a name, or the name)."""
    name = getattr(dtype, "name", dtype)
    if name not in _KINDS:
        raise NotImplementedError(f"contractions of dtype {name} are not supported; convert the operands first")
    return _KINDS[name]


def paired(kind: Kind) -> Kind:
    """The same kind, packed for the CPU's matrix unit, or for dot products of two steps where it has them."""
    if kind.name in _PAIRED_INTEGERS:
        return kind._replace(pair=not ARM)
    if kind.name != "bfloat16" or vector_bytes() < 64:
        return kind
    tiles = matrix_unit()
    return kind._replace(pair=tiles or "avx512_bf16" in features(), tiles=tiles)


def half_word(f: Kernel, kind: Kind, value: Value) -> Value:
    """A stored scalar or vector as the 16 bits that are half of a pair."""
    if BYTES[kind.storage] == 2:
        return value
    lanes = int(value.type[1:].split(" ")[0]) if value.type[0] == "<" else 0
    return f.convert(value, vector("i16", lanes) if lanes else "i16", "zext" if kind.name == "uint8" else "sext")


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
