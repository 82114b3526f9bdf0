"""The implicit QR iteration for the singular values of bidiagonal matrices (Golub and Kahan 1965; with shifts of zero, Demmel and
Kahan 1990, "Accurate singular values of bidiagonal matrices"), which logs its rotations from both sides.

From the last row up, the iteration is the same on the transposed matrix with its rows in reverse order, so that the sides change
places. These are functions of svd.py's kernels; they stand on iteration.py and rotations.py.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from flambeau.codegen.builder import Value, Variable
from flambeau.codegen.factorization.columns import Field, absolute, helper, root
from flambeau.codegen.factorization.iteration import Iteration
from flambeau.codegen.factorization.rotations import Rotation, log_head, log_rotation
from flambeau.codegen.kernel import Kernel


class _Sweep(NamedTuple):
    """Where a sweep begins and ends, and where it is logged: on its own side, and on the other one."""

    start: Value
    step: Value
    goal: Value
    count: Value
    logs: tuple[Value, Value] | None
    offset: Value


def _smallest_of_corner(f: Kernel, a: Value, e: Value, b: Value) -> Value:
    """The smaller singular value of [[a, e], [0, b]]."""
    a, b = absolute(f, a), absolute(f, b)
    least, most = f.minimum(a, b), f.maximum(a, b)
    ratio, across = least / most, e / most
    square = across * across
    size = root(f, f.fma(ratio + 1.0, ratio + 1.0, square)) + root(f, f.fma(1.0 - ratio, 1.0 - ratio, square))
    return f.select(least.equals(0), 0, least * (f.value(2, "double") / size))


def _shift(f: Kernel, x: Iteration, smallest: Value, s: _Sweep) -> Value:
    """The smaller singular value of the corner at the goal; zero where that is as good, or where there is none."""
    d = f["d"]
    shift = _smallest_of_corner(
        f,
        f.load("double", d, s.goal),
        f.load("double", f["e"], x.coupling(s.goal, -s.step)),
        f.load("double", d, s.goal - s.step),
    )
    first = absolute(f, f.load("double", d, s.start))
    small = (shift * shift < first * first * 2.0**-53) | (smallest <= x.cutoff * 4.0) | first.equals(0)
    return f.select(small, 0, shift)


def _log(f: Kernel, field: Field, s: _Sweep, t: Value, own: Rotation, other: Rotation) -> None:
    if s.logs is not None:
        for log, rotation in zip(s.logs, (own, other)):
            log_rotation(f, field, log, s.offset + t, rotation.c.get(), rotation.s.get())


def _shifted(f: Kernel, field: Field, x: Iteration, shift: Value, s: _Sweep) -> None:
    d, e = f["d"], f["e"]
    own, other = Rotation(f, field), Rotation(f, field)
    head = f.load("double", d, s.start)
    size = absolute(f, head)
    unit = f.select(head < 0, f.value(-1, "double"), f.value(1, "double"))
    p = f.variable("double", (size - shift) * (unit + shift / head))
    q = f.variable("double", f.load("double", e, x.coupling(s.start, s.step)))
    with f.loop(0, s.count) as t:
        here = s.start + t * s.step
        place = x.coupling(here, s.step)
        own.find(p.get(), q.get())
        f.store(own.r.get(), e, place - s.step)
        a, b, following = (f.load("double", *at) for at in ((d, here), (e, place), (d, here + s.step)))
        c, sine = own.c.get(), own.s.get()
        b, below = c * b - sine * a, c * following
        other.find(c * a + sine * f.load("double", e, place), sine * following)
        f.store(other.r.get(), d, here)
        _log(f, field, s, t, own, other)
        c, sine = other.c.get(), other.s.get()
        p.set(c * b + sine * below)
        f.store(c * below - sine * b, d, here + s.step)
        ahead = f.load("double", e, place + s.step)
        q.set(sine * ahead)
        f.store(c * ahead, e, place + s.step)
    f.store(p.get(), e, x.coupling(s.goal, -s.step))


def _unshifted(f: Kernel, field: Field, x: Iteration, s: _Sweep) -> None:
    d, e = f["d"], f["e"]
    own, other = Rotation(f, field), Rotation(f, field)
    c, c_before, s_before = (f.variable("double", value) for value in (1, 1, 0))
    with f.loop(0, s.count) as t:
        here = s.start + t * s.step
        place = x.coupling(here, s.step)
        own.find(f.load("double", d, here) * c.get(), f.load("double", e, place))
        c.set(own.c.get())
        f.store(s_before.get() * own.r.get(), e, place - s.step)
        other.find(c_before.get() * own.r.get(), f.load("double", d, here + s.step) * own.s.get())
        f.store(other.r.get(), d, here)
        c_before.set(other.c.get())
        s_before.set(other.s.get())
        _log(f, field, s, t, own, other)
    last = f.load("double", d, s.goal) * c.get()
    f.store(last * c_before.get(), d, s.goal)
    f.store(last * s_before.get(), e, x.coupling(s.goal, -s.step))


class _Iteration(Iteration):
    """On a bidiagonal matrix: what is the smallest diagonal element of a block is noted."""

    def __init__(self, f: Kernel, field: Field):
        super().__init__(f, field)
        self.epsilon = 2.0**-24 if field.real == "float" else 2.0**-50  # what a sweep's rounding errors leave
        self.smallest: Variable = f.variable("double")

    def find_block(self) -> None:
        f = self.f
        self.smallest.set(absolute(f, f.load("double", f["d"], self.first.get())))
        self.last.set(self.first.get())
        with f.repeat(self.coupled):
            self.last.add(1)
            self.smallest.set(f.minimum(self.smallest.get(), absolute(f, f.load("double", f["d"], self.last.get()))))


@cache
def chase_text(field: Field, vectors: bool) -> Kernel:
    """i64 chase(d, e, n, state, right, left, heads, room): sweeps until all couplings are negligible or the logs have no room for
    another one; gives their number. d and e are doubles; e may be written in front of its first. Without vectors there are no
    logs."""
    f = helper("chase", ("d", "e", "n", "state", "right", "left", "heads", "room"), ("d", "e", "state", "right", "left", "heads"))
    f.result = "i64"
    x = _Iteration(f, field)
    made, used = f.variable("i64", 0), f.variable("i64", 0)

    def goes_on() -> Value:
        some = x.first.get() < f["n"]
        return some & (used.get() + f["n"] <= f["room"]) if vectors else some

    with f.repeat(goes_on):
        x.find_block()
        with f.branches(x.last.get().equals(x.first.get())) as otherwise:
            f.store(f.value(0, "double"), f["e"], x.first.get())
            x.first.add(1)
            otherwise()
            start, step, goal, count = x.choose()
            down = step > 0
            logs = (f.select(down, f["right"], f["left"]), f.select(down, f["left"], f["right"])) if vectors else None
            s = _Sweep(start, step, goal, count, logs, used.get())
            shift = _shift(f, x, x.smallest.get(), s)
            with f.branches(shift.equals(0)) as shifted:
                _unshifted(f, field, x, s)
                shifted()
                _shifted(f, field, x, shift, s)
            f.store(f.value(0, "double"), f["e"], x.coupling(start, -step))
            if vectors:
                log_head(f, f["heads"], made.get(), start, step, count, used.get())
                made.add(1)
                used.add(count)
            x.give_up()
    x.keep()
    f.ret(made.get())
    return f
