"""Discrete Fourier transforms: of complex and real signals, over one or several dimensions.

Three primitives carry the rules: complex to complex, real to (half of) complex, (half of) complex to real; codegen.fourier plans
them. A call that needs no graph finds its plan by its arguments. Face: flambeau.fft.
"""

from __future__ import annotations

import builtins
import math
import operator as python_operator
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from flambeau.base.dtype import get_default_dtype
from flambeau.base.geometry import wrap_real_dim
from flambeau.base.layout import Layout, register_cache
from flambeau.codegen import fourier
from flambeau.core.modes.autocast import single
from flambeau.core.modes.modes import local
from flambeau.core.operator.define import composite, operator
from flambeau.core.operator.facets import LINEAR
from flambeau.core.operator.out_rules import Out, complex_result, real_result
from flambeau.core.operator.publishing import NAMESPACE
from flambeau.core.tensor.tensor import Tensor

KEPT = 64 << 20  # bytes of tables of the plans that are kept


class Plans(dict):
    """Launchers by key; all are dropped when the tables of those entered take too much memory."""

    nbytes = 0

    def keep(self, key: tuple, planned: tuple[Callable, int]) -> Callable:
        """Enter (a launcher, bytes of its tables); returns the launcher."""
        if self.nbytes + planned[1] > KEPT:
            self.clear()
        self.nbytes += planned[1]
        self[key] = planned[0]
        return planned[0]

    def clear(self) -> None:
        """Drop all."""
        self.nbytes = 0
        super().clear()


_plans: Any = register_cache(Plans())

# ---------------------------------------------------------------- primitives


def _launcher(kind: str, x: Layout, dims: tuple[int, ...], n: int, forward: builtins.bool, scale: float) -> Callable:
    key = (kind, x, dims, n, forward, scale)
    return _plans.get(key) or _plans.keep(key, fourier.plans.fourier_plan(kind, x, dims, n, 1 if forward else -1, scale))


@operator(method=False, function=False, node="FftC2CBackward0", jvp=LINEAR)
def _complex_to_complex(input: Tensor, dims: Any, scale: float, forward: builtins.bool) -> Tensor:
    """exp(-2 pi i ...) transforms (with + for not `forward`), times scale."""
    if not dims:
        return NAMESPACE["clone"](input)
    x = input._layout
    return _launcher("complex", x, dims, x.shape[dims[-1]], forward, scale)(None, input)


@_complex_to_complex.vjp
def _(g, dims, scale, forward):
    return _complex_to_complex(g, dims, scale, not forward)


@operator(method=False, function=False, node="FftR2CBackward0", jvp=LINEAR)
def _real_to_complex(input: Tensor, dims: Any, scale: float, forward: builtins.bool, onesided: builtins.bool = True) -> Tensor:
    """The transform of real numbers; onesided: the first n // 2 + 1 terms along the last of dims."""
    x = input._layout
    return _launcher("real" if onesided else "complex", x, dims, x.shape[dims[-1]], forward, scale)(None, input)


@_real_to_complex.vjp
def _(g, layouts, dims, scale, forward, onesided):
    whole = _resized(g, dims[-1], layouts[0].shape[dims[-1]]) if onesided else g
    return _complex_to_complex(whole, dims, scale, not forward).real


@operator(method=False, function=False, node="FftC2RBackward0", jvp=LINEAR)
def _complex_to_real(input: Tensor, dim: int, size: int, scale: float, forward: builtins.bool) -> Tensor:
    """`size` real numbers from the first size // 2 + 1 terms of their transform."""
    return _launcher("hermitian", input._layout, (dim,), size, forward, scale)(None, input)


@_complex_to_real.vjp
def _(g, dim, size, scale, forward):
    terms = _real_to_complex(g, (dim,), scale, not forward)
    # all terms but the first (and the middle one of an even size) stand for their mirror images too
    weights = np.full(size // 2 + 1, 2.0)
    weights[0] = 1
    if size % 2 == 0:
        weights[-1] = 1
    shape = [1] * terms._layout.ndim
    shape[dim] = size // 2 + 1
    weights = weights.astype(g._layout.dtype.numpy).reshape(shape)
    return terms * NAMESPACE["tensor"](weights, dtype=g._layout.dtype, device=g._layout.device)


# ---------------------------------------------------------------- arguments


def _resized(x: Tensor, dim: int, size: int) -> Tensor:
    """x cut or filled with zeros to `size` along dim."""
    own = x._layout.shape[dim]
    if own >= size:
        return x if own == size else x.narrow(dim, 0, size)
    shape = list(x._layout.shape)
    shape[dim] = size - own
    return NAMESPACE["cat"]([x, x.new_zeros(shape)], dim)


def _scale(norm: str | None, forward: builtins.bool, count: int) -> float:
    if norm not in (None, "backward", "ortho", "forward"):
        raise RuntimeError(f'Invalid normalization mode: "{norm}"')
    if norm == "ortho":
        return 1 / math.sqrt(count) if count else 1.0
    return 1 / count if count and (norm == "forward") == forward else 1.0


def _supported(x: Tensor) -> None:
    if x._layout.dtype.name in ("float16", "bfloat16"):
        raise RuntimeError(f"Unsupported dtype {x._layout.dtype.scalar_name}")
    if x._layout.dtype.name == "complex32":
        raise RuntimeError("MKL FFT doesn't support tensors of type: Half")


def _as_complex(x: Tensor) -> Tensor:
    _supported(x)
    dtype = x._layout.dtype
    if dtype.is_complex:
        return x
    return x.to((dtype if dtype.is_floating_point else get_default_dtype()).to_complex())


def _as_real(name: str, x: Tensor) -> Tensor:
    _supported(x)
    dtype = x._layout.dtype
    if dtype.is_complex:
        raise RuntimeError(f"{name} expects a real input tensor, but got {dtype.scalar_name}")
    return x if dtype.is_floating_point else x.to(get_default_dtype())


def _whole_number(x: Any) -> int:
    if isinstance(x, bool):
        raise TypeError("a truth value is no number of points, nor a dimension")
    return python_operator.index(x)


def _points(n: int) -> int:
    if n < 1:
        raise RuntimeError(f"Invalid number of data points ({n}) specified")
    return n


def _dims(x: Tensor, s: Any, dim: Any) -> tuple[list[int], list[int]]:
    """(dimensions, sizes) of a transform over several dimensions."""
    ndim = x._layout.ndim
    if isinstance(s, int):
        s = [s]
    if isinstance(dim, int):
        dim = [dim]
    if dim is not None:
        dims = [wrap_real_dim(python_operator.index(d), ndim) for d in dim]
        if len(set(dims)) != len(dims):
            raise RuntimeError("FFT dims must be unique")
    if s is None:
        dims = dims if dim is not None else list(range(ndim))
        sizes = [x._layout.shape[d] for d in dims]
    else:
        if dim is not None and len(s) != len(dims):
            raise RuntimeError("When given, dim and shape arguments must have the same length")
        if len(s) > ndim:
            raise RuntimeError(f"Got shape with {len(s)} values but input tensor only has {ndim} dimensions.")
        dims = dims if dim is not None else list(range(ndim - len(s), ndim))
        sizes = [x._layout.shape[d] if n == -1 else n for d, n in zip(dims, s)]
    for n in sizes:
        _points(n)
    return dims, sizes


def _fit(x: Tensor, dims: Sequence[int], sizes: Sequence[int]) -> Tensor:
    for d, n in zip(dims, sizes):
        x = _resized(x, d, n)
    return x


def _plain(x: Tensor) -> builtins.bool:
    """Whether a call needs no graph: one plan does it all, zeros or cutting included."""
    return (x._node is None or not local.grad) and x._layout.flavor is None


def _given(name: str, kind: str, x: Tensor) -> Tensor:
    """The input as a transform of the kind takes it: real numbers stay real where complex ones are wanted."""
    if kind == "real":
        return _as_real(name, x)
    if kind == "complex" and x._layout.dtype.name in ("float32", "float64"):
        return x
    return _as_complex(x)


def _recorded(kind: str, x: Tensor, dims: tuple[int, ...], scale: float, forward: builtins.bool) -> Tensor:
    """A transform by the primitive for its input."""
    if kind == "real" or not x._layout.dtype.is_complex:
        return _real_to_complex(x, dims, scale, forward, kind == "real")
    return _complex_to_complex(x, dims, scale, forward)


# ---------------------------------------------------------------- one dimension


def _line(name: str, kind: str, input: Tensor, n: int | None, dim: int, norm: str | None, forward: builtins.bool) -> Tensor:
    """A transform along one dimension; kind: as of fourier_plan."""
    if dim.__class__ is not int or (n is not None and n.__class__ is not int):  # equal keys, but floats are refused
        n, dim = None if n is None else _whole_number(n), _whole_number(dim)
    launch = _plans.get((name, input._layout, n, dim, norm))
    if launch is not None and (input._node is None or not local.grad):
        return launch(None, input)
    x = _given(name, kind, input)
    d = wrap_real_dim(dim, x._layout.ndim)
    own = x._layout.shape[d]
    size = _points(n if n is not None else 2 * (own - 1) if kind == "hermitian" else own)
    scale = _scale(norm, forward, size)
    if _plain(x):
        launch = _launcher(kind, x._layout, (d,), size, forward, scale)
        if x is input:
            _plans[name, x._layout, n, dim, norm] = launch
        return launch(None, x)
    if kind == "hermitian":
        return _complex_to_real(_resized(x, d, size // 2 + 1), d, size, scale, forward)
    return _recorded(kind, _resized(x, d, size), (d,), scale, forward)


def _declared(
    name: str, step: str | None = None, refuse: Callable[[str], Any] = complex_result, autocast: Any = single
) -> Callable[[Callable], Callable]:
    rule = Out(dtype=refuse(name.replace("2", "n")), step=step)
    return composite(method=False, function=False, out=rule, name=f"fft_{name}", autocast=autocast)


@_declared("fft", "_fft_c2c")
def fft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """The discrete Fourier transform along `dim`, of n points (cut or filled with zeros); complex.

    norm: "backward" (default, no factor), "ortho" (1 / sqrt(n)) or "forward" (1 / n). RuntimeError for less than one point.
    """
    return _line("fft", "complex", input, n, dim, norm, True)


@_declared("ifft", "_fft_c2c")
def ifft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """The inverse of fft."""
    return _line("ifft", "complex", input, n, dim, norm, False)


@_declared("rfft", "_fft_r2c")
def rfft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """The first n // 2 + 1 terms of the transform of real numbers (the others are their conjugates)."""
    return _line("rfft", "real", input, n, dim, norm, True)


@_declared("irfft", "_fft_c2r", real_result)
def irfft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """The inverse of rfft: n real numbers (2 (terms - 1) by default)."""
    return _line("irfft", "hermitian", input, n, dim, norm, False)


@_declared("hfft", "_fft_c2r", real_result)
def hfft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """The real transform of a signal that is Hermitian in time, given by its first half."""
    return _line("hfft", "hermitian", input, n, dim, norm, True)


@_declared("ihfft")
def ihfft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """The inverse of hfft."""
    return _line("ihfft", "real", input, n, dim, norm, False)


def windowed(frames: Tensor, window: Tensor, norm: str | None) -> Tensor:
    """rfft of the last dimension times a window of as many elements."""
    x, w = frames._layout, window._layout
    alike = x.dtype is w.dtype and x.dtype.name in ("float32", "float64")
    if local.dispatch_modes or not (alike and _plain(frames) and _plain(window) and w.strides == (1,) and x.shape[-1]):
        return rfft(frames * window, None, -1, norm)
    key = ("windowed", x, w, norm)
    launch = _plans.get(key)
    if launch is None:
        size = x.shape[-1]
        planned = fourier.plans.fourier_plan("real", x, (x.ndim - 1,), size, 1, _scale(norm, True, size), w)
        launch = _plans.keep(key, planned)
    return launch(None, frames, window)


# ---------------------------------------------------------------- several dimensions


def _found(name: str, x: Tensor, s: Any, dim: Any, norm: str | None) -> Callable | None:
    """The launcher of the same call before, if it needs no graph."""
    if x._node is not None and local.grad:
        return None
    try:
        return _plans.get((name, x._layout, s, dim, norm))
    except TypeError:  # a list is no key
        return None


def _several(name: str, kind: str, input: Tensor, s: Any, dim: Any, norm: str | None, forward: builtins.bool) -> Tensor:
    launch = _found(name, input, s, dim, norm)
    if launch is not None:
        return launch(None, input)
    if kind == "real" and forward and input._layout.dtype.is_complex:
        raise RuntimeError(f"{name} expects a real-valued input tensor, but got {input._layout.dtype.scalar_name}")
    dims, sizes = _dims(input, s, dim)
    if not dims and kind == "real":
        raise RuntimeError(f"{name} must transform at least one axis")
    if kind == "real" and input._layout.dtype.is_complex:
        raise RuntimeError(f"Only supports floating-point dtypes, but found: {input._layout.dtype.scalar_name}")
    x = _given(name, kind, input)
    if kind == "complex" and not (dims and _plain(x)):
        x = _as_complex(x)
    scale, along = _scale(norm, forward, math.prod(sizes)), tuple(dims)
    fitted = _fit(x, dims, sizes)
    if kind == "real" and not forward and len(along) > 1:
        return _complex_to_complex(_real_to_complex(fitted, along[-1:], scale, forward), along[:-1], 1.0, forward)
    if not dims or not _plain(fitted):
        return _recorded(kind, fitted, along, scale, forward)
    launch = _launcher(kind, fitted._layout, along, sizes[-1], forward, scale)
    if fitted is input:
        with suppress(TypeError):
            _plans[name, input._layout, s, dim, norm] = launch
    return launch(None, fitted)


def _whole_several(name: str, input: Tensor, s: Any, dim: Any, norm: str | None, forward: builtins.bool) -> Tensor:
    last_given = s is not None and (s if isinstance(s, int) else s[-1] if len(s) else -1) != -1
    dims, sizes = _dims(input, s, dim)
    if not dims:
        raise RuntimeError(f"{name} must transform at least one axis")
    if not last_given:
        sizes[-1] = _points(2 * (input._layout.shape[dims[-1]] - 1))
    x = _as_complex(input)
    x = _fit(x, dims, [*sizes[:-1], sizes[-1] // 2 + 1])
    scale = _scale(norm, forward, math.prod(sizes))
    if len(dims) > 1:
        x = _complex_to_complex(x, tuple(dims[:-1]), 1.0, forward)
    return _complex_to_real(x, dims[-1], sizes[-1], scale, forward)


@_declared("fftn", "_fft_c2c")
def fftn(input: Tensor, s: Any = None, dim: Any = None, norm: str | None = None) -> Tensor:
    """The transform over several dimensions (`dim`; without it the last len(s), or all), of `s` points each."""
    return _several("fftn", "complex", input, s, dim, norm, True)


@_declared("ifftn", "_fft_c2c")
def ifftn(input: Tensor, s: Any = None, dim: Any = None, norm: str | None = None) -> Tensor:
    """The inverse of fftn."""
    return _several("ifftn", "complex", input, s, dim, norm, False)


@_declared("rfftn", "_fft_r2c")
def rfftn(input: Tensor, s: Any = None, dim: Any = None, norm: str | None = None) -> Tensor:
    """fftn of real numbers: half of the terms along the last of the dimensions."""
    return _several("rfftn", "real", input, s, dim, norm, True)


@_declared("irfftn", "_fft_c2r", real_result)
def irfftn(input: Tensor, s: Any = None, dim: Any = None, norm: str | None = None) -> Tensor:
    """The inverse of rfftn."""
    return _whole_several("irfftn", input, s, dim, norm, False)


@_declared("hfftn", "_fft_c2r", real_result, autocast=None)
def hfftn(input: Tensor, s: Any = None, dim: Any = None, norm: str | None = None) -> Tensor:
    """The real transform over several dimensions of a signal that is Hermitian in time."""
    return _whole_several("hfftn", input, s, dim, norm, True)


@_declared("ihfftn", autocast=None)
def ihfftn(input: Tensor, s: Any = None, dim: Any = None, norm: str | None = None) -> Tensor:
    """The inverse of hfftn."""
    return _several("ihfftn", "real", input, s, dim, norm, False)


@_declared("fft2", "_fft_c2c")
def fft2(input: Tensor, s: Any = None, dim: Any = (-2, -1), norm: str | None = None) -> Tensor:
    """fftn over the last two dimensions."""
    return _several("fft2", "complex", input, s, dim, norm, True)


@_declared("ifft2", "_fft_c2c")
def ifft2(input: Tensor, s: Any = None, dim: Any = (-2, -1), norm: str | None = None) -> Tensor:
    """The inverse of fft2."""
    return _several("ifft2", "complex", input, s, dim, norm, False)


@_declared("rfft2", "_fft_r2c")
def rfft2(input: Tensor, s: Any = None, dim: Any = (-2, -1), norm: str | None = None) -> Tensor:
    """rfftn over the last two dimensions."""
    return _several("rfftn", "real", input, s, dim, norm, True)


@_declared("irfft2", "_fft_c2r", real_result)
def irfft2(input: Tensor, s: Any = None, dim: Any = (-2, -1), norm: str | None = None) -> Tensor:
    """The inverse of rfft2."""
    return _whole_several("irfftn", input, s, dim, norm, False)


@_declared("hfft2", "_fft_c2r", real_result, autocast=None)
def hfft2(input: Tensor, s: Any = None, dim: Any = (-2, -1), norm: str | None = None) -> Tensor:
    """hfftn over the last two dimensions."""
    return _whole_several("hfftn", input, s, dim, norm, True)


@_declared("ihfft2", autocast=None)
def ihfft2(input: Tensor, s: Any = None, dim: Any = (-2, -1), norm: str | None = None) -> Tensor:
    """The inverse of hfft2."""
    return _several("ihfftn", "real", input, s, dim, norm, False)
