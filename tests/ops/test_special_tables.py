"""Orthogonal polynomials and Bessel functions against tabulated values (Abramowitz and Stegun) and their identities."""

from __future__ import annotations

import numpy as np
import pytest

import flambeau as torch
from flambeau import special

TABLE = [
    (
        "bessel_j0",
        [0.0, 1.0, 5.5, 10.0, 30.0],
        [1.0, 0.7651976865579666, -0.0068438694178, -0.2459357644513483, -0.0863679835810404],
    ),
    ("bessel_j1", [-1.0, 1.0, 10.0], [-0.44005058574493355, 0.44005058574493355, 0.04347274616886144]),
    ("bessel_y0", [1.0, 10.0, 0.0], [0.08825696421567697, 0.055671167283599395, -np.inf]),
    ("bessel_y1", [1.0, 10.0], [-0.7812128213002887, 0.24901542420695388]),
    (
        "modified_bessel_k0",
        [0.1, 1.0, 10.0, 0.0, np.inf],
        [2.4270690247020166, 0.42102443824070834, 1.778006231616765e-05, np.inf, 0.0],
    ),
    ("modified_bessel_k1", [0.1, 1.0, 10.0], [9.853844780870606, 0.6019072301972346, 1.8648773453825585e-05]),
    (
        "airy_ai",
        [-10.0, -1.0, 0.0, 1.0, 10.0],
        [0.04024123848644319, 0.5355608832923521, 0.3550280538878172, 0.1352924163128814, 1.1047532552898687e-10],
    ),
    ("spherical_bessel_j0", [0.0, 1.0, np.inf], [1.0, 0.8414709848078965, 0.0]),
]


@pytest.mark.parametrize("name, points, values", TABLE)
def test_tabulated(name, points, values):
    made = getattr(special, name)(torch.tensor(points, dtype=torch.float64))
    np.testing.assert_allclose(made.numpy(), values, rtol=1e-11, atol=1e-13)


# Worked out in 25 digits, on both sides of every seam and beside zeros.
POINTS = [0.001, 0.75, 1.9999, 2.40625, 3.5, 4.75, 5.5, 12.25, 80.0]
PRECISE = {
    "bessel_j0": [
        0.9999997500000156,
        0.8642422751666486,
        0.22394845194430277,
        -0.000739276482217002,
        -0.3801277399872634,
        -0.25512082749137394,
        -0.006843869417819197,
        0.1009306105105151,
        -0.06974216551221002,
    ],
    "bessel_j1": [
        0.0004999999375000026,
        0.34924360217486217,
        0.5767312529177935,
        0.5188396479424237,
        0.1373775273623272,
        -0.2891867986471104,
        -0.34143821542904335,
        -0.200357198755855,
        -0.056057296675712576,
    ],
    "bessel_y0": [
        -4.471416611375923,
        -0.1371727693857724,
        0.510364966587098,
        0.5097775528800095,
        0.1890219439208265,
        -0.2612325032349756,
        -0.339480592881911,
        -0.20430162610894734,
        -0.05562033908977,
    ],
    "bessel_y1": [
        -636.6221672311394,
        -1.0375945507692854,
        -0.10708882173811195,
        0.10341189729362668,
        0.41018841788751187,
        0.22922559673872217,
        -0.023758238956389618,
        -0.10933907409580199,
        0.06939591378458805,
    ],
    "modified_bessel_k0": [
        7.023688800562382,
        0.6105824221164641,
        0.11390786025689362,
        0.06969610832147995,
        0.01959889717036849,
        0.004857204557887952,
        0.0021387085659502875,
        1.6967587538963423e-06,
        2.5251198425054717e-36,
    ],
    "modified_bessel_k1": [
        999.9962381560856,
        0.9495804669621403,
        0.13988426583169103,
        0.08307071277259392,
        0.022239392925923834,
        0.00534592181782284,
        0.0023255690088490053,
        1.764703573230126e-06,
        2.54085312752117e-36,
    ],
    "scaled_modified_bessel_k0": [
        7.030716002378251,
        1.2926029977639617,
        0.8415874065986029,
        0.77308923479834,
        0.6490263376886884,
        0.5614165136256739,
        0.5233247315524157,
        0.3545908312902257,
        0.13990735522662032,
    ],
    "scaled_modified_bessel_k1": [
        1000.9967345590684,
        2.010261864333922,
        1.0335093314872252,
        0.9214441855962962,
        0.7364675480289125,
        0.6179045484513354,
        0.5690479743890509,
        0.36879002720661963,
        0.14077907713800053,
    ],
    "airy_ai": [
        0.3547692345431742,
        0.17933630547864524,
        0.03492943981097092,
        0.018366714224423035,
        0.002584098786989635,
        0.0001904614592681605,
        3.368531190859981e-05,
        5.804165630527138e-14,
        6.367997325597162e-209,
    ],
}
AIRY_BELOW = [
    0.35528687323241714,
    0.5177725751515836,
    0.22746925182951727,
    -0.04769464916054234,
    -0.37553382314043193,
    0.37593203432914213,
    0.017781541276574976,
    -0.2676446988271423,
    0.05412589846683509,
]


@pytest.mark.parametrize(
    "name, sign, values", [*((name, 1, given) for name, given in PRECISE.items()), ("airy_ai", -1, AIRY_BELOW)]
)
def test_bessel_functions_keep_their_digits(name, sign, values):
    function, x = getattr(special, name), torch.tensor(POINTS, dtype=torch.float64) * sign
    np.testing.assert_allclose(function(x).numpy(), values, rtol=2e-13, atol=2e-16)
    np.testing.assert_array_equal(function(torch.cat([x, x])).numpy()[9:], function(x).numpy())  # whole vectors and their rest
    one_by_one = torch.stack([function(a) for a in x])
    np.testing.assert_array_equal(one_by_one.numpy(), function(x).numpy())
    assert function(x.float()).tolist() == function(x.float().double()).float().tolist()
    assert not function(x.requires_grad_()).requires_grad
    with pytest.raises(NotImplementedError, match=f"\"{name}_cpu\" not implemented for 'Half'"):
        function(x.half())
    assert function(torch.tensor([2])).dtype is torch.float32


@pytest.mark.parametrize(
    "name, values",
    [
        ("bessel_j0", [1.0, "nan"]),
        ("bessel_y0", ["-inf", "nan"]),
        ("bessel_y1", ["-inf", "nan"]),
        ("modified_bessel_k1", ["inf", 0.0]),
        ("airy_ai", [0.3550280538878172, "nan"]),
    ],
)
def test_bessel_functions_at_their_ends(name, values):
    made = getattr(special, name)(torch.tensor([0.0, np.inf, np.nan], dtype=torch.float64))
    np.testing.assert_allclose(made.numpy(), [*map(float, values), np.nan], rtol=1e-15)


def test_polynomials():
    x = torch.linspace(-0.9, 0.9, 7, dtype=torch.float64)
    angle = x.acos()
    for n in (0, 1, 5, 8, 9, 30):
        np.testing.assert_allclose(special.chebyshev_polynomial_t(x, n).numpy(), (angle * n).cos().numpy(), atol=1e-12)
        made = special.chebyshev_polynomial_u(x, n) * angle.sin()
        np.testing.assert_allclose(made.numpy(), (angle * (n + 1)).sin().numpy(), atol=1e-12)
    numpy = {
        "hermite_polynomial_h": np.polynomial.hermite.hermval,
        "hermite_polynomial_he": np.polynomial.hermite_e.hermeval,
        "laguerre_polynomial_l": np.polynomial.laguerre.lagval,
        "legendre_polynomial_p": np.polynomial.legendre.legval,
    }
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
    assert special.chebyshev_polynomial_t(torch.tensor([2.0, -2.0, nan]), 3e9).isnan().all()  # ends where it overflows
    np.testing.assert_allclose(special.chebyshev_polynomial_t(0.3, degrees[-1:].double()).item(), np.cos(1e5 * np.arccos(0.3)))
    assert special.legendre_polynomial_p(x, -1).tolist() == [0] * 7
    assert special.laguerre_polynomial_l(2.0, torch.tensor([0, 1, 2])).dtype is torch.float32


def test_polynomials_of_other_degrees_and_dtypes():
    x, n = torch.tensor([[0.5], [1.5]]), torch.arange(-1, 4)
    expected = [[0, 1, 0.5, -0.5, -1.0], [0, 1, 1.5, 3.5, 9.0]]
    assert special.chebyshev_polynomial_t(x, n).tolist() == expected
    assert special.chebyshev_polynomial_t(x.double(), n).dtype is torch.float64
    assert special.hermite_polynomial_h(torch.arange(3), 2.9).tolist() == [-2.0, 2.0, 14.0]  # degrees are truncated
    with pytest.raises(NotImplementedError, match="\"laguerre_polynomial_l_cpu\" not implemented for 'Half'"):
        special.laguerre_polynomial_l(x.half(), 2)
