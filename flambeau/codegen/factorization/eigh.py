"""Eigenvalues and eigenvectors of Hermitian matrices: made tridiagonal, the reflectors multiplied out, the rotations of the
implicit QL iteration applied to their product (Golub and Van Loan, Matrix Computations, 8.3).

Only the lower triangle is read. A matrix whose largest element is far from one is scaled by a power of two; one that holds NaN
or infinities has NaN for eigenvalues. On a large matrix one thread goes on with the iteration while the others apply the
rotations that it logged before. Stands on tridiagonal.py, tridiagonal_blocks.py, tridiagonal_ql.py, spectrum.py and blocked.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from flambeau.codegen.builder import Value, module
from flambeau.codegen.factorization.blocked import behind, extent, grain_of, is_whole, over_matrices, over_tiles, tiles
from flambeau.codegen.factorization.columns import (
    FIELDS,
    Field,
    call,
    clear_text,
    copy_text,
    floor_to,
    padded,
    places,
    update_text,
)
from flambeau.codegen.factorization.householder import block_of, dots_text, one_text, reflector_text, reflector_texts, vector_text
from flambeau.codegen.factorization.rotations import HEAD, TOGETHER, rotate_text
from flambeau.codegen.factorization.spectrum import WORDS, Spectral, full_sweeps, laid_out, largest_text
from flambeau.codegen.factorization.tridiagonal import tridiagonal_texts
from flambeau.codegen.factorization.tridiagonal_blocks import LEFT, PIECE, block_texts
from flambeau.codegen.factorization.tridiagonal_ql import iterate_text, values_text
from flambeau.codegen.jit import compiled_module
from flambeau.codegen.kernel import Kernel
from flambeau.codegen.llvm import LIGHT
from flambeau.codegen.plan import Phase
from flambeau.codegen.runtime.threads import planned_threads

FEW = 16  # rows up to which reflectors are multiplied out one by one
SERIAL_ROWS = 96  # a matrix with fewer rows is one unit of work
TILE_COLUMNS = 48

PARTS = ("matrix", "v", "tau", "triangles", "d", "e", "order", "state", "w", "y", "log", "heads", "log_size", "heads_size")
SHAPE = (
    "n",
    "ld",
    "size",
    "room",
    "source",
    "source_batch",
    "source_row",
    "source_column",
    "vectors",
    *PARTS,
    "first",
    "count",
    "turn",
)
_columns = extent(SHAPE, "n")
_behind = behind(SHAPE, "n")


class Work(NamedTuple):
    """What is asked: the order, the source's slot and strides (batch, row, column), whether vectors are wanted (in buffer 1,
    values in buffer 0), and whether the matrix is worked on in phases."""

    n: int
    source: tuple[int, int, int, int]
    vectors: bool
    phases: bool

    def words(self, field: Field) -> tuple[tuple[int, ...], int]:
        """(SHAPE's words but for the last ones, bytes of scratch memory for a matrix)."""
        n, ld = self.n, padded(self.n, field)
        block = block_of(field)
        panels = -(-n // block)
        room = full_sweeps(n) * n if self.vectors else 0
        log = room * 2 * field.bytes // field.parts
        heads = 8 * HEAD * max(room, 1)
        logs = 2 if self.phases else 1
        extra = block if self.phases else 1
        sizes = {
            "matrix": ld * n * field.bytes,
            "v": ld * n * field.bytes,
            "tau": n * field.bytes,
            "triangles": 2 * block * block * panels * field.bytes if self.vectors else 0,
            "d": 8 * (n + 1),
            "e": 8 * (n + 1),
            "order": 8 * n,
            "state": 8 * len(WORDS),
            "w": ld * extra * field.bytes,
            "y": ld * field.bytes * (planned_threads() if self.phases else 1),
            "log": logs * log,
            "heads": logs * heads,
        }
        at, size = laid_out(sizes)
        return (n, ld, size, room, *self.source, int(self.vectors), *at.values(), log, heads), size


class _Matrix(Spectral):
    """One matrix of a kernel's range and the parts of its scratch memory."""

    def __init__(self, f: Kernel, field: Field, batch: Value, place: Value):
        super().__init__(f, field, batch, place, SHAPE, PARTS[:-2])
        self.n, self.ld = self.c["n"], self.c["ld"]
        self.rows = self.whole(self.n)

    def begin(self) -> None:
        """Scale the matrix if it has to be; what is imaginary on its diagonal is cleared."""
        f, field = self.f, self.field
        if field.complex:
            with f.loop(0, self.n) as j:
                f.store(f.value(0, field.real), field.at(f, self["matrix"], j * self.ld + j), 1)
        epsilon = 2.0**-24 if field.real == "float" else 2.0**-53
        self.begin_scaled(self.rows, self.n, 1, epsilon * epsilon)

    def reduce(self, first: Value | int) -> None:
        """Make columns from `first` on tridiagonal."""
        f = self.f
        call(f, "mirror", self["matrix"], self.ld, first, self.n)
        call(
            f,
            "reduce",
            self["matrix"],
            self.ld,
            self["v"],
            self["tau"],
            self["d"],
            self["e"],
            self["w"],
            self["y"],
            self.rows,
            first,
            self.n,
        )

    def square(self) -> None:
        """The squares of the couplings."""
        f = self.f
        with f.loop(0, self.n) as k:
            x = f.load("double", self["e"], k)
            f.store(x * x, self["e"], k)

    def iterate(self, turn: Value | int) -> Value:
        """Sweeps into a log: how many."""
        made = self.f.call(
            "i64",
            "iterate",
            self["d"],
            self["e"],
            self.n,
            self["state"],
            self.turn("log", turn),
            self.turn("heads", turn),
            self.c["room"],
            declare=False,
        )
        assert made is not None
        return made

    def converge(self) -> None:
        """Sweeps, and their rotations, until all eigenvalues are found."""
        f = self.f
        with f.repeat(lambda: f.load("i64", self.word("first")) < self.n):
            self.rotate("matrix", self.ld, "log", 0, self.iterate(0), 0, self.rows * self.field.parts)

    def give_values(self) -> None:
        self.give_in_order(0, self.n, False, self.c["vectors"] + 1)

    def give_vectors(self, first: Value | int, last: Value) -> None:
        f, field = self.f, self.field
        target = field.at(f, f.buffer(1), self.batch * (self.n * self.n))
        with f.loop(first, last) as j:
            source = field.at(f, self["matrix"], f.load("i64", self["order"], j) * self.ld)
            call(f, "copy", source, 1, self.ld, field.at(f, target, j * self.n), 1, self.n, self.n, 1)


# ---------------------------------------------------------------- kernels


def _one_unit(field: Field, vectors: bool, blocks: bool) -> Kernel:
    """Whole matrices."""

    def matrix(f: Kernel, batch: Value) -> None:
        x = _Matrix(f, field, batch, f["thread"])
        x.copy_in(0, x.n, x.n)
        x.begin()
        x.reduce(0)
        if not vectors:
            x.square()
            call(f, "values", x["d"], x["e"], x.n, x["state"])
            x.give_values()
            return
        x.identity("matrix", x.ld, x.rows, 0, x.n)
        if blocks:
            with f.loop(0, x.n, block_of(field)) as k:
                x.make_triangle("triangles", "v", "tau", x.ld, x.rows, k, x.n - 1)
            x.multiply("matrix", "triangles", "v", x.ld, x.rows, x.n - 1, 0, x.n)
        else:
            x.multiply_singly("matrix", "v", "tau", x.ld, x.rows, x.n - 1, x.n, 1)
        x.converge()
        x.give_values()
        x.give_vectors(0, x.n)

    return over_matrices("whole", matrix)


def _take(field: Field) -> Kernel:
    def tile(f: Kernel, batch: Value, first: Value, last: Value) -> None:
        x = _Matrix(f, field, batch, batch)
        x.copy_in(first, last - first, x.n)

    return over_tiles("take", TILE_COLUMNS, _columns, tile)


def _begin(field: Field) -> Kernel:
    return over_matrices("begin", lambda f, batch: _Matrix(f, field, batch, batch).begin())


def _finish(field: Field) -> Kernel:
    """What the phases on blocks leave of the matrix, from column `first` on."""

    def matrix(f: Kernel, batch: Value) -> None:
        x = _Matrix(f, field, batch, batch)
        x.reduce(x.c["first"])

    return over_matrices("finish", matrix)


def _lead(field: Field) -> Kernel:
    """Column first + count of a block, or (turn 0) the end of the block's last product."""

    def matrix(f: Kernel, batch: Value) -> None:
        x = _Matrix(f, field, batch, batch)
        call(
            f,
            "lead",
            x["matrix"],
            x.ld,
            x["v"],
            x["tau"],
            x["d"],
            x["e"],
            x["w"],
            x["y"],
            f.parameter(3),
            x.rows,
            x.c["first"],
            x.c["count"],
            x.c["turn"],
        )

    return over_matrices("leading", matrix)


def _product(field: Field) -> Kernel:
    """The matrix behind columns first + count times the last reflector's vector."""

    def tile(f: Kernel, batch: Value, first: Value, last: Value) -> None:
        x = _Matrix(f, field, batch, batch)
        start = x.c["first"] + x.c["count"]
        call(
            f,
            "product",
            x["matrix"],
            x.ld,
            field.at(f, x["v"], (start - 1) * x.ld),
            field.at(f, x["y"], f["thread"] * x.ld),
            x.rows,
            start + first,
            start + last,
        )

    return over_tiles("products", PIECE, _behind, tile)


def _trailing(field: Field) -> Kernel:
    def tile(f: Kernel, batch: Value, first: Value, last: Value) -> None:
        x = _Matrix(f, field, batch, batch)
        start, count = x.c["first"] + x.c["count"], x.c["count"]
        call(
            f,
            "trailing",
            x["matrix"],
            x.ld,
            field.at(f, x["v"], x.c["first"] * x.ld),
            x["w"],
            x.rows,
            count,
            start + first,
            start + last,
        )

    return over_tiles("behind", TILE_COLUMNS, _behind, tile)


def _values(field: Field) -> Kernel:
    def matrix(f: Kernel, batch: Value) -> None:
        x = _Matrix(f, field, batch, batch)
        x.square()
        call(f, "values", x["d"], x["e"], x.n, x["state"])
        x.give_values()

    return over_matrices("found", matrix)


def _triangles(field: Field) -> Kernel:
    def block(f: Kernel, batch: Value, first: Value, last: Value) -> None:
        x = _Matrix(f, field, batch, batch)
        x.make_triangle("triangles", "v", "tau", x.ld, x.rows, first, x.n - 1)

    return over_tiles("triangles", block_of(field), _columns, block)


def _multiply(field: Field) -> Kernel:
    def tile(f: Kernel, batch: Value, first: Value, last: Value) -> None:
        x = _Matrix(f, field, batch, batch)
        x.identity("matrix", x.ld, x.rows, first, last)
        x.multiply("matrix", "triangles", "v", x.ld, x.rows, x.n - 1, first, last)

    return over_tiles("multiply", TILE_COLUMNS, _columns, tile)


def _round(field: Field) -> Kernel:
    """Matrices x (the iteration into one log, and tiles of rows for which the other is applied)."""
    f = Kernel("round")
    c = f.constants(SHAPE)
    height = TOGETHER * field.width
    parts = floor_to(f, c["n"] + (field.lanes - 1), field.lanes) * field.parts
    items = f.ceiling_division(parts, height) + 1
    with f.loop(f["begin"], f["end"]) as index:
        batch, item = index.unsigned_div(items), index.unsigned_rem(items)
        x = _Matrix(f, field, batch, batch)
        made = [x.word(name) for name in ("made", "made_before")]
        odd = c["turn"] & 1
        with f.branches(item.equals(0)) as otherwise:
            f.store(x.iterate(c["turn"]), f.select(odd.equals(0), *made))
            otherwise()
            first = (item - 1) * height
            sweeps = f.load("i64", f.select(odd.equals(0), made[1], made[0]))
            x.rotate("matrix", x.ld, "log", c["turn"] + 1, sweeps, first, f.minimum(first + height, parts))
    return f


def _rest(field: Field) -> Kernel:
    """The rotations of the last log, and what is not converged yet."""

    def matrix(f: Kernel, batch: Value) -> None:
        x = _Matrix(f, field, batch, batch)
        x.rotate("matrix", x.ld, "log", 1, f.load("i64", x.word("made_before")), 0, x.rows * field.parts)
        x.converge()
        x.give_values()

    return over_matrices("rest", matrix)


def _give(field: Field) -> Kernel:
    def tile(f: Kernel, batch: Value, first: Value, last: Value) -> None:
        _Matrix(f, field, batch, batch).give_vectors(first, last)

    return over_tiles("give", TILE_COLUMNS, _columns, tile)


@compiled_module(LIGHT)
def eigh_kernels(field: Field, kind: str) -> str:
    """Addresses of the kernels by name; kind: what a matrix is reduced by, "few" or "many" with vectors as one unit, "values" as
    one unit, "reduction" of a large one, and "vectors" or "found" for what follows on it."""
    copies = [copy_text(field), clear_text(field)]
    blocks = [*reflector_texts(field, True), update_text(field)]
    few = kind == "few"
    reduce = [largest_text(field), reflector_text(field), *tridiagonal_texts(field, few)]
    turn = [iterate_text(field), rotate_text(field, few)]
    texts = {
        "few": lambda: [*copies, vector_text(field), one_text(field), *reduce, *turn, _one_unit(field, True, False)],
        "many": lambda: [*copies, *blocks, *reduce, *turn, _one_unit(field, True, True)],
        "values": lambda: [*copies, vector_text(field), *reduce, values_text(field), _one_unit(field, False, False)],
        "reduction": lambda: [
            *copies,
            vector_text(field),
            *reduce,
            dots_text(field),
            update_text(field),
            *block_texts(field),
            *(entry(field) for entry in (_take, _begin, _lead, _product, _trailing, _finish)),
        ],
        "vectors": lambda: [*copies, *blocks, *turn, *(entry(field) for entry in (_triangles, _multiply, _round, _rest, _give))],
        "found": lambda: [values_text(field), _values(field)],
    }[kind]
    return module(*texts())


def _block_phases(kernels: dict[str, int], words: tuple[int, ...], batch: int, n: int, first: int, block: int) -> Iterator[Phase]:
    """Columns [first, first + block) made tridiagonal."""
    for count in range(block):
        yield Phase(kernels["leading"], batch, 1, (*words, first, count, 1))
        yield Phase(kernels["products"], batch * tiles(n - first - count - 1, PIECE), 1, (*words, first, count + 1, 0))
    yield Phase(kernels["leading"], batch, 1, (*words, first, block, 0))
    yield Phase(kernels["behind"], batch * tiles(n - first - block, TILE_COLUMNS), 1, (*words, first, block, 0))


def eigh_phases(dtype: str, batch: int, n: int, source: tuple[int, int, int, int], vectors: bool) -> tuple[list[Phase], int]:
    """Phases that find the eigenvalues of (batch, n, n) matrices, and the scratch bytes they take.

    source: the input's slot and its strides (batch, row, column). Buffer 0 is the eigenvalues, 1 the eigenvectors in columns if
    they are wanted, the next one how many eigenvalues failed to converge.
    """
    field = FIELDS[dtype]
    whole = is_whole(batch, n, SERIAL_ROWS) or not n
    words, size = Work(n, source, vectors, not whole).words(field)
    plain = (*words, 0, 0, 0)
    if whole:
        grain = grain_of(batch, 60 * n * n + 4 * n**3)
        kind = "values" if not vectors else "few" if n <= FEW else "many"
        return [Phase(eigh_kernels(field, kind)["whole"], batch if n else 0, grain, plain)], size * places(batch, grain)
    kernels = eigh_kernels(field, "reduction")
    pieces = batch * tiles(n, TILE_COLUMNS)
    phases = [Phase(kernels["take"], pieces, 1, plain), Phase(kernels["begin"], batch, 1, plain)]
    first = max(0, n - LEFT) // block_of(field) * block_of(field)
    for start in range(0, first, block_of(field)):
        phases += _block_phases(kernels, words, batch, n, start, block_of(field))
    phases.append(Phase(kernels["finish"], batch, 1, (*words, first, 0, 0)))
    if not vectors:
        return [*phases, Phase(eigh_kernels(field, "found")["found"], batch, 1, plain)], size * batch
    kernels = eigh_kernels(field, "vectors")
    phases.append(Phase(kernels["triangles"], batch * tiles(n, block_of(field)), 1, plain))
    phases.append(Phase(kernels["multiply"], pieces, 1, plain))
    items = batch * (1 + tiles(-(-n // field.lanes) * field.width, TOGETHER * field.width))
    rounds = 2 * tiles(n, full_sweeps(n))  # an even number, for twice the usual number of sweeps
    phases += [Phase(kernels["round"], items, 1, (*words, 0, 0, turn)) for turn in range(rounds)]
    phases.append(Phase(kernels["rest"], batch, 1, plain))
    phases.append(Phase(kernels["give"], pieces, 1, plain))
    return phases, size * batch
