"""Matrix products against NumPy in float64: values, gradients of first and second order, layouts, empty sizes, errors."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from implementation import torch
from numpy.testing import assert_allclose

RNG = np.random.default_rng(7)


def tensor(*shape: int, dtype: object = torch.float64, grad: bool = False) -> object:
    made = torch.tensor(RNG.standard_normal(shape)).to(dtype)
    return made.requires_grad_() if grad else made


def close(actual: object, expected: np.ndarray, tolerance: float = 1e-12) -> None:
    actual = actual.detach()
    actual = actual.to(torch.complex128 if actual.is_complex() else torch.float64).numpy()
    assert actual.shape == np.shape(expected)
    assert_allclose(actual, expected, rtol=tolerance, atol=tolerance * 10)


def n(x: object) -> np.ndarray:
    return x.detach().resolve_conj().numpy()


# operands as they may lie in memory: made for the shape (rows, columns)
LAYOUTS: dict[str, Callable] = {
    "contiguous": lambda r, c: tensor(r, c),
    "transposed": lambda r, c: tensor(c, r).t(),
    "sliced": lambda r, c: tensor(r + 2, 2 * c + 1)[1 : r + 1, 1 : 2 * c + 1 : 2],
    "expanded": lambda r, c: tensor(1, c).expand(r, c),
}


@pytest.mark.parametrize("first", LAYOUTS)
@pytest.mark.parametrize("second", LAYOUTS)
@pytest.mark.parametrize("sizes", [(3, 4, 5), (1, 7, 33), (40, 1, 19), (37, 70, 65)])
def test_mm_reads_operands_where_they_lie(first, second, sizes):
    rows, columns, inner = sizes
    a, b = LAYOUTS[first](rows, inner), LAYOUTS[second](inner, columns)
    close(torch.mm(a, b), n(a) @ n(b))


@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 2e-6), ("float16", 2e-3), ("bfloat16", 2e-2), ("complex64", 1e-5)])
def test_dtypes(dtype, tolerance):
    a, b = (torch.tensor(RNG.standard_normal(s)) for s in ((23, 40), (40, 35)))
    a, b = a.to(getattr(torch, dtype)), b.to(getattr(torch, dtype))
    if a.is_complex():
        a, b = a * (1 + 2j), b * (0.5 - 1j)
    wide = torch.complex128 if a.is_complex() else torch.float64
    close(torch.mm(a, b), n(a.to(wide)) @ n(b.to(wide)), tolerance * 6)


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int16", "int32", "int64"])
def test_integers_wrap(dtype):
    a, b = RNG.integers(0, 100, (9, 17)).astype(dtype), RNG.integers(0, 100, (17, 6)).astype(dtype)
    assert np.array_equal(torch.mm(torch.tensor(a), torch.tensor(b)).numpy(), a @ b)


MATMUL_SHAPES = [
    ((3,), (3,)),
    ((3,), (3, 4)),
    ((2, 3), (3,)),
    ((5, 2, 3), (3,)),
    ((3,), (5, 3, 2)),
    ((5, 2, 3), (3, 4)),
    ((2, 3), (5, 3, 4)),
    ((5, 2, 3), (5, 3, 4)),
    ((1, 2, 3), (5, 3, 4)),
    ((2, 1, 2, 3), (5, 3, 4)),
    ((2, 5, 2, 3), (2, 5, 3, 4)),
    ((2, 0), (0, 3)),
    ((0, 3), (3, 2)),
    ((4, 0, 3), (4, 3, 2)),
    ((0, 2, 3), (0, 3, 2)),
    ((2, 3), (3, 0)),
    ((0,), (0,)),
    ((2, 1, 2, 0), (5, 0, 4)),
    ((3, 2, 0), (0,)),
]


@pytest.mark.parametrize(("left", "right"), MATMUL_SHAPES)
def test_matmul_broadcasts(left, right):
    a, b = tensor(*left), tensor(*right)
    close(torch.matmul(a, b), n(a) @ n(b))
    close(a @ b, n(a) @ n(b))


def test_batches_in_any_layout():
    a, b = tensor(4, 5, 6), tensor(4, 6, 7)
    close(torch.bmm(a, b), n(a) @ n(b))
    close(torch.bmm(a.transpose(0, 2).contiguous().transpose(0, 2), b.mT.contiguous().mT), n(a) @ n(b))
    close(torch.bmm(a[:1].expand(4, 5, 6), b[::2].repeat_interleave(2, 0)), n(a)[:1] @ n(b)[[0, 0, 2, 2]])


def test_sums_with_an_addend():
    a, b, v = tensor(4, 3), tensor(3, 5), tensor(3)
    x, y = n(a), n(b)
    for shape in ((4, 5), (5,), (4, 1), (1, 5), ()):
        c = tensor(*shape)
        close(torch.addmm(c, a, b, beta=0.5, alpha=-2), 0.5 * n(c) - 2 * x @ y)
    for shape in ((4,), (1,), ()):
        c = tensor(*shape)
        close(torch.addmv(c, a, v, beta=3, alpha=0.25), 3 * n(c) + 0.25 * x @ n(v))
    left, right, c = tensor(6, 4, 3), tensor(6, 3, 5), tensor(4, 5)
    close(torch.baddbmm(c, left, right, beta=2, alpha=3), 2 * n(c) + 3 * n(left) @ n(right))
    close(torch.addbmm(c, left, right, beta=2, alpha=3), 2 * n(c) + 3 * (n(left) @ n(right)).sum(0))
    close(torch.addr(c, v.new_ones(4), tensor(5) * 0 + 2, beta=2, alpha=3), 2 * n(c) + 6)
    nothing = torch.full((5,), float("nan"), dtype=torch.float64)
    close(torch.addmm(nothing, a, b, beta=0), x @ y)
    close(torch.addmv(nothing[:4], a, v, beta=0), x @ n(v))
    close(torch.addmm(c, tensor(4, 0), tensor(0, 5), beta=2), 2 * n(c))
    close(torch.addmm(torch.tensor([1, 2, 3]), torch.ones(2, 2).long(), torch.ones(2, 3).long(), alpha=2.5), [[5, 6, 7]] * 2)
    c = c + 0j
    close(torch.addmm(c, a + 0j, b + 0j, beta=1j, alpha=2j), 1j * n(c) + 2j * (x @ y))


def test_in_place_and_out():
    a, b, c = tensor(4, 3), tensor(3, 5), tensor(4, 5)
    expected = n(c) + n(a) @ n(b)
    out = torch.empty(4, 5, dtype=torch.float64)
    assert torch.addmm(c, a, b, out=out) is out
    close(out, expected)
    close(torch.mm(a, b, out=out), n(a) @ n(b))
    close(c.addmm_(a, b), expected)
    close(c, expected)


def test_out_may_be_an_operand():
    a, b = torch.arange(9.0).view(3, 3), torch.ones(3, 3)
    expected = a @ b
    for _ in range(3):
        assert torch.equal(torch.mm(a, b, out=torch.empty(3, 3)), expected)
    for given in ((c := a.clone(), b), (b, c)):
        expected = torch.mm(*given)
        assert torch.equal(torch.mm(*given, out=c), expected)


def test_vectors():
    a, b = tensor(6), tensor(4)
    close(torch.outer(a, b), np.outer(n(a), n(b)))
    close(torch.ger(a, b), np.outer(n(a), n(b)))
    close(torch.dot(a, a[::1]), n(a) @ n(a))
    close(torch.dot(a[::2], a[1::2]), n(a)[::2] @ n(a)[1::2])
    z = torch.complex(a, a.flip(0))
    close(torch.vdot(z, z.flip(0)), np.vdot(n(z), n(z)[::-1]))
    close(torch.dot(z.conj(), z), n(z).conj() @ n(z))
    close(torch.inner(tensor(2, 3, 4) * 0 + 1, b), np.full((2, 3), n(b).sum()))


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "bfloat16", "int64"])
def test_dot_of_long_vectors(dtype):
    kind = getattr(torch, dtype)
    wide = torch.complex128 if kind.is_complex else torch.float64
    a, b = (tensor(70_001, dtype=torch.float32).mul(8).to(kind) for _ in range(2))
    if kind.is_complex:
        a = a * (1 + 2j)
    tolerance = {"float32": 1e-6, "complex64": 1e-6, "bfloat16": 4e-3}.get(dtype, 1e-13)
    for x, y in ((a, b), (a[::3], b[1::3][:23334]), (a[:1].expand(70_001), b)):
        expected = n(x.to(wide)) @ n(y.to(wide))
        assert abs(torch.dot(x, y).to(wide).item() - expected) <= tolerance * (abs(expected) + 64 * len(x) ** 0.5)


def test_linear():
    x, w, b = tensor(2, 3, 5), tensor(4, 5), tensor(4)
    expected = n(x) @ n(w).T + n(b)
    linear = torch.nn.functional.linear
    close(linear(x, w, b), expected)
    close(linear(x[0], w, b), expected[0])
    close(linear(x[0, 0], w, b), expected[0, 0])
    close(linear(x.transpose(0, 1), w, b), expected.transpose(1, 0, 2))
    close(linear(x, w.t().contiguous().t()), expected - n(b))
    close(linear(x, w[0]), n(x) @ n(w)[0])
    close(linear(x[0], w, b[:1]), expected[0] - n(b) + n(b)[0])
    close(linear(tensor(0, 5), w, b), np.zeros((0, 4)))
    close(linear(tensor(2, 0), tensor(4, 0), b), np.tile(n(b), (2, 1)))


GRADIENTS = {
    "mm": (torch.mm, (3, 4), (4, 2)),
    "bmm": (torch.bmm, (2, 3, 4), (2, 4, 2)),
    "mv": (torch.mv, (3, 4), (4,)),
    "dot": (torch.dot, (4,), (4,)),
    "matmul broadcast": (torch.matmul, (2, 1, 3, 2), (3, 2, 2)),
    "matmul vector": (torch.matmul, (2, 3, 2), (2,)),
    "linear": (lambda x, w, b: torch.nn.functional.linear(x, w, b), (2, 3, 4), (2, 4), (2,)),
    "linear 2": (lambda x, w, b: torch.nn.functional.linear(x, w, b), (3, 4), (2, 4), (2,)),
    "addmm": (lambda c, a, b: torch.addmm(c, a, b, beta=0.5, alpha=2), (1, 2), (3, 4), (4, 2)),
    "addmv": (lambda c, a, b: torch.addmv(c, a, b, beta=0.5, alpha=2), (3,), (3, 4), (4,)),
    "baddbmm": (lambda c, a, b: torch.baddbmm(c, a, b, beta=0.5, alpha=2), (3, 1), (2, 3, 4), (2, 4, 2)),
    "addbmm": (lambda c, a, b: torch.addbmm(c, a, b, beta=0.5, alpha=2), (2,), (2, 3, 4), (2, 4, 2)),
    "addr": (lambda c, a, b: torch.addr(c, a, b, beta=0.5, alpha=2), (3, 2), (3,), (2,)),
    "outer": (torch.outer, (3,), (2,)),
    "inner": (torch.inner, (2, 3), (4, 3)),
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients(name):
    function, *shapes = GRADIENTS[name]
    operands = tuple(tensor(*shape, grad=True) for shape in shapes)
    assert torch.autograd.gradcheck(function, operands)
    assert torch.autograd.gradgradcheck(function, operands)


def test_complex_gradients():
    def operand(*shape):
        return torch.complex(tensor(*shape), tensor(*shape)).requires_grad_()

    assert torch.autograd.gradcheck(torch.mm, (operand(3, 2), operand(2, 3)))
    for function, *shapes in (
        (torch.addmm, (3, 2), (3, 2), (2, 2)),
        (torch.addmv, (3,), (3, 2), (2,)),
        (torch.baddbmm, (2, 3, 2), (2, 3, 2), (2, 2, 2)),
    ):
        operands = tuple(operand(*shape) for shape in shapes)
        assert torch.autograd.gradcheck(lambda c, a, b, f=function: f(c, a, b, alpha=1 + 2j, beta=2j), operands)


def ones(*shape: int, dtype: object = torch.float32) -> object:
    return torch.ones(shape, dtype=dtype)


ERRORS = [
    (lambda: torch.mm(ones(2, 3), ones(2, 3)), RuntimeError, "mat1 and mat2 shapes cannot be multiplied (2x3 and 2x3)"),
    (lambda: torch.mm(ones(2), ones(2, 3)), RuntimeError, "self must be a matrix"),
    (
        lambda: torch.mm(ones(2, 3).long(), ones(3, 2)),
        RuntimeError,
        "expected m1 and m2 to have the same dtype, but got: long int != float",
    ),
    (
        lambda: torch.mm(ones(2, 2).bool(), ones(2, 2).bool()),
        NotImplementedError,
        "\"addmm_impl_cpu_\" not implemented for 'Bool'",
    ),
    (
        lambda: torch.bmm(ones(2, 3, 4), ones(2, 3, 4)),
        RuntimeError,
        "Expected size for first two dimensions of batch2 tensor to be: [2, 4] but got: [2, 3].",
    ),
    (lambda: torch.bmm(ones(3, 4), ones(2, 3, 4)), RuntimeError, "batch1 must be a 3D tensor"),
    (lambda: torch.mv(ones(2, 3), ones(2)), RuntimeError, "size mismatch, got input (2), mat (2x3), vec (2)"),
    (
        lambda: torch.mv(ones(2, 3), ones(3).double()),
        RuntimeError,
        "addmv input tensors must have the same dtype, but got Double, Float, and Double",
    ),
    (lambda: torch.dot(ones(2, 2), ones(2)), RuntimeError, "1D tensors expected, but got 2D and 1D tensors"),
    (
        lambda: torch.matmul(ones(), ones(2)),
        RuntimeError,
        "both arguments to matmul need to be at least 1D, but they are 0D and 1D",
    ),
    (lambda: ones(2, 3, 4) @ ones(3), RuntimeError, "size mismatch, got input (6), mat (6x4), vec (3)"),
    (
        lambda: torch.nn.functional.linear(ones(2, 5, 3), ones(4, 2)),
        RuntimeError,
        "mat1 and mat2 shapes cannot be multiplied (10x3 and 2x4)",
    ),
    (
        lambda: torch.nn.functional.linear(ones(2, 3), ones(4, 3), ones(3)),
        RuntimeError,
        "The expanded size of the tensor (4) must match the existing size (3) at non-singleton dimension 1.  "
        "Target sizes: [2, 4].  Tensor sizes: [3]",
    ),
    (
        lambda: torch.addmm(ones(2), ones(2, 3), ones(3, 2).double()),
        RuntimeError,
        "self and mat2 must have the same dtype, but got Float and Double",
    ),
    (
        lambda: torch.addbmm(ones(3), ones(2, 3, 4), ones(3, 4, 3)),
        RuntimeError,
        "batch1 and batch2 must have same number of batches, got 2 and 3",
    ),
    (lambda: torch.addr(ones(2), ones(2, 2), ones(2)), RuntimeError, "addr: Expected 1-D argument vec1, but got 2-D"),
    (lambda: torch.outer(ones(2, 2), ones(2)), RuntimeError, "outer: Expected 1-D argument self, but got 2-D"),
    (
        lambda: torch.inner(ones(2, 2), ones(2, 3)),
        RuntimeError,
        "inner() the last dimension must match on both input tensors but got shapes [2, 2] and [2, 3]",
    ),
]


@pytest.mark.parametrize("case", range(len(ERRORS)))
def test_errors(case):
    call, kind, words = ERRORS[case]
    with pytest.raises(kind) as caught:
        call()
    assert str(caught.value).split("\n")[0] == words


def test_plans_follow_the_number_of_threads():
    before = torch.get_num_threads()
    a, b = tensor(300, 200), tensor(200, 150)
    expected = n(a) @ n(b)
    try:
        for count in (1, 4, 2):
            torch.set_num_threads(count)
            close(torch.mm(a, b), expected)
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("shape", [(3,), (2, 3), (2, 2, 3)])
@pytest.mark.parametrize("with_bias", [False, True])
def test_linear_of_complex_numbers(shape, with_bias):
    values = torch.arange(40, dtype=torch.float64).sin()

    def part(*shape):
        count = torch.Size(shape).numel()
        return torch.complex(values[:count], values[count : 2 * count].flip(0)).reshape(shape).requires_grad_()

    given = [part(*shape), part(4, 3), *([part(4)] if with_bias else [])]
    assert torch.autograd.gradcheck(torch.nn.functional.linear, given)
    assert torch.autograd.gradgradcheck(torch.nn.functional.linear, given)
