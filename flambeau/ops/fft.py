"""Discrete Fourier transforms: of complex and real signals, over one or several dimensions, with shifts and frequencies.

Three primitives carry the rules: complex to complex, real to (half of) complex, (half of) complex to real; their values come from
numpy.fft, in the precision of the input. flambeau.fft re-exports what torch.fft has.
"""

from __future__ import annotations

import builtins
import math
import operator as python_operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from flambeau.base.dtype import get_default_dtype
from flambeau.base.geometry import wrap_dim, wrap_real_dim
from flambeau.core.create import copy_array
from flambeau.core.declare import composite, operator
from flambeau.core.derive import NAMESPACE
from flambeau.core.tensor import Tensor
from flambeau.ops.create import finish
from flambeau.ops.linalg_arguments import values_of

Sizes = "Sequence[int] | None"

# ---------------------------------------------------------------- primitives


@operator(method=False, function=False, node="FftC2CBackward0")
def _complex_to_complex(input: Tensor, dims: Any, scale: float, forward: builtins.bool) -> Tensor:
    """exp(-2 pi i ...) transforms (with + for not `forward`), times scale."""
    array = values_of(input)
    if not dims:
        return copy_array(array)
    made = np.fft.fftn(array, axes=dims) if forward else np.fft.ifftn(array, axes=dims, norm="forward")
    return copy_array(_scaled(made, scale, array.dtype))


@_complex_to_complex.vjp
def _(g, dims, scale, forward):
    return _complex_to_complex(g, dims, scale, not forward)


@operator(method=False, function=False, node="FftR2CBackward0")
def _real_to_complex(input: Tensor, dim: int, scale: float, forward: builtins.bool) -> Tensor:
    """The first n // 2 + 1 terms of the transform of real numbers."""
    array = values_of(input)
    made = np.fft.rfft(array, axis=dim)
    return copy_array(_scaled(made if forward else made.conj(), scale, _complex(array.dtype)))


@_real_to_complex.vjp
def _(g, layouts, dim, scale, forward):
    return _complex_to_complex(_resized(g, dim, layouts[0].shape[dim]), (dim,), scale, not forward).real


@operator(method=False, function=False, node="FftC2RBackward0")
def _complex_to_real(input: Tensor, dim: int, size: int, scale: float, forward: builtins.bool) -> Tensor:
    """`size` real numbers from the first size // 2 + 1 terms of their transform."""
    array = values_of(input)
    made = np.fft.irfft(array.conj() if forward else array, size, axis=dim, norm="forward")
    return copy_array(_scaled(made, scale, np.zeros(0, array.dtype).real.dtype))


@_complex_to_real.vjp
def _(g, dim, size, scale, forward):
    terms = _real_to_complex(g, dim, scale, not forward)
    # all terms but the first (and the middle one of an even size) stand for their mirror images too
    weights = np.full(size // 2 + 1, 2.0)
    weights[0] = 1
    if size % 2 == 0:
        weights[-1] = 1
    shape = [1] * terms._layout.ndim
    shape[dim] = size // 2 + 1
    return terms * copy_array(weights.astype(g._layout.dtype.numpy)).reshape(shape)


def _complex(dtype: np.dtype) -> Any:
    return np.complex64 if dtype == np.float32 else np.complex128


def _scaled(made: np.ndarray, scale: float, dtype: Any) -> np.ndarray:
    return (made if scale == 1 else made * made.real.dtype.type(scale)).astype(dtype, copy=False)


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


# ---------------------------------------------------------------- one dimension


def _one(input: Tensor, n: int | None, dim: int, norm: str | None, forward: builtins.bool) -> Tensor:
    x = _as_complex(input)
    d = wrap_real_dim(dim, x._layout.ndim)
    size = _points(x._layout.shape[d] if n is None else n)
    return _complex_to_complex(_resized(x, d, size), (d,), _scale(norm, forward, size), forward)


def _half(name: str, input: Tensor, n: int | None, dim: int, norm: str | None, forward: builtins.bool) -> Tensor:
    x = _as_real(name, input)
    d = wrap_real_dim(dim, x._layout.ndim)
    size = _points(x._layout.shape[d] if n is None else n)
    return _real_to_complex(_resized(x, d, size), d, _scale(norm, forward, size), forward)


def _whole(input: Tensor, n: int | None, dim: int, norm: str | None, forward: builtins.bool) -> Tensor:
    x = _as_complex(input)
    d = wrap_real_dim(dim, x._layout.ndim)
    size = _points(2 * (x._layout.shape[d] - 1) if n is None else n)
    return _complex_to_real(_resized(x, d, size // 2 + 1), d, size, _scale(norm, forward, size), forward)


def _declared(name: str) -> Callable[[Callable], Callable]:
    return composite(method=False, function=False, out=True, name=f"fft_{name}")


@_declared("fft")
def fft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """The discrete Fourier transform along `dim`, of n points (cut or filled with zeros); complex.

    norm: "backward" (default, no factor), "ortho" (1 / sqrt(n)) or "forward" (1 / n). RuntimeError for less than one point.
    """
    return _one(input, n, dim, norm, True)


@_declared("ifft")
def ifft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """The inverse of fft."""
    return _one(input, n, dim, norm, False)


@_declared("rfft")
def rfft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """The first n // 2 + 1 terms of the transform of real numbers (the others are their conjugates)."""
    return _half("rfft", input, n, dim, norm, True)


@_declared("irfft")
def irfft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """The inverse of rfft: n real numbers (2 (terms - 1) by default)."""
    return _whole(input, n, dim, norm, False)


@_declared("hfft")
def hfft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """The real transform of a signal that is Hermitian in time, given by its first half."""
    return _whole(input, n, dim, norm, True)


@_declared("ihfft")
def ihfft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """The inverse of hfft."""
    return _half("ihfft", input, n, dim, norm, False)


# ---------------------------------------------------------------- several dimensions


def _several(input: Tensor, s: Any, dim: Any, norm: str | None, forward: builtins.bool) -> Tensor:
    x = _as_complex(input)
    dims, sizes = _dims(x, s, dim)
    return _complex_to_complex(_fit(x, dims, sizes), tuple(dims), _scale(norm, forward, math.prod(sizes)), forward)


def _half_several(name: str, input: Tensor, s: Any, dim: Any, norm: str | None, forward: builtins.bool) -> Tensor:
    x = _as_real(name, input)
    dims, sizes = _dims(x, s, dim)
    if not dims:
        raise RuntimeError(f"{name} must transform at least one axis")
    scale = _scale(norm, forward, math.prod(sizes))
    made = _real_to_complex(_fit(x, dims, sizes), dims[-1], scale, forward)
    return _complex_to_complex(made, tuple(dims[:-1]), 1.0, forward) if len(dims) > 1 else made


def _whole_several(name: str, input: Tensor, s: Any, dim: Any, norm: str | None, forward: builtins.bool) -> Tensor:
    x = _as_complex(input)
    last_given = s is not None and (s if isinstance(s, int) else s[-1] if len(s) else -1) != -1
    dims, sizes = _dims(x, s, dim)
    if not dims:
        raise RuntimeError(f"{name} must transform at least one axis")
    if not last_given:
        sizes[-1] = _points(2 * (x._layout.shape[dims[-1]] - 1))
    x = _fit(x, dims, [*sizes[:-1], sizes[-1] // 2 + 1])
    scale = _scale(norm, forward, math.prod(sizes))
    if len(dims) > 1:
        x = _complex_to_complex(x, tuple(dims[:-1]), 1.0, forward)
    return _complex_to_real(x, dims[-1], sizes[-1], scale, forward)


@_declared("fftn")
def fftn(input: Tensor, s: Any = None, dim: Any = None, norm: str | None = None) -> Tensor:
    """The transform over several dimensions (`dim`; without it the last len(s), or all), of `s` points each."""
    return _several(input, s, dim, norm, True)


@_declared("ifftn")
def ifftn(input: Tensor, s: Any = None, dim: Any = None, norm: str | None = None) -> Tensor:
    """The inverse of fftn."""
    return _several(input, s, dim, norm, False)


@_declared("rfftn")
def rfftn(input: Tensor, s: Any = None, dim: Any = None, norm: str | None = None) -> Tensor:
    """fftn of real numbers: half of the terms along the last of the dimensions."""
    return _half_several("rfftn", input, s, dim, norm, True)


@_declared("irfftn")
def irfftn(input: Tensor, s: Any = None, dim: Any = None, norm: str | None = None) -> Tensor:
    """The inverse of rfftn."""
    return _whole_several("irfftn", input, s, dim, norm, False)


@_declared("hfftn")
def hfftn(input: Tensor, s: Any = None, dim: Any = None, norm: str | None = None) -> Tensor:
    """The real transform over several dimensions of a signal that is Hermitian in time."""
    return _whole_several("hfftn", input, s, dim, norm, True)


@_declared("ihfftn")
def ihfftn(input: Tensor, s: Any = None, dim: Any = None, norm: str | None = None) -> Tensor:
    """The inverse of hfftn."""
    return _half_several("ihfftn", input, s, dim, norm, False)


@_declared("fft2")
def fft2(input: Tensor, s: Any = None, dim: Any = (-2, -1), norm: str | None = None) -> Tensor:
    """fftn over the last two dimensions."""
    return _several(input, s, dim, norm, True)


@_declared("ifft2")
def ifft2(input: Tensor, s: Any = None, dim: Any = (-2, -1), norm: str | None = None) -> Tensor:
    """The inverse of fft2."""
    return _several(input, s, dim, norm, False)


@_declared("rfft2")
def rfft2(input: Tensor, s: Any = None, dim: Any = (-2, -1), norm: str | None = None) -> Tensor:
    """rfftn over the last two dimensions."""
    return _half_several("rfftn", input, s, dim, norm, True)


@_declared("irfft2")
def irfft2(input: Tensor, s: Any = None, dim: Any = (-2, -1), norm: str | None = None) -> Tensor:
    """The inverse of rfft2."""
    return _whole_several("irfftn", input, s, dim, norm, False)


@_declared("hfft2")
def hfft2(input: Tensor, s: Any = None, dim: Any = (-2, -1), norm: str | None = None) -> Tensor:
    """hfftn over the last two dimensions."""
    return _whole_several("hfftn", input, s, dim, norm, True)


@_declared("ihfft2")
def ihfft2(input: Tensor, s: Any = None, dim: Any = (-2, -1), norm: str | None = None) -> Tensor:
    """The inverse of hfft2."""
    return _half_several("ihfftn", input, s, dim, norm, False)


# ---------------------------------------------------------------- shifts and frequencies


def _shifted(input: Tensor, dim: Any, backward: builtins.bool) -> Tensor:
    ndim = input._layout.ndim
    dims = list(range(ndim)) if dim is None else [wrap_dim(d, ndim) for d in ([dim] if isinstance(dim, int) else dim)]
    if not dims:
        return input.clone()
    sizes = [input._layout.shape[d] for d in dims]
    return input.roll([(n + 1) // 2 if backward else n // 2 for n in sizes], dims)


@composite(method=False, function=False, name="fft_fftshift")
def fftshift(input: Tensor, dim: Any = None) -> Tensor:
    """The terms in order of their frequency, zero in the middle."""
    return _shifted(input, dim, False)


@composite(method=False, function=False, name="fft_ifftshift")
def ifftshift(input: Tensor, dim: Any = None) -> Tensor:
    """The inverse of fftshift."""
    return _shifted(input, dim, True)


def _frequencies(values: np.ndarray, n: int, d: float, options: dict[str, Any]) -> Tensor:
    out, dtype = options.pop("out"), options["dtype"] or get_default_dtype()
    made = copy_array(values / (n * d)).to(dtype)
    if options["device"] is not None:
        made = made.to(options["device"])
    return finish(made, options["requires_grad"], out)


def fftfreq(n: int, d: float = 1.0, *, dtype: Any = None, layout: Any = None, device: Any = None,
            requires_grad: builtins.bool = False, out: Tensor | None = None) -> Tensor:
    """The frequencies of fft's n terms for a sampling distance d: 0, 1, ..., -2, -1 over n d."""
    return _frequencies(np.fft.ifftshift(np.arange(-(n // 2), (n + 1) // 2)), n, d,
                        {"dtype": dtype, "device": device, "requires_grad": requires_grad, "out": out})


def rfftfreq(n: int, d: float = 1.0, *, dtype: Any = None, layout: Any = None, device: Any = None,
             requires_grad: builtins.bool = False, out: Tensor | None = None) -> Tensor:
    """The frequencies of rfft's n // 2 + 1 terms for a sampling distance d."""
    return _frequencies(np.arange(n // 2 + 1), n, d,
                        {"dtype": dtype, "device": device, "requires_grad": requires_grad, "out": out})
