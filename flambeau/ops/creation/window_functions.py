"""Window functions: hann_window and its siblings of torch, and those of torch.signal.windows.

A window is a formula of a place, one kernel that works in double precision and rounds to the dtype asked for. Stands on
ops.creation.factories; flambeau.signal.windows re-exports.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from flambeau.base.dtype import float64, get_default_dtype
from flambeau.base.layout import Layout
from flambeau.core.operator.publishing import NAMESPACE
from flambeau.core.tensor.tensor import Tensor
from flambeau.ir import scalar as s
from flambeau.ops.creation.factories import home
from flambeau.ops.creation.sequences import along

Formula = tuple[Callable[..., s.Expr], tuple[float, ...]]  # of a place, as double, and numbers; those numbers


def _made(name: str, size: int, formula: Formula, dtype: Any, device: Any, requires_grad: bool) -> Tensor:
    body, numbers = formula
    layout = Layout.contiguous((size,), dtype or get_default_dtype(), home(device))
    made = along(name, layout, numbers, lambda i, *given: body(s.cast(i, float64), *given), float64)
    if requires_grad:
        made.requires_grad = True
    return made


def _one(place: s.Expr) -> s.Expr:
    return s.constant(1.0, float64)


def _period(size: int, periodic: bool) -> float:
    """The number of steps after which a window repeats itself; not 0 for a window of one place."""
    return float(size if periodic else max(size - 1, 1))


def _sum_of_cosines(place: s.Expr, period: s.Expr, *coefficients: s.Expr) -> s.Expr:
    angle = 2 * math.pi * place / period
    made = coefficients[0]
    for i, a in enumerate(coefficients[1:], 1):
        made = made + (a if i % 2 == 0 else -a) * s.apart(s.cos, i * angle)
    return made


def _cosines(size: int, periodic: bool, coefficients: Sequence[float]) -> Formula:
    """The sum of (-1)^i a_i cos(2 pi i k / N) with N = size for a periodic window, else size - 1."""
    return (_one, ()) if size == 1 else (_sum_of_cosines, (_period(size, periodic), *map(float, coefficients)))


def _triangle(size: int, periodic: bool) -> Formula:
    if size == 1:
        return _one, ()
    return lambda place, period: 1 - abs(2 * place / period - 1), (_period(size, periodic),)


def _bell(place: s.Expr, period: s.Expr, beta: s.Expr, top: s.Expr) -> s.Expr:
    place = 2 * place / period - 1
    return s.i0(beta * s.sqrt(s.clamp(1 - place * place, 0))) / top


def _kaiser(size: int, periodic: bool, beta: float) -> Formula:
    if size == 1:
        return _one, ()
    return _bell, (_period(size, periodic), float(beta), float(np.i0(float(beta))))


# ---------------------------------------------------------------- torch.*_window


def _window(name: str, size: int, formula: Formula, dtype: Any, device: Any, requires_grad: bool) -> Tensor:
    if dtype is not None and not dtype.is_floating_point:
        raise RuntimeError(f"{name} expects floating point dtypes, got: TensorOptions(dtype={dtype})")
    if size < 0:
        raise RuntimeError(f"{name} requires non-negative window_length, got window_length={size}")
    return _made(name, size, formula, dtype, device, requires_grad)


def hann_window(
    window_length: int,
    periodic: bool = True,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Tensor:
    """The Hann window, (window_length,)."""
    return _window("hann_window", window_length, _cosines(window_length, periodic, (0.5, 0.5)), dtype, device, requires_grad)


def hamming_window(
    window_length: int,
    periodic: bool = True,
    alpha: float = 0.54,
    beta: float = 0.46,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Tensor:
    """alpha - beta cos(2 pi k / N), (window_length,)."""
    return _window(
        "hamming_window", window_length, _cosines(window_length, periodic, (alpha, beta)), dtype, device, requires_grad
    )


def blackman_window(
    window_length: int,
    periodic: bool = True,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Tensor:
    """The Blackman window, (window_length,)."""
    return _window(
        "blackman_window", window_length, _cosines(window_length, periodic, (0.42, 0.5, 0.08)), dtype, device, requires_grad
    )


def bartlett_window(
    window_length: int,
    periodic: bool = True,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Tensor:
    """The triangular window, (window_length,)."""
    return _window("bartlett_window", window_length, _triangle(window_length, periodic), dtype, device, requires_grad)


def kaiser_window(
    window_length: int,
    periodic: bool = True,
    beta: float = 12.0,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Tensor:
    """The Kaiser window of shape beta, (window_length,)."""
    return _window("kaiser_window", window_length, _kaiser(window_length, periodic, beta), dtype, device, requires_grad)


for _function in (hann_window, hamming_window, blackman_window, bartlett_window, kaiser_window):
    NAMESPACE[_function.__name__] = _function


# ---------------------------------------------------------------- torch.signal.windows


def _signal(name: str, M: int, formula: Formula, dtype: Any, layout: Any, device: Any, requires_grad: bool) -> Tensor:
    if M < 0:
        raise ValueError(f"{name} requires non-negative window length, got M={M}")
    if dtype is not None and getattr(dtype, "name", None) not in ("float32", "float64"):
        raise ValueError(f"{name} expects float32 or float64 dtypes, got: {dtype}")
    if layout is not None and str(layout) != "torch.strided":
        raise ValueError(f"{name} is implemented for strided tensors only, got: {layout}")
    return _made(name, M, formula, dtype, device, requires_grad)


def bartlett(
    M: int, *, sym: bool = True, dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """The triangular window, (M,)."""
    return _signal("bartlett", M, _triangle(M, not sym), dtype, layout, device, requires_grad)


def blackman(
    M: int, *, sym: bool = True, dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """The Blackman window, (M,)."""
    return _signal("blackman", M, _cosines(M, not sym, (0.42, 0.5, 0.08)), dtype, layout, device, requires_grad)


def cosine(
    M: int, *, sym: bool = True, dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """Half a period of the sine, (M,)."""
    period = max(M if sym or M == 1 else M + 1, 1)
    formula = (lambda place, step: s.sin(step * (place + 0.5)), (math.pi / period,))
    return _signal("cosine", M, formula, dtype, layout, device, requires_grad)


def exponential(
    M: int,
    *,
    center: float | None = None,
    tau: float = 1.0,
    sym: bool = True,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """exp(-|k - center| / tau), (M,)."""
    if tau <= 0:
        raise ValueError(f"Tau must be positive, got: {tau} instead.")
    if sym and center is not None:
        raise ValueError("Center must be None for symmetric windows")
    middle = (M if not sym and M > 1 else M - 1) / 2 if center is None else center
    formula = (lambda place, middle, tau: s.exp(-abs(place - middle) / tau), (float(middle), float(tau)))
    return _signal("exponential", M, formula, dtype, layout, device, requires_grad)


def gaussian(
    M: int,
    *,
    std: float = 1.0,
    sym: bool = True,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """The bell curve of standard deviation std, (M,)."""
    if std <= 0:
        raise ValueError(f"Standard deviation must be positive, got: {std} instead.")
    middle = (M if not sym and M > 1 else M - 1) / 2
    formula = (lambda place, middle, std: s.exp(-s.square((place - middle) / std) / 2), (middle, float(std)))
    return _signal("gaussian", M, formula, dtype, layout, device, requires_grad)


def general_cosine(
    M: int,
    *,
    a: Sequence[float],
    sym: bool = True,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """A sum of cosines with the coefficients a, their signs alternating, (M,)."""
    if not isinstance(a, (list, tuple)) and not hasattr(a, "__iter__"):
        raise TypeError("Coefficients must be a list/tuple")
    if not a:
        raise ValueError("Coefficients cannot be empty")
    return _signal("general_cosine", M, _cosines(M, not sym, a), dtype, layout, device, requires_grad)


def general_hamming(
    M: int,
    *,
    alpha: float = 0.54,
    sym: bool = True,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """alpha - (1 - alpha) cos(2 pi k / N), (M,)."""
    return general_cosine(
        M, a=[alpha, 1.0 - alpha], sym=sym, dtype=dtype, layout=layout, device=device, requires_grad=requires_grad
    )


def hamming(
    M: int, *, sym: bool = True, dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """The Hamming window, (M,)."""
    return general_hamming(M, sym=sym, dtype=dtype, layout=layout, device=device, requires_grad=requires_grad)


def hann(
    M: int, *, sym: bool = True, dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """The Hann window, (M,)."""
    return general_hamming(M, alpha=0.5, sym=sym, dtype=dtype, layout=layout, device=device, requires_grad=requires_grad)


def kaiser(
    M: int,
    *,
    beta: float = 12.0,
    sym: bool = True,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """The Kaiser window of shape beta, (M,)."""
    if beta < 0:
        raise ValueError(f"beta must be non-negative, got: {beta} instead.")
    return _signal("kaiser", M, _kaiser(M, not sym, beta), dtype, layout, device, requires_grad)


def nuttall(
    M: int, *, sym: bool = True, dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """The minimal 4-term Blackman-Harris window according to Nuttall, (M,)."""
    return general_cosine(
        M,
        a=[0.3635819, 0.4891775, 0.1365995, 0.0106411],
        sym=sym,
        dtype=dtype,
        layout=layout,
        device=device,
        requires_grad=requires_grad,
    )
