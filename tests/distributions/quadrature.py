"""Double exponential quadrature, which copes with singular ends and tails of any width (Takahasi and Mori, 1974)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

import flambeau as torch

_T = np.arange(-4.0, 4.0, 0.02)
_U, _DU = 0.5 * math.pi * np.sinh(_T), 0.5 * math.pi * np.cosh(_T) * 0.02


def nodes(low: float, high: float) -> tuple[np.ndarray, np.ndarray]:
    """Points of (low, high), the upper of which may be infinite, and their weights."""
    if math.isinf(high):
        return low + np.exp(_U), np.exp(_U) * _DU
    half = (high - low) / 2
    return low + 2 * half / (1 + np.exp(-2 * _U)), half / np.cosh(_U) ** 2 * _DU


def integral(function: Callable[[Any], Any], low: float, high: float) -> float:
    """The integral of a function of a tensor; of both signs, in two parts, since it may have a kink at 0."""
    if math.isinf(low):
        return integral(lambda x: function(-x), 0, math.inf) + integral(function, 0, high)
    if low < 0 and math.isinf(high):
        return integral(function, low, 0) + integral(function, 0, high)
    x, weights = nodes(low, high)
    inside = (x > low) & (x < high) & np.isfinite(x) & np.isfinite(weights)
    values = function(torch.from_numpy(x[inside])).detach().numpy() * weights[inside]
    return float(values[np.isfinite(values)].sum())
