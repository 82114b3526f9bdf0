"""Window functions: hann_window and its siblings of torch, and those of torch.signal.windows.

Values are worked out in double precision by the operators of tensors and rounded to the dtype asked for.
flambeau.signal.windows re-exports.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from flambeau.base.dtype import float64, get_default_dtype
from flambeau.core.derive import NAMESPACE
from flambeau.core.tensor import Tensor


def _finished(values: Tensor, dtype: Any, device: Any, requires_grad: bool) -> Tensor:
    made = values.to(dtype or get_default_dtype())
    if device is not None:
        made = made.to(device)
    if requires_grad:
        made.requires_grad = True
    return made


def _places(size: int) -> Tensor:
    """0, 1, ... size - 1."""
    return NAMESPACE["arange"](size, dtype=float64)


def _period(size: int, periodic: bool) -> int:
    """The number of steps after which a window repeats itself; not 0 for a window of one place."""
    return size if periodic else max(size - 1, 1)


def _cosines(size: int, periodic: bool, coefficients: Sequence[float]) -> Tensor:
    """The sum of (-1)^i a_i cos(2 pi i k / N) with N = size for a periodic window, else size - 1."""
    if size == 1:
        return _places(1) + 1
    angle = 2 * math.pi * _places(size) / _period(size, periodic)
    made = NAMESPACE["zeros_like"](angle)
    for i, a in enumerate(coefficients):
        made += (a if i % 2 == 0 else -a) * (i * angle).cos()
    return made


def _triangle(size: int, periodic: bool) -> Tensor:
    if size == 1:
        return _places(1) + 1
    return 1 - (2 * _places(size) / _period(size, periodic) - 1).abs()


def _kaiser(size: int, periodic: bool, beta: float) -> Tensor:
    if size == 1:
        return _places(1) + 1
    place = 2 * _places(size) / _period(size, periodic) - 1
    top = NAMESPACE["tensor"](float(beta), dtype=float64).i0()
    return (beta * (1 - place * place).clamp(0).sqrt()).i0() / top


# ---------------------------------------------------------------- torch.*_window


def _window(name: str, size: int, values: Callable[[], Tensor], dtype: Any, device: Any, requires_grad: bool) -> Tensor:
    if dtype is not None and not dtype.is_floating_point:
        raise RuntimeError(f"{name} expects floating point dtypes, got: TensorOptions(dtype={dtype})")
    if size < 0:
        raise RuntimeError(f"{name} requires non-negative window_length, got window_length={size}")
    return _finished(values() if size else _places(0), dtype, device, requires_grad)


def hann_window(window_length: int, periodic: bool = True, *, dtype: Any = None, layout: Any = None, device: Any = None,
                pin_memory: bool = False, requires_grad: bool = False) -> Tensor:
    """The Hann window, (window_length,)."""
    return _window("hann_window", window_length, lambda: _cosines(window_length, periodic, (0.5, 0.5)), dtype, device,
                   requires_grad)


def hamming_window(window_length: int, periodic: bool = True, alpha: float = 0.54, beta: float = 0.46, *, dtype: Any = None,
                   layout: Any = None, device: Any = None, pin_memory: bool = False, requires_grad: bool = False) -> Tensor:
    """alpha - beta cos(2 pi k / N), (window_length,)."""
    return _window("hamming_window", window_length, lambda: _cosines(window_length, periodic, (alpha, beta)), dtype, device,
                   requires_grad)


def blackman_window(window_length: int, periodic: bool = True, *, dtype: Any = None, layout: Any = None, device: Any = None,
                    pin_memory: bool = False, requires_grad: bool = False) -> Tensor:
    """The Blackman window, (window_length,)."""
    return _window("blackman_window", window_length, lambda: _cosines(window_length, periodic, (0.42, 0.5, 0.08)), dtype, device,
                   requires_grad)


def bartlett_window(window_length: int, periodic: bool = True, *, dtype: Any = None, layout: Any = None, device: Any = None,
                    pin_memory: bool = False, requires_grad: bool = False) -> Tensor:
    """The triangular window, (window_length,)."""
    return _window("bartlett_window", window_length, lambda: _triangle(window_length, periodic), dtype, device, requires_grad)


def kaiser_window(window_length: int, periodic: bool = True, beta: float = 12.0, *, dtype: Any = None, layout: Any = None,
                  device: Any = None, pin_memory: bool = False, requires_grad: bool = False) -> Tensor:
    """The Kaiser window of shape beta, (window_length,)."""
    return _window("kaiser_window", window_length, lambda: _kaiser(window_length, periodic, beta), dtype, device, requires_grad)


for _function in (hann_window, hamming_window, blackman_window, bartlett_window, kaiser_window):
    NAMESPACE[_function.__name__] = _function


# ---------------------------------------------------------------- torch.signal.windows


def _signal(name: str, M: int, values: Callable[[], Tensor], dtype: Any, layout: Any, device: Any,
            requires_grad: bool) -> Tensor:
    if M < 0:
        raise ValueError(f"{name} requires non-negative window length, got M={M}")
    if dtype is not None and dtype.name not in ("float32", "float64"):
        raise ValueError(f"{name} expects float32 or float64 dtypes, got: {dtype}")
    if layout is not None and str(layout) != "torch.strided":
        raise ValueError(f"{name} is implemented for strided tensors only, got: {layout}")
    return _finished(values() if M else _places(0), dtype, device, requires_grad)


def bartlett(M: int, *, sym: bool = True, dtype: Any = None,
             layout: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """The triangular window, (M,)."""
    return _signal("bartlett", M, lambda: _triangle(M, not sym), dtype, layout, device, requires_grad)


def blackman(M: int, *, sym: bool = True, dtype: Any = None,
             layout: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """The Blackman window, (M,)."""
    return _signal("blackman", M, lambda: _cosines(M, not sym, (0.42, 0.5, 0.08)), dtype, layout, device, requires_grad)


def cosine(M: int, *, sym: bool = True, dtype: Any = None,
           layout: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Half a period of the sine, (M,)."""
    period = M if sym or M == 1 else M + 1
    return _signal("cosine", M, lambda: (math.pi / period * (_places(M) + 0.5)).sin(), dtype, layout, device, requires_grad)


def exponential(M: int, *, center: float | None = None, tau: float = 1.0, sym: bool = True, dtype: Any = None, layout: Any = None,
                device: Any = None, requires_grad: bool = False) -> Tensor:
    """exp(-|k - center| / tau), (M,)."""
    if tau <= 0:
        raise ValueError(f"Tau must be positive, got: {tau} instead.")
    if sym and center is not None:
        raise ValueError("Center must be None for symmetric windows")
    middle = (M if not sym and M > 1 else M - 1) / 2 if center is None else center
    return _signal("exponential", M, lambda: (-(_places(M) - middle).abs() / tau).exp(), dtype, layout, device, requires_grad)


def gaussian(M: int, *, std: float = 1.0, sym: bool = True, dtype: Any = None, layout: Any = None, device: Any = None,
             requires_grad: bool = False) -> Tensor:
    """The bell curve of standard deviation std, (M,)."""
    if std <= 0:
        raise ValueError(f"Standard deviation must be positive, got: {std} instead.")
    middle = (M if not sym and M > 1 else M - 1) / 2
    return _signal("gaussian", M, lambda: (-(((_places(M) - middle) / std) ** 2) / 2).exp(), dtype, layout, device,
                   requires_grad)


def general_cosine(M: int, *, a: Sequence[float], sym: bool = True, dtype: Any = None, layout: Any = None, device: Any = None,
                   requires_grad: bool = False) -> Tensor:
    """A sum of cosines with the coefficients a, their signs alternating, (M,)."""
    if not isinstance(a, (list, tuple)) and not hasattr(a, "__iter__"):
        raise TypeError("Coefficients must be a list/tuple")
    if not a:
        raise ValueError("Coefficients cannot be empty")
    return _signal("general_cosine", M, lambda: _cosines(M, not sym, a), dtype, layout, device, requires_grad)


def general_hamming(M: int, *, alpha: float = 0.54, sym: bool = True, dtype: Any = None, layout: Any = None, device: Any = None,
                    requires_grad: bool = False) -> Tensor:
    """alpha - (1 - alpha) cos(2 pi k / N), (M,)."""
    return general_cosine(M, a=[alpha, 1.0 - alpha], sym=sym, dtype=dtype, layout=layout, device=device,
                          requires_grad=requires_grad)


def hamming(M: int, *, sym: bool = True, dtype: Any = None,
            layout: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """The Hamming window, (M,)."""
    return general_hamming(M, sym=sym, dtype=dtype, layout=layout, device=device, requires_grad=requires_grad)


def hann(M: int, *, sym: bool = True, dtype: Any = None,
         layout: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """The Hann window, (M,)."""
    return general_hamming(M, alpha=0.5, sym=sym, dtype=dtype, layout=layout, device=device, requires_grad=requires_grad)


def kaiser(M: int, *, beta: float = 12.0, sym: bool = True, dtype: Any = None, layout: Any = None, device: Any = None,
           requires_grad: bool = False) -> Tensor:
    """The Kaiser window of shape beta, (M,)."""
    if beta < 0:
        raise ValueError(f"beta must be non-negative, got: {beta} instead.")
    return _signal("kaiser", M, lambda: _kaiser(M, not sym, beta), dtype, layout, device, requires_grad)


def nuttall(M: int, *, sym: bool = True, dtype: Any = None,
            layout: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """The minimal 4-term Blackman-Harris window according to Nuttall, (M,)."""
    return general_cosine(M, a=[0.3635819, 0.4891775, 0.1365995, 0.0106411], sym=sym, dtype=dtype, layout=layout, device=device,
                          requires_grad=requires_grad)
