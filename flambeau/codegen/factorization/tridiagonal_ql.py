"""The implicit QL iteration for the eigenvalues of tridiagonal matrices (Golub and Van Loan, Matrix Computations, 8.3.5), which
logs its rotations; without vectors free of square roots (Pal, Walker and Kahan, in Parlett, The Symmetric Eigenvalue Problem,
8.15).

These are functions of eigh.py's kernels; they stand on iteration.py and rotations.py.
"""

from __future__ import annotations

from functools import cache

from flambeau.codegen.builder import Value
from flambeau.codegen.factorization.columns import Field, helper, root
from flambeau.codegen.factorization.iteration import Iteration
from flambeau.codegen.factorization.rotations import Rotation, log_head, log_rotation
from flambeau.codegen.kernel import Kernel


class _Iteration(Iteration):
    """On a tridiagonal matrix."""

    def shift(self, goal: Value, step: Value, e: Value) -> Value:
        """Wilkinson's shift of the corner at `goal`, whose coupling is e."""
        f = self.f
        p, q = f.load("double", f["d"], goal), f.load("double", f["d"], goal - step)
        g = (q - p) / (e * 2.0)
        size = root(f, f.fma(g, g, 1))
        return p - e / (g + f.select(g < 0, -size, size))


class _Rootless(_Iteration):
    """On the squares of the couplings."""

    def matters(self, e: Value, limit: Value) -> Value:
        return (e > limit) & (e > self.cutoff * self.cutoff)


@cache
def iterate_text(field: Field) -> Kernel:
    """i64 iterate(d, e, n, state, log, heads, room): sweeps until all couplings are negligible or the log has no room for another
    one; gives their number. d and e are doubles; e may be written in front of its first."""
    f = helper("iterate", ("d", "e", "n", "state", "log", "heads", "room"), ("d", "e", "state", "log", "heads"))
    f.result = "i64"
    x = _Iteration(f, field)
    made, used = f.variable("i64", 0), f.variable("i64", 0)
    with f.repeat(lambda: (x.first.get() < f["n"]) & (used.get() + f["n"] <= f["room"])):
        x.find_block()
        with f.branches(x.last.get().equals(x.first.get())) as otherwise:
            x.first.add(1)
            otherwise()
            start, step, goal, count = x.choose()
            log_head(f, f["heads"], made.get(), start, step, count, used.get())
            _sweep(f, field, x, start, step, goal, count, used.get())
            made.add(1)
            used.add(count)
            x.give_up()
    x.keep()
    f.ret(made.get())
    return f


def _sweep(f: Kernel, field: Field, x: _Iteration, start: Value, step: Value, goal: Value, count: Value, offset: Value) -> None:
    """One sweep, which writes its rotations from `offset` on in the log."""
    d, e = f["d"], f["e"]
    shift = x.shift(goal, step, f.load("double", e, x.coupling(goal, -step)))
    rotation = Rotation(f, field)
    c, s, p = (f.variable("double", value) for value in (1, 1, 0))
    g = f.variable("double", f.load("double", d, start) - shift)
    with f.loop(0, count) as t:
        here = start + t * step
        place = x.coupling(here, step)
        coupling = f.load("double", e, place)
        b = c.get() * coupling
        rotation.find(g.get(), s.get() * coupling)
        c.set(rotation.c.get())
        s.set(rotation.s.get())
        f.store(rotation.r.get(), e, place - step)
        log_rotation(f, field, f["log"], offset + t, c.get(), s.get())
        h = f.load("double", d, here) - p.get()
        r = (f.load("double", d, here + step) - h) * s.get() + c.get() * b * 2.0
        p.set(s.get() * r)
        f.store(h + p.get(), d, here)
        g.set(c.get() * r - b)
    f.store(f.value(0, "double"), e, x.coupling(start, -step))
    f.store(f.load("double", d, goal) - p.get(), d, goal)
    f.store(g.get(), e, x.coupling(goal, -step))


@cache
def values_text(field: Field) -> Kernel:
    """void values(d, e, n, state): eigenvalues without vectors; e holds the squares of the couplings."""
    f = helper("values", ("d", "e", "n", "state"), ("d", "e", "state"))
    x = _Rootless(f, field)
    with f.repeat(lambda: x.first.get() < f["n"]):
        x.find_block()
        with f.branches(x.last.get().equals(x.first.get())) as otherwise:
            x.first.add(1)
            otherwise()
            start, step, goal, count = x.choose()
            _rootless(f, x, start, step, goal, count)
            x.give_up()
    x.keep()
    return f


def _rootless(f: Kernel, x: _Iteration, start: Value, step: Value, goal: Value, count: Value) -> None:
    d, e = f["d"], f["e"]
    sigma = x.shift(goal, step, root(f, f.load("double", e, x.coupling(goal, -step))))
    c, s = f.variable("double", 1), f.variable("double", 0)
    gamma = f.variable("double", f.load("double", d, start) - sigma)
    p = f.variable("double", gamma.get() * gamma.get())
    with f.loop(0, count) as t:
        here = start + t * step
        place = x.coupling(here, step)
        square = f.load("double", e, place)
        r = p.get() + square
        f.store(s.get() * r, e, place - step)
        before, held = c.get(), gamma.get()
        inverse, ratio = f.value(1, "double") / r, r / p.get()
        c.set(p.get() * inverse)
        s.set(square * inverse)
        alpha = f.load("double", d, here + step)
        gamma.set(c.get() * (alpha - sigma) - s.get() * held)
        f.store(held + (alpha - gamma.get()), d, here)
        p.set(f.select(c.get().differs(0), gamma.get() * gamma.get() * ratio, before * square))
    f.store(f.value(0, "double"), e, x.coupling(start, -step))
    f.store(s.get() * p.get(), e, x.coupling(goal, -step))
    f.store(sigma + gamma.get(), d, goal)
