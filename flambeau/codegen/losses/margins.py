"""Kernels of the losses over margins between the scores of classes, row by row, and of their gradients.

Slots of the losses: losses, [which classes are targets], scores (N, C), targets, [weights of the classes]; of the
gradients: gradient of the scores, that of the losses, scores, targets, [which classes are targets or weights of the
classes]. Losses that are reduced go to scratch memory first, from where `total_kernel` sums them. A target that is no
class leaves TARGET_ERROR. Stands on strip_mine.py; used by ops.nn.margin_loss.
"""

from __future__ import annotations

from typing import Any

from flambeau.codegen.builder import Value, Variable, module
from flambeau.codegen.element_type import Kind, kind_of
from flambeau.codegen.jit import compiled
from flambeau.codegen.kernel import BYTES, Constants, Kernel, vector
from flambeau.codegen.llvm import INDEXED
from flambeau.codegen.simd import total_of
from flambeau.codegen.strip_mine import Strip, strips

TARGET_ERROR = 1
CONSTANTS = ("classes", "divisor", "pitch")  # of a row's loss or gradient; elements between two gradients of losses


def _both(f: Kernel, a: Value, b: Value | None) -> Value:
    return a if b is None else a & b


def _load(strip: Strip, element: str, row: Value) -> Value:
    return strip.load(element, strip.f.at(element, row, strip.x))


def _is_not(strip: Strip, target: Value) -> Value:
    """Which elements of a strip are not the one at `target`."""
    f, lanes = strip.f, strip.lanes
    steps = ", ".join(f"i64 {i}" for i in range(lanes))
    type = vector("i64", lanes)
    return f.emit(vector("i1", lanes), f"icmp ne {type} {f.splat(target - strip.x, lanes).name}, <{steps}>")


def _above(strip: Strip, kind: Kind, scores: Value, base: Value, among: Value) -> tuple[Value, Value]:
    """base + score of the elements, and those of `among` where that is positive."""
    f = strip.f
    excess = _load(strip, kind.compute, scores) + f.splat(base, strip.lanes)
    positive = _both(f, excess > f.value(0.0, excess.type), among)
    return excess, _both(f, positive, strip.mask())


def _add_wide(f: Kernel, kind: Kind, total: Variable, value: Value) -> None:
    total.add(value if kind.compute == "double" else f.convert(value, total.type, "fpext"))


def _put_loss(f: Kernel, kind: Kind, c: Constants, row: Value, total: Value, reduced: bool) -> None:
    """The loss of a row: its sum, a double, by the divisor."""
    loss = total / f.convert(c["divisor"], "double", "sitofp")
    if reduced:
        f.store(loss, f.scratch(row * 8))
    else:
        f.store(loss if kind.compute == "double" else f.convert(loss, kind.compute, "fptrunc"), f.buffer(0), row)


def _scale(f: Kernel, kind: Kind, c: Constants, row: Value) -> Value:
    """What a row's gradient is multiplied by."""
    return f.load(kind.compute, f.buffer(1), row * c["pitch"]) / f.convert(c["divisor"], kind.compute, "sitofp")


def _margin(f: Kernel, kind: Kind, slot: int) -> Value:
    margin = f.load("double", f["p"], 4 + slot)
    return margin if kind.compute == "double" else f.convert(margin, kind.compute, "fptrunc")


@compiled(INDEXED)
def total_kernel(dtype: Any) -> str:
    """The range is a single number. Slot 0: the sum of as many doubles in scratch memory as the constant says."""
    f, kind = Kernel(), kind_of(dtype)
    (count,) = f.constants(("count",)).values()
    total = f.variable(vector("double", 8), 0)
    strips(f, count, 8, lambda strip: total.add(strip.load("double", f.scratch(strip.x * 8))))
    result = total_of(f, total.get())
    f.store(result if kind.compute == "double" else f.convert(result, kind.compute, "fptrunc"), f.buffer(0))
    return module(f)


# ---------------------------------------------------------------- one target class a row


@compiled(INDEXED)
def single_kernel(dtype: Any, power: int, weighted: bool, reduced: bool) -> str:
    """The range is rows. Scalar: the margin. Per row: the sum over the other classes of max(0, margin - x[target] + x)^power."""
    f, kind = Kernel(), kind_of(dtype)
    c = f.constants(CONSTANTS)
    margin = _margin(f, kind, 3 + weighted)
    sum_type = vector("double", kind.lanes)
    with f.loop(f["begin"], f["end"]) as row:
        scores, target = f.at(kind.compute, f.buffer(1), row * c["classes"]), f.load("i64", f.buffer(2), row)
        with f.branches(target.unsigned_below(c["classes"])) as otherwise:
            base, total = margin - f.load(kind.compute, scores, target), f.variable(sum_type, 0)

            def add(
                strip: Strip, scores: Value = scores, target: Value = target, base: Value = base, total: Variable = total
            ) -> None:
                excess, positive = _above(strip, kind, scores, base, _is_not(strip, target))
                term = excess if power == 1 else excess * excess
                _add_wide(f, kind, total, f.select(positive, term, f.value(0.0, term.type)))

            strips(f, c["classes"], kind.lanes, add)
            result = total_of(f, total.get())
            if weighted:
                weight = f.load(kind.compute, f.buffer(3), target)
                result = result * (weight if kind.compute == "double" else f.convert(weight, "double", "fpext"))
            _put_loss(f, kind, c, row, result, reduced)
            otherwise()
            f.store(f.i64(TARGET_ERROR), f["p"], 2)
    return module(f)


@compiled(INDEXED)
def single_gradient_kernel(dtype: Any, power: int, weighted: bool) -> str:
    """The gradient of `single_kernel`'s losses."""
    f, kind = Kernel(), kind_of(dtype)
    c = f.constants(CONSTANTS)
    margin = _margin(f, kind, 4 + weighted)
    with f.loop(f["begin"], f["end"]) as row:
        start, target = row * c["classes"], f.load("i64", f.buffer(3), row)
        out, scores = f.at(kind.compute, f.buffer(0), start), f.at(kind.compute, f.buffer(2), start)
        with f.branches(target.unsigned_below(c["classes"])) as otherwise:
            base, total = margin - f.load(kind.compute, scores, target), f.variable(kind.accumulator, 0)
            scale = _scale(f, kind, c, row) * float(power)
            if weighted:
                scale = scale * f.load(kind.compute, f.buffer(4), target)

            def put(
                strip: Strip,
                out: Value = out,
                scores: Value = scores,
                target: Value = target,
                base: Value = base,
                scale: Value = scale,
                total: Variable = total,
            ) -> None:
                excess, positive = _above(strip, kind, scores, base, _is_not(strip, target))
                slope = f.splat(scale, strip.lanes)
                slope = f.select(positive, slope if power == 1 else slope * excess, f.value(0.0, slope.type))
                strip.store(slope, kind.compute, f.at(kind.compute, out, strip.x))
                total.add(slope)

            strips(f, c["classes"], kind.lanes, put)
            f.store(-total_of(f, total.get()), out, target)
            otherwise()
            f.store(f.i64(TARGET_ERROR), f["p"], 2)
    return module(f)


# ---------------------------------------------------------------- any number of target classes a row


def _count_targets(f: Kernel, c: Constants, targets: Value) -> Variable:
    """How many targets stand in front of the first -1 of a row; all, if there is none. -1 if one of the row is no class."""
    count = f.variable("i64", c["classes"])
    good = f.variable("i1", 1)
    with f.loop(0, c["classes"]) as back:
        place = c["classes"] - 1 - back
        target = f.load("i64", targets, place)
        good.set(good.get() & (target + 1).unsigned_below(c["classes"] + 1))
        count.set(f.select(target < 0, place, count.get()))
    count.set(f.select(good.get(), count.get(), f.i64(-1)))
    return count


def _target(f: Kernel, c: Constants, targets: Value, i: Value) -> Value:
    """Target i of a row that was found good: class 0, should another thread have put something else there since."""
    target = f.load("i64", targets, i)
    return f.select(target.unsigned_below(c["classes"]), target, 0)


@compiled(INDEXED)
def several_kernel(dtype: Any, reduced: bool) -> str:
    """The range is rows. Per row: the sum over its targets t and the classes c that are none of max(0, 1 - x[t] + x[c])."""
    f, kind = Kernel(), kind_of(dtype)
    c = f.constants(CONSTANTS)
    with f.loop(f["begin"], f["end"]) as row:
        start = row * c["classes"]
        chosen, scores = f.at(kind.compute, f.buffer(1), start), f.at(kind.compute, f.buffer(2), start)
        targets = f.at("i64", f.buffer(3), start)
        count = _count_targets(f, c, targets)
        total = f.variable(vector("double", kind.lanes), 0)
        with f.branches(count.get() >= 0) as otherwise:
            strips(
                f,
                c["classes"],
                kind.lanes,
                lambda strip, chosen=chosen: strip.store(
                    f.value(0.0, kind.accumulator), kind.compute, f.at(kind.compute, chosen, strip.x)
                ),
            )
            with f.loop(0, count.get()) as i:
                f.store(f.value(1.0, kind.compute), chosen, _target(f, c, targets, i))
            with f.loop(0, count.get()) as i:
                base = 1.0 - f.load(kind.compute, scores, _target(f, c, targets, i))
                part = f.variable(kind.accumulator, 0)

                def add(
                    strip: Strip, base: Value = base, part: Variable = part, scores: Value = scores, chosen: Value = chosen
                ) -> None:
                    other = _load(strip, kind.compute, chosen)
                    excess, positive = _above(strip, kind, scores, base, other.equals(f.value(0.0, other.type)))
                    part.add(f.select(positive, excess, f.value(0.0, excess.type)))

                strips(f, c["classes"], kind.lanes, add)
                _add_wide(f, kind, total, part.get())
            _put_loss(f, kind, c, row, total_of(f, total.get()), reduced)
            otherwise()
            f.store(f.i64(TARGET_ERROR), f["p"], 2)
    return module(f)


@compiled(INDEXED)
def several_gradient_kernel(dtype: Any) -> str:
    """The gradient of `several_kernel`'s losses."""
    f, kind = Kernel(), kind_of(dtype)
    c = f.constants(CONSTANTS)
    size = BYTES[kind.compute]
    with f.loop(f["begin"], f["end"]) as row:
        start = row * c["classes"]
        out, scores, chosen = (f.at(kind.compute, f.buffer(slot), start) for slot in (0, 2, 4))
        targets = f.at("i64", f.buffer(3), start)
        count = _count_targets(f, c, targets)
        with f.branches(count.get() >= 0) as otherwise:
            strips(
                f,
                c["classes"],
                kind.lanes,
                lambda strip, out=out: strip.store(
                    f.value(0.0, kind.accumulator), kind.compute, f.at(kind.compute, out, strip.x)
                ),
            )
            # whole numbers first: how often a class that is no target comes too near, and how many come too near to a target
            with f.loop(0, count.get()) as i:
                target = _target(f, c, targets, i)
                base = 1.0 - f.load(kind.compute, scores, target)
                near = f.variable("i64", 0)

                def add(
                    strip: Strip,
                    base: Value = base,
                    near: Variable = near,
                    scores: Value = scores,
                    chosen: Value = chosen,
                    out: Value = out,
                ) -> None:
                    other = _load(strip, kind.compute, chosen)
                    _, positive = _above(strip, kind, scores, base, other.equals(f.value(0.0, other.type)))
                    place = f.at(kind.compute, out, strip.x)
                    one = f.select(positive, f.value(1.0, other.type), f.value(0.0, other.type))
                    strip.store(strip.load(kind.compute, place) + one, kind.compute, place)
                    bits = f.convert(positive, f"i{strip.lanes}", "bitcast")
                    near.add(f.convert(f.call(bits.type, f"llvm.ctpop.{bits.type}", bits), "i64", "zext"))

                strips(f, c["classes"], kind.lanes, add)
                own = f.load(kind.compute, out, target, align=size)
                f.store(own - f.convert(near.get(), kind.compute, "sitofp"), out, target, align=size)
            scale = _scale(f, kind, c, row)

            def multiply(strip: Strip, out: Value = out, scale: Value = scale) -> None:
                place = f.at(kind.compute, out, strip.x)
                strip.store(strip.load(kind.compute, place) * f.splat(scale, strip.lanes), kind.compute, place)

            strips(f, c["classes"], kind.lanes, multiply)
            otherwise()
            f.store(f.i64(TARGET_ERROR), f["p"], 2)
    return module(f)
