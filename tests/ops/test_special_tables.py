"""Orthogonal polynomials and Bessel functions against tabulated values (Abramowitz and Stegun) and their identities."""

from __future__ import annotations

import numpy as np
import pytest

import flambeau as torch
from flambeau import special

TABLE = [
    ("bessel_j0", [0.0, 1.0, 5.5, 10.0, 30.0],
     [1.0, 0.7651976865579666, -0.0068438694178, -0.2459357644513483, -0.0863679835810404]),
    ("bessel_j1", [-1.0, 1.0, 10.0], [-0.44005058574493355, 0.44005058574493355, 0.04347274616886144]),
    ("bessel_y0", [1.0, 10.0, 0.0], [0.08825696421567697, 0.055671167283599395, -np.inf]),
    ("bessel_y1", [1.0, 10.0], [-0.7812128213002887, 0.24901542420695388]),
    ("modified_bessel_k0", [0.1, 1.0, 10.0, 0.0, np.inf],
     [2.4270690247020166, 0.42102443824070834, 1.778006231616765e-05, np.inf, 0.0]),
    ("modified_bessel_k1", [0.1, 1.0, 10.0], [9.853844780870606, 0.6019072301972346, 1.8648773453825585e-05]),
    ("airy_ai", [-10.0, -1.0, 0.0, 1.0, 10.0], [0.04024123848644319, 0.5355608832923521, 0.3550280538878172, 0.1352924163128814,
                                              1.1047532552898687e-10]),
    ("spherical_bessel_j0", [0.0, 1.0, np.inf], [1.0, 0.8414709848078965, 0.0]),
]


@pytest.mark.parametrize("name, points, values", TABLE)
def test_tabulated(name, points, values):
    made = getattr(special, name)(torch.tensor(points, dtype=torch.float64))
    np.testing.assert_allclose(made.numpy(), values, rtol=1e-11, atol=1e-13)


def test_pieces_of_bessel_functions_meet():
    # the Wronskian J1 Y0 - J0 Y1 = 2 / (pi x) holds on both sides of the seams at 5 and 25
    x = torch.tensor([0.5, 4.999, 5.001, 24.99, 25.01, 80.0], dtype=torch.float64)
    made = special.bessel_j1(x) * special.bessel_y0(x) - special.bessel_j0(x) * special.bessel_y1(x)
    np.testing.assert_allclose((made * x).numpy(), np.full(6, 2 / np.pi), rtol=1e-11)


def test_polynomials():
    x = torch.linspace(-0.9, 0.9, 7, dtype=torch.float64)
    angle = x.acos()
    for n in (0, 1, 5, 8, 9, 30):
        np.testing.assert_allclose(special.chebyshev_polynomial_t(x, n).numpy(), (angle * n).cos().numpy(), atol=1e-12)
        made = special.chebyshev_polynomial_u(x, n) * angle.sin()
        np.testing.assert_allclose(made.numpy(), (angle * (n + 1)).sin().numpy(), atol=1e-12)
    numpy = {"hermite_polynomial_h": np.polynomial.hermite.hermval, "hermite_polynomial_he": np.polynomial.hermite_e.hermeval,
             "laguerre_polynomial_l": np.polynomial.laguerre.lagval, "legendre_polynomial_p": np.polynomial.legendre.legval}
    for name, evaluate in numpy.items():
        for n in range(6):
            np.testing.assert_allclose(getattr(special, name)(x, n).numpy(), evaluate(x.numpy(), [0] * n + [1]), rtol=1e-10)
    # every element takes its own number of steps: degrees of all sizes side by side, 0 for what is below zero or no number
    inf, nan = float("inf"), float("nan")
    degrees = torch.tensor([-inf, -1.0, -0.5, 0.0, 1.9, 2.0, 7.0, 30.0, nan, 3.0, 1.0, 5.0, 4.0, 6.0, 8.0, 9.0, 10.0, 11.0, 1e5])
    whole = [0, 0, 0, 0, 1, 2, 7, 30, 0, 3, 1, 5, 4, 6, 8, 9, 10, 11]
    for name, evaluate in numpy.items():
        expected = [evaluate(0.7, [0] * n + [1]) for n in whole]
        expected[0] = expected[1] = expected[8] = 0
        made = getattr(special, name)(torch.tensor(0.7, dtype=torch.float64), degrees.double()[:-1])
        np.testing.assert_allclose(made.numpy(), expected, rtol=1e-9)
    assert special.chebyshev_polynomial_t(torch.tensor([2.0, -2.0, nan]), 3e9).isnan().all()     # ends where it overflows
    np.testing.assert_allclose(special.chebyshev_polynomial_t(0.3, degrees[-1:].double()).item(), np.cos(1e5 * np.arccos(0.3)))
    assert special.legendre_polynomial_p(x, -1).tolist() == [0] * 7
    assert special.laguerre_polynomial_l(2.0, torch.tensor([0, 1, 2])).dtype is torch.float32
