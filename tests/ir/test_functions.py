"""Accuracy, special values and vectorisation of the bodies of named functions."""

import math
import re

import numpy as np
import pytest
from harness import Kernel, dtypes, run, ulps

from flambeau.ir import scalar as s

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")
INF, NAN = np.inf, np.nan

# name: (reference in long double, range, largest error in ulp for float32, for float64)
ELEMENTARY = {
    "exp": (np.exp, (-745, 710), 1.1, 1.1),
    "exp2": (np.exp2, (-1074, 1024), 1, 1),
    "expm1": (np.expm1, (-50, 710), 1.7, 2),
    "log": (np.log, (0, 1e3), 1, 1),
    "log2": (np.log2, (0, 1e3), 1.7, 1.7),
    "log10": (np.log10, (0, 1e3), 1.7, 1.7),
    "log1p": (np.log1p, (-1, 10), 1.5, 1.5),
    "sin": (np.sin, (-1e5, 1e5), 1.7, 1.7),
    "cos": (np.cos, (-1e5, 1e5), 1.7, 1.7),
    "tan": (np.tan, (-1e5, 1e5), 1.7, 1.7),
    "asin": (np.arcsin, (-1, 1), 1.7, 1.7),
    "acos": (np.arccos, (-1, 1), 1.2, 1.2),
    "atan": (np.arctan, (-50, 50), 1.7, 1.7),
    "sinh": (np.sinh, (-711, 711), 1.8, 1.8),
    "cosh": (np.cosh, (-711, 711), 1.7, 1.7),
    "tanh": (np.tanh, (-25, 25), 2, 2),
    "asinh": (np.arcsinh, (-1e3, 1e3), 1.9, 1.9),
    "acosh": (np.arccosh, (1, 1e3), 2, 2),
    "atanh": (np.arctanh, (-1, 1), 2, 2),
    "sqrt": (np.sqrt, (0, 1e9), 0.5, 0.5),
    "rsqrt": (lambda x: 1 / np.sqrt(x), (0, 1e9), 1.5, 1.5),
}


def sample(low, high, dtype, count=20000):
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 2 ** (8 * np.dtype(dtype).itemsize), count, dtype=f"u{np.dtype(dtype).itemsize}")
    ends = np.array([0, -0.0, 1, -1, 0.5, -0.5, INF, -INF, NAN], dtype)
    near = rng.uniform(-2, 2, count).astype(dtype)
    return np.concatenate([rng.uniform(low, high, count).astype(dtype), near, bits.view(dtype), ends])


@pytest.mark.parametrize("name", ELEMENTARY)
def test_accuracy(name):
    reference, (low, high), bound32, bound64 = ELEMENTARY[name]
    for dtype, bound in ((np.float32, bound32), (np.float64, bound64)):
        x = sample(low, high, dtype)
        if name in ("sin", "cos", "tan"):
            x = x[(np.abs(x) < 1e9) | ~np.isfinite(x)]  # beyond, long double has no digits to spare
        got, want = run(getattr(s, name), x), reference(x.astype(np.longdouble))
        assert ulps(got, want) <= bound, (name, dtype)
        zero = run(getattr(s, name), np.array([-0.0], dtype))
        assert np.signbit(zero) == np.signbit(reference(np.array([-0.0], dtype))) or np.isnan(zero)


# A double, its sine, cosine and tangent (from 1400-bit arithmetic); the fifth is the double nearest to a multiple of pi / 2.
FAR = """
1125899906842624.0 0.49639651520894085 0.8680959046605506 0.5718222059843094
1e+22 -0.8522008497671888 0.523214785395139 -1.6287782256068988
9.999999778196308e+21 -0.7340815352961015 0.679061337095051 -1.0810239004865465
3.3999999521443642e+38 -0.24408487440838297 0.9697538729415026 -0.2516977567390511
5.319372648326541e+255 1.0 -4.687165924254628e-19 -2.133485385753704e+18
1.7976931348623157e+308 0.004961954789184062 -0.9999876894265599 -0.004962015874444895
-7.100000182394874e+29 0.991804304181299 -0.1277662796180956 -7.762645254646901
1.7014118346046923e+38 0.6233855129558702 0.78191463871496 0.7972552016424389
1.2345e+200 -0.8981729649806256 0.43964226932576883 -2.0429631717579273
"""


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_trigonometry_of_huge_arguments(dtype):
    rows = np.array([line.split() for line in FAR.split("\n") if line], np.float64)
    rows = rows[rows[:, 0].astype(dtype) == rows[:, 0]]
    assert len(rows) >= 4
    for name, column in (("sin", 1), ("cos", 2), ("tan", 3)):
        for count in (1, 3, 40):  # alone, in the rest of a loop, and within vectors between ordinary arguments
            x = np.linspace(-3, 3, count).astype(dtype)
            for row in rows:
                for sign in (1, -1):
                    x[count // 2] = sign * row[0]
                    want = getattr(np, name)(x.astype(np.float64))
                    want[count // 2] = row[column] * (1 if name == "cos" else sign)
                    assert ulps(run(getattr(s, name), x), want) <= 2, (name, x[count // 2])
    ends = run(s.sin, np.array([INF, -INF, NAN], dtype))
    assert np.isnan(ends).all()


@pytest.mark.parametrize("name", ["exp", "log", "tanh", "atan", "erf", "pow"])
def test_float32_loops_vectorise(name):
    function = getattr(s, name)
    kernel = Kernel(function, *[dtypes.float32] * (2 if name == "pow" else 1))
    assert "zmm" in kernel.assembly or "ymm" in kernel.assembly
    assert "callq" not in kernel.assembly and "call\t" not in kernel.assembly


@pytest.mark.parametrize("name", ["sin", "tan"])
def test_loops_with_a_rare_path_vectorise(name):
    """They call the function for rare arguments with whole vectors, not once per element."""
    kernel = Kernel(getattr(s, name), dtypes.float32).assembly.split("\nkernel:")[1]
    assert "zmm" in kernel or "ymm" in kernel
    assert re.search(r"flambeau\.rare\.\w+\.v16", kernel)


# name: (largest error in ulp for float32, range)
SPECIAL = {
    "erf": (1, (-6, 6)),
    "erfc": (1, (-6, 10)),
    "erfinv": (1, (-1, 1)),
    "normal_quantile": (1, (0, 1)),
    "erfcx": (1, (-5, 25)),
    "lgamma": (1, (0, 60)),
    "trigamma": (1, (0, 60)),
    "i0": (1, (-30, 30)),
    "i0e": (1, (-90, 90)),
    "i1": (1, (-30, 30)),
    "i1e": (1, (-90, 90)),
}


@pytest.mark.parametrize("name", [*SPECIAL, "digamma"])
def test_special_functions(name):
    special = pytest.importorskip("scipy.special")
    reference = {"lgamma": special.gammaln, "normal_quantile": special.ndtri, "trigamma": lambda x: special.polygamma(1, x)}.get(
        name, getattr(special, name, None)
    )
    rng = np.random.default_rng(1)
    bound32, (low, high) = SPECIAL.get(name, (1, (2, 60)))
    x = np.concatenate([rng.uniform(low, high, 4000), rng.uniform(max(low, -1), 1 if low < 1 else 3, 1000)])
    x32 = x.astype(np.float32)
    assert ulps(run(getattr(s, name), x32), reference(x32.astype(np.float64))) <= bound32
    got, want = run(getattr(s, name), x), reference(x)
    # SciPy itself is off by some ulp in double precision
    np.testing.assert_allclose(got, want, rtol=1e-14, atol=2e-15 if name == "lgamma" else 1e-300)


def check(function, arguments, want, dtype=np.float32):
    columns = [np.array(column, dtype) for column in zip(*arguments, strict=True)]
    got = run(function, *columns)
    np.testing.assert_array_equal(got, np.array(want, dtype))
    np.testing.assert_array_equal(np.signbit(got[~np.isnan(got)]), np.signbit(np.array(want, dtype)[~np.isnan(got)]))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_pow(dtype):
    rng = np.random.default_rng(2)
    x = np.concatenate([rng.uniform(0, 3, 20000), 10.0 ** rng.uniform(-30, 30, 20000), [2.0, 10.0, 3.0]]).astype(dtype)
    y = np.concatenate([rng.uniform(-30, 30, 20000), rng.uniform(-9, 9, 20000), [10, 3, 4]]).astype(dtype)
    assert ulps(run(s.pow, x, y), np.power(x.astype(np.longdouble), y.astype(np.longdouble))) <= 1.2
    values = [0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 0.5, -0.5, 3.0, -3.0, INF, -INF, NAN]
    pairs = [(a, b) for a in values for b in values]
    a, b = (np.array(column, dtype) for column in zip(*pairs, strict=True))
    got, want = run(s.pow, a, b), np.power(a, b)
    np.testing.assert_allclose(got, want, rtol=3 * np.finfo(dtype).eps)
    np.testing.assert_array_equal(np.signbit(got[~np.isnan(got)]), np.signbit(want[~np.isnan(got)]))


def test_division_family():
    values = [5.5, -5.5, 2.0, -2.0, 0.0, -0.0, INF, -INF, NAN, 1e30, 3.0]
    pairs = [(a, b) for a in values for b in values]
    check(s.fmod, pairs, [np.fmod(np.float32(a), np.float32(b)) for a, b in pairs])
    a, b = np.array([7.5, -7.5, 7.5, -7.5, 1.0]), np.array([2.0, 2.0, -2.0, -2.0, 0.1])
    np.testing.assert_array_equal(run(s.remainder, a, b), np.mod(a, b))
    np.testing.assert_array_equal(run(s.floor_divide, a, b), np.floor_divide(a, b))
    np.testing.assert_array_equal(run(s.trunc_divide, a[:4], b[:4]), [3, -3, -3, 3])


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.int64, np.uint8])
def test_integer_division_never_traps(dtype):
    info = np.iinfo(dtype)
    values = np.array([info.min, info.max, 0, 1, 2, 3, 7, 100], dtype)
    if info.min < 0:
        values = np.concatenate([values, -values[2:]])
    a, b = (grid.ravel() for grid in np.meshgrid(values, values))
    ordinary = (b != 0) & ~((a == info.min) & (b == dtype(-1) if info.min < 0 else False))
    for function, reference in ((s.floor_divide, np.floor_divide), (s.remainder, np.mod), (s.fmod, np.fmod)):
        np.testing.assert_array_equal(run(function, a, b)[ordinary], reference(a, b)[ordinary])
    np.testing.assert_array_equal(run(s.gcd, a, b)[ordinary], np.gcd(a, b)[ordinary])


def test_integer_power_and_shifts():
    x = np.array([2, 3, -1, -1, 1, 5, 0, 7], np.int64)
    y = np.array([10, 40, 3, -3, -5, -1, 0, 63], np.int64)
    wrapped = (pow(7, 63, 2**64) + 2**63) % 2**64 - 2**63
    cube = (3**40 + 2**63) % 2**64 - 2**63
    np.testing.assert_array_equal(run(s.pow, x, y), [1024, cube, -1, -1, 1, 0, 1, wrapped])
    a, b = np.array([1, 1, 1, -8, -8, -8], np.int32), np.array([3, 32, -1, 1, 40, -1], np.int32)
    np.testing.assert_array_equal(run(lambda p, q: p << q, a, b), [8, 0, 0, -16, 0, 0])
    np.testing.assert_array_equal(run(lambda p, q: p >> q, a, b), [0, 0, 0, -4, -1, -1])


def test_extrema_and_nan():
    pairs = [(1, 2), (2, 1), (NAN, 1), (1, NAN), (INF, 1), (NAN, NAN)]
    check(s.minimum, pairs, [1, 1, NAN, NAN, 1, NAN])
    check(s.maximum, pairs, [2, 2, NAN, NAN, INF, NAN])
    check(s.fmin, pairs, [1, 1, 1, 1, 1, NAN])
    check(s.fmax, pairs, [2, 2, 1, 1, INF, NAN])
    check(lambda x: s.clamp(x, -1, 1), [(-5,), (0.5,), (5,), (NAN,)], [-1, 0.5, 1, NAN])
    check(s.sign, [(-5,), (0.5,), (0,), (NAN,)], [-1, 1, 0, 0])


def test_atan2_and_hypot():
    values = [0.0, -0.0, 1.0, -1.0, 2.5, -2.5, INF, -INF, NAN]
    y, x = (np.array(g, np.float64).ravel() for g in np.meshgrid(values, values))
    for dtype in (np.float32, np.float64):
        assert ulps(run(s.atan2, y.astype(dtype), x.astype(dtype)), np.arctan2(y, x).astype(np.longdouble)) <= 1.5
    big = np.array([1e30, 3e38, 1e-30, 3.0], np.float32)
    assert ulps(run(s.hypot, big, big[::-1]), np.hypot(big.astype(np.longdouble), big[::-1])) <= 0.6


def test_nextafter():
    a = np.array([0.0, -0.0, 1.0, -1.0, 1.0, INF, 1.0, NAN], np.float32)
    b = np.array([1.0, -1.0, 2.0, 2.0, 0.0, 0.0, 1.0, 1.0], np.float32)
    np.testing.assert_array_equal(run(s.nextafter, a, b), np.nextafter(a, b))


COMPLEX = ["exp", "log", "sqrt", "sin", "cos", "tan", "tanh", "sinh", "cosh", "asin", "acos", "atan", "asinh", "acosh",
           "atanh", "log2", "log10", "log1p", "expm1", "reciprocal"]  # fmt: skip
NUMPY_NAMES = {"asin": "arcsin", "acos": "arccos", "atan": "arctan", "asinh": "arcsinh", "acosh": "arccosh",
               "atanh": "arctanh"}  # fmt: skip


@pytest.mark.parametrize("name", COMPLEX)
def test_complex(name):
    rng = np.random.default_rng(3)
    z = rng.uniform(-3, 3, 500) + 1j * rng.uniform(-3, 3, 500)
    want = getattr(np, NUMPY_NAMES.get(name, name))(z)
    np.testing.assert_allclose(run(getattr(s, name), z), want, rtol=1e-13, atol=1e-14)


def test_complex_arithmetic():
    rng = np.random.default_rng(4)
    a, b = (rng.normal(size=100) + 1j * rng.normal(size=100) for _ in range(2))
    np.testing.assert_allclose(run(lambda x, y: (x * y - x / y + 2) * 1j, a, b), (a * b - a / b + 2) * 1j, rtol=1e-13)
    np.testing.assert_allclose(run(s.pow, a, b), a**b, rtol=1e-12)
    np.testing.assert_allclose(run(s.abs, a), np.abs(a), rtol=1e-15)
    np.testing.assert_allclose(run(s.angle, a), np.angle(a), rtol=1e-15)
    np.testing.assert_array_equal(run(s.conj, a), a.conj())
    assert math.isnan(run(s.real, np.array([complex(NAN, 1)]))[0])


def test_fmod_of_distant_magnitudes_is_exact():
    a = np.array([1e30, 1e38, 3e20, 1.0], np.float32)
    b = np.array([3.7, 1e10, 7e-8, 1e-40], np.float32)
    np.testing.assert_array_equal(run(s.fmod, a, b), [math.fmod(x, y) for x, y in zip(a.tolist(), b.tolist())])
    a, b = np.array([1e40, 1e17, 123456.789]), np.array([3.7, 0.1, 1e-5])
    np.testing.assert_array_equal(run(s.fmod, a, b), [math.fmod(x, y) for x, y in zip(a.tolist(), b.tolist())])
