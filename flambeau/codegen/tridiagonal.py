"""Hermitian matrices made tridiagonal by reflectors from both sides (Golub and Van Loan, Matrix Computations, 8.3), and the
implicit QL iteration for the eigenvalues of what they leave (8.3.5; without vectors free of square roots: Pal, Walker and Kahan,
in Parlett, The Symmetric Eigenvalue Problem, 8.15).

A reflector's update A - v w^H - w v^H of the columns is put off until the next one's product A v passes over them. The iteration
is in double precision for every dtype and logs its rotations (rotations.py). These are functions of eigh.py's kernels; they
stand on householder.py.
"""

from __future__ import annotations

from functools import cache

from flambeau.codegen.builder import Value
from flambeau.codegen.columns import Field, absolute, call, floor_to, helper, root, total
from flambeau.codegen.gemm_micro import Kernel, suffix
from flambeau.codegen.householder import block_of, reflector
from flambeau.codegen.rotations import Rotation, log_head, log_rotation

STRIP = 16              # columns whose mirror images are written together
MOST_SWEEPS = 30        # to an eigenvalue, on the average

#: Words of an iteration's state: where it begins, the end of the block it is in, its direction, sweeps so far, the size below
#: which a coupling is none, the number that failed to converge.
STATE = ("first", "end", "step", "sweeps", "cutoff", "failed")


@cache
def prepare_text(field: Field) -> Kernel:
    """double prepare(matrix, ld, rows, n): the largest part in the lower triangle, NaN if one is NaN or infinite; what is
    imaginary on the diagonal is cleared."""
    f = helper("prepare", ("matrix", "ld", "rows", "n"), ("matrix",))
    f.result = "double"
    best, strange = (f.variable(field.vector, 0) for _ in range(2))

    def look(x: Value) -> None:
        size = absolute(f, x)
        best.set(f.select(best.get() > size, best.get(), size))
        strange.set(strange.get() + (x - x))
    with f.loop(0, f["n"]) as j:
        column = field.at(f, f["matrix"], j * f["ld"])
        if field.complex:
            field.put(f, (field.element(f, column, j)[0], f.value(0, field.real)), column, j)
        start = floor_to(f, j, field.lanes)
        look(f.select(field.rows(f, "sge", j - start), field.load(f, column, start), 0))
        with f.loop(start + field.lanes, f["rows"], field.lanes) as i:
            look(field.load(f, column, i))
    most = f.call(field.real, f"llvm.vector.reduce.fmax.{suffix(field.vector)}", best.get())
    made = most + total(f, strange.get())
    f.ret(made if field.real == "double" else f.convert(made, "double", "fpext"))
    return f


@cache
def mirror_text(field: Field) -> Kernel:
    """void mirror(matrix, ld, first, n): the upper triangle of columns [first, n) from the lower one."""
    f = helper("mirror", ("matrix", "ld", "first", "n"), ("matrix",))
    with f.loop(f["first"], f["n"], STRIP) as start, f.loop(start + 1, f["n"]) as i:
        target = field.at(f, f["matrix"], i * f["ld"])
        with f.loop(start, f.minimum(start + STRIP, i)) as j:
            field.put(f, field.conjugate(f, field.element(f, f["matrix"], j * f["ld"] + i)), target, j)
    return f


def _together(field: Field) -> int:
    return 2 if field.complex else 4


PASS = ("matrix", "ld", "from", "to", "v", "w", "next", "y", "start", "rows")


@cache
def _pass_text(field: Field) -> Kernel:
    """void pass(matrix, ld, from, to, v, w, next, y, start, rows): columns [from, to) become A - v w^H - w v^H, and y becomes
    y + A next; rows from `start` on."""
    f = helper("pass", PASS, ("matrix", "v", "w", "next", "y"))

    def columns(j: Value, count: int) -> None:
        starts = [field.at(f, f["matrix"], (j + c) * f["ld"]) for c in range(count)]

        def across(name: str, conjugated: bool) -> list:
            found = [field.element(f, f[name], j + c) for c in range(count)]
            return [field.spread(f, field.conjugate(f, x) if conjugated else x) for x in found]
        vs, ws, nexts = across("v", True), across("w", True), across("next", False)
        with f.loop(f["start"], f["rows"], field.lanes) as i:
            v, w, sum = (field.load(f, f[name], i) for name in ("v", "w", "y"))
            for c, column in enumerate(starts):
                a = field.less(f, field.less(f, field.load(f, column, i), v, ws[c]), w, vs[c])
                field.store(f, a, column, i)
                sum = field.more(f, sum, a, nexts[c])
            field.store(f, sum, f["y"], i)
    whole = f["from"] + ((f["to"] - f["from"]) & -_together(field))
    with f.loop(f["from"], whole, _together(field)) as j:
        columns(j, _together(field))
    with f.loop(whole, f["to"]) as j:
        columns(j, 1)
    return f


def half_product(f: Kernel, field: Field, v: Value, y: Value, w: Value, tau: tuple, first: Value, rows: Value) -> None:
    """w = tau y - |tau|^2 / 2 (v^H y) v in rows from `first` on, zeros in front of them, from y = A v."""
    start = floor_to(f, first, field.lanes)
    sum = f.variable(field.vector, 0)
    with f.loop(start, rows, field.lanes) as i:     # v is zero in front; the product is real
        sum.set(f.fma(field.load(f, v, i), field.load(f, y, i), sum.get()))
    size = tau[0] * tau[0] + tau[1] * tau[1] if field.complex else tau[0] * tau[0]
    half = f.splat(size * total(f, sum.get()) * 0.5, field.width)
    scale = field.spread(f, tau)

    def made(i: Value) -> Value:
        return f.fma(-field.load(f, v, i), half, field.times(f, field.load(f, y, i), scale))
    field.store(f, f.select(field.rows(f, "sge", first - start), made(start), 0), w, start)
    with f.loop(start + field.lanes, rows, field.lanes) as i:
        field.store(f, made(i), w, i)


def clear_column(f: Kernel, field: Field, column: Value, start: Value, rows: Value) -> None:
    with f.loop(start, rows, field.lanes) as i:
        field.store(f, f.value(0, field.vector), column, i)


def as_double(f: Kernel, x: Value) -> Value:
    return x if x.type == "double" else f.convert(x, "double", "fpext")


def column_reflector(f: Kernel, field: Field, k: Value, rows: Value) -> tuple:
    """Take column k's diagonal element, make its reflector, and note what it leaves: d, e, tau and the vector. Gives tau."""
    column = field.at(f, f["matrix"], k * f["ld"])
    f.store(as_double(f, field.element(f, column, k)[0]), f["d"], k)
    tau, beta = reflector(f, field, column, k + 1, rows)
    f.store(as_double(f, beta), f["e"], k)
    field.put(f, tau, f["tau"], k)
    ahead = -f["ld"]    # reflector k has its one in row k + 1
    call(f, "vector", field.at(f, f["matrix"], ahead), f["ld"], field.at(f, f["v"], ahead), rows, floor_to(f, k, block_of(field)),
         k + 1)
    return tau


REDUCE = ("matrix", "ld", "v", "tau", "d", "e", "w", "y", "rows", "first", "n")


@cache
def _reduce_text(field: Field) -> Kernel:
    """void reduce(matrix, ld, v, tau, d, e, w, y, rows, first, n): columns [first, n) of a Hermitian matrix, given in full,
    become tridiagonal; reflector k is column k of v, with its one in row k + 1."""
    f = helper("reduce", REDUCE, ("matrix", "v", "tau", "d", "e", "w", "y"))
    rows, ld, last = f["rows"], f["ld"], f["n"] - 1
    clear_column(f, field, f["w"], floor_to(f, f["first"], field.lanes), rows)
    with f.loop(f["first"], last) as k:
        tau = column_reflector(f, field, k, rows)
        start = floor_to(f, k + 1, field.lanes)
        clear_column(f, field, f["y"], start, rows)
        own = field.at(f, f["v"], k * ld)
        before = field.at(f, f["v"], f.maximum(k - 1, f["first"]) * ld)
        call(f, "pass", f["matrix"], ld, k + 1, f["n"], before, f["w"], own, f["y"], start, rows)
        half_product(f, field, own, f["y"], f["w"], tau, k + 1, rows)
        following = field.at(f, f["matrix"], (k + 1) * ld)
        vs, ws = (field.spread(f, field.conjugate(f, field.element(f, x, k + 1))) for x in (own, f["w"]))
        with f.loop(start, rows, field.lanes) as i:
            a = field.less(f, field.load(f, following, i), field.load(f, own, i), ws)
            field.store(f, field.less(f, a, field.load(f, f["w"], i), vs), following, i)
    f.store(as_double(f, field.element(f, f["matrix"], last * ld + last)[0]), f["d"], last)
    f.store(f.value(0, "double"), f["e"], last)
    return f


# ---------------------------------------------------------------- the implicit QL iteration


class _Iteration:
    """The blocks between negligible couplings, taken one after another from `first` on."""

    def __init__(self, f: Kernel, field: Field, squared: bool):
        self.f, self.squared = f, squared
        self.epsilon = 2.0 ** -24 if field.real == "float" else 2.0 ** -53
        self.first, self.last = f.variable("i64", self.word("first")), f.variable("i64", 0)
        self.end, self.step, self.sweeps = (f.variable("i64", self.word(x)) for x in ("end", "step", "sweeps"))
        self.cutoff = f.load("double", f["state"], STATE.index("cutoff"))

    def word(self, name: str) -> Value:
        return self.f.load("i64", self.f["state"], STATE.index(name))

    def coupled(self) -> Value:
        """Whether rows `last` and the next one are; the coupling of the last row is zero."""
        f, m = self.f, self.last.get()
        a, b, e = f.load("double", f["d"], m), f.load("double", f["d"], m + 1), f.load("double", f["e"], m)
        square, least = (e, self.cutoff * self.cutoff) if self.squared else (e * e, self.cutoff * self.cutoff)
        return (square > absolute(f, a * b) * (self.epsilon * self.epsilon)) & (square > least)

    def find_block(self) -> None:
        f = self.f
        self.last.set(self.first.get())
        with f.repeat(self.coupled):
            self.last.add(1)

    def choose(self) -> tuple[Value, Value, Value, Value]:
        """(start, step, goal, rotations) of the next sweep: towards the end whose diagonal element is the smaller one, as
        long as parts of that block are left. The couplings outside become zero."""
        f = self.f
        first, last = self.first.get(), self.last.get()
        with f.when(first > self.end.get()):
            self.end.set(last)
            ends = [absolute(f, f.load("double", f["d"], x)) for x in (first, last)]
            self.step.set(f.select(ends[1] < ends[0], f.i64(1), f.i64(-1)))
        step = self.step.get()
        up = step > 0
        zero = f.value(0, "double")
        f.store(zero, f["e"], last)
        self.sweeps.add(1)
        return f.select(up, first, last), step, f.select(up, last, first), last - first

    def coupling(self, position: Value, step: Value) -> Value:
        """The index of the coupling from a row to the next one in a sweep's direction."""
        return self.f.minimum(position, position + step)

    def shift(self, goal: Value, step: Value, e: Value) -> Value:
        """Wilkinson's shift of the corner at `goal`, whose coupling is e."""
        f = self.f
        p, q = f.load("double", f["d"], goal), f.load("double", f["d"], goal - step)
        g = (q - p) / (e * 2.0)
        size = root(f, f.fma(g, g, 1))
        return p - e / (g + f.select(g < 0, -size, size))

    def keep(self) -> None:
        f = self.f
        for name, x in (("first", self.first), ("end", self.end), ("step", self.step), ("sweeps", self.sweeps)):
            f.store(x.get(), f["state"], STATE.index(name))

    def give_up(self) -> None:
        """Note what has not converged, if there were too many sweeps."""
        f = self.f
        with f.when(self.sweeps.get() > f["n"] * MOST_SWEEPS):
            f.store(self.last.get() - self.first.get(), f["state"], STATE.index("failed"))
            self.first.set(f["n"])


@cache
def iterate_text(field: Field) -> Kernel:
    """i64 iterate(d, e, n, state, log, heads, room): sweeps until all couplings are negligible or the log has no room for another
    one; gives their number. d and e are doubles; e may be written in front of its first."""
    f = helper("iterate", ("d", "e", "n", "state", "log", "heads", "room"), ("d", "e", "state", "log", "heads"))
    f.result = "i64"
    x = _Iteration(f, field, False)
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
    rotation = Rotation(f)
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
    x = _Iteration(f, field, True)
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


@cache
def tridiagonal_texts(field: Field) -> tuple[Kernel, ...]:
    """The functions that make a matrix tridiagonal; they call `vector` of householder.py."""
    return prepare_text(field), mirror_text(field), _pass_text(field), _reduce_text(field)


