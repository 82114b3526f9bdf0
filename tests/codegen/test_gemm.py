"""The contraction template against NumPy in float64: sizes, strides, dtypes, batches, epilogues, and nothing touched outside."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from kernel_runner import Guarded, guarded, run

from flambeau.base.flags import flags
from flambeau.codegen import cpu
from flambeau.codegen.builder import module
from flambeau.codegen.convolution.gather import channel_tile
from flambeau.codegen.element_type import kind_of
from flambeau.codegen.llvm import DIRECT, Translation
from flambeau.codegen.products import dots, gemm, micro, tiles
from flambeau.codegen.products.gemm import Matrix, gemm_phases

TYPES = {
    "float32": np.float32,
    "float64": np.float64,
    "float16": np.float16,
    "int8": np.int8,
    "uint8": np.uint8,
    "int16": np.int16,
    "int32": np.int32,
    "int64": np.int64,
    "bfloat16": np.uint16,
}
TOLERANCE = {"float32": 4e-6, "float64": 1e-14, "float16": 1e-3, "bfloat16": 8e-3}


@pytest.fixture(autouse=True, params=["as it comes", "packed"])
def form(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Most products of these tests are so small that they would never be packed."""
    if request.param == "packed":
        monkeypatch.setattr(gemm, "IN_PLACE_WORK", 0)
        monkeypatch.setattr(gemm, "IN_PLACE_EACH", 0)


def to_bfloat16(x: np.ndarray) -> np.ndarray:
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def from_bfloat16(x: np.ndarray) -> np.ndarray:
    return (x.astype(np.uint32) << 16).view(np.float32)


def random(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    if dtype.startswith(("int", "uint")):
        info = np.iinfo(TYPES[dtype])
        return rng.integers(info.min, info.max, shape, TYPES[dtype], endpoint=True)
    values = rng.standard_normal(shape)
    return to_bfloat16(values) if dtype == "bfloat16" else values.astype(TYPES[dtype])


def wide(x: np.ndarray, dtype: str) -> np.ndarray:
    return from_bfloat16(x).astype(np.float64) if dtype == "bfloat16" else x if x.dtype.kind in "iu" else x.astype(np.float64)


def check(
    m: int,
    n: int,
    k: int,
    dtype: str = "float32",
    a_order: str = "k",
    b_order: str = "n",
    c_order: str = "n",
    batch: tuple[int, int] = (1, 1),
    a_broadcast: tuple[bool, bool] = (False, False),
    bias: str | None = None,
    alpha: float = 1,
    beta: float = 1,
    activation: str | None = None,
    padding: int = 0,
    seed: int = 0,
) -> None:
    rng = np.random.default_rng(seed)

    def operand(rows: int, columns: int, contiguous_rows: bool, batches: tuple[int, int]):
        """A matrix with `padding` unused elements between its rows; returns values, memory and strides."""
        outer, inner = (columns, rows) if contiguous_rows else (rows, columns)
        memory = random(rng, (*batches, outer, inner + padding), dtype)
        view = memory[..., :inner]
        view = view.swapaxes(-1, -2) if contiguous_rows else view
        strides = tuple(
            0 if size == 1 and axis < 2 else s // memory.itemsize
            for axis, (s, size) in enumerate(zip(view.strides, view.shape, strict=True))
        )
        last = memory.size - (padding if memory.size else 0)
        return view, memory.ravel()[:last], strides

    a_batch = tuple(1 if b else size for b, size in zip(a_broadcast, batch, strict=True))
    a, a_memory, a_strides = operand(m, k, a_order == "m", a_batch)
    b, b_memory, b_strides = operand(k, n, b_order == "k", batch)
    c, c_memory, c_strides = operand(m, n, c_order == "m", batch)
    buffers = [guarded(c_memory), guarded(a_memory, front=seed % 2 == 1), guarded(b_memory)]
    expected = np.matmul(wide(a, dtype), wide(b, dtype))
    addend = None
    if bias == "c":
        addend = Matrix(0, c_strides)
        expected = alpha * expected + beta * wide(c, dtype)
    elif bias:
        values = random(rng, (n if bias == "n" else m,), dtype)
        buffers.append(guarded(values))
        addend = Matrix(3, (0, 0, 0, 1) if bias == "n" else (0, 0, 1, 0))
        expected = alpha * expected + beta * wide(values if bias == "n" else values[:, None], dtype)
    elif alpha != 1:
        expected = alpha * expected
    if activation == "relu":
        expected = np.maximum(expected, 0)
    phases, scratch = gemm_phases(
        dtype, m, n, k, Matrix(1, a_strides), Matrix(2, b_strides), Matrix(0, c_strides), batch, addend, alpha, beta, activation
    )
    before = c_memory.copy()
    run(phases, scratch, buffers)
    got_memory = np.resize(before, before.size)
    got_memory[:] = buffers[0].array
    inner = (m if c_order == "m" else n) + padding
    full = np.concatenate([got_memory, before[:0], np.zeros(padding, before.dtype)]) if got_memory.size else got_memory
    rows = full.reshape(*batch, -1, inner) if full.size else full.reshape(*batch, n if c_order == "m" else m, inner)
    got = rows[..., : inner - padding]
    got = got.swapaxes(-1, -2) if c_order == "m" else got
    if padding:  # what lies between the rows of C is not C
        old = np.concatenate([before, np.zeros(padding, before.dtype)]).reshape(rows.shape)
        assert np.array_equal(rows[..., inner - padding :].ravel()[:-padding], old[..., inner - padding :].ravel()[:-padding])
    if expected.dtype.kind in "iu":
        assert np.array_equal(got, expected.astype(TYPES[dtype]))
    else:
        scale = max(1.0, k**0.5, float(np.abs(expected).max(initial=0)))
        assert np.abs(wide(got, dtype) - expected).max(initial=0) <= TOLERANCE[dtype] * scale


SIZES = [
    (1, 1, 1),
    (1, 7, 3),
    (2, 33, 5),
    (3, 130, 17),
    (5, 5, 40),
    (13, 31, 9),
    (14, 32, 64),
    (15, 33, 65),
    (16, 16, 16),
    (29, 1, 21),
    (1, 300, 70),
    (31, 65, 33),
    (64, 100, 30),
    (97, 17, 400),
    (130, 70, 513),
    (7, 257, 1),
]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("orders", ["kn", "kk", "mn", "mk"])
def test_sizes_and_orders(size, orders):
    check(*size, a_order=orders[0], b_order=orders[1], padding=size[0] % 3)


def test_large_in_place_and_blocked():
    check(50, 400, 300, seed=1)
    check(33, 70, 1200, b_order="k")
    check(300, 90, 800, a_order="m", b_order="k", bias="n", activation="relu")
    check(40, 40, 700, b_order="k", c_order="m", bias="m")


@pytest.mark.parametrize("orders", ["kn", "kk", "mn", "mk"])
@pytest.mark.parametrize("size", [(1, 1, 65536), (1, 1, 70001), (3, 5, 9000), (9, 1, 33333), (1, 40, 5001), (28, 64, 8190)])
def test_few_elements_over_many_steps(size, orders):
    check(*size, a_order=orders[0], b_order=orders[1], padding=size[0] % 3)


@pytest.mark.parametrize("dtype", ["float64", "bfloat16", "float16"])
def test_sums_of_slices(dtype):
    assert sliced_along_k(5, 15, 5000)
    check(1, 1, 40000, dtype, b_order="k")
    for orders in ("kk", "mn"):
        check(5, 15, 5000, dtype, *orders, bias="n")
        check(5, 15, 5000, dtype, *orders, bias="c", alpha=0.5, beta=-2, activation="relu", c_order="m", padding=1)


def sliced_along_k(m: int, n: int, k: int) -> bool:
    product = gemm.Product(
        gemm.kind_of("float32"), gemm.kind_of("float32"), m, n, k, *[Matrix(0, (0, 0, k, 1))] * 3, (1, 1), None, 1, 1, None, None
    )
    return gemm.sliced(product) is not None


def test_slices_are_for_few_elements_and_many_steps():
    assert sliced_along_k(1, 1, 1 << 20) and sliced_along_k(6, 8, 1 << 14)
    assert not sliced_along_k(1, 1, 1000) and not sliced_along_k(500, 500, 1 << 12)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16"])
@pytest.mark.parametrize("k", [1, 2, 63, 600, 1201])
def test_short_integers_are_multiplied_in_pairs_of_steps(dtype, k):
    """Exactly, modulo the result's range, whatever order the operands have; an odd last step is paired with zero."""
    for orders in (("k", "n"), ("m", "n"), ("k", "k"), ("m", "k")):
        check(70, 90, k, dtype, *orders)
        check(19, 530, k, dtype, *orders, padding=1)


@pytest.mark.parametrize("dtype", list(TYPES))
def test_dtypes(dtype):
    for size, orders in (
        ((3, 20, 33), "kk"),
        ((20, 40, 31), "kn"),
        ((70, 35, 129), "kk"),
        ((70, 300, 140), "mn"),
        ((1, 50, 64), "kk"),
        ((40, 1, 50), "kk"),
    ):
        check(*size, dtype, *orders)


def as_dots(kind):
    if "avx512_bf16" not in cpu.features() or cpu.vector_bytes() < 64:
        pytest.skip("no products of pairs of bfloat16 on this processor")
    return kind._replace(pair=True)


def as_tiles(kind):
    if not cpu.matrix_unit() or cpu.vector_bytes() < 64:
        pytest.skip("no matrix unit in this processor")
    return kind._replace(pair=True, tiles=True)


@pytest.mark.parametrize("form", [lambda kind: kind, as_dots, as_tiles], ids=["widened", "dots", "tiles"])
@pytest.mark.parametrize("orders", ["kn", "kk", "mn", "mk"])
def test_bfloat16_in_each_form(form, orders, monkeypatch):
    monkeypatch.setattr(gemm, "paired", form)
    for size in ((33, 70, 61), (300, 90, 1), (64, 64, 64), (40, 300, 1100)):
        check(*size, "bfloat16", *orders, padding=size[0] % 3)
        check(*size, "bfloat16", *orders, bias="n", activation="relu")


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
@pytest.mark.parametrize("orders", ["kn", "kk", "mn", "mk", "xx"])
def test_panels_hold_no_rubbish(dtype, orders):
    """What lies past the edges of panels is multiplied too, and some processors take far longer for tiny numbers."""
    m, n, k = 799, 1802, 61
    a = {"k": (k, 1), "m": (1, m), "x": (3 * k, 2)}[orders[0]]
    b = {"n": (n, 1), "k": (1, k), "x": (3 * n, 2)}[orders[1]]
    phases, scratch = gemm_phases(dtype, m, n, k, Matrix(1, (0, 0, *a)), Matrix(2, (0, 0, *b)), Matrix(0, (0, 0, n, 1)))
    *packs, multiply = phases
    assert len(packs) == (1 if orders[0] == "k" and dtype != "bfloat16" else 2)
    buffers = [guarded(np.ones(size, TYPES[dtype])) for size in (m * n, 3 * m * k, 3 * k * n)]
    memory = run(packs, scratch, buffers)
    places = [*(pack.constants[-1] for pack in packs), dict(zip(tiles.CONSTANTS, multiply.constants, strict=True))["slots"]]
    for start, end in pairwise(places):
        panels = memory[start:end].view(np.int32)
        assert (panels[:-32] != -1).all()  # -1 is what the memory was filled with; the last lines may be of no panel


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("orders", ["kn", "kk", "mn", "mk", "xx"])
def test_panels_of_one_task_hold_no_rubbish(dtype, orders):
    m, n, k, count = 199, 20, 100, 16
    a = {"k": (k, 1), "m": (1, m), "x": (3 * k, 2)}[orders[0]]
    b = {"n": (n, 1), "k": (1, k), "x": (3 * n, 2)}[orders[1]]
    phases, scratch = gemm_phases(
        dtype, m, n, k, Matrix(1, (0, 0, *a)), Matrix(2, (0, 3 * k * n, *b)), Matrix(0, (0, m * n, n, 1)), (1, count)
    )
    assert len(phases) == (1 if orders[0] == "k" else 2)
    constants = dict(zip(tiles.CONSTANTS, phases[-1].constants, strict=True))
    buffers = [guarded(np.ones(size, TYPES[dtype])) for size in (count * m * n, 3 * m * k, 3 * count * k * n)]
    memory = run(phases, scratch, buffers)
    panels = memory[constants["b_place"] : constants["slots"]].view(np.int32)
    size = k * 32 * np.dtype(dtype).itemsize // 4
    used = [panels[i : i + size] != -1 for i in range(0, len(panels), size)]
    assert used[0].any() and all(part.all() == part.any() for part in used)  # each of a thread's, complete or untouched


@pytest.mark.parametrize("bias", ["n", "m", "c"])
def test_epilogues(bias):
    for size, orders in (((4, 21, 50), "kk"), ((20, 50, 30), "kn"), ((50, 40, 620), "kk"), ((50, 140, 300), "kn")):
        check(*size, a_order=orders[0], b_order=orders[1], bias=bias)
        check(*size, a_order=orders[0], b_order=orders[1], bias=bias, alpha=0.5, beta=-2, activation="relu", padding=1)
    check(30, 40, 20, "bfloat16", bias=bias)
    check(30, 40, 20, "int32", bias=bias, alpha=3, beta=2)


def test_alpha_alone():
    check(20, 40, 30, alpha=-0.25)
    check(60, 40, 300, b_order="k", alpha=2.5)


def test_batches():
    for orders in ("kn", "kk", "mk"):
        check(9, 17, 33, a_order=orders[0], b_order=orders[1], batch=(3, 4))
        check(20, 30, 21, a_order=orders[0], b_order=orders[1], batch=(2, 3), a_broadcast=(False, True), bias="n")
        check(60, 70, 90, a_order=orders[0], b_order=orders[1], batch=(2, 2), a_broadcast=(True, True))


@pytest.mark.parametrize("size", [(0, 3, 4), (3, 0, 4)])
def test_empty_results_have_no_phases(size):
    assert gemm_phases("float32", *size, Matrix(1, (0, 0, 4, 1)), Matrix(2, (0, 0, 3, 1)), Matrix(0, (0, 0, 3, 1))) == ([], 0)


def test_nothing_to_sum_gives_zeros_or_bias():
    check(5, 40, 0)
    check(50, 40, 0, b_order="k")
    check(5, 40, 0, bias="n")
    check(60, 300, 0, b_order="k", bias="m", activation="relu")


def test_arbitrary_strides():
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((60, 80)).astype("f"), rng.standard_normal((80, 90)).astype("f")
    c = Guarded(40 * 90, np.float32)
    phases, scratch = gemm_phases(
        "float32", 20, 30, 40, Matrix(1, (0, 0, 240, 2)), Matrix(2, (0, 0, 180, 3)), Matrix(0, (0, 0, 90, 3))
    )
    run(phases, scratch, [c, guarded(a), guarded(b)])
    expected = a[::3, ::2].astype("d") @ b[::2, ::3]
    assert np.allclose(c.array.reshape(40, 90)[:20, ::3], expected, atol=1e-4)
    assert (c.array.reshape(40, 90)[:, 1::3].view(np.uint32) == 0xA5A5A5A5).all()


def test_offsets():
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((30, 40)).astype("f"), rng.standard_normal((50, 40)).astype("f")
    c = Guarded(31 * 50, np.float32)
    phases, scratch = gemm_phases(
        "float32", 29, 49, 39, Matrix(1, (0, 0, 40, 1), 41), Matrix(2, (0, 0, 1, 40), 41), Matrix(0, (0, 0, 50, 1), 101)
    )
    run(phases, scratch, [c, guarded(a), guarded(b)])
    assert np.allclose(c.array.reshape(31, 50)[2:, 1:], a[1:, 1:].astype("d") @ b[1:, 1:].T, atol=1e-4)


def test_activation_hook_and_output_dtype():
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(shape).astype("f") for shape in ((20, 30), (30, 40)))
    c = Guarded(20 * 40, np.uint16)
    phases, scratch = gemm_phases(
        "float32",
        20,
        40,
        30,
        Matrix(1, (0, 0, 30, 1)),
        Matrix(2, (0, 0, 40, 1)),
        Matrix(0, (0, 0, 40, 1)),
        activation="square",
        apply=_square,
        out="bfloat16",
    )
    run(phases, scratch, [c, guarded(a), guarded(b)])
    expected = (a.astype("d") @ b) ** 2
    assert np.allclose(from_bfloat16(c.array).reshape(20, 40), expected, rtol=8e-3, atol=1e-3)


def _square(f, value):
    return value * value


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_complex(dtype):
    rng = np.random.default_rng(0)
    for m, n, k in ((5, 7, 9), (40, 50, 60), (1, 20, 30), (30, 1, 4)):
        a, b, c = ((rng.standard_normal(s) + 1j * rng.standard_normal(s)).astype(dtype) for s in ((m, k), (n, k), (m, n)))
        buffers = [guarded(c), guarded(a), guarded(b)]
        operands = (Matrix(1, (0, 0, k, 1)), Matrix(2, (0, 0, 1, k)), Matrix(0, (0, 0, n, 1)))
        run(*gemm_phases(dtype, m, n, k, *operands), buffers)
        expected = a.astype("D") @ b.astype("D").T
        tolerance = 1e-4 if dtype == "complex64" else 1e-12
        assert np.abs(buffers[0].array.reshape(m, n) - expected).max() < tolerance
        run(*gemm_phases(dtype, m, n, k, *operands, addend=operands[2], alpha=2, beta=-1), buffers)
        assert np.abs(buffers[0].array.reshape(m, n) - expected).max() < 5 * tolerance


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("orders", ["knn", "mnn", "knm", "mkm", "skn", "kss"])
@pytest.mark.parametrize(
    ("m", "n", "k", "batch"),
    [(6, 5, 7, (1, 1)), (33, 18, 40, (2, 3)), (4, 3, 5000, (1, 1)), (1, 9, 8, (3, 1)), (9, 1, 8, (1, 2))],
)
def test_complex_numbers_of_any_order_in_batches(dtype, orders, m, n, k, batch):
    """orders: of A, B and C, the axis along which they are contiguous; "s": none, the elements lie two apart. B's outer batch is
    repeated, and a row is added.
    """
    rng = np.random.default_rng(1)

    def make(slot, rows, columns, order, fast, outer=True):
        step = 2 if order == "s" else 1
        shape = (batch[0] if outer else 1, batch[1], rows * columns * step)
        values = (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)).astype(dtype)
        row, column = (columns * step, step) if order in (fast, "s") else (1, rows)
        seen = np.lib.stride_tricks.as_strided(
            values, (*shape[:2], rows, columns), (*values.strides[:2], row * values.itemsize, column * values.itemsize)
        )
        size = rows * columns * step
        return values, seen, Matrix(slot, (size * batch[1] if outer else 0, size, row, column))

    a, a_seen, a_matrix = make(1, m, k, orders[0], "k")
    b, b_seen, b_matrix = make(2, k, n, orders[1], "n", outer=False)
    c, _, c_matrix = make(0, m, n, orders[2], "n")
    d = (rng.standard_normal(n) + 1j * rng.standard_normal(n)).astype(dtype)
    expected = 2 * (a_seen.astype("D") @ b_seen.astype("D")) - d
    buffers = [guarded(x) for x in (c, a, b, d)]
    run(*gemm_phases(dtype, m, n, k, a_matrix, b_matrix, c_matrix, batch, Matrix(3, (0, 0, 0, 1)), 2, -1), buffers)
    made = buffers[0].array.reshape(c.shape)
    steps = (*made.strides[:2], *(s * made.itemsize for s in c_matrix.strides[2:]))
    got = np.lib.stride_tricks.as_strided(made, expected.shape, steps)
    assert np.abs(got - expected).max() < (1e-4 if dtype == "complex64" else 1e-12) * k**0.5


def test_nan_and_infinity_pass_through_relu():
    a = np.array([[np.nan, 1.0], [np.inf, 1.0], [-np.inf, 0.0]], np.float32)
    c = Guarded(6, np.float32)
    phases, scratch = gemm_phases(
        "float32", 3, 2, 2, Matrix(1, (0, 0, 2, 1)), Matrix(2, (0, 0, 2, 1)), Matrix(0, (0, 0, 2, 1)), activation="relu"
    )
    run(phases, scratch, [c, guarded(a), guarded(np.ones((2, 2), np.float32))])
    got = c.array.reshape(3, 2)
    assert np.isnan(got[0]).all() and np.isposinf(got[1]).all() and (got[2] == 0).all()


@pytest.mark.parametrize(
    ("m", "n", "k", "batch"), [(900, 40, 60, (1, 1)), (30, 1000, 50, (1, 1)), (40, 50, 700, (1, 1)), (20, 30, 90, (3, 5))]
)
def test_large_products_are_done_in_parts(m, n, k, batch, monkeypatch):
    monkeypatch.setattr(gemm, "PACK_BYTES", 20 << 10)
    monkeypatch.setattr(gemm, "IN_PLACE_WORK", 0)
    monkeypatch.setattr(gemm, "IN_PLACE_EACH", 0)
    check(m, n, k, "float64", batch=batch, a_order="m", b_order="k")
    check(m, n, k, "float32", batch=batch, bias="c", alpha=0.5, beta=2.0)


@pytest.mark.parametrize("a", ["packed", "rows"])
def test_sums_of_register_tiles_stay_in_registers(a, monkeypatch, capsys):
    """However many steps there are to a turn of the loop."""
    monkeypatch.setattr(flags, "debug", 5)  # prints what a text is translated to
    kind = kind_of("float32")
    for rows, vectors in {gemm.register_tile(100, 100, kind.lanes), channel_tile(64), (5, 2)}:
        for together in (micro.SHORT_TURN, micro.LONG_TURN):
            Translation(module(micro.micro(kind, rows, vectors, a, True, vectors, together)), DIRECT)
            lines = capsys.readouterr().out.splitlines()
            assert lines and not [line for line in lines if "mm" in line and "(%rsp)" in line]


def test_sums_of_dot_products_stay_in_registers(monkeypatch, capsys):
    """But one, for the last steps, whose mask takes a register."""
    monkeypatch.setattr(flags, "debug", 5)
    kind = kind_of("float32")
    for rows in range(1, dots.dot_rows() + 1):
        Translation(module(dots._dot_micro(kind, rows)), DIRECT)
        lines = capsys.readouterr().out.splitlines()
        assert lines and len([line for line in lines if "mm" in line and "(%rsp)" in line]) <= 2


@pytest.mark.parametrize("m", range(1, 10))
def test_dot_products_of_every_number_of_rows(m):
    check(m, 37, 531, "float32", b_order="k", bias="c", alpha=0.5)
    check(m, 5, 130, "float64", b_order="k")
