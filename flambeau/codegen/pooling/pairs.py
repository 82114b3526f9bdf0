"""Kernels of pooling over windows of 2 x 2 that don't overlap, on contiguous planes: forward, gradient, and gather.

Stands on windows.py and strip_mine.py; ops/nn/max_pool.py and ops/nn/average_pool.py plan the phases.
"""

from __future__ import annotations

from flambeau.codegen.builder import module
from flambeau.codegen.element_type import Kind, narrow, widen
from flambeau.codegen.jit import compiled
from flambeau.codegen.kernel import Kernel, vector
from flambeau.codegen.pooling.windows import replaces
from flambeau.codegen.strip_mine import Strip, strips

GEOMETRY = ("out_y", "out_x", "size_y", "size_x")


@compiled()
def forward_kernel(kind: Kind, reduce: str, coded: bool) -> str:
    """Maximum or mean of 2 x 2 windows of contiguous planes; the range is rows of the output. Slots: out, [code], input.

    The code is the number of the window's element (0 to 3) that is the maximum, as a byte.
    """
    f = Kernel()
    c = f.constants(GEOMETRY)
    lanes = kind.lanes
    with f.loop(f["begin"], f["end"]) as row:
        plane, oy = row.unsigned_div(c["out_y"]), row.unsigned_rem(c["out_y"])
        top = f.at(kind.storage, f.buffer(2 if coded else 1), (plane * c["size_y"] + oy * 2) * c["size_x"])
        lines = top, f.at(kind.storage, top, c["size_x"])
        target = f.at(kind.storage, f.buffer(0), row * c["out_x"])

        def block(strip: Strip) -> None:
            values = []
            for line in lines:
                pair = strip.load(kind.storage, f.at(kind.storage, line, strip.x * 2), each=2)
                values += [widen(f, kind, f.shuffle(pair, pair, range(half, 2 * lanes, 2))) for half in (0, 1)]
            best = values[0]
            code = f.value(0, vector("i8", lanes))
            if reduce == "mean":
                best = ((best + values[1]) + values[2] + values[3]) * 0.25
                values = []
            for number, value in enumerate(values[1:], 1):
                taken = replaces(f, kind, value, best)
                best = f.select(taken, value, best)
                if coded:
                    code = f.select(taken, f.value(number, code.type), code)
            best = narrow(f, kind, best)
            stores = [(best, kind.storage, f.at(kind.storage, target, strip.x))]
            if coded:
                stores.append((code, "i8", f.at("i8", f.buffer(1), row * c["out_x"] + strip.x)))
            for store in stores:
                strip.store(*store)

        strips(f, c["out_x"], lanes, block)
    return module(f)


@compiled()
def backward_kernel(kind: Kind, reduce: str) -> str:
    """The gradient of the maximum or mean of 2 x 2 windows; the range is rows of the output. Slots: out, gradient, [code]."""
    f = Kernel()
    c = f.constants(GEOMETRY)
    lanes = kind.lanes
    with f.loop(f["begin"], f["end"]) as row:
        plane, oy = row.unsigned_div(c["out_y"]), row.unsigned_rem(c["out_y"])
        top = f.at(kind.storage, f.buffer(0), (plane * c["size_y"] + oy * 2) * c["size_x"])
        lines = top, f.at(kind.storage, top, c["size_x"])
        gradient = f.at(kind.storage, f.buffer(1), row * c["out_x"])
        codes = f.at("i8", f.buffer(2), row * c["out_x"]) if reduce == "max" else None
        both = [i // 2 + (i % 2) * lanes for i in range(2 * lanes)]

        def block(strip: Strip) -> None:
            g = strip.load(kind.storage, f.at(kind.storage, gradient, strip.x))
            if codes is None:
                share = narrow(f, kind, widen(f, kind, g) * 0.25)
            else:
                code, zero = strip.load("i8", f.at("i8", codes, strip.x)), f.value(0, g.type)
            for r, line in enumerate(lines):
                even, odd = [share if codes is None else f.select(code.equals(2 * r + k), g, zero) for k in (0, 1)]
                spread = f.shuffle(even, odd, both)
                strip.store(spread, kind.storage, f.at(kind.storage, line, strip.x * 2), each=2)

        strips(f, c["out_x"], lanes, block)
        zero = f.value(0, kind.storage)
        with f.when(c["size_x"] > c["out_x"] * 2):
            for line in lines:
                f.store(zero, line, c["size_x"] - 1)
        with f.when((oy + 1).equals(c["out_y"])):
            with f.when(c["size_y"] > c["out_y"] * 2):
                with f.loop(0, c["size_x"]) as x:
                    f.store(zero, f.at(kind.storage, top, c["size_x"] * 2), x)
    return module(f)


@compiled()
def gather_kernel(kind: Kind) -> str:
    """The elements of 2 x 2 windows that their codes name; the range is rows of the output. Slots: out, planes, code."""
    f = Kernel()
    c = f.constants(GEOMETRY)
    with f.loop(f["begin"], f["end"]) as row:
        plane, oy = row.unsigned_div(c["out_y"]), row.unsigned_rem(c["out_y"])
        top = f.at(kind.storage, f.buffer(1), (plane * c["size_y"] + oy * 2) * c["size_x"])
        with f.loop(0, c["out_x"]) as x:
            code = f.convert(f.load("i8", f.buffer(2), row * c["out_x"] + x), "i64", "zext") & 3
            value = f.load(kind.storage, top, (code >> 1) * c["size_x"] + x * 2 + (code & 1))
            f.store(value, f.buffer(0), row * c["out_x"] + x)
    return module(f)
