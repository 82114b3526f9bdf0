"""Kernels of the samplers that decide as they draw how many words an element takes: Poisson, binomial, gamma, slopes of rrelu.

One after the other through the elements, from the twister's state and the normal sample that waits beside it (base.rng says how
a stream goes). Functions are the C library's and every product is rounded, as in PyTorch. Stands on twister and builder; used
by core.operator.sampling.
"""

from __future__ import annotations

import math
import struct
from typing import Any

from flambeau.codegen.builder import Function, Value, kernel, module
from flambeau.codegen.jit import compiled
from flambeau.codegen.sampling.twister import WORDS, draw, temper, twist

SMALLEST = {"float": 2.0**-126, "double": 2.0**-1022}
# PyTorch's third is a float32 in every dtype.
THIRD = struct.unpack("f", struct.pack("f", 1 / 3))[0]
KEY, SPARE = ("key", "ptr"), ("spare", "ptr")


def _part(name: str, parameters: list[tuple[str, str]], result: str = "double", attributes: str = "noinline") -> Function:
    return Function(name, parameters, result, linkage="internal", attributes=f"nounwind {attributes}")


def _library(f: Function, name: str, *operands: Any) -> Value:
    return f.call("double", name, *(f.value(x, "double") for x in operands))


def _own(f: Function, name: str, *operands: Any) -> Value:
    """A call of another function of the module, which draws."""
    return f.call("double", name, *operands, declare=False)


def _absolute(f: Function, x: Value) -> Value:
    return f.call("double", "llvm.fabs.f64", x)


def _floor(f: Function, x: Value) -> Value:
    return f.call("double", "llvm.floor.f64", x)


def _forever(f: Function) -> Any:
    return f.repeat(lambda: f.value(1, "i1"))


def _give(f: Function, x: Any) -> None:
    f.ret(f.value(x, "double"))


def _unit() -> list[Function]:
    """The twist, the next word, and the next u53."""
    f = _part("twist", [KEY], "void")
    twist(f, f["key"])
    g = _part("word", [KEY], "i64", "alwaysinline")
    place = g.at("i32", g["key"], WORDS)
    position = g.variable("i64", g.convert(g.load("i32", place), "i64", "sext"))
    with g.when(position.get() >= WORDS):
        g.call("void", "twist", g["key"], declare=False)
        position.set(0)
    at = position.get()
    g.store(g.convert(at + 1, "i32", "trunc"), place)
    g.ret(g.convert(temper(g.load("i32", g["key"], at)), "i64", "zext"))
    h = _part("unit", [KEY])
    high, low = (h.call("i64", "word", h["key"], declare=False) for _ in range(2))
    h.ret(h.convert(((high << 32) | low) & ((1 << 53) - 1), "double", "uitofp") * 2.0**-53)
    return [f, g, h]


def _normal() -> Function:
    """The next serial normal sample (G. Box and M. Muller, 1958)."""
    f = _part("normal", [KEY, SPARE])
    value, waits = f.load("double", f["spare"], 0), f.load("double", f["spare"], 1)
    with f.when(waits.differs(0)):
        f.store(f.value(0, "double"), f["spare"], 1)
        f.ret(value)
    angle = _own(f, "unit", f["key"]) * (2.0 * math.pi)
    radius = f.call("double", "llvm.sqrt.f64", _library(f, "log1p", -_own(f, "unit", f["key"])) * -2.0)
    f.store(radius * _library(f, "sin", angle), f["spare"], 0)
    f.store(f.value(1, "double"), f["spare"], 1)
    f.ret(radius * _library(f, "cos", angle))
    return f


def _poisson() -> list[Function]:
    """sample(rate): products of uniforms below 10; from there W. Hoermann, "The transformed rejection method for generating
    Poisson random variables" (1993), algorithm PTRS.
    """
    f = _part("sample", [("rate", "double"), KEY, SPARE])
    rate, key = f["rate"], f["key"]
    with f.when(rate.equals(0)):
        _give(f, 0)
    with f.when(rate < 10.0):
        limit = _library(f, "exp", -rate)
        product, count = f.variable("double", 1), f.variable("double", 0)
        with _forever(f):
            product.set(product.get() * _own(f, "unit", key))
            with f.when(product.get() <= limit):
                f.ret(count.get())
            count.add(1)
    logarithm = _library(f, "log", rate)
    b = f.call("double", "llvm.sqrt.f64", rate) * 2.53 + 0.931
    a = b * 0.02483 + -0.059
    inverse_alpha = f.value(1.1328, "double") / (b - 3.4) + 1.1239
    sure = 0.9277 - f.value(3.6224, "double") / (b - 2.0)
    with _forever(f):
        u = _own(f, "unit", key) - 0.5
        v = _own(f, "unit", key)
        us = 0.5 - _absolute(f, u)
        with f.when(us.differs(0)):
            count = _floor(f, (a * 2.0 / us + b) * u + rate + 0.43)
            with f.when((us >= 0.07) & (v <= sure)):
                f.ret(count)
            with f.when((count >= 0.0) & ((us >= 0.013) | (v <= us))):
                bound = count * logarithm - rate - _library(f, "lgamma", count + 1.0)
                tried = _library(f, "log", v) + _library(f, "log", inverse_alpha) - _library(f, "log", a / (us * us) + b)
                with f.when(tried <= bound):
                    f.ret(count)
    return [f]


def _binomial() -> list[Function]:
    """sample(trials, chance): gaps between successes while few are expected; from there W. Hoermann, "The generation of binomial
    random variates" (1993), algorithm BTRS.
    """
    tail = _part("stirling_tail", [("k", "double")])  # log k! less Stirling's approximation of it
    k = tail["k"]
    with tail.when(k <= 9.0):
        tail.ret(
            _library(tail, "lgamma", k + 1.0)
            - ((k + 0.5) * _library(tail, "log", k + 1.0) - (k + 1.0) + 0.5 * math.log(2.0 * math.pi))
        )
    square = (k + 1.0) * (k + 1.0)
    inner = 1 / 360 - tail.value(1 / 1260, "double") / square
    tail.ret((1 / 12 - inner / square) / (k + 1.0))

    f = _part("successes", [("trials", "double"), ("chance", "double"), KEY])
    trials, chance, key = f["trials"], f["chance"], f["key"]
    with f.when(trials * chance < 10.0):
        failure = _library(f, "log1p", -chance)
        gaps, count = f.variable("double", 0), f.variable("double", 0)
        with _forever(f):
            gaps.add(f.call("double", "llvm.ceil.f64", _library(f, "log", _own(f, "unit", key)) / failure))
            with f.when(gaps.get() > trials):
                f.ret(count.get())
            count.add(1)
    deviation = f.call("double", "llvm.sqrt.f64", trials * chance * (1.0 - chance))
    b = deviation * 2.53 + 1.15
    a = b * 0.0248 + -0.0873 + chance * 0.01
    centre = trials * chance + 0.5
    sure = 0.92 - f.value(4.2, "double") / b
    odds = chance / (1.0 - chance)
    alpha = (f.value(5.1, "double") / b + 2.83) * deviation
    mode = _floor(f, (trials + 1.0) * chance)
    with _forever(f):
        u = _own(f, "unit", key) - 0.5
        v = _own(f, "unit", key)
        us = 0.5 - _absolute(f, u)
        with f.when(us.differs(0)):
            count = _floor(f, (a * 2.0 / us + b) * u + centre)
            with f.when((us >= 0.07) & (v <= sure)):
                f.ret(count)
            with f.when((count >= 0.0) & (count <= trials)):
                rest = trials - count + 1.0
                bound = (
                    (mode + 0.5) * _library(f, "log", (mode + 1.0) / (odds * (trials - mode + 1.0)))
                    + (trials + 1.0) * _library(f, "log", (trials - mode + 1.0) / rest)
                    + (count + 0.5) * _library(f, "log", odds * rest / (count + 1.0))
                    + _own(f, "stirling_tail", mode)
                    + _own(f, "stirling_tail", trials - mode)
                    - _own(f, "stirling_tail", count)
                    - _own(f, "stirling_tail", trials - count)
                )
                with f.when(_library(f, "log", v * alpha / (a / (us * us) + b)) <= bound):
                    f.ret(count)

    g = _part("sample", [("trials", "double"), ("chance", "double"), KEY, SPARE])
    trials, chance = g["trials"], g["chance"]
    with g.when((trials <= 0.0) | (chance <= 0.0)):
        _give(g, 0)
    with g.when((chance >= 1.0) | trials.equals(math.inf)):
        g.ret(trials)
    with g.when(trials.differs(trials) | chance.differs(chance)):
        _give(g, math.nan)
    with g.when(chance <= 0.5):
        g.ret(_own(g, "successes", trials, chance, g["key"]))
    g.ret(trials - _own(g, "successes", trials, 1.0 - chance, g["key"]))
    return [tail, f, g]


def _gamma(type: str) -> list[Function]:
    """sample(shape) at rate 1 (G. Marsaglia and W. W. Tsang, 2000); NaN or a sample too small becomes the smallest normal number.

    What is derived from the shape alone is of its type.
    """

    def kept(x: Value) -> Value:
        return x if type == "double" else f.convert(f.convert(x, type, "fptrunc"), "double", "fpext")

    f = _part("accepted", [("given", "double"), KEY, SPARE])
    key = f["key"]
    scale, shape = f.variable("double", 1), f.variable("double", f["given"])
    with f.when(f["given"] < 1.0):
        with f.when(f["given"].equals(0)):
            _give(f, 0)
        left = 1.0 - _own(f, "unit", key)
        scale.set(_library(f, "pow", left, kept(f.value(1, "double") / f["given"])))
        shape.set(kept(f["given"] + 1.0))
    d = kept(shape.get() - THIRD)
    root = f.value(1, "double") / f.call("double", "llvm.sqrt.f64", d * 9.0)
    c = f.select(d > 0.0, root, math.nan)
    with _forever(f):
        x, y = f.variable("double"), f.variable("double")
        y.set(0)
        with f.repeat(lambda: y.get() <= 0.0):
            x.set(_own(f, "normal", key, f["spare"]))
            y.set(c * x.get() + 1.0)
        v = y.get() * y.get() * y.get()
        u = 1.0 - _own(f, "unit", key)
        square = x.get() * x.get()
        with f.when(u < 1.0 - square * 0.0331 * square):
            f.ret(scale.get() * d * v)
        with f.when(_library(f, "log", u) < square * 0.5 + d * (1.0 - v + _library(f, "log", v))):
            f.ret(scale.get() * d * v)
    g = _part("sample", [("shape", "double"), KEY, SPARE])
    sample = _own(g, "accepted", g["shape"], g["key"], g["spare"])
    g.ret(g.select(sample >= SMALLEST[type], sample, SMALLEST[type]))
    return [_normal(), f, g]


def _over(type: str, operands: int, functions: list[Function], numbers: int = 0, refused: bool = False) -> str:
    """Text of a kernel over one unit: constants (n); sample(operands, numbers, ...) of slots 1 ... into slot 0, all of `type`.

    Scalars: addresses of the state and of the waiting normal, then the numbers. refused: it stops with an error where the first
    operand is less than zero or no number.
    """
    f = kernel()
    n = f.load("i64", f.pointer(f.parameter(0)), 0)
    out, given = f.buffer(0), [f.buffer(1 + i) for i in range(operands)]
    key, spare = (f.pointer(f.parameter(5 + operands + i)) for i in range(2))
    fixed = [f.load("double", f["p"], 7 + operands + i) for i in range(numbers)]
    with f.loop(0, n) as i:
        own = [f.load(type, x, i) for x in given]
        wide = own if type == "double" else [f.convert(x, "double", "fpext") for x in own]
        if refused:
            with f.when(f.select(wide[0] >= 0.0, f.i64(0), f.i64(1)).differs(0)):
                f.store(f.i64(1), f["p"], 2)
                f.ret()
        sample = _own(f, "sample", *wide, *fixed, key, spare)
        f.store(sample if type == "double" else f.convert(sample, type, "fptrunc"), out, i)
    text = module(*_unit(), *functions, f)
    return text.replace(" contract ", " ")


@compiled()
def poisson_kernel(type: str) -> str:
    """Counts of the rates in slot 1 (see `_over`), which are refused if negative."""
    return _over(type, 1, _poisson(), refused=True)


@compiled()
def binomial_kernel(type: str) -> str:
    """Successes among the trials in slot 1 with the chances in slot 2."""
    return _over(type, 2, _binomial())


@compiled()
def gamma_kernel(type: str) -> str:
    """Samples of the standard gamma distributions whose shapes are in slot 1."""
    return _over(type, 1, _gamma(type))


BLOCK, TOGETHER = 512, 8  # elements whose words are drawn at once, and those that get slopes at once


@compiled()
def slopes_kernel(type: str) -> str:
    """Slopes for the elements in slot 1: one of a range where they aren't positive, else 1; numbers: the ends of the range.

    Kernel over one unit like those of `_over`. A block's words are drawn together and spread over the elements that take some.
    """
    f = kernel()
    n = f.load("i64", f.pointer(f.parameter(0)), 0)
    out, x, key = f.buffer(0), f.buffer(1), f.pointer(f.parameter(6))
    low, high = (f.load("double", f["p"], 8 + i) for i in range(2))
    words = f.stack("i64", BLOCK + TOGETHER, 64)
    place, count = f.variable("i64"), f.variable("i64")
    lows, span = f.splat(low, TOGETHER), f.splat(high - low, TOGETHER)
    pairs, wide, bits = f"<{TOGETHER} x i64>", f"<{TOGETHER} x double>", f"i{TOGETHER}"

    def chosen(i: Value, last: Value) -> tuple[Value, Value]:
        """(those of the elements from i on that take words, those that exist), as masks."""
        steps = ", ".join(f"i64 {k}" for k in range(TOGETHER))
        exists = f.emit(f"<{TOGETHER} x i1>", f"icmp sgt {pairs} {f.splat(last - i, TOGETHER).name}, <{steps}>")
        own = f.call(
            f"<{TOGETHER} x {type}>",
            f"llvm.masked.load.v{TOGETHER}{'f64' if type == 'double' else 'f32'}.p0",
            f.at(type, x, i),
            f.value(1, "i32"),
            exists,
            f.value(1.0, f"<{TOGETHER} x {type}>"),
        )
        return (own <= 0.0) & exists, exists

    def number(mask: Value) -> Value:
        return f.convert(f.call(bits, f"llvm.ctpop.{bits}", f.convert(mask, bits, "bitcast")), "i64", "zext")

    with f.loop(0, n, BLOCK) as first:
        last = f.minimum(first + BLOCK, n)
        count.set(0)
        with f.loop(first, last, TOGETHER) as i:
            count.add(number(chosen(i, last)[0]))
        draw(f, key, words, count.get() * 2)
        place.set(0)
        with f.loop(first, last, TOGETHER) as i:
            takes, exists = chosen(i, last)
            own = f.call(
                pairs, f"llvm.masked.expandload.v{TOGETHER}i64", f.at("i64", words, place.get()), takes, f.value(0, pairs)
            )
            unit = f.convert(((own << 32) | (own >> 32)) & ((1 << 53) - 1), wide, "uitofp") * 2.0**-53
            sample = f.select(takes, unit * span + lows, f.value(1.0, wide))
            if type == "float":
                sample = f.convert(sample, f"<{TOGETHER} x float>", "fptrunc")
            f.call(
                "void",
                f"llvm.masked.store.v{TOGETHER}{'f64' if type == 'double' else 'f32'}.p0",
                sample,
                f.at(type, out, i),
                f.value(1, "i32"),
                exists,
            )
            place.add(number(takes))
    return module(f).replace(" contract ", " ")


@compiled()
def spare_kernel(into: bool) -> str:
    """Kernel over one unit: constants (place, slot): the waiting normal is written to (into) or taken from that byte of scratch;
    scalar `slot` holds its address.
    """
    f = kernel()
    constants = f.pointer(f.parameter(0))
    place, slot = f.load("i64", constants, 0), f.load("i64", constants, 1)
    own, spare = f.pointer(f.parameter(1) + place), f.pointer(f.load("i64", f["p"], slot + 4))
    source, target = (spare, own) if into else (own, spare)
    f.store(f.load("double", source, 0), target, 0)
    f.store(f.value(0 if into else 1, "double"), spare, 1)
    return module(f)
