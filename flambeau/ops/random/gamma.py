"""Samples of the gamma and Dirichlet distributions and their derivatives by the parameters.

A sample z of a distribution with the cumulative function F(z; a) moves with its parameter as dz/da = -(dF/da) /
(dF/dz) (implicit reparameterisation, Figurnov, Mohamed and Mnih, 2018). Both derivatives here are one integral of
exp(-a s) h(s) over s > 0, taken in double precision by exp-sinh quadrature (Takahasi and Mori, 1974), which finds
integrands of any width; of the two tails the one is integrated in which nothing cancels. Samples are kernels of
codegen.sampling.rejection; derivatives run on NumPy. float32 and float64 only.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from flambeau.base.dtype import finfo, float32, float64
from flambeau.base.layout import Layout
from flambeau.core.modes import modes
from flambeau.core.operator import sampling
from flambeau.core.operator.define import operator
from flambeau.core.tensor.create import array_of, elementwise
from flambeau.core.tensor.tensor import Tensor, empty_layout
from flambeau.ops.creation.copy import contiguous
from flambeau.ops.elementwise.math import digamma
from flambeau.ops.random.samplers import spread, stream

STEP = 0.05
_T = np.arange(-3.5, 3.5 + STEP / 2, STEP)
NODES = np.exp(0.5 * math.pi * np.sinh(_T))
WEIGHTS = NODES * (0.5 * math.pi * STEP) * np.cosh(_T)
CHUNK = 2048  # elements whose nodes are evaluated at once


def _integral(integrand: Callable[..., np.ndarray], width: np.ndarray, *parameters: np.ndarray) -> np.ndarray:
    """The integrals of integrand(s, *parameters) over s > 0, for as many parameters as `width` has elements;
    `width` is the extent of each, roughly."""
    out = np.empty_like(width)
    for at in range(0, width.size, CHUNK):
        part = slice(at, at + CHUNK)
        s = width[part, None] * NODES
        values = integrand(s, *[p[part, None] for p in parameters])
        values[~np.isfinite(values)] = 0.0  # at the far ends, where the density has vanished
        out[part] = width[part] * (values @ WEIGHTS)
    return out


def _digamma(x: np.ndarray) -> np.ndarray:
    return np.asarray(array_of(digamma(elementwise(x, float64))), np.float64)


def _gamma_lower(s: np.ndarray, a: np.ndarray, x: np.ndarray, gap: np.ndarray) -> np.ndarray:
    """With t = x exp(-s); the pole of digamma(a) at 0 is integrated away by parts. gap is log(x) - digamma(a + 1)."""
    shrunk = x * np.exp(-s)
    return np.exp(-a * s - x * np.expm1(-s)) * (s / a * shrunk - gap)


def _gamma_upper(s: np.ndarray, a: np.ndarray, x: np.ndarray, gap: np.ndarray) -> np.ndarray:
    """With t = x + s. gap is log(x) - digamma(a)."""
    growth = np.log1p(s / x)
    return np.exp((a - 1) * growth - s) * (growth + gap) / x


def gamma_slopes(a: np.ndarray, x: np.ndarray) -> np.ndarray:
    """dx/da of samples x of the gamma distributions of shapes a and rate 1, float64 of one dimension."""
    out = np.full(a.shape, np.nan)
    log_x = np.log(x)
    above = log_x - _digamma(a + 1)
    upper = (a > 0) & (above > 0)
    lower = (a > 0) & (above <= 0) & (x > 0)
    a_, x_ = a[lower], x[lower]
    width = 1 / (np.abs(a_ - x_) + np.sqrt(x_))
    out[lower] = x_ * _integral(_gamma_lower, width, a_, x_, above[lower])
    a_, x_ = a[upper], x[upper]
    width = 1 / (np.abs(1 - (a_ - 1) / x_) + 1 / np.sqrt(x_))
    out[upper] = x_ * _integral(_gamma_upper, width, a_, x_, above[upper] + 1 / a_)
    return out


def _beta_lower(s: np.ndarray, a: np.ndarray, b: np.ndarray, x: np.ndarray, gap: np.ndarray) -> np.ndarray:
    """With t = x exp(-s), the pole at a = 0 integrated away by parts. gap is log(x) - digamma(a + 1) + digamma(a +
    b)."""
    shrunk = x * np.exp(-s)
    rest = 1 - shrunk
    return np.exp(-a * s + (b - 1) * np.log1p(-x * np.expm1(-s) / (1 - x))) * ((b - 1) * shrunk / rest * s / a - gap)


def _beta_upper(s: np.ndarray, a: np.ndarray, b: np.ndarray, x: np.ndarray, gap: np.ndarray) -> np.ndarray:
    """With 1 - t = (1 - x) exp(-s). gap is log(x) - digamma(a) + digamma(a + b)."""
    growth = np.log1p(-(1 - x) / x * np.expm1(-s))
    return np.exp(-b * s + (a - 1) * growth) * (growth + gap)


def dirichlet_slopes(x: np.ndarray, a: np.ndarray, total: np.ndarray) -> np.ndarray:
    """dx/da / (1 - x) of samples x of the beta distributions of a and b = total - a, float64 of one dimension."""
    b = total - a
    x = np.clip(x, np.finfo(np.float64).tiny, 1 - np.finfo(np.float64).eps / 2)
    out = np.full(a.shape, np.nan)
    fine = (a > 0) & (b >= 0)  # b may be lost beside a large a; the integrals know its limit
    above = np.log(x) - _digamma(a + 1) + _digamma(total)
    upper = fine & ((above > 0) | ((x > 0.5) & (above + 1 / a > 0)))
    lower = fine & ~upper
    a_, b_, x_ = a[lower], b[lower], x[lower]
    width = 1 / (np.abs(a_ - (b_ - 1) * x_ / (1 - x_)) + np.sqrt(np.abs(b_ - 1) * x_) / (1 - x_))
    out[lower] = x_ / (1 - x_) * _integral(_beta_lower, width, a_, b_, x_, above[lower])
    a_, b_, x_ = a[upper], b[upper], x[upper]
    width = 1 / (np.abs(b_ - (a_ - 1) * (1 - x_) / x_) + np.sqrt(np.abs(a_ - 1) * (1 - x_)) / x_)
    out[upper] = _integral(_beta_upper, width, a_, b_, x_, above[upper] + 1 / a_)
    return out


def _need(kernel: str, input: Tensor) -> None:
    if input._layout.dtype not in (float32, float64):
        raise NotImplementedError(f"\"{kernel}\" not implemented for '{input._layout.dtype.scalar_name}'")


def _fresh(input: Tensor) -> Tensor:
    layout = input._layout
    return empty_layout(Layout.contiguous(tuple(layout.shape), layout.dtype, layout.device))


def _slopes(kernel: str, compute: Callable[..., np.ndarray], *operands: Tensor) -> Tensor:
    first = operands[0]
    _need(kernel, first)
    for other in operands[1:]:
        if other._layout.dtype is not first._layout.dtype:
            raise RuntimeError(f"Found dtype {other._layout.dtype.scalar_name} but expected {first._layout.dtype.scalar_name}")
    arrays = np.broadcast_arrays(*[np.asarray(array_of(x), np.float64) for x in operands])
    with np.errstate(all="ignore"):
        values = compute(*[np.ascontiguousarray(x).reshape(-1) for x in arrays])
    return elementwise(values.reshape(arrays[0].shape), first._layout.dtype, *operands)


@operator(method=False, node="StandardGammaBackward0")
def _standard_gamma(input: Tensor, generator=None) -> Tensor:
    """Samples of the gamma distributions of shapes `input` and rate 1; the shape of `input`, float32 or float64."""
    if modes.local.draws is not None:
        return modes.local.draws.draw(lambda *lead: _standard_gamma(spread(input, lead), generator))
    _need("gamma_cpu", input)
    made = _fresh(input)
    return sampling.gamma(stream(generator), contiguous(input)) if made._layout.numel else made


@_standard_gamma.vjp
def _(g, input, out):
    return g * _standard_gamma_grad(input, out)


@operator(method=False)
def _standard_gamma_grad(input: Tensor, output: Tensor) -> Tensor:
    """The derivative of the samples `output` of `_standard_gamma(input)` by `input`."""
    return _slopes("_standard_gamma_grad_cpu", gamma_slopes, input, output)


@operator(method=False, node="_DirichletBackward")
def _sample_dirichlet(input: Tensor, generator=None) -> Tensor:
    """Samples of the Dirichlet distributions whose concentrations are the rows of `input`, drawn in double
    precision."""
    if modes.local.draws is not None:
        return modes.local.draws.draw(lambda *lead: _sample_dirichlet(spread(input, lead), generator))
    _need("dirichlet", input)
    made, dtype = _fresh(input), input._layout.dtype
    if not made._layout.numel:
        return made
    limits = finfo(dtype)
    drawn = sampling.gamma(stream(generator), contiguous(input).to(float64))
    return (drawn / drawn.cumsum(-1)[..., -1:]).to(dtype).clamp_(limits.tiny, 1 - limits.eps / 2)


@_sample_dirichlet.vjp
def _(g, input, out):
    total = input.sum(-1, True).expand(input._layout.shape)
    return _dirichlet_grad(out, input, total) * (g - (out * g).sum(-1, True))


@operator(method=False)
def _dirichlet_grad(x: Tensor, alpha: Tensor, total: Tensor) -> Tensor:
    """dx/d(alpha) / (1 - x) of samples x of beta distributions (alpha, total - alpha), which are the marginals of a
    Dirichlet's."""
    return _slopes("_dirichlet_grad_cpu", dirichlet_slopes, x, alpha, total)
