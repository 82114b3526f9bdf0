"""Kernels of non-maximum suppression: boxes in order of their scores, each of which drops those behind that overlap it too much.

Blocks of boxes one after the other: within a block from box to box, each of which is compared with vectors of those behind it;
what is left of the block is then compared with all boxes behind the block, on all threads. Stands on numbers.py;
vision_ops/nms.py plans the phases.
"""

from __future__ import annotations

from flambeau.codegen.builder import Value, module
from flambeau.codegen.element_type import Kind
from flambeau.codegen.jit import compiled
from flambeau.codegen.kernel import BYTES, Constants, Kernel, vector
from flambeau.codegen.llvm import INDEXED
from flambeau.codegen.vision.numbers import product

CONSTANTS = ("boxes", "pitch", "first", "last")
CORNERS = 4  # x1, y1, x2, y2; the area comes behind them
CHUNK = 1024  # boxes behind a block that are a unit of work


def pitch_of(kind: Kind, boxes: int) -> int:
    """Elements of scratch memory for each of the boxes' numbers: vectors may reach behind the last."""
    return -(-boxes // kind.lanes) * kind.lanes + kind.lanes


def scratch_of(kind: Kind, boxes: int) -> int:
    """Bytes of scratch memory: corners, areas, and which boxes are dropped."""
    return pitch_of(kind, boxes) * ((CORNERS + 1) * BYTES[kind.compute] + 1)


class _Boxes:
    """The boxes in order, number by number, in scratch memory."""

    def __init__(self, f: Kernel, kind: Kind, c: Constants):
        self.f, self.kind, self.c = f, kind, c
        self.numbers = [f.scratch(c["pitch"] * (i * BYTES[kind.compute])) for i in range(CORNERS + 1)]
        self.dropped = f.scratch(c["pitch"] * ((CORNERS + 1) * BYTES[kind.compute]))

    def _above(self, a: Value, b: Value) -> Value:
        """The larger one; a if there is none."""
        return self.f.select(a < b, b, a)

    def compare(self, i: Value, begin: Value, end: Value, threshold: Value) -> None:
        """Drop those of boxes begin ... end - 1, and of a few behind, that overlap box i by more than the threshold."""
        f, kind, compute = self.f, self.kind, self.kind.compute
        x1, y1, x2, y2, area = (f.splat(f.load(compute, number, i), kind.lanes) for number in self.numbers)
        limit = f.splat(threshold, kind.lanes)
        bytes = vector("i8", kind.lanes)
        with f.loop(begin, end, kind.lanes) as j:
            ox1, oy1, ox2, oy2, other = (
                f.load(kind.accumulator, f.at(compute, number, j), align=BYTES[compute]) for number in self.numbers
            )
            right, bottom = f.select(ox2 < x2, ox2, x2), f.select(oy2 < y2, oy2, y2)
            width = f.maximum(right - self._above(x1, ox1), 0.0)
            height = f.maximum(bottom - self._above(y1, oy1), 0.0)
            both = product(width, height)
            over = f.convert(both / (area + other - both) > limit, bytes, "zext")
            place = f.at("i8", self.dropped, j)
            f.store(f.load(bytes, place, align=1) | over, place, align=1)

    def is_kept(self, i: Value) -> Value:
        return self.f.load("i8", self.dropped, i).equals(0)


def _start(kind: Kind, threshold_slot: int) -> tuple[Kernel, Constants, _Boxes, Value]:
    f = Kernel()
    c = f.constants(CONSTANTS)
    threshold = f.load("double", f.at("i64", f["p"], 4 + threshold_slot))
    threshold = f.convert(threshold, kind.compute, "fptrunc") if kind.compute == "float" else threshold
    return f, c, _Boxes(f, kind, c), threshold


@compiled(INDEXED)
def order_kernel(kind: Kind) -> str:
    """Put the boxes, which are the range, in order. Slots: kept, their number, boxes (n, 4), order (n), threshold."""
    f, _, boxes, _ = _start(kind, 4)
    given, order = f.buffer(2), f.buffer(3)
    with f.loop(f["begin"], f["end"]) as i:
        at = f.load("i64", order, i) * CORNERS
        x1, y1, x2, y2 = (f.load(kind.storage, given, at + k) for k in range(CORNERS))
        for number, value in zip(boxes.numbers, (x1, y1, x2, y2, product(x2 - x1, y2 - y1))):
            f.store(value, number, i)
        f.store(f.value(0, "i8"), boxes.dropped, i)
    return module(f)


@compiled(INDEXED)
def block_kernel(kind: Kind) -> str:
    """Boxes first ... last - 1, compared with each other by one thread; the slots are those of `order_kernel`."""
    f, c, boxes, threshold = _start(kind, 4)
    kept, count, order = f.buffer(0), f.buffer(1), f.buffer(3)
    with f.when(c["first"].equals(0)):
        f.store(f.i64(0), count, 0)
    with f.loop(c["first"], c["last"]) as i:
        with f.when(boxes.is_kept(i)):
            so_far = f.load("i64", count, 0)
            f.store(f.load("i64", order, i), kept, so_far)
            f.store(so_far + 1, count, 0)
            boxes.compare(i, i + 1, c["last"], threshold)
    return module(f)


@compiled(INDEXED)
def rest_kernel(kind: Kind) -> str:
    """What is left of boxes first ... last - 1, compared with those behind; the range is chunks of them."""
    f, c, boxes, threshold = _start(kind, 4)
    with f.loop(f["begin"], f["end"]) as unit:
        begin = c["last"] + unit * CHUNK
        end = f.minimum(begin + CHUNK, c["boxes"])
        with f.loop(c["first"], c["last"]) as i:
            with f.when(boxes.is_kept(i)):
                boxes.compare(i, begin, end, threshold)
    return module(f)
