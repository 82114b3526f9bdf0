"""Householder reflectors in columns: those that make a panel triangular, the triangular factor of a block of them, and what a
block does to other columns (Golub and Van Loan, Matrix Computations, 5.1 and 5.2; Schreiber and Van Loan 1989, compact WY).

Reflector k is I - tau v v^H, with v zero above row k and one there; tau and the signs are LAPACK's (larfg): what it leaves on the
diagonal is real and of the sign opposite to what was there. A block of them is I - V T V^H. The vectors also lie in columns of
their own, with their ones and zeros, so that nothing is masked. These are the functions of qr.py's kernels; they stand on
columns.py.
"""

from __future__ import annotations

from functools import cache

from flambeau.codegen.builder import Value
from flambeau.codegen.factorization.columns import (
    Field,
    Scalar,
    absolute,
    call,
    call_update,
    divide,
    floor_to,
    helper,
    root,
    total,
)
from flambeau.codegen.kernel import Kernel, suffix, vector

TILE_COLUMNS = 48  # columns that a block of reflectors is applied to together
TOGETHER = 4  # columns that one reflector is applied to together
LEAST, LIFT = 2.0**60, 2.0**90  # a column of a norm below LEAST times the least number is multiplied by LIFT before
IN_RANGE = 1e-280  # sums of squares from this to its reciprocal are neither inaccurate nor infinite


def block_of(field: Field) -> int:
    """Reflectors to a block."""
    return min(32, 4 * field.lanes)


# ---------------------------------------------------------------- products V^H C


def sums_of(f: Kernel, field: Field) -> list:
    """Variables for a sum of conj(v) c: of the products of parts, and of those of opposite parts."""
    return [f.variable(field.vector, 0) for _ in range(field.parts)]


def collect(f: Kernel, field: Field, sums: list, v: Value, c: Value, crossed: Value | None) -> None:
    sums[0].set(f.fma(v, c, sums[0].get()))
    if crossed is not None:
        sums[1].set(f.fma(v, crossed, sums[1].get()))


def crossed(f: Kernel, field: Field, c: Value) -> Value | None:
    """A vector with its parts exchanged; a real one has none."""
    return f.shuffle(c, c, [i ^ 1 for i in range(field.width)]) if field.complex else None


def summed(f: Kernel, field: Field, sums: list) -> Scalar:
    real = total(f, sums[0].get())
    if not field.complex:
        return (real,)
    signs = ", ".join(f"{field.real} {'1.0' if i % 2 == 0 else '-1.0'}" for i in range(field.width))
    return real, total(f, sums[1].get() * Value(f, field.vector, f"<{signs}>"))


@cache
def dots_text(field: Field) -> Kernel:
    """void dots(w, w_column, v, v_column, c, c_column, rows, vectors, columns): W = V^H C; tiles past the edges repeat its last
    rows and columns."""
    f = helper("dots", ("w", "w_column", "v", "v_column", "c", "c_column", "rows", "vectors", "columns"), "wvc")
    high, wide = (4, 2) if field.complex else (4, 4)
    with f.loop(0, f["columns"], wide) as j, f.loop(0, f["vectors"], high) as i:
        down = [f.minimum(i + r, f["vectors"] - 1) for r in range(high)]
        across = [f.minimum(j + s, f["columns"] - 1) for s in range(wide)]
        left = [field.at(f, f["v"], r * f["v_column"]) for r in down]
        right = [field.at(f, f["c"], s * f["c_column"]) for s in across]
        sums = [[sums_of(f, field) for _ in across] for _ in down]
        with f.loop(0, f["rows"], field.lanes) as k:
            vs = [field.load(f, x, k) for x in left]
            for s, x in enumerate(right):
                c = field.load(f, x, k)
                turned = crossed(f, field, c)
                for r, v in enumerate(vs):
                    collect(f, field, sums[r][s], v, c, turned)
        for r, cells in zip(down, sums):
            for s, cell in zip(across, cells):
                field.put(f, summed(f, field, cell), f["w"], s * f["w_column"] + r)
    return f


# ---------------------------------------------------------------- one reflector


def _squares(f: Kernel, field: Field, column: Value, first: Value, rows: Value, change=lambda x: x) -> Value:
    """The sum of the squares of rows [first, rows), in double precision."""
    wide = vector("double", field.width)
    sum = f.variable(wide, 0)
    start = floor_to(f, first, field.lanes)
    below = field.rows(f, "sge", first - start)

    def add(x: Value) -> None:
        x = change(x)
        x = x if field.real == "double" else f.convert(x, wide, "fpext")
        sum.set(f.fma(x, x, sum.get()))

    with f.when(first < rows):
        add(f.select(below, field.load(f, column, start), 0))
        with f.loop(start + field.lanes, rows, field.lanes) as i:
            add(field.load(f, column, i))
    return total(f, sum.get())


def _largest_part(f: Kernel, field: Field, column: Value, first: Value, rows: Value) -> Value:
    best = f.variable(field.vector, 0)
    start = floor_to(f, first, field.lanes)
    below = field.rows(f, "sge", first - start)

    def look(x: Value) -> None:
        x = absolute(f, x)
        best.set(f.select(best.get() > x, best.get(), x))

    with f.when(first < rows):
        look(f.select(below, field.load(f, column, start), 0))
        with f.loop(start + field.lanes, rows, field.lanes) as i:
            look(field.load(f, column, i))
    made = f.call(field.real, f"llvm.vector.reduce.fmax.{suffix(field.vector)}", best.get())
    assert made is not None
    return made


def _norm(f: Kernel, field: Field, column: Value, k: Value, rows: Value) -> tuple[Value, Value]:
    """(the norm of rows [k, rows), whether those behind the first are not all zero)."""
    own = field.element(f, column, k)
    behind = _squares(f, field, column, k + 1, rows)
    wide = [x if field.real == "double" else f.convert(x, "double", "fpext") for x in own]
    sum = behind
    for x in wide:
        sum = f.fma(x, x, sum)
    norm, some = f.variable("double", root(f, sum)), f.variable("i1", behind.differs(0))
    if field.real == "double":  # whose squares may be out of range: divide the largest part out first
        usual = (behind > IN_RANGE) & (sum < 1 / IN_RANGE)
        with f.when(f.select(usual, f.value(0, "i1"), f.value(1, "i1"))):
            most = _largest_part(f, field, column, k + 1, rows)
            some.set(most.differs(0))
            for x in own:
                most = f.maximum(most, absolute(f, x))
            most = f.select(most.equals(0), 1, most)
            each = f.splat(most, field.width)
            scaled = _squares(f, field, column, k + 1, rows, lambda x: x / each)
            for x in own:
                scaled = f.fma(x / most, x / most, scaled)
            norm.set(most * root(f, scaled))
    made = norm.get()
    return (made if field.real == "double" else f.convert(made, "float", "fptrunc")), some.get()


@cache
def vector_text(field: Field) -> Kernel:
    """void vector(matrix, ld, v, rows, first, k): column k of V from what is below the diagonal; rows from `first` on."""
    f = helper("vector", ("matrix", "ld", "v", "rows", "first", "k"), ("matrix", "v"))
    k, lanes = f["k"], field.lanes
    source, target = (field.at(f, f[x], k * f["ld"]) for x in ("matrix", "v"))
    start = floor_to(f, k, lanes)
    with f.loop(f["first"], start, lanes) as i:
        field.store(f, f.value(0, field.vector), target, i)
    field.store(f, f.select(field.rows(f, "sgt", k - start), field.load(f, source, start), 0), target, start)
    field.put(f, field.number(f, 1), target, k)
    with f.loop(start + lanes, f["rows"], lanes) as i:
        field.store(f, field.load(f, source, i), target, i)
    return f


def reflector(f: Kernel, field: Field, column: Value, k: Value, rows: Value) -> tuple[Scalar, Value]:
    """(tau, the real number left in row k) of the reflector of rows [k, rows) of a column, whose vector is left behind row k."""
    norm, moves, lift = f.variable(field.real), f.variable("i1"), f.variable(field.real, 0)

    def unfit() -> Value:
        return lift.get().equals(0) | (moves.get() & lift.get().equals(1) & (norm.get() < field.smallest * LEAST))

    with f.repeat(unfit):
        with f.branches(lift.get().equals(0)) as again:
            lift.set(1)
            again()
            _lift(f, field, column, k, rows)  # few of its digits may be left
            lift.set(LIFT)
        size, some = _norm(f, field, column, k, rows)
        norm.set(size)
        moves.set(some | field.element(f, column, k)[1].differs(0) if field.complex else some)
    alpha = field.element(f, column, k)
    beta = f.select(alpha[0] < 0, norm.get(), -norm.get())  # of the opposite sign; -0.0 counts as positive
    tau = [f.variable(field.real, 0) for _ in range(field.parts)]
    left = f.variable(field.real, alpha[0])
    with f.when(moves.get()):
        tau[0].set((beta - alpha[0]) / beta)
        if field.complex:
            tau[1].set(-alpha[1] / beta)
        divide(f, field, column, k + 1, rows, (alpha[0] - beta, *alpha[1:]))
        left.set(beta / lift.get())
        field.put(f, (left.get(), *field.number(f, 0)[1:]), column, k)
    return tuple(x.get() for x in tau), left.get()


@cache
def reflector_text(field: Field) -> Kernel:
    """real reflector(column, k, rows, tau): the same as a function, which gives what is left in row k and stores tau."""
    f = helper("reflector", ("column", "k", "rows", "tau"), ("column", "tau"))
    f.result = field.real
    tau, left = reflector(f, field, f["column"], f["k"], f["rows"])
    field.put(f, tau, f["tau"])
    f.ret(left)
    return f


def call_reflector(f: Kernel, field: Field, column: Value, k: Value, rows: Value, tau: Value) -> Value:
    """Call it: what is left in row k, in double precision."""
    left = f.call(field.real, "reflector", column, k, rows, tau, declare=False)
    assert left is not None
    return left if field.real == "double" else f.convert(left, "double", "fpext")


def _lift(f: Kernel, field: Field, column: Value, k: Value, rows: Value) -> None:
    """Multiply rows [k, rows) of a column by LIFT."""
    start, wide = floor_to(f, k, field.lanes), f.splat(f.value(LIFT, field.real), field.width)
    x = field.load(f, column, start)
    field.store(f, f.select(field.rows(f, "sge", k - start), x * wide, x), column, start)
    with f.loop(start + field.lanes, rows, field.lanes) as i:
        field.store(f, field.load(f, column, i) * wide, column, i)


def _panel_text(field: Field) -> Kernel:
    """void panel(matrix, ld, v, tau, rows, first, count, end): reflectors of columns [first, first + count), a column at a time,
    applied to those up to `end`; first: a multiple of a vector."""
    f = helper("panel", ("matrix", "ld", "v", "tau", "rows", "first", "count", "end"), ("matrix", "v", "tau"))
    rows = f["rows"]
    with f.loop(f["first"], f["first"] + f["count"]) as k:
        scale = reflector(f, field, field.at(f, f["matrix"], k * f["ld"]), k, rows)[0]
        field.put(f, scale, f["tau"], k)
        call(f, "vector", f["matrix"], f["ld"], f["v"], rows, f["first"], k)
        call(f, "one", f["matrix"], f["ld"], f["v"], f["tau"], rows, k, k + 1, f["end"], -1)
    return f


@cache
def one_text(field: Field) -> Kernel:
    """void one(matrix, ld, v, tau, rows, k, from, to, sign): reflector k (sign 1) or its adjoint (-1) applied to columns
    [from, to), a few together; those past the edge repeat the last one."""
    f = helper("one", ("matrix", "ld", "v", "tau", "rows", "k", "from", "to", "sign"), ("matrix", "v", "tau"))
    v = field.at(f, f["v"], f["k"] * f["ld"])
    tau = field.element(f, f["tau"], f["k"])
    if field.complex:
        tau = tau[0], tau[1] * f.convert(f["sign"], field.real, "sitofp")
    start, rows = floor_to(f, f["k"], field.lanes), f["rows"]
    with f.loop(f["from"], f["to"], TOGETHER) as j:
        columns = [field.at(f, f["matrix"], f.minimum(j + c, f["to"] - 1) * f["ld"]) for c in range(TOGETHER)]
        sums = [sums_of(f, field) for _ in columns]
        with f.loop(start, rows, field.lanes) as i:
            x = field.load(f, v, i)
            for column, cell in zip(columns, sums):
                c = field.load(f, column, i)
                collect(f, field, cell, x, c, crossed(f, field, c))
        factors = [field.spread(f, field.product(f, tau, summed(f, field, cell))) for cell in sums]
        with f.loop(start, rows, field.lanes) as i:
            x = field.load(f, v, i)
            made = [field.less(f, field.load(f, column, i), x, factor) for column, factor in zip(columns, factors)]
            for y, column in zip(made, columns):
                field.store(f, y, column, i)
    return f


# ---------------------------------------------------------------- blocks of reflectors


def _factor_text(field: Field) -> Kernel:
    """void triangle(t, v, ld, tau, rows, first, count): -T and -T^H, `block` columns each, of reflectors [first, first + count).

    Column j of T is tau_j times e_j - T V^H v_j.
    """
    f = helper("triangle", ("t", "v", "ld", "tau", "rows", "first", "count"), ("t", "v", "tau"))
    block, count = block_of(field), f["count"]
    products = f.stack(field.real, block * block * field.parts, align=64)
    turned = field.at(f, f["t"], block * block)
    corner = field.at(f, f["v"], f["first"] * f["ld"] + f["first"])
    call(f, "dots", products, block, corner, f["ld"], corner, f["ld"], f["rows"] - f["first"], count, count)
    with f.loop(0, 2 * block * block, field.lanes) as i:
        field.store(f, f.value(0, field.vector), f["t"], i)
    pieces = range(0, block, field.lanes)
    with f.loop(0, count) as j:
        tau = field.element(f, f["tau"], f["first"] + j)
        column = field.at(f, f["t"], j * block)
        sums = [f.variable(field.vector, 0) for _ in pieces]
        with f.loop(0, j) as k:
            factor = field.spread(f, field.element(f, products, j * block + k))
            known = field.at(f, f["t"], k * block)
            for i, sum in zip(pieces, sums):
                sum.set(field.less(f, sum.get(), field.load(f, known, i), factor))
        scale = field.spread(f, tau)
        for i, sum in zip(pieces, sums):
            field.store(f, field.times(f, sum.get(), scale), column, i)
        field.put(f, field.negative(tau), column, j)
        with f.loop(0, j + 1) as k:
            field.put(f, field.conjugate(f, field.element(f, column, k)), turned, k * block + j)
    return f


def _reflect_text(field: Field) -> Kernel:
    """void reflect(c, c_column, v, v_column, t, rows, count, columns): C - V T V^H C, where t is -T."""
    f = helper("reflect", ("c", "c_column", "v", "v_column", "t", "rows", "count", "columns"), "cvt")
    block, count = block_of(field), f["count"]
    products, scaled = (f.stack(field.real, block * TILE_COLUMNS * field.parts, align=64) for _ in range(2))
    with f.loop(0, f["columns"], TILE_COLUMNS) as j:
        columns = f.minimum(f["columns"] - j, TILE_COLUMNS)
        c = field.at(f, f["c"], j * f["c_column"])
        call(f, "dots", products, block, f["v"], f["v_column"], c, f["c_column"], f["rows"], count, columns)
        with f.loop(0, columns * block, field.lanes) as i:
            field.store(f, f.value(0, field.vector), scaled, i)
        call_update(f, scaled, block, f["t"], block, products, 1, block, block, columns, count)
        call_update(f, c, f["c_column"], f["v"], f["v_column"], scaled, 1, block, f["rows"], columns, count)
    return f


@cache
def reflector_texts(field: Field, blocks: bool) -> tuple[Kernel, ...]:
    """The functions of this file; those for blocks call `update`."""
    single = vector_text(field), one_text(field), _panel_text(field)
    return (*single, dots_text(field), _factor_text(field), _reflect_text(field)) if blocks else single
