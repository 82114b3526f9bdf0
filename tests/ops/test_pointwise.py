"""Pointwise operators: values against NumPy, gradients of both orders, dtypes, in-place and `out=` forms, errors.

Runs in a few seconds; the conformance suite covers the same operators against recorded results of PyTorch.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

import flambeau as torch
import flambeau.nn.functional as F
from flambeau import special
from flambeau.autograd import gradcheck, gradgradcheck

VALUES = np.array([-2.5, -1.0, -0.3, 0.0, 0.4, 1.0, 1.7, 3.0])
INSIDE = np.array([0.1, 0.25, 0.4, 0.6, 0.75, 0.9])


def tensor(values, dtype=torch.float32):
    """A fresh tensor of the values."""
    return torch.tensor(np.asarray(values).tolist(), dtype=dtype)


def close(result, expected, rtol=2e-6, atol=1e-6):
    """Assert that a tensor holds the expected values."""
    np.testing.assert_allclose(result.detach().numpy(), np.asarray(expected), rtol=rtol, atol=atol)


# ---------------------------------------------------------------- values

NUMPY = {
    "exp": np.exp,
    "exp2": np.exp2,
    "expm1": np.expm1,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "tanh": np.tanh,
    "asinh": np.arcsinh,
    "atan": np.arctan,
    "neg": np.negative,
    "abs": np.abs,
    "sign": np.sign,
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "round": np.round,
    "square": np.square,
    "deg2rad": np.deg2rad,
    "rad2deg": np.rad2deg,
    "sinc": np.sinc,
    "signbit": np.signbit,
    "isnan": np.isnan,
    "logical_not": np.logical_not,
    "frac": lambda x: x - np.trunc(x),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "relu": lambda x: np.maximum(x, 0),
    "angle": np.angle,
}


@pytest.mark.parametrize("name", NUMPY)
def test_unary_values(name):
    close(getattr(torch, name)(tensor(VALUES)), NUMPY[name](VALUES), rtol=1e-5)


@pytest.mark.parametrize(
    "name", ["log", "log2", "log10", "log1p", "sqrt", "asin", "acos", "atanh", "lgamma", "erfinv", "reciprocal"]
)
def test_unary_values_inside(name):
    known = {
        "asin": np.arcsin,
        "acos": np.arccos,
        "atanh": np.arctanh,
        "lgamma": np.vectorize(math.lgamma),
        "reciprocal": np.reciprocal,
    }
    if name == "erfinv":
        close(torch.erf(torch.erfinv(tensor(INSIDE))), INSIDE)
    else:
        close(getattr(torch, name)(tensor(INSIDE)), known.get(name, getattr(np, name, None))(INSIDE), rtol=1e-5)


BINARY = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "fmax": np.fmax,
    "fmin": np.fmin,
    "atan2": np.arctan2,
    "hypot": np.hypot,
    "copysign": np.copysign,
    "fmod": np.fmod,
    "remainder": np.remainder,
    "logaddexp": np.logaddexp,
    "logaddexp2": np.logaddexp2,
    "floor_divide": np.floor_divide,
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}


@pytest.mark.parametrize("name", BINARY)
def test_binary_values(name):
    a, b = VALUES[:, None], np.array([-1.5, 0.5, 2.0, 1.0])
    close(getattr(torch, name)(tensor(a), tensor(b)), BINARY[name](a, b), rtol=1e-5)


@pytest.mark.parametrize(
    "name",
    [
        "add",
        "sub",
        "mul",
        "gcd",
        "lcm",
        "bitwise_and",
        "bitwise_or",
        "bitwise_xor",
        "floor_divide",
        "remainder",
        "fmod",
        "maximum",
        "bitwise_left_shift",
    ],
)
def test_integers(name):
    a, b = np.array([7, -7, 12, 0, 5]), np.array([2, 3, 4, 5, 1])
    known = {"bitwise_left_shift": np.left_shift, "sub": np.subtract, "mul": np.multiply}
    result = getattr(torch, name)(tensor(a, torch.int64), tensor(b, torch.int64))
    assert result.dtype is torch.int64
    np.testing.assert_array_equal(result.numpy(), known.get(name, getattr(np, name, None))(a, b))


def test_operators_and_their_reflections():
    x = tensor([1.0, 2.0, 4.0])
    for result, expected in (
        (1 - x, [0, -1, -3]),
        (2 / x, [2, 1, 0.5]),
        (2**x, [2, 4, 16]),
        (7 // x, [7, 3, 1]),
        (7 % x, [0, 1, 3]),
        (1 + x, [2, 3, 5]),
        (3 * x, [3, 6, 12]),
        (-x, [-1, -2, -4]),
        (x**2, [1, 4, 16]),
        (x**-1, [1, 0.5, 0.25]),
        (x**0.5, np.sqrt([1, 2, 4])),
        (x // 3, [0, 0, 1]),
        (x % 3, [1, 2, 1]),
        (abs(-x), [1, 2, 4]),
        (+x, [1, 2, 4]),
    ):
        close(result, expected)
    i = torch.tensor([1, 2, 4])
    assert (i << 1).tolist() == [2, 4, 8] and (1 << i).tolist() == [2, 4, 16] and (i >> 1).tolist() == [0, 1, 2]
    assert (~i).tolist() == [-2, -3, -5] and (i & 6).tolist() == [0, 2, 4] and (i | 1).tolist() == [1, 3, 5]
    equal = i == None  # noqa: E711 - what == gives is the point
    assert equal is False
    assert (3 > i).tolist() == [True, True, False]  # noqa: SIM300 - the reflected comparison


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        ("int64", 1.5, "float32"),
        ("float16", 2, "float16"),
        ("bool", 1, "int64"),
        ("uint8", 300, "uint8"),
        ("float32", 1j, "complex64"),
        ("int32", True, "int32"),
        ("bfloat16", 2.5, "bfloat16"),
        ("float64", 1j, "complex128"),
    ],
)
def test_promotion_with_numbers(left, right, expected):
    assert (torch.ones(2, dtype=getattr(torch, left)) + right).dtype is getattr(torch, expected)


def test_promotion_of_tensors():
    half, brain, whole = (torch.ones(2, dtype=d) for d in (torch.float16, torch.bfloat16, torch.int64))
    assert (half + brain).dtype is torch.float32
    assert (whole + half).dtype is torch.float16
    assert (whole + torch.tensor(1.5)).dtype is torch.float32
    assert (torch.tensor(3) + half).dtype is torch.float16
    assert (whole / whole).dtype is torch.float32 and torch.exp(whole).dtype is torch.float32
    assert torch.abs(torch.tensor([3 + 4j])).dtype is torch.float32
    assert torch.float_power(whole, 2).dtype is torch.float64


def test_the_default_dtype_counts_when_it_changes():
    whole = torch.tensor([1])
    assert (whole + 1.5).dtype is torch.float32
    torch.set_default_dtype(torch.float64)
    try:
        assert (whole + 1.5).dtype is torch.float64 and torch.exp(whole).dtype is torch.float64
    finally:
        torch.set_default_dtype(torch.float32)
    assert (whole + 1.5).dtype is torch.float32


def test_choosing():
    x = torch.arange(5.0)
    assert torch.where(x > 2, x, 0.0).tolist() == [0, 0, 0, 3, 4]
    assert torch.where(x > 2, 1, 2).dtype is torch.int64
    assert torch.where(x > 2)[0].tolist() == [3, 4]
    assert x.clamp(1, 3).tolist() == [1, 1, 2, 3, 3] and x.clamp(min=2).tolist() == [2, 2, 2, 3, 4]
    assert x.clamp(torch.tensor(1.0), torch.tensor([3.0])).tolist() == [1, 1, 2, 3, 3]
    assert torch.lerp(x, x + 10, 0.5).tolist() == [5, 6, 7, 8, 9]
    assert torch.addcmul(x, x, x, value=0.5).tolist() == [0, 1.5, 4, 7.5, 12]
    close(torch.addcdiv(x, x, x + 1, value=2), x.numpy() + 2 * x.numpy() / (x.numpy() + 1))
    assert torch.add(x, x, alpha=3).tolist() == [0, 4, 8, 12, 16]
    assert torch.div(torch.tensor([7, -7]), 2, rounding_mode="floor").tolist() == [3, -4]
    assert torch.div(torch.tensor([7, -7]), 2, rounding_mode="trunc").tolist() == [3, -3]
    assert torch.round(torch.tensor([1.256]), decimals=2).item() == pytest.approx(1.26)


def test_numbers_that_are_none():
    x = torch.tensor([math.nan, math.inf, -math.inf, 1.0])
    assert torch.nan_to_num(x, nan=5.0, posinf=6.0, neginf=7.0).tolist() == [5, 6, 7, 1]
    assert torch.nan_to_num(x.half())[1].item() == 65504
    assert torch.isfinite(x).tolist() == [False, False, False, True] and torch.isneginf(x).tolist() == [False, False, True, False]
    assert torch.isclose(x, x).tolist() == [False, True, True, True]
    assert torch.isclose(x, x, equal_nan=True).all() and not torch.allclose(x, x) and torch.equal(x[1:], x[1:])
    a, b = torch.tensor([False, True, False]), torch.tensor([True, True, False])
    assert torch.isclose(a, b).tolist() == [False, True, True] and torch.isclose(a, b, atol=1).all()
    assert torch.isclose(a, b, rtol=1).all() and torch.isclose(b, a, rtol=1).tolist() == [False, True, True]
    assert math.isnan(torch.relu(x)[0]) and math.isnan(torch.maximum(x, torch.zeros(4))[0])


def test_frexp_and_ldexp():
    x = torch.tensor([1.0, -3.5, 0.0, 1e-40, 1024.0])
    mantissa, exponent = torch.frexp(x)
    expected = np.frexp(x.numpy())
    np.testing.assert_array_equal(mantissa.numpy(), expected[0])
    np.testing.assert_array_equal(exponent.numpy(), expected[1])
    assert exponent.dtype is torch.int32
    assert torch.ldexp(mantissa, exponent)[:3].tolist() == x[:3].tolist()


def test_polygamma_and_zeta():
    x = torch.tensor([0.3, 1.0, 4.5, -1.5], dtype=torch.float64)
    k = np.arange(400000.0)
    for n in (1, 2, 3):
        direct = [(-1) ** (n + 1) * math.factorial(n) * np.sum((k + v) ** (-n - 1.0)) for v in x.tolist()]
        close(torch.polygamma(n, x), direct, rtol=1e-5)
    assert special.zeta(torch.tensor(2.0), torch.tensor(1.0)).item() == pytest.approx(math.pi**2 / 6)


def test_zeta_has_a_derivative_by_its_second_argument_alone():
    x, q = (torch.tensor(values, dtype=torch.float64, requires_grad=True) for values in ([2.5, 3.0], [0.7, 2.0]))
    out = special.zeta(x, q)
    (by_q,) = torch.autograd.grad(out.sum(), q, create_graph=True)
    close(by_q.detach(), (-x * special.zeta(x + 1, q)).detach())
    assert torch.autograd.gradgradcheck(lambda q: special.zeta(x.detach(), q), (q,))
    for y, z in ((out, x), (by_q, x)):
        with pytest.raises(NotImplementedError, match="the derivative for 'zeta' is not implemented"):
            torch.autograd.grad(y.sum(), z, retain_graph=True)


# ---------------------------------------------------------------- gradients

UNARY_GRADIENTS = (
    "exp exp2 expm1 sin cos tan asin acos atan sinh cosh tanh asinh atanh sigmoid sinc erf erfc erfinv lgamma digamma i0 deg2rad "
    "neg abs sgn square sqrt rsqrt reciprocal log log2 log10 log1p frac relu logit nan_to_num selu celu hardshrink"
).split()
ACTIVATIONS = (
    "relu6 leaky_relu elu gelu silu mish softplus hardtanh hardsigmoid hardswish softshrink tanhshrink softsign logsigmoid glu"
).split()
FUNCTIONS = {
    **{name: getattr(torch, name) for name in UNARY_GRADIENTS},
    **{name: getattr(F, name) for name in ACTIVATIONS},
    **{f"special.{name}": getattr(special, name) for name in ("i0e", "i1", "i1e", "erfcx", "entr", "ndtr", "log_ndtr", "ndtri")},
    "gelu by tanh": lambda x: F.gelu(x, approximate="tanh"),
    "clamp": lambda x: x.clamp(0.33, 0.66),
    "polygamma": lambda x: torch.polygamma(2, x),
    "threshold": lambda x: F.threshold(x, 0.3, 0.1),
    "2.5 ** x": lambda x: 2.5**x,
    **{f"x ** {p}": (lambda x, p=p: x**p) for p in (2, 3, 0.5, -0.5, -1, -2, 1.7, 0, 1)},
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_unary_gradients(name):
    x = tensor(INSIDE, torch.float64).requires_grad_()
    assert gradcheck(FUNCTIONS[name], (x,)) and gradgradcheck(FUNCTIONS[name], (x,))


MIXED = {
    **{
        name: getattr(torch, name)
        for name in (
            "add sub mul div pow atan2 hypot maximum minimum fmax fmin fmod remainder copysign xlogy logaddexp logaddexp2 rsub"
        ).split()
    },
    "xlog1py": special.xlog1py,
    "where": lambda x, y: torch.where(x > 0.5, x, y),
    "lerp near": lambda x, y: torch.lerp(x, y, 0.3),
    "lerp far": lambda x, y: torch.lerp(x, y, 0.7),
    "alpha": lambda x, y: torch.sub(x, y, alpha=2.5),
    "lerp": lambda x, y: torch.lerp(x, y, x * y),
    "addcmul": lambda x, y: torch.addcmul(x, x, y, value=0.3),
    "addcdiv": lambda x, y: torch.addcdiv(y, x, y),
    "clamp": lambda x, y: torch.clamp(x, y, y + 0.2),
}


@pytest.mark.parametrize("name", MIXED)
def test_gradients_of_several(name):
    x = tensor(INSIDE[None, :3], torch.float64).requires_grad_()
    y = tensor(INSIDE[3:, None] - 0.03, torch.float64).requires_grad_()
    assert gradcheck(MIXED[name], (x, y)) and gradgradcheck(MIXED[name], (x, y))


@pytest.mark.parametrize(
    "name",
    [
        "exp",
        "log",
        "sin",
        "tan",
        "tanh",
        "sqrt",
        "rsqrt",
        "reciprocal",
        "sigmoid",
        "abs",
        "sgn",
        "square",
        "asin",
        "acosh",
        "log1p",
        "sinc",
        "angle",
    ],
)
def test_complex_gradients(name):
    x = torch.tensor([0.3 + 0.4j, 0.7 - 0.2j], dtype=torch.complex128).requires_grad_()
    assert gradcheck(getattr(torch, name), (x,))


def test_gradients_at_the_corners():
    def slope(function, at):
        x = torch.tensor(at).requires_grad_()
        function(x).sum().backward()
        return x.grad.tolist()

    assert slope(torch.relu, [0.0, 1.0]) == [0, 1]
    assert slope(torch.abs, [0.0, -2.0]) == [0, -1]
    assert slope(lambda x: x.clamp(0, 1), [0.0, 1.0, 2.0]) == [1, 1, 0]
    assert slope(F.hardtanh, [-1.0, 0.5, 1.0]) == [0, 1, 0]
    assert slope(lambda x: torch.maximum(x, torch.tensor([1.0, 1.0])), [1.0, 2.0]) == [0.5, 1]
    assert slope(lambda x: x**0, [0.0, 2.0]) == [0, 0]
    assert slope(lambda x: torch.xlogy(torch.zeros(2), x), [0.0, 1.0])[1] == 0


def test_nodes_have_pytorchs_names():
    x, y = (torch.tensor([0.5, 0.6]).requires_grad_() for _ in range(2))
    for result, name in (
        (x + y, "AddBackward0"),
        (1 - x, "RsubBackward1"),
        (x**2, "PowBackward0"),
        (x**y, "PowBackward1"),
        (2**x, "PowBackward2"),
        (x / y, "DivBackward0"),
        (torch.log1p(x), "Log1PBackward0"),
        (x.clamp(0, 1), "ClampBackward1"),
        (torch.where(x > 0, x, y), "WhereBackward0"),
        (F.gelu(x), "GeluBackward0"),
        (F.relu6(x), "HardtanhBackward0"),
        (torch.lerp(x, y, 0.5), "LerpBackward0"),
        (special.xlog1py(x, y), "SpecialXlog1PyBackward0"),
        (x % 2, "RemainderBackward0"),
    ):
        assert result.grad_fn.name() == name


# ---------------------------------------------------------------- in place, out=


def test_in_place():
    x = torch.tensor([1.0, 2.0, 3.0]).requires_grad_()
    y = x * 2
    y.add_(3, alpha=2).mul_(x).pow_(2)
    y.sum().backward()
    expected = [2 * (2 * v + 6) * v * (4 * v + 6) for v in (1.0, 2.0, 3.0)]
    close(x.grad, expected)
    z = torch.tensor([5.0, 6.0])
    z += 1
    z -= 0.5
    z *= 2
    z /= 4
    assert z.tolist() == [2.75, 3.25]
    shifted = torch.arange(6.0)
    shifted[1:].mul_(shifted[1:])
    assert shifted.tolist() == [0, 1, 4, 9, 16, 25]


def test_in_place_refusals():
    leaf = torch.ones(2).requires_grad_()
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad is being used in an in-place operation"):
        leaf.add_(1)
    with pytest.raises(RuntimeError, match="result type Float can't be cast to the desired output type Long"):
        torch.tensor([1]).add_(1.5)
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
        torch.ones(3).expand(2, 3).add_(1)
    with pytest.raises(RuntimeError, match="doesn't match the broadcast shape"):
        torch.ones(3).add_(torch.ones(2, 3))
    y = leaf * 2
    y.mul_(y)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_out():
    x = torch.tensor([1.0, 2.0])
    out = torch.empty(0)
    assert torch.exp(x, out=out) is out and out.shape == (2,)
    wide = torch.empty(2, dtype=torch.float64)
    assert torch.add(x, x, alpha=2, out=wide).tolist() == [3, 6]
    with pytest.raises(RuntimeError, match="can't be cast to the desired output type Long"):
        torch.add(x, x, out=torch.empty(2, dtype=torch.int64))
    with pytest.raises(RuntimeError, match="don't support automatic differentiation"):
        torch.exp(x.clone().requires_grad_(), out=torch.empty(2))


# ---------------------------------------------------------------- errors

TRUE, WHOLE, REAL = [True, False], [1, 2], [1.0, 2.0]


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: torch.tensor(TRUE) - torch.tensor(TRUE), RuntimeError, "with two bool tensors is not supported"),
        (lambda: 1 - torch.tensor(TRUE), RuntimeError, "with a bool tensor is not supported"),
        (lambda: -torch.tensor(TRUE), RuntimeError, "Negation, the `-` operator, on a bool tensor"),
        (lambda: torch.tensor(WHOLE) // 0, RuntimeError, "ZeroDivisionError"),
        (lambda: torch.tensor(WHOLE) % torch.tensor([1, 0]), RuntimeError, "ZeroDivisionError"),
        (lambda: torch.tensor(WHOLE) ** -1, RuntimeError, "Integers to negative integer powers are not allowed."),
        (lambda: torch.tensor(TRUE) ** torch.tensor(TRUE), NotImplementedError, "\"pow\" not implemented for 'Bool'"),
        (lambda: torch.add(torch.tensor(WHOLE), torch.tensor(WHOLE), alpha=1.5), RuntimeError, "alpha must not be a floating"),
        (lambda: torch.tensor(WHOLE).clamp(), RuntimeError, "At least one of 'min' or 'max' must not be None"),
        (lambda: torch.tensor([1j]) < torch.tensor([1j]), NotImplementedError, "\"lt_cpu\" not implemented for 'ComplexFloat'"),
        (lambda: ~torch.tensor(REAL), TypeError, "only implemented on integer and Boolean-type tensors"),
        (lambda: torch.tensor(REAL) + "a", TypeError, "unsupported operand type"),
        (lambda: torch.add(torch.tensor(REAL), None), TypeError, r"argument 'other' \(position 2\) must be Tensor, not NoneType"),
        (
            lambda: torch.maximum(torch.tensor(REAL), 2.0),
            TypeError,
            r"maximum\(\): argument 'other' \(position 2\) must be Tensor",
        ),
        (lambda: torch.exp(1.0), TypeError, r"exp\(\): argument 'input' \(position 1\) must be Tensor, not float"),
        (lambda: torch.where(torch.tensor(WHOLE), 1.0, 2.0), RuntimeError, "where expected condition to be a boolean tensor"),
        (
            lambda: torch.lerp(torch.tensor(REAL), torch.tensor(REAL).double(), 0.5),
            RuntimeError,
            "expected dtype float for `end`",
        ),
        (lambda: torch.ones(2) + torch.ones(3), RuntimeError, "The size of tensor a"),
        (lambda: F.gelu(torch.tensor(REAL), approximate="x"), RuntimeError, "approximate argument must be either none or tanh"),
        (lambda: F.glu(torch.ones(3)), RuntimeError, "Halving dimension must be even, but dimension 0 is size 3"),
        (lambda: F.leaky_relu(torch.tensor(WHOLE)), NotImplementedError, "\"leaky_relu_cpu\" not implemented for 'Long'"),
        (lambda: F.hardtanh(torch.tensor(REAL), 1, -1), ValueError, "min_val cannot be greater than max_val"),
        (lambda: torch.isclose(torch.tensor(REAL), torch.tensor(WHOLE)), RuntimeError, "Float did not match Long"),
    ],
)
def test_errors(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_undefined_gradients_are_refused():
    x = torch.ones(2).requires_grad_()
    with pytest.raises(RuntimeError, match="derivative for aten::floor_divide is not implemented"):
        (x // 2).sum().backward()


# ---------------------------------------------------------------- activations


def test_rrelu_draws_slopes_while_training():
    x = torch.full((1000,), -1.0)
    y = F.rrelu(x, 0.1, 0.3, training=True)
    assert -0.3 <= y.min().item() < y.max().item() <= -0.1
    close(F.rrelu(x, 0.1, 0.3), np.full(1000, -0.2))


@pytest.mark.parametrize(
    "name", ["relu", "relu6", "leaky_relu", "elu", "selu", "celu", "silu", "mish", "hardswish", "hardsigmoid", "hardtanh"]
)
def test_activations_in_place(name):
    x = tensor(VALUES)
    expected = getattr(F, name)(x)
    assert getattr(F, name)(x, inplace=True) is x
    assert x.tolist() == expected.tolist()
