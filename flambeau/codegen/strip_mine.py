"""Strips: the elements of a row, as many at a time as a vector has lanes, fewer at its end; and gathers into a vector.

Stands on kernel.py; used by the kernels of pooling, resampling, attention, weighted taps and CTC.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from flambeau.codegen.builder import Value
from flambeau.codegen.kernel import BYTES, Kernel, suffix, vector


@dataclass
class Strip:
    """The elements of a row from `x` on: one for each lane, or the `left` last ones of the row."""

    f: Kernel
    x: Value
    lanes: int
    left: Value | None

    def mask(self, each: int = 1) -> Value | None:
        """Which of `each` elements a lane exist; None if all do."""
        if self.left is None:
            return None
        return self.f.mask(self.left if each == 1 else self.left * each, each * self.lanes)

    def load(self, element: str, place: Value, each: int = 1) -> Value:
        """A vector from memory, with `each` elements a lane; zeros for what does not exist."""
        mask, whole = self.mask(each), vector(element, each * self.lanes)
        if mask is None:
            return self.f.load(whole, place, align=BYTES[element])
        return self.f.masked_load(whole, place, mask, BYTES[element])

    def store(self, value: Value, element: str, place: Value, each: int = 1) -> None:
        """A vector to memory, without what does not exist."""
        mask = self.mask(each)
        if mask is None:
            self.f.store(value, place, align=BYTES[element])
        else:
            self.f.masked_store(value, place, mask, BYTES[element])


def strips(f: Kernel, count: Value, lanes: int, body: Callable[[Strip], None]) -> None:
    """Emit body(strip) for the strips of a row of `count` elements: in a loop for the whole ones, once more for the rest."""
    whole = count & -lanes
    with f.loop(0, whole, lanes) as x:
        body(Strip(f, x, lanes, None))
    with f.when(whole < count):
        body(Strip(f, whole, lanes, count - whole))


def gather(f: Kernel, element: str, base: Value, index: Value, mask: Value | None, lanes: int) -> Value:
    """Elements base[index[i]]; zeros where `mask` says no."""
    pointers = f.emit(vector("ptr", lanes), f"getelementptr {element}, ptr {base.name}, {index.type} {index.name}")
    result = vector(element, lanes)
    on = mask.name if mask is not None else "<" + ", ".join(["i1 true"] * lanes) + ">"
    name = f"llvm.masked.gather.{suffix(result)}.v{lanes}p0"
    f.declarations.add(f"declare {result} @{name}({pointers.type}, <{lanes} x i1>, {result})")
    return f.emit(
        result,
        f"call {result} @{name}({pointers.type} align {BYTES[element]} {pointers.name}, <{lanes} x i1> {on}, "
        f"{result} zeroinitializer)",
    )
