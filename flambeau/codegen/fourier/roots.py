"""Roots of unity in double precision, from angles of at most an eighth of a circle and what rounding left of them."""

from __future__ import annotations

import numpy as np

_QUARTER = np.longdouble("1.5707963267948966192313216916397514")


def roots(numerators: np.ndarray, n: int) -> np.ndarray:
    """exp(-2 pi i numerators / n), to the last bit but for rare ones."""
    numerators = numerators % n
    quarter = (8 * numerators + n) // (2 * n)
    exact = (4 * numerators - quarter * n) * _QUARTER / n
    angle = exact.astype(np.float64)
    rest = (exact - angle).astype(np.float64)
    cosine, sine = np.cos(angle), np.sin(angle)
    return ((cosine - rest * sine) - 1j * (sine + rest * cosine)) * np.array([1, -1j, -1, 1j])[quarter & 3]
