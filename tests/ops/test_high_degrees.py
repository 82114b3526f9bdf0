"""Orthogonal polynomials of high degree end: in the tensor's own precision, once NaN, and at the ends of the interval at once."""

from __future__ import annotations

import math

import pytest

import flambeau as torch

HIGH = 2.0**40
AT_ENDS = {"t": (1.0, 1.0), "u": (HIGH + 1, HIGH + 1), "v": (1.0, 2 * HIGH + 1), "w": (2 * HIGH + 1, 1.0)}


@pytest.mark.parametrize("kind", AT_ENDS)
def test_chebyshev_at_the_ends(kind):
    function = getattr(torch.special, f"chebyshev_polynomial_{kind}")
    x = torch.tensor([1.0, -1.0], dtype=torch.float64)
    right, left = AT_ENDS[kind]
    assert function(x, torch.tensor(HIGH, dtype=torch.float64)).tolist() == [right, left]
    odd = function(x, torch.tensor(3.0, dtype=torch.float64)).tolist()
    assert odd == {"t": [1, -1], "u": [4, -4], "v": [1, -7], "w": [7, -1]}[kind]
    shifted = getattr(torch.special, f"shifted_chebyshev_polynomial_{kind}")
    assert shifted((x + 1) / 2, torch.tensor(HIGH, dtype=torch.float64)).tolist() == [right, left]


@pytest.mark.parametrize("name", ["chebyshev_polynomial_t", "chebyshev_polynomial_w", "hermite_polynomial_h"])
def test_what_overflows_ends_as_nan(name):
    function = getattr(torch.special, name)
    assert function(torch.tensor(2.0), torch.tensor(HIGH)).isnan()
    assert function(torch.tensor(2.0), torch.tensor(100.0)).isnan()  # float32 holds no more
    assert function(torch.tensor(2.0).double(), torch.tensor(100.0)).isfinite()


def test_degrees_are_counted_in_whole_numbers():
    # float32 counts to 2^24 only
    count = torch.tensor(2.0**24 + 64)
    assert math.isfinite(torch.special.laguerre_polynomial_l(torch.tensor(0.0), count))
    assert torch.special.legendre_polynomial_p(torch.tensor(1.0), torch.tensor(100.0)) == 1


def test_infinite_arguments():
    x = torch.tensor([math.inf, -math.inf, math.nan])
    assert str(torch.special.chebyshev_polynomial_t(x, torch.tensor(2.0)).tolist()) == "[inf, inf, nan]"
    assert str(torch.special.laguerre_polynomial_l(x, torch.tensor(1.0)).tolist()) == "[-inf, inf, nan]"
