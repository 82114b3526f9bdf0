"""Elementwise functions where formulas break: zeros and their signs, infinities, NaN, tiny and huge numbers, branch points.

The expected values are PyTorch's, or exact ones where PyTorch's own formula breaks.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

import flambeau as torch
from flambeau.nn import functional as F

INF, NAN = math.inf, math.nan


def same(got, want, tolerance=1e-13):
    """Equal in value, in the places of NaN and infinities, and in the signs of zeros."""
    got, want = np.asarray(got), np.asarray(want)
    for a, b in ((got.real, want.real), (got.imag, want.imag)) if got.dtype.kind == "c" else ((got, want),):
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=0)
        zeros = (b == 0) & (got == got)
        assert (np.signbit(a) == np.signbit(b))[zeros].all(), (a, b)


def tensor(values, dtype=torch.float64):
    return torch.tensor(values, dtype=dtype)


REAL = [
    (torch.relu, [-0.0, 0.0, -1.0, NAN, INF], [-0.0, 0.0, 0.0, NAN, INF]),
    (F.relu6, [-0.0, 7.0, NAN], [-0.0, 6.0, NAN]),
    (lambda x: x.clamp(0, 1), [-0.0, -1.0, 2.0, NAN], [-0.0, 0.0, 1.0, NAN]),
    (F.softshrink, [-0.3, 0.3, -0.0, NAN], [0.0, 0.0, 0.0, NAN]),
    (lambda x: torch.fmax(x, -x), [0.0, -0.0, NAN], [0.0, -0.0, NAN]),
    (torch.lgamma, [-5.95359476533826e-236, -1e-20, 1e-300], [541.6260867472281, 46.051701859880914, 690.7755278982137]),
    (torch.i0, [1e117, 700.0, -1e300, 0.0], [INF, 1.529593347671874e302, INF, 1.0]),
    (torch.special.i1, [-0.0, 1e117, -1e117], [0.0, INF, -INF]),
    (torch.special.i1e, [-0.0, -1.0], [0.0, -0.2079104153497085]),
    (
        torch.special.ndtri,
        [1e-20, 1.1764412375693493e-54, 4.2816168090360554e-275, 0.0, 1.0, -1e-300, 0.001],
        [-9.262340089798409, -15.52492248444421, -35.419474135956236, -INF, INF, NAN, -3.090232306167813],
    ),
    (torch.special.bessel_j1, [0.0, 1e-300, -1e-9], [0.0, 5e-301, -5e-10]),
    (torch.special.modified_bessel_k0, [7.41691286169067e-309, INF], [709.6109623365905, 0.0]),
    (torch.special.scaled_modified_bessel_k0, [INF, 9.944813912431981e306], [0.0, 3.974308796880378e-154]),
    (torch.special.airy_ai, [1e300, 1e3, INF, -INF], [0.0, 0.0, NAN, NAN]),
    (lambda x: torch.special.zeta(x, tensor(1.0)), [50.0, 1e30, INF], [1.0000000000000009, 1.0, 1.0]),
    (lambda x: torch.polygamma(2, x), [1e100, -0.4975761], [-1e-200, -0.35996606921353943]),
]


@pytest.mark.parametrize("case", range(len(REAL)))
def test_values(case):
    function, x, want = REAL[case]
    same(function(tensor(x)).numpy(), want, 2e-13)
    wide = function(tensor(x * 5))  # whole vectors
    same(wide.numpy()[: len(x)], want, 2e-13)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_remainders_are_exact(dtype):
    rng = np.random.default_rng(0)
    kind = np.float32 if dtype is torch.float32 else np.float64
    high = 120 if kind is np.float32 else 1000
    a, b = (np.ldexp(rng.uniform(1, 2, 500), rng.integers(-high, high, 500)).astype(kind) for _ in range(2))
    b[::7] *= -1
    a[::50], b[10::50] = INF, 0
    with np.errstate(all="ignore"):
        same(torch.fmod(torch.from_numpy(a), torch.from_numpy(b)).numpy(), np.fmod(a, b))
        same(torch.fmod(torch.from_numpy(a), 3).numpy(), np.fmod(a, kind(3)))
    fine = np.isfinite(a) & (b != 0)
    a, b = a[fine], b[fine]
    got, rest = torch.remainder(torch.from_numpy(a), torch.from_numpy(b)).numpy(), np.fmod(a, b)
    assert ((got == rest) | (got == rest + b)).all() and ((got == 0) | (np.sign(got) == np.sign(b))).all()
    assert torch.floor_divide(tensor([1.7976931348623157e308]), tensor([0.5])).item() == INF


def test_incomplete_gamma():
    a = tensor([34.0, 1e16, 1.5e308, 2.5298511497475827e-151, 1e-20])
    x = tensor([34.0, 1e16, 88.0, 1.0550423164033589, 0.3])
    same(torch.igamma(a, x).numpy()[:3], [0.52280949295320003, 0.5000000013298076, 0.0], 1e-12)
    same(torch.igammac(a, x).numpy()[1:], [0.49999999867019238, 1.0, 5.0647766314742951e-152, 9.056766516758467e-21], 1e-12)


GRADIENT = [
    (F.hardtanh, [NAN, 2.0, 0.0], [0.0, 0.0, 1.0]),
    (F.relu6, [NAN, 0.0, 1.0], [0.0, 0.0, 1.0]),
    (F.softshrink, [NAN, 1.0], [0.0, 1.0]),
    (F.hardshrink, [NAN, 1.0], [0.0, 1.0]),
    (F.elu, [NAN, 1.0], [NAN, 1.0]),
    (F.celu, [NAN, 1.0], [NAN, 1.0]),
    (F.hardswish, [NAN, 4.0], [NAN, 1.0]),
    (F.softplus, [-710.0, 1.0], [4.47628622567513e-309, 0.7310585786300049]),
    (F.logsigmoid, [710.0, -710.0], [4.47628622567513e-309, 1.0]),
    (torch.special.i1, [5e-324, 0.0], [0.5, 0.5]),
    (torch.special.i1e, [5e-324, 0.0], [0.5, 0.5]),
    (torch.special.ndtri, [1e-20], [1.0674725333014075e19]),
    (lambda x: torch.logit(x, 1e-3), [NAN, 0.5, 0.0], [0.0, 4.0, 0.0]),
    (lambda x: torch.div(0.0, x), [5e-324, -5e-324], [-0.0, -0.0]),
    (torch.sin, [1e22, 1e300], [math.cos(1e22), math.cos(1e300)]),
    (torch.digamma, [1e300, 1e-100, -1e-5], [1e-300, 1e200, 1.00000000016449580e10]),
]


@pytest.mark.parametrize("case", range(len(GRADIENT)))
def test_gradients(case):
    function, x, want = GRADIENT[case]
    x = tensor(x).requires_grad_()
    function(x).sum().backward()
    same(x.grad.numpy(), want, 1e-12)


COMPLEX = [
    (
        torch.sqrt,
        [1.7976931348623157e308 + 0j, complex(-INF, 1), 5e-324 + 0j],
        [1.3407807929942596e154 + 0j, complex(0, INF), 2.2227587494850775e-162 + 0j],
    ),
    (torch.reciprocal, [0j, complex(INF, 1e30)], [complex(INF, NAN), complex(0, -0.0)]),
    (
        torch.exp,
        [complex(INF, 0), complex(-INF, 3), 1 + 2j],
        [complex(INF, 0), complex(-0.0, 0.0), -1.1312043837568135 + 2.4717266720048188j],
    ),
    (torch.exp2, [complex(INF, 0), 1 + 0j], [complex(INF, 0), 2 + 0j]),
    (torch.expm1, [-62.25 - 0.885j], [-1 - 7.1426892897322606e-28j]),
    (
        torch.log,
        [1.7976931348623157e308 * (1 + 1j), 5e-324 + 5e-324j],
        [710.1292864836639 + 0.7853981633974483j, -744.0934983311012 + 0.7853981633974483j],
    ),
    (torch.sinh, [complex(-745, 0), 1 + 1j], [complex(-INF, 0), 0.6349639147847361 + 1.2984575814159773j]),
    (torch.cosh, [complex(-745, 0.0)], [complex(INF, -0.0)]),
    (torch.tanh, [complex(INF, INF), complex(0, INF), 400 + 1j], [complex(1, 0), complex(0, NAN), 1 + 0j]),
    (torch.asin, [complex(-1.7976931348623157e308, 3.5)], [-1.5707963267948966 + 710.4758600739439j]),
    (torch.acos, [complex(1.7976931348623157e308, -1000)], [5.562684646268004e-306 + 710.4758600739439j]),
    (torch.acosh, [complex(-1.7976931348623157e308, -104)], [710.4758600739439 - 3.141592653589793j]),
    (torch.asinh, [complex(172, INF), 3 - 4j], [complex(INF, 1.5707963267948966), 2.2999140408792695 - 0.9176168533514787j]),
    (
        torch.atan,
        [complex(-0.6758966884703885, 1.9131936707583474e257), complex(-INF, -1e5)],
        [-1.5707963267948966 + 5.226862367800026e-258j, complex(-1.5707963267948966, -0.0)],
    ),
    (
        torch.atanh,
        [complex(-1, 1e-200), 0.5 + 0.5j],
        [-230.60508288968455 + 0.7853981633974483j, 0.40235947810852507 + 0.5535743588970452j],
    ),
    (torch.sigmoid, [complex(-745, 1), 0j], [complex(5e-324, 5e-324), 0.5 + 0j]),
    (lambda z: z**-1, [3 + 4j, 1e-5 - 8j], [0.12 - 0.16j, 1.5624999999975587e-07 + 0.12499999999980469j]),
    (lambda z: z**-2, [-1e-20 - 0.1j], [-100 - 2e-17j]),
    (lambda z: z**0.5, [-1e16 - 126j], [6.3e-07 - 1e8j]),
]


@pytest.mark.parametrize("case", range(len(COMPLEX)))
def test_complex_values(case):
    function, z, want = COMPLEX[case]
    got = function(tensor(z, torch.complex128)).numpy()
    want = np.array(want)
    for a, b in ((got.real, want.real), (got.imag, want.imag)):
        np.testing.assert_allclose(a, b, rtol=1e-13, atol=1e-310)


def test_a_number_times_its_conjugate_is_real():
    z = torch.randn(1000, dtype=torch.complex128)
    assert (z * z.conj()).imag.abs().max() == 0
    assert torch.square(tensor([1e16 + 1e16j], torch.complex128)).item() == 2e32j


COMPLEX_POWERS = [
    (1, [complex(INF, 0), complex(-0.0, 1), complex(INF, NAN)], [complex(INF, 0), complex(-0.0, 1), complex(INF, NAN)]),
    (1.5, [complex(INF, 0), complex(0, -INF), complex(-INF, INF)], [complex(INF, NAN)] * 3),
    (2 + 1j, [complex(INF, 0), 1 + 0j], [complex(INF, NAN), 1 + 0j]),
    (-3, [0j, 1 + 0j], [complex(INF, NAN), 1 + 0j]),
]


@pytest.mark.parametrize("case", range(len(COMPLEX_POWERS)))
def test_complex_powers(case):
    exponent, x, want = COMPLEX_POWERS[case]
    same((tensor(x, torch.complex128) ** exponent).numpy(), want)


GROWN = [
    (torch.exp, complex(710, 1), complex(1.2070325195443e308, INF)),
    (torch.exp, complex(711, 710), complex(INF, 3.661108506e304)),
    (torch.exp, complex(710, 0), complex(INF, 0.0)),
    (torch.exp, complex(INF, NAN), complex(INF, NAN)),
    (torch.exp, complex(-1e30, INF), complex(NAN, NAN)),
    (torch.sin, complex(1, 711), complex(INF, 1.64052729e308)),
    (torch.sin, complex(100, 711), complex(-1.53748493e308, INF)),
    (torch.cosh, complex(INF, INF), complex(INF, NAN)),
    (torch.sinh, complex(-INF, NAN), complex(INF, NAN)),
    (torch.neg, complex(0.0, -0.0), complex(0.0, 0.0)),
    (torch.neg, complex(1.0, 0.0), complex(-1.0, 0.0)),
    (torch.reciprocal, complex(0.0, -1.0), complex(-0.0, 1.0)),
    (torch.reciprocal, complex(-1.0, -0.0), complex(-1.0, -0.0)),
    (torch.reciprocal, complex(1.0, -INF), complex(-0.0, 0.0)),
    (torch.reciprocal, complex(INF, INF), complex(NAN, NAN)),
]


@pytest.mark.parametrize("case", range(len(GROWN)))
def test_complex_functions_at_the_limits(case):
    function, x, want = GROWN[case]
    same(function(tensor([x], torch.complex128)).numpy(), [want], 1e-8)


def test_exp_of_a_complex_number_whose_real_exp_overflows_float32():
    same(torch.exp(tensor([complex(89, 1.5)], torch.complex64)).numpy(), [complex(np.exp(89) * np.cos(1.5), INF)], 1e-5)


def test_the_gradient_of_a_power_of_one_and_a_half_is_a_root():
    x = tensor([-INF, -0.0, 4.0]).requires_grad_()
    (x**1.5).sum().backward()
    same(x.grad.numpy(), [NAN, -0.0, 3.0])


@pytest.mark.parametrize("function", [torch.special.i1, torch.special.i1e])
def test_second_derivative_of_bessel_functions_at_zero(function):
    x = torch.zeros(1, dtype=torch.float64, requires_grad=True)
    (first,) = torch.autograd.grad(function(x).sum(), x, create_graph=True)
    assert first.item() == 0.5
    assert torch.autograd.grad(first.sum(), x)[0].item() == 0


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
@pytest.mark.parametrize(
    ("name", "points"),
    [  # (point, value)
        (
            "asinh",
            [
                ((NAN, 0.0), (NAN, 0.0)),
                ((NAN, -0.0), (NAN, -0.0)),
                ((NAN, INF), (INF, NAN)),
                ((NAN, 1.0), (NAN, NAN)),
                ((INF, NAN), (INF, NAN)),
            ],
        ),
        ("asin", [((0.0, NAN), (0.0, NAN)), ((-0.0, NAN), (-0.0, NAN)), ((INF, NAN), (NAN, INF)), ((1.0, NAN), (NAN, NAN))]),
        (
            "acos",
            [
                ((0.0, NAN), (math.pi / 2, NAN)),
                ((-0.0, NAN), (math.pi / 2, NAN)),
                ((INF, NAN), (NAN, -INF)),
                ((-INF, NAN), (NAN, -INF)),
                ((NAN, INF), (NAN, -INF)),
                ((NAN, -INF), (NAN, INF)),
                ((NAN, 0.0), (NAN, NAN)),
            ],
        ),
        (
            "acosh",
            [
                ((0.0, NAN), (NAN, math.pi / 2)),
                ((-0.0, NAN), (NAN, math.pi / 2)),
                ((INF, NAN), (INF, NAN)),
                ((-INF, NAN), (INF, NAN)),
                ((NAN, INF), (INF, NAN)),
                ((NAN, -INF), (INF, NAN)),
                ((1.0, NAN), (NAN, NAN)),
            ],
        ),
        (
            "atanh",
            [
                ((0.0, NAN), (0.0, NAN)),
                ((-0.0, NAN), (-0.0, NAN)),
                ((INF, NAN), (0.0, NAN)),
                ((NAN, INF), (0.0, math.pi / 2)),
                ((NAN, -INF), (0.0, -math.pi / 2)),
                ((1.0, NAN), (NAN, NAN)),
            ],
        ),
        (
            "atan",
            [
                ((INF, NAN), (math.pi / 2, 0.0)),
                ((-INF, NAN), (-math.pi / 2, 0.0)),
                ((NAN, 0.0), (NAN, 0.0)),
                ((NAN, INF), (NAN, 0.0)),
            ],
        ),
    ],
)
def test_inverse_functions_of_complex_numbers_that_are_missing_a_part(name, points, dtype):
    """A part may be known, where another is NaN."""
    found = getattr(torch, name)(torch.tensor([complex(*at) for at, _ in points], dtype=dtype))
    expected = torch.tensor([complex(*value) for _, value in points], dtype=dtype)
    torch.testing.assert_close(torch.view_as_real(found), torch.view_as_real(expected), equal_nan=True)
    signs = [torch.view_as_real(x).nan_to_num(1.0).signbit().tolist() for x in (found, expected)]
    assert signs[0] == signs[1]
