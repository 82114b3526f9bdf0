"""The order of a Fourier transform's terms: fftshift, ifftshift, and the frequencies that they stand for.

Stands on ops.views.rearrange and ops.creation.factories. flambeau.fft re-exports them.
"""

from __future__ import annotations

import builtins
import math
from typing import Any

from flambeau.base.dtype import float32, float64, get_default_dtype
from flambeau.base.geometry import wrap_real_dim
from flambeau.base.layout import Layout
from flambeau.core.modes.modes import local
from flambeau.core.operator.define import composite
from flambeau.core.operator.publishing import NAMESPACE
from flambeau.core.tensor.tensor import Tensor
from flambeau.ir.scalar import cast, where
from flambeau.ops.creation.factories import dtype_asked, finish, home, warn_of_resizing
from flambeau.ops.creation.sequences import along
from flambeau.ops.views.rearrange import rolled


def _shifted(input: Tensor, dim: Any, backward: int) -> Tensor:
    x = input._layout
    if dim is None:
        dims, sizes = tuple(range(x.ndim)), x.shape
    else:
        dims = tuple([wrap_real_dim(d, x.ndim) for d in ([dim] if isinstance(dim, int) else dim)])
        sizes = [x.shape[d] for d in dims]
    steps = tuple([(n + backward) // 2 for n in sizes])
    if dims and (input._node is None or not local.grad) and x.flavor is None:
        return rolled(input, steps, dims)
    return input.roll(steps, dims)


@composite(method=False, function=False, name="fft_fftshift")
def fftshift(input: Tensor, dim: Any = None) -> Tensor:
    """The terms in order of their frequency, zero in the middle."""
    return _shifted(input, dim, 0)


@composite(method=False, function=False, name="fft_ifftshift")
def ifftshift(input: Tensor, dim: Any = None) -> Tensor:
    """The inverse of fftshift."""
    return _shifted(input, dim, 1)


def _frequency(i, start, apart, half, n):
    """Number i as a frequency: the terms from `half` on stand for negative ones."""
    x = cast(i, start.dtype)
    return where(x < half, x, x - n) * apart


def _frequencies(
    name: str, n: int, d: float, count: int, dtype: Any, device: Any, requires_grad: builtins.bool, out: Tensor | None
) -> Tensor:
    if n.__class__ is not int:
        raise TypeError(f"fft_{name}(): argument 'n' (position 1) must be int, not {type(n).__name__}")
    if count < 0:
        raise RuntimeError(f"Trying to create tensor with negative dimension {count}: [{count}]")
    dtype = dtype_asked(dtype, out) or get_default_dtype()
    if not (dtype.is_floating_point or dtype.is_complex):
        raise RuntimeError(f"{name} requires a floating point or complex dtype")
    if dtype.is_complex:
        raise NotImplementedError(f"\"arange_cpu\" not implemented for '{dtype.scalar_name}'")
    apart = 1 / (n * d) if n * d else math.copysign(math.inf, n * d)
    if dtype.itemsize == 2:
        apart = NAMESPACE["tensor"](apart, dtype=dtype, device="cpu").item()
    half = (n + 1) // 2 if name == "fftfreq" else count
    layout = Layout.contiguous((count,), dtype, home(device))
    work = float64 if dtype is float64 else float32
    made = along("frequencies", layout, (0.0, apart, float(half), float(n)), _frequency, work)
    warn_of_resizing(out, count)
    return finish(made, requires_grad, out, line=True)


@composite(method=False, function=False, name="fft_fftfreq")
def fftfreq(
    n: int,
    d: float = 1.0,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: builtins.bool = False,
    out: Tensor | None = None,
) -> Tensor:
    """The frequencies of fft's n terms for a sampling distance d: 0, 1, ..., -2, -1 over n d. RuntimeError for dtypes that
    have no fractions."""
    return _frequencies("fftfreq", n, d, n, dtype, device, requires_grad, out)


@composite(method=False, function=False, name="fft_rfftfreq")
def rfftfreq(
    n: int,
    d: float = 1.0,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: builtins.bool = False,
    out: Tensor | None = None,
) -> Tensor:
    """The frequencies of rfft's n // 2 + 1 terms for a sampling distance d. RuntimeError for dtypes that have no fractions."""
    return _frequencies("rfftfreq", n, d, int(n / 2) + 1, dtype, device, requires_grad, out)
