"""The arithmetic of the random streams: from uniform numbers to samples, with PyTorch's roundings.

Stands on NumPy and math; used by rng.py, whose docstring gives the rules. Nothing here draws a number itself, except
the samplers at the end that decide as they go how many they need: they take a `Stream` and ask it.

PyTorch's kernels are compiled with contraction, so a product followed by a sum has a single rounding there. NumPy has
no such operation; `fma` gives it for float64, and float32 arithmetic is carried out in float64 (where a product of two
float32 is exact) and rounded after the sum.
"""

from __future__ import annotations

import math
from typing import Any, Protocol

import numpy as np

_F32, _F64 = np.float32, np.float64


# ---- dtypes ---------------------------------------------------------------------------------------------------------


def dtype_name(dtype: Any) -> str:
    """The name of a dtype, given as one of ours, as NumPy's or as the name itself."""
    if isinstance(dtype, str):
        return dtype
    name = getattr(dtype, "name", None)
    return name if isinstance(name, str) else np.dtype(dtype).name


def storage(name: str) -> np.dtype:
    """The NumPy dtype that holds elements of this dtype."""
    return np.dtype(np.uint16 if name == "bfloat16" else name)


def to_bfloat16(values: np.ndarray) -> np.ndarray:
    """float32 rounded to bfloat16, ties to even, as uint16 bit patterns."""
    bits = values.astype(_F32, copy=False).view(np.uint32)
    rounded = ((bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)).astype(np.uint16)
    return np.where(np.isnan(values), np.uint16(0x7FC0), rounded)


def as_float(samples: np.ndarray) -> np.ndarray:
    """Stored samples in a form that NumPy computes with: the bit patterns of bfloat16 become float32."""
    return (samples.astype(np.uint32) << np.uint32(16)).view(_F32) if samples.dtype == np.uint16 else samples


def stored(values: np.ndarray, name: str) -> np.ndarray:
    """Real samples in the storage of a dtype. Half types round through float32; integers truncate and wrap."""
    if name == "bfloat16":
        return to_bfloat16(values.astype(_F32, copy=False))
    if name == "float16":
        with np.errstate(over="ignore"):
            return values.astype(_F32, copy=False).astype(np.float16)
    if name in ("float32", "float64"):
        with np.errstate(over="ignore"):
            return values.astype(name, copy=False)
    return stored_integers(values.astype(np.int64), name)


def stored_integers(values: np.ndarray, name: str) -> np.ndarray:
    """int64 samples in the storage of a dtype; narrower integers wrap."""
    if name == "bfloat16":
        return to_bfloat16(values.astype(_F32))
    if name == "float16":
        return values.astype(_F32).astype(np.float16)
    return values.astype(storage(name), copy=False)


# ---- one rounding ---------------------------------------------------------------------------------------------------


def _two_product(a: np.ndarray, b: Any) -> tuple[np.ndarray, np.ndarray]:
    """The product and its rounding error (Dekker's splitting: no overflow for the magnitudes of samples)."""
    product = a * b
    splitter = 134217729.0
    t = splitter * a
    a_high = t - (t - a)
    a_low = a - a_high
    t = splitter * b
    b_high = t - (t - b)
    b_low = b - b_high
    return product, ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low


def _two_sum(a: Any, b: Any) -> tuple[Any, Any]:
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def fma(a: np.ndarray, b: float, c: float) -> np.ndarray:
    """a b + c in float64 with one rounding (Boldo and Melquiond: the low parts are added with rounding to odd)."""
    if c == 0.0 or b == 0.0:
        return a * b + c
    if b == 1.0:
        return a + c
    if not (math.isfinite(b) and math.isfinite(c)) or max(abs(b), abs(c)) > 1e290:
        return a * b + c
    high, low = _two_product(a, b)
    sum_high, sum_low = _two_sum(c, low)
    top, rest = _two_sum(high, sum_high)
    tail, error = _two_sum(sum_low, rest)
    bits = tail.view(np.int64)
    # Round to odd: an inexact tail with an even last bit moves to its odd neighbour on the side of the error.
    nudge = (error != 0.0) & ((bits & 1) == 0)
    outward = (error > 0.0) == (tail > 0.0)
    odd = np.where(nudge, np.where(outward, bits + 1, bits - 1), bits).view(_F64)
    return top + odd


def fma32(a: np.ndarray, b: Any, c: Any) -> np.ndarray:
    """a b + c for float64 arrays of float32 values, rounded to float32 and returned as float64."""
    return (a * b + c).astype(_F32).astype(_F64)


def uniform(unit: np.ndarray, low: float, high: float, name: str) -> np.ndarray:
    """unit (high - low) + low in the storage of the dtype; a sample that rounds up to `high` becomes `low`."""
    if name == "float64":
        if low == 0.0 and high == 1.0:
            return unit
        values = fma(unit, high - low, low)
        values[values >= high] = low
        return values
    low32, high32 = _F32(low), _F32(high)
    values = unit
    if low != 0.0 or high != 1.0:
        values = (unit.astype(_F64) * _F64(high32 - low32) + _F64(low32)).astype(_F32)
    elif name == "float32":
        return unit
    samples = stored(values, name)
    bound, start = stored(np.array([high32, low32], _F32), name)
    reached = as_float(samples) >= as_float(bound)
    if reached.any():
        samples[reached] = start
    return samples


def scale_normal(values: np.ndarray, mean: float, std: float) -> np.ndarray:
    """values std + mean in float64, one rounding."""
    return values if mean == 0.0 and std == 1.0 else fma(values, std, mean)


# ---- normal ---------------------------------------------------------------------------------------------------------


def mapped(function: str, values: np.ndarray, exact: bool) -> np.ndarray:
    """A function of math and NumPy over float64: `exact` calls libm for each, otherwise NumPy's vectors run."""
    if exact:
        with np.errstate(over="ignore"):
            try:
                results = map(getattr(math, function), values.ravel().tolist())
                return np.fromiter(results, _F64, values.size).reshape(values.shape)
            except (ValueError, OverflowError):
                pass  # math refuses log(0) and overflow, where libm and NumPy give an infinity
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        return getattr(np, function)(values)


def box_muller_pairs(unit: np.ndarray, exact: bool) -> np.ndarray:
    """float64 (2k,) uniforms, angle then radius in turn, to as many normals in drawing order."""
    radius = np.sqrt(-2.0 * mapped("log1p", -unit[1::2], exact))
    angle = (2.0 * math.pi) * unit[0::2]
    out = np.empty(unit.size, _F64)
    out[0::2] = radius * mapped("cos", angle, exact)
    out[1::2] = radius * mapped("sin", angle, exact)
    return out


def normal_blocks(unit: np.ndarray, mean: float, std: float, half: bool) -> np.ndarray:
    """Uniforms in blocks of 16 (float64 or float32) to normals: the first 8 give radii, the last 8 angles."""
    blocks = unit.reshape(-1, 2, 8)
    if unit.dtype == _F64:
        radius = np.sqrt(-2.0 * mapped("log", 1.0 - blocks[:, 0], True))
        angle = (2.0 * math.pi) * blocks[:, 1]
        out = np.empty_like(blocks)
        np.multiply(radius, mapped("cos", angle, True), out=out[:, 0])
        np.multiply(radius, mapped("sin", angle, True), out=out[:, 1])
        return scale_normal(out.reshape(-1), mean, std)
    radius = np.sqrt(_F32(-2) * log32(_F32(1) - blocks[:, 0]))
    sin, cos = sincos32(_F32(2.0 * math.pi) * blocks[:, 1])
    out = np.empty_like(blocks)
    np.multiply(radius, cos, out=out[:, 0])
    np.multiply(radius, sin, out=out[:, 1])
    if mean != 0.0 or std != 1.0:
        out = (out.astype(_F64) * _F64(_F32(std)) + _F64(_F32(mean))).astype(_F32)
    return out.reshape(-1)


def _polynomial32(coefficients: tuple[float, ...], x: np.ndarray) -> np.ndarray:
    value = np.full_like(x, coefficients[0])
    for coefficient in coefficients[1:]:
        value = fma32(value, x, coefficient)
    return value


def _f32(*values: float) -> tuple[float, ...]:
    return tuple(float(_F32(value)) for value in values)


# The single precision functions of the Cephes library (S. Moshier): polynomials and split constants of the reduction.
LOG = _f32(7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1,
            -1.6668057665e-1, 2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1)  # fmt: skip
LOG2_LOW, LOG2_HIGH, SQRT_HALF = _f32(-2.12194440e-4, 0.693359375, 0.707106781186547524)
QUARTER_PI = _f32(-0.78515625, -2.4187564849853515625e-4, -3.77489497744594108e-8)
SIN = _f32(-1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1)
COS = _f32(2.443315711809948e-5, -1.388731625493765e-3, 4.166664568298827e-2)


def log32(x: np.ndarray) -> np.ndarray:
    """Natural logarithm of positive normal float32, Cephes' with contraction."""
    mantissa, exponent = np.frexp(x)
    small = mantissa < _F32(SQRT_HALF)
    e = exponent.astype(_F64) - small
    m32 = mantissa - _F32(1)
    m32[small] += mantissa[small]
    z = (m32 * m32).astype(_F64)
    m = m32.astype(_F64)
    y = (_polynomial32(LOG, m) * m).astype(_F32).astype(_F64)
    y = fma32(y, z, (e * LOG2_LOW).astype(_F32).astype(_F64))
    y = fma32(z, -0.5, y)
    m = (m + y).astype(_F32).astype(_F64)
    return (e * LOG2_HIGH + m).astype(_F32)


def sincos32(angle: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sine and cosine of float32 angles in [0, 2 pi], Cephes' with contraction."""
    octant = ((angle * _F32(4.0 / math.pi)).astype(np.int32) + 1) & ~1
    x, turns = angle.astype(_F64), octant.astype(_F64)
    for part in QUARTER_PI:
        x = fma32(turns, part, x)
    z = (x * x).astype(_F32).astype(_F64)
    c = (_polynomial32(COS, z) * z).astype(_F32).astype(_F64)
    cosine = (fma32(c, z, -0.5 * z) + 1.0).astype(_F32)
    s = (_polynomial32(SIN, z) * z).astype(_F32).astype(_F64)
    sine = (s * x + x).astype(_F32)
    swapped = (octant & 2) != 0
    sin, cos = np.where(swapped, cosine, sine), np.where(swapped, sine, cosine)
    np.negative(sin, out=sin, where=(octant & 4) != 0)
    np.negative(cos, out=cos, where=((octant - 2) & 4) == 0)
    return sin, cos


# ---- other distributions of one uniform -----------------------------------------------------------------------------


def exponential(unit: np.ndarray, rate: float, exact: bool) -> np.ndarray:
    """(-1 / rate) log1p(-unit)."""
    return (-1.0 / rate) * mapped("log1p", -unit, exact)


def geometric(unit: np.ndarray, p: float, exact: bool) -> np.ndarray:
    """ceil(log(unit) / log1p(-p))."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.ceil(mapped("log", unit, exact) / np.log1p(-p))


def cauchy(unit: np.ndarray, median: float, sigma: float, exact: bool) -> np.ndarray:
    """median + sigma tan(pi (unit - 1/2))."""
    return fma(mapped("tan", math.pi * (unit - 0.5), exact), sigma, median)


# ---- permutations and categories ------------------------------------------------------------------------------------


def locate(rows: np.ndarray, units: np.ndarray) -> np.ndarray:
    """For each row of weights, the categories in which the units fall: (rows, samples) int64.

    The running sum is kept in float64 for float64 weights and in float32 otherwise, half types too."""
    chosen = np.empty(units.shape, np.int64)
    running = rows.cumsum(-1, dtype=_F64 if rows.dtype == _F64 else _F32)
    running /= running[:, -1:].copy()
    running[:, -1] = 1.0
    running = running.astype(_F64, copy=False)
    for row in range(len(rows)):
        chosen[row] = running[row].searchsorted(units[row])
    return chosen


# ---- samplers that draw as they go ----------------------------------------------------------------------------------


class Stream(Protocol):
    """What the sequential samplers ask of a generator."""

    def next53(self) -> float: ...
    def next_normal(self) -> float: ...


def poisson(rate: float, stream: Stream) -> float:
    """One Poisson count."""
    if rate == 0.0:
        return 0.0
    if rate < 10.0:
        limit, product, count = math.exp(-rate), 1.0, 0
        while True:
            product *= stream.next53()
            if product <= limit:
                return float(count)
            count += 1
    # Hoermann, "The transformed rejection method for generating Poisson random variables" (1993), algorithm PTRS.
    log_rate = math.log(rate)
    b = 0.931 + 2.53 * math.sqrt(rate)
    a = -0.059 + 0.02483 * b
    inverse_alpha = 1.1239 + 1.1328 / (b - 3.4)
    v_r = 0.9277 - 3.6224 / (b - 2.0)
    while True:
        u = stream.next53() - 0.5
        v = stream.next53()
        us = 0.5 - abs(u)
        if us == 0.0:
            continue
        count = math.floor((2.0 * a / us + b) * u + rate + 0.43)
        if us >= 0.07 and v <= v_r:
            return float(count)
        if count < 0 or (us < 0.013 and v > us):
            continue
        bound = -rate + count * log_rate - math.lgamma(count + 1.0)
        if _log(v) + math.log(inverse_alpha) - math.log(a / (us * us) + b) <= bound:
            return float(count)


def _log(value: float) -> float:
    return math.log(value) if value > 0.0 else -math.inf


def binomial(trials: float, chance: float, stream: Stream, single: bool) -> float:
    """The number of successes in `trials`; not a number if the chance is not.

    `single` says that the parameters are float32: then what is derived from them alone is, too."""
    if trials <= 0.0 or chance <= 0.0:
        return 0.0
    if chance >= 1.0 or math.isinf(trials):
        return trials
    if chance <= 0.5:
        return _successes(trials, chance, stream, single)
    if chance > 0.5:
        return trials - _successes(trials, 1.0 - chance, stream, single)
    return math.nan


def _successes(trials: float, chance: float, stream: Stream, single: bool) -> float:
    if trials * chance < 10.0:
        gaps, count, log_failure = 0.0, 0, math.log1p(-chance)
        while True:
            unit = stream.next53()
            gaps += math.ceil(math.log(unit) / log_failure) if unit > 0.0 else math.inf
            if gaps > trials:
                return float(count)
            count += 1
    # Hoermann, "The generation of binomial random variates" (1993), algorithm BTRS.
    kept = _single if single else float
    deviation = kept(math.sqrt(trials * chance * (1.0 - chance)))
    b = kept(1.15 + 2.53 * deviation)
    a = kept(-0.0873 + 0.0248 * b + 0.01 * chance)
    centre = kept(kept(trials * chance) + 0.5)
    v_r = kept(0.92 - 4.2 / b)
    odds = kept(chance / (1.0 - chance))
    alpha = kept((2.83 + 5.1 / b) * deviation)
    mode = math.floor((trials + 1.0) * chance)
    while True:
        u = stream.next53() - 0.5
        v = stream.next53()
        us = 0.5 - abs(u)
        if us == 0.0:
            continue
        count = math.floor((2.0 * a / us + b) * u + centre)
        if us >= 0.07 and v <= v_r:
            return float(count)
        if count < 0 or count > trials:
            continue
        bound = (
            (mode + 0.5) * math.log((mode + 1.0) / (odds * (trials - mode + 1.0)))
            + (trials + 1.0) * math.log((trials - mode + 1.0) / (trials - count + 1.0))
            + (count + 0.5) * math.log(odds * (trials - count + 1.0) / (count + 1.0))
            + _stirling_tail(mode)
            + _stirling_tail(trials - mode)
            - _stirling_tail(count)
            - _stirling_tail(trials - count)
        )
        if _log(v * alpha / (a / (us * us) + b)) <= bound:
            return float(count)


def _stirling_tail(k: float) -> float:
    """log k! less Stirling's approximation of it."""
    if k <= 9:
        return math.lgamma(k + 1.0) - ((k + 0.5) * math.log(k + 1.0) - (k + 1.0) + 0.5 * math.log(2.0 * math.pi))
    square = (k + 1.0) * (k + 1.0)
    return (1.0 / 12.0 - (1.0 / 360.0 - 1.0 / 1260.0 / square) / square) / (k + 1.0)


def _single(value: float) -> float:
    return float(_F32(value))


# PyTorch's third is a float32 in every dtype.
_THIRD = float(_F32(1.0) / _F32(3.0))


def gamma(shape: float, stream: Stream, single: bool) -> float:
    """One sample of the standard gamma distribution (Marsaglia and Tsang, 2000).

    `single` says that the shape is float32: then what is derived from the shape alone is, too."""
    kept = _single if single else float
    scale = 1.0
    if shape < 1.0:
        if shape == 0.0:
            return 0.0
        scale = (1.0 - stream.next53()) ** kept(1.0 / shape)
        shape = kept(shape + 1.0)
    d = kept(shape - _THIRD)
    c = 1.0 / math.sqrt(9.0 * d) if d > 0.0 else math.nan     # the shape is negative or not a number
    while True:
        y = 0.0
        while y <= 0.0:
            x = stream.next_normal()
            y = 1.0 + c * x
        v = y * y * y
        u = 1.0 - stream.next53()
        square = x * x
        if u < 1.0 - 0.0331 * square * square or math.log(u) < 0.5 * square + d * (1.0 - v + math.log(v)):
            return scale * d * v
