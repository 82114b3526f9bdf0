"""Convolutions of quantized images in which each channel has taps of its own: vectors are channels that lie side by side.

A pixel of the result is the sum of the pixels that its taps see, each times that tap's weights. A pixel outside of the image is
one of zero points. Weights are (taps, channels) of int16, without their zero points; all else is as in integer_products.py, on
which this stands. steps.py plans with it.
"""

from __future__ import annotations

from flambeau.codegen.builder import Odometer, Value, module
from flambeau.codegen.jit import compiled
from flambeau.codegen.kernel import Kernel, vector
from flambeau.codegen.llvm import LIGHT
from flambeau.codegen.quantized.integer_products import CHUNK, SLACK, WEIGHTS, Form, Task, X

POINTER = 8  # bytes
TOGETHER = 4  # vectors of channels that are summed at once


def working_bytes(taps: int, columns: int) -> int:
    """Of a thread: where a pixel's taps lie, and a pixel of zero points."""
    return POINTER * taps + columns + SLACK


class _Pixels(Task):
    """Emits the work on some pixels of the result and some of their channels."""

    def emit(self) -> None:
        f, c = self.f, self.c
        outside = f.at("i8", self.a, c["k"] * POINTER)
        zero = self.zero ^ 128 if self.form.source == "signed" else self.zero  # as the image has it
        with f.loop(0, self.across, CHUNK) as at:
            f.store(f.splat(f.convert(zero, "i8", "trunc"), CHUNK), outside, at, align=1)
        self.factors_of_columns()
        place = Odometer(f, [f.i64(1 << 62), c["out_d"], c["out_h"], c["out_w"]], self.i0)
        with f.loop(0, self.down) as i:
            self._find_taps(place.read(), outside)
            done = f.variable("i64", 0)
            for width in (TOGETHER * self.lanes, self.lanes, 1):
                whole = done.get() + ((self.across - done.get()) & -width)
                with f.loop(done.get(), whole, width) as j:
                    self._sum(j, width)
                done.set(whole)
            self.finish(f.i64(0), i, self.sums, self.across)
            place.advance()

    def _find_taps(self, place: list[Value], outside: Value) -> None:
        """Where the pixels lie that one of the result is made of."""
        f, c = self.f, self.c
        source = f.at("i8", f.buffer(X), place[0] * c["image"] + self.first)
        index = f.variable("i64", 0)
        with f.loop(0, c["taps_d"]) as d, f.loop(0, c["taps_h"]) as h, f.loop(0, c["taps_w"]) as w:
            z, y, x = (
                at * c[f"stride_{axis}"] - c[f"padding_{axis}"] + tap * c[f"dilation_{axis}"]
                for axis, at, tap in zip("dhw", place[1:], (d, h, w), strict=True)
            )
            inside = z.unsigned_below(c["in_d"]) & y.unsigned_below(c["in_h"]) & x.unsigned_below(c["in_w"])
            pixel = f.at("i8", source, z * c["plane"] + y * c["line"] + x * c["pixel"])
            f.store(f.select(inside, pixel, outside), f.at("ptr", self.a, index.get()))
            index.add(1)

    def _sum(self, j: Value, width: int) -> None:
        """The sums of so many channels from the j-th on."""
        f, c = self.f, self.c
        byte, short, whole = (vector(item, width) if width > 1 else item for item in ("i8", "i16", "i32"))
        total = f.variable(whole)
        total.set(0)
        weights = f.at("i16", f.buffer(WEIGHTS), self.first + j)
        with f.loop(0, c["k"]) as tap:
            x = f.load(byte, f.load("ptr", self.a, tap), j, align=1)
            x = f.convert(x ^ -128 if self.form.source == "signed" else x, whole, "zext")
            w = f.convert(f.load(short, weights, tap * c["out_row"], align=2), whole, "sext")
            total.set(total.get() + x * w)
        f.store(total.get(), f.at("i32", self.sums, j), align=4)


@compiled(LIGHT)
def depthwise_kernel(form: Form) -> str:
    """The range is tasks; its constants are CONSTANTS of integer_products."""
    f = Kernel()
    with f.loop(f["begin"], f["end"]) as index:
        _Pixels(f, form, index).emit()
    return module(f)
