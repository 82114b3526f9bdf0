"""Row mode: the partial results of a fold, which are the elements of vectors until a row ends.

Stands on prologue.py; nest.py uses it.
"""

from __future__ import annotations

from flambeau.codegen.builder import Value, Variable
from flambeau.codegen.loops.prologue import Frame
from flambeau.codegen.scalar import Lowering, joined, llvm_type, parts_of
from flambeau.ir.loops import Fold
from flambeau.ir.scalar import Expr, leaf, leaves_of


class Partials:
    """In one register per component and part: the partial results of a block, and of what is left after the last block."""

    def __init__(self, frame: Frame, fold: Fold, block: int, step: int):
        self.frame, self.fold, self.f = frame, fold, frame.f
        self.block, self.step = block, step
        self.rest = self._registers(step)
        self.main = self._registers(block) if block != step else self.rest

    def _registers(self, width: int) -> list[list[Variable]]:
        low = self.frame.lowering(width)
        registers = []
        for start in self.fold.start:
            value = start_of(self.frame, low, start)
            type = low.type(llvm_type(start.dtype))
            registers.append([self.f.variable(type, Value(self.f, type, part)) for part in parts_of(value)])
        return registers

    def _values(self, registers: list[list[Variable]]) -> list:
        values = [[part.get().name for part in parts] for parts in registers]
        return [joined(parts) for parts in values]

    def _set(self, registers: list[list[Variable]], values: list) -> None:
        for parts, value in zip(registers, values):
            for variable, part in zip(parts, parts_of(value)):
                variable.set(Value(self.f, variable.type, part))

    def add(self, low: Lowering, lifted: list) -> None:
        """Fold elements in registers like those of `low` into the partial results."""
        registers = self.main if low.width == self.block else self.rest
        old = self._values(registers)
        new = combine(self.frame, low, self.fold, old, lifted)
        if low.mask is not None:
            new = [
                joined([low.select(low.mask, llvm_type(start.dtype), a, b) for a, b in zip(parts_of(fresh), parts_of(former))])
                for start, fresh, former in zip(self.fold.start, new, old)
            ]
        self._set(registers, new)

    def _half(self, width: int, values: list, upper: bool) -> list:
        """The lower or upper half of registers of `width` elements; a single element is no vector."""
        low, half = self.frame.lowering(width), width // 2
        order = ", ".join(f"i32 {i + half * upper}" for i in range(half))
        result = []
        for start, value in zip(self.fold.start, values):
            kind = llvm_type(start.dtype)
            type = low.type(kind)
            text = (
                f"extractelement {type} %s, i64 {int(upper)}"
                if half == 1
                else f"shufflevector {type} %s, {type} poison, <{half} x i32> <{order}>"
            )
            result.append(joined([self.f.emit(kind, text % part).name for part in parts_of(value)]))
        return result

    def _narrowed(self, values: list, width: int, to: int) -> list:
        """Registers of `width` elements, their halves combined until `to` are left (0: a single number)."""
        while width > max(to, 1):
            lower, upper = (self._half(width, values, side) for side in (False, True))
            width //= 2
            values = combine(self.frame, self.frame.lowering(width if width > 1 else 0), self.fold, lower, upper)
        return values

    def total(self, count: Value) -> list:
        """All partial results as one; count: length of the innermost runs."""
        if self.main is not self.rest:
            with self.f.when(count >= self.block):
                values = self._narrowed(self._values(self.main), self.block, self.step)
                low = self.frame.lowering(self.step)
                self._set(self.rest, combine(self.frame, low, self.fold, values, self._values(self.rest)))
        return self._narrowed(self._values(self.rest), self.step, 0)


def combine(frame: Frame, like: Lowering, fold: Fold, a: list, b: list) -> list:
    """Two partial results as one, in registers like those of `like`."""
    left = tuple(leaf(f"a{i}", s.dtype) for i, s in enumerate(fold.start))
    right = tuple(leaf(f"b{i}", s.dtype) for i, s in enumerate(fold.start))
    results = fold.combine(left, right)
    low = frame.lowering(like.width, like.mask)
    env = {**dict(zip(left, a)), **dict(zip(right, b))}
    env.update({x: low.spread(x.dtype, frame.env[x]) for x in leaves_of(*results) if x not in env})
    return [low.value(e, env) for e in results]


def start_of(frame: Frame, low: Lowering, start: Expr):
    """The first value of a fold's component."""
    return low.value(start, {x: low.spread(x.dtype, frame.env[x]) for x in leaves_of(start)})
