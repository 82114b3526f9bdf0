"""What happens to a finished register tile: factors, an addend, an activation, rounding, and the way into C.

Stands on kernel.py and element_type.py; put behind products and convolutions.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import NamedTuple

from flambeau.codegen.builder import Value, scalar_type
from flambeau.codegen.element_type import Kind, narrow, widen
from flambeau.codegen.kernel import BYTES, Kernel, vector


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
                addend = None if d is None else widen(f, out, f.load(out.storage, f.at(out.storage, d, j * f["d_column"])))
                value = finish(f.load(kind.compute, tile, j), addend)
                f.store(value, f.at(out.storage, c, j * f["c_column"]))
    return f


def bits_of(value: float | int, kind: Kind) -> int:
    """alpha or beta as a word of the constants."""
    return ctypes.c_int64.from_buffer(ctypes.c_double(value)).value if kind.floating else int(value)
