"""The kernel of overlaps of rotated boxes: one of each pair is clipped by the four sides of the other (Sutherland and Hodgman).

The first boxes come as corners, the second ones as a centre, the cosine and sine of their angle and half their sides, so that a
corner is put into the frame of the second box, whose sides are then x = +-a and y = +-b. Stands on kernel.py;
vision_ops/rotated.py plans it.
"""

from __future__ import annotations

from flambeau.codegen.builder import Value, module
from flambeau.codegen.jit import compiled
from flambeau.codegen.kernel import Kernel
from flambeau.codegen.llvm import INDEXED

CONSTANTS = ("first", "second")
CORNERS, FRAME = 8, 6  # numbers of a first box: x and y of its corners; of a second one: x, y, cosine, sine, a, b
MOST = 8  # corners of a rectangle that was clipped four times
SMALLEST = 1e-14  # an area below it overlaps nothing


class _Polygon:
    """Corners on the stack; x and y are numbers 0 and 1 of each."""

    def __init__(self, f: Kernel):
        self.f, self.corners, self.count = f, f.stack("double", 2 * MOST), f.variable("i64", 0)

    def add(self, x: Value, y: Value) -> None:
        """A corner; none beyond MOST, which only rounding can lead to."""
        with self.f.when(self.count.get() < MOST):
            for i, value in enumerate((x, y)):
                self.f.store(value, self.corners, self.count.get() * 2 + i)
            self.count.add(1)

    def corner(self, i: Value) -> tuple[Value, Value]:
        return self.f.load("double", self.corners, i * 2), self.f.load("double", self.corners, i * 2 + 1)

    def clip_into(self, out: _Polygon, axis: int, sign: float, limit: Value) -> None:
        """Keep the part where sign * (x or y) <= limit."""
        f = self.f
        out.count.set(0)
        with f.loop(0, self.count.get()) as i:
            here, there = self.corner(i), self.corner(f.select((i + 1).equals(self.count.get()), f.i64(0), i + 1))
            a, b = limit - here[axis] * sign, limit - there[axis] * sign
            with f.when(a >= 0.0):
                out.add(*here)
            with f.when((a >= 0.0) ^ (b >= 0.0)):
                share = a / (a - b)
                out.add(*(p + (q - p) * share for p, q in zip(here, there)))

    def area(self) -> Value:
        """By the products of neighbouring corners."""
        f, twice = self.f, self.f.variable("double", 0)
        with f.loop(0, self.count.get()) as i:
            (x, y), (u, v) = self.corner(i), self.corner(f.select((i + 1).equals(self.count.get()), f.i64(0), i + 1))
            twice.add(x * v - u * y)
        return f.call("double", "llvm.fabs.f64", twice.get()) * 0.5


@compiled(INDEXED)
def overlap_kernel() -> str:
    """Area that boxes have in common by that of their union; the range is pairs. Slots: out (n, m; float32), first (n, 8), areas
    of these (n), second (m, 6), all of them float64.
    """
    f = Kernel()
    c = f.constants(CONSTANTS)
    out, first, areas, second = (f.buffer(i) for i in range(4))
    one, other = _Polygon(f), _Polygon(f)
    with f.loop(f["begin"], f["end"]) as pair:
        i, j = pair.unsigned_div(c["second"]), pair.unsigned_rem(c["second"])
        x, y, cosine, sine, a, b = (f.load("double", second, j * FRAME + k) for k in range(FRAME))
        one.count.set(0)
        for k in range(4):
            across = f.load("double", first, i * CORNERS + 2 * k) - x
            down = f.load("double", first, i * CORNERS + 2 * k + 1) - y
            one.add(across * cosine - down * sine, across * sine + down * cosine)
        for axis, limit in ((0, a), (1, b)):
            one.clip_into(other, axis, 1.0, limit)
            other.clip_into(one, axis, -1.0, limit)
        common, areas_of = one.area(), (f.load("double", areas, i), a * b * 4.0)
        share = common / (areas_of[0] + areas_of[1] - common)
        none = (areas_of[0] < SMALLEST) | (areas_of[1] < SMALLEST)
        f.store(f.convert(f.select(none, f.value(0.0, "double"), share), "float", "fptrunc"), out, pair)
    return module(f)
