"""Expressions, simplification, derivatives, memory conversion."""

import copy

import numpy as np
import pytest
from harness import dtypes, run

from flambeau.base.dtype import bfloat16, bool_, complex128, float16, float32, float64, int32, int64
from flambeau.ir import scalar as s
from flambeau.ir.derivative import derivative, vjp
from flambeau.ir.scalar import constant, leaf, show, trace, where
from flambeau.ir.simplify import simplify

X, Y, G = (leaf(name, float64) for name in "xyg")


def test_expressions_are_interned():
    assert X + Y is X + Y
    assert constant(0.0, float32) is not constant(-0.0, float32)
    assert constant(1, int64) is not constant(1, int32)
    assert copy.deepcopy(X * Y) is X * Y
    with pytest.raises(TypeError, match="where"):
        bool(X > Y)


def test_promotion():
    integer, flag = leaf("i", int32), leaf("b", bool_)
    assert (integer + 1).dtype is int32 and (integer + 1.5).dtype is float32 and (flag + 1).dtype is int64
    assert (integer / 2).dtype is float32 and s.exp(integer).dtype is float32
    assert (X + 1j).dtype is complex128 and (leaf("f", float32) + X).dtype is float64
    with pytest.raises(TypeError, match="storage dtype"):
        leaf("h", float16)


def test_simplify():
    for expr in (X * 1, 1 * X, X / 1, X - 0, s.neg(-X), where(True, X, Y), where(X > 0, X, X), s.cast(X, float64)):
        assert simplify(expr) is X
    assert simplify(X + 0.0) is not X  # -0.0 + 0.0 is 0.0
    assert simplify(X * 0) is not X and simplify(X * 0).op == "mul"  # NaN stays
    assert simplify(constant(2, float32) * 3 + 1) is constant(7, float32)
    assert simplify(X**2) is X * X and simplify(X**0.5).op == "sqrt"
    assert show(simplify(X + -Y)) == "(x - y)"


def test_derivatives_are_compact():
    assert show(derivative(1 / (1 + s.exp(-X)), X)).count("exp") <= 3
    assert derivative(s.sigmoid(X), X).op == "mul"
    assert derivative(constant(3, float64), X) is constant(0, float64)
    assert derivative(X * Y, X) is Y


BODIES = {
    "sigmoid": lambda x: 1 / (1 + s.exp(-x)), "silu": lambda x: x * s.sigmoid(x), "pow": lambda x: x**3.5,
    "gelu": lambda x: 0.5 * x * (1 + s.erf(x * 0.7071067811865476)), "tanh": s.tanh, "rsqrt": s.rsqrt, "log": s.log,
    "powx": lambda x: x**x, "div": lambda x: x / (1 + x * x), "fma": lambda x: s.fma(x, x, x), "abs": abs,
    "atan2": lambda x: s.atan2(x, 1 + x), "hypot": lambda x: s.hypot(x, 1 - x), "logaddexp": lambda x: s.logaddexp(x, 2 * x),
    "where": lambda x: where(x > 0.7, x * x, s.sin(x)), "lgamma": s.lgamma, "sinc": s.sinc,
    "copysign": lambda x: s.copysign(x * x, -x), "remainder": lambda x: s.remainder(3.3 * x, x),
    **{name: getattr(s, name) for name in (
        "exp", "exp2", "expm1", "log2", "log10", "log1p", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh",
        "asinh", "atanh", "erf", "erfc", "erfcx", "erfinv", "i0", "i0e", "i1", "i1e", "sqrt", "reciprocal")},
}  # fmt: skip


@pytest.mark.parametrize("name", BODIES)
def test_first_and_second_derivative(name):
    body, step = BODIES[name], 1e-5
    x = np.array([0.2, 0.35, 0.61, 0.83])

    def slope(t):
        return derivative(body(t), t)

    def difference(function):
        return (run(function, x + step) - run(function, x - step)) / (2 * step)

    np.testing.assert_allclose(run(slope, x), difference(body), rtol=1e-7, atol=1e-8)
    if name != "lgamma":
        np.testing.assert_allclose(run(lambda t: derivative(slope(t), t), x), difference(slope), rtol=1e-6, atol=1e-7)


def test_conventions():
    def slope(body, *point, of=0):
        leaves = [leaf(f"x{k}", float64) for k in range(len(point))]
        return float(run(lambda *a: _or_zero(vjp(body(*a), a, constant(1, float64))[of], a[of]),
                         *[np.array([p], float) for p in point])[0]) if leaves else None  # fmt: skip

    def _or_zero(expr, like):
        return expr if expr is not None else constant(0, like.dtype) + like * 0

    assert slope(abs, 0.0) == 0
    assert slope(s.maximum, 1.0, 1.0) == 0.5 and slope(s.minimum, 1.0, 2.0, of=1) == 0
    assert slope(lambda x: s.clamp(x, 0, 1), 0.0) == 1 and slope(lambda x: s.clamp(x, 0, 1), 1.5) == 0
    assert slope(s.sqrt, 0.0) == np.inf
    assert slope(s.pow, 0.0, 0.0) == 0 and slope(s.pow, 0.0, 2.0, of=1) == 0 and slope(s.pow, 3.0, 0.0) == 0
    assert slope(lambda x: where(x > 0, x, 0), 0.0) == 0


def test_complex_gradients_follow_pytorch():
    z, w = leaf("z", complex128), leaf("w", complex128)
    point = np.array([0.3 + 0.4j])

    def pulled(body):
        return run(lambda x: vjp(body(x), (x,), constant(1, body(x).dtype))[0], point)[0]

    np.testing.assert_allclose(pulled(lambda x: x * x), np.conj(2 * point[0]))
    np.testing.assert_allclose(pulled(s.exp), np.conj(np.exp(point[0])))
    np.testing.assert_allclose(pulled(s.abs), point[0] / abs(point[0]))
    np.testing.assert_allclose(pulled(s.real), 1)
    np.testing.assert_allclose(pulled(s.imag), 1j)
    np.testing.assert_allclose(pulled(s.conj), 1)
    assert vjp(z * w, (z, w), leaf("g", complex128))[0].dtype is complex128


def test_missing_rule_names_the_op():
    with pytest.raises(NotImplementedError, match="nextafter"):
        derivative(s.nextafter(X, 1.0), X)


def test_bfloat16_and_half_memory():
    values = np.array([1.0, 1.00390625, 1.01171875, -2.5, 3e38, 3.4e38, np.inf, np.nan, 1e-40], np.float32)
    stored = run(lambda x: x, values, output=bfloat16)
    bits = values.view(np.uint32).astype(np.uint64)
    want = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
    want[np.isnan(values)] = 0x7FC0
    np.testing.assert_array_equal(stored, want)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(run(lambda x: x, values, output=float16), values.astype(np.float16))
    half = np.array([0.1, 65504, np.inf, 6e-8], np.float16)
    np.testing.assert_array_equal(run(lambda x: x * 1, half), half.astype(np.float32))


def test_casts():
    x = np.array([1.9, -1.9, 300.0, -1.0, 0.0, 0.5])
    np.testing.assert_array_equal(run(lambda v: s.cast(v, dtypes.uint8), x), [1, 255, 44, 255, 0, 0])
    np.testing.assert_array_equal(run(lambda v: s.cast(v, dtypes.int64), x), [1, -1, 300, -1, 0, 0])
    np.testing.assert_array_equal(run(lambda v: s.cast(v, bool_), x), [1, 1, 1, 1, 0, 1])
    big = np.array([2.0**63, 2.0**64 - 2048, 5.0])
    np.testing.assert_array_equal(run(lambda v: s.cast(v, dtypes.uint64), big), [2**63, 2**64 - 2048, 5])
    assert trace(lambda a, b: (a + b, a), X, Y)[1] is X
