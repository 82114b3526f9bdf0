"""torch.fft: PyTorch's three transforms of complex, real and Hermitian numbers.

Stands on ops.fft.transforms for the reading of arguments.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flambeau.base.dtype import get_default_dtype
from flambeau.base.geometry import wrap_dim
from flambeau.core.tensor.tensor import Tensor
from flambeau.dispatcher.aten.composites.registry import aten, composite
from flambeau.ops.fft import transforms

__all__: list[str] = []


def _number(norm: str | None, forward: bool) -> int:
    """PyTorch's number for a normalization: 0 for none, 1 by the root of the count, 2 by the count."""
    return 1 if norm == "ortho" else 2 * ((norm == "forward") == forward)


def _fitted(x: Tensor, dims: Sequence[int], sizes: Sequence[int]) -> Tensor:
    """Cut, or filled with zeros, to sizes along dims."""
    padding, shape = [0] * (2 * len(x.shape)), x.shape
    for d, n in zip(dims, sizes):
        if n < shape[d]:
            x = aten.slice.Tensor(x, d, 0, n)
        padding[2 * (len(shape) - 1 - d) + 1] = max(n - shape[d], 0)
    return aten.constant_pad_nd.default(x, padding[: 2 * (len(shape) - min(dims))]) if any(padding) else x


def _floating(x: Tensor, dtype: Any) -> Tensor:
    return x if x.dtype is dtype else aten._to_copy.default(x, dtype=dtype)


def _conjugate(x: Tensor) -> Tensor:
    """In memory of its own, as transforms read it."""
    return aten.clone.default(aten._conj.default(x))


def _transformed(kind: str, x: Tensor, dims: list[int], sizes: list[int], norm: str | None, forward: bool, line: bool) -> Tensor:
    """A transform of a kind ("complex", "real", "hermitian") over dims; line: one that is declared for one dimension."""
    number = _number(norm, forward)
    real = not x.dtype.is_complex
    dtype = x.dtype if real and x.dtype.is_floating_point else get_default_dtype()
    if real:
        x = _floating(x, dtype)
    if kind == "complex" and real and line:
        made = aten._fft_r2c.default(_fitted(x, dims, sizes), dims, number, False)
        return made if forward else aten._conj.default(made)
    if kind == "real":
        x = _fitted(x, dims, sizes)
        if forward:
            return aten._fft_r2c.default(x, dims, number, True)
        if line:
            return aten._conj.default(aten._fft_r2c.default(x, dims, number, True))
        made = aten._conj_physical.default(aten._fft_r2c.default(x, dims[-1:], number, True))
        return aten._fft_c2c.default(made, dims[:-1], number, False) if len(dims) > 1 else made
    if real:
        x = _floating(x, dtype.to_complex())
    if kind == "complex":
        return aten._fft_c2c.default(_fitted(x, dims, sizes) if dims else x, dims, number, forward)
    x = _fitted(x, dims, [*sizes[:-1], sizes[-1] // 2 + 1])
    if forward:  # of what is Hermitian in time: the inverse of the conjugate
        if len(dims) > 1:
            x = aten._fft_c2c.default(x, dims[:-1], number, True)
        return aten._fft_c2r.default(_conjugate(x), dims[-1:], number, sizes[-1])
    return aten._fft_c2r.default(x, dims, number, sizes[-1])


def _refused(kind: str, x: Tensor, norm: str | None) -> bool:
    """Whether the function's own body says what is wrong."""
    half = x.dtype.is_floating_point and x.dtype.itemsize < 4
    return norm not in (None, "backward", "ortho", "forward") or half or (kind == "real" and x.dtype.is_complex)


def _line(kind: str, forward: bool) -> Any:
    def rule(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Any:
        if not input.dim() or _refused(kind, input, norm):
            return NotImplemented
        d = wrap_dim(dim, input.dim())
        size = n if n is not None else 2 * (input.shape[d] - 1) if kind == "hermitian" else input.shape[d]
        return _transformed(kind, input, [d], [size], norm, forward, True) if size > 0 else NotImplemented

    return rule


def _several(kind: str, forward: bool, default: Any) -> Any:
    def rule(input: Tensor, s: Any = None, dim: Any = default, norm: str | None = None) -> Any:
        if _refused(kind, input, norm):
            return NotImplemented
        dims, sizes = transforms._dims(input, s, dim)
        if kind != "complex" and not dims:
            return NotImplemented
        given = s is not None and (s if isinstance(s, int) else s[-1] if len(s) else -1) != -1
        if kind == "hermitian" and not given:
            sizes = [*sizes[:-1], 2 * (input.shape[dims[-1]] - 1)]
        return _transformed(kind, input, dims, sizes, norm, forward, False) if all(n > 0 for n in sizes) else NotImplemented

    return rule


for _name, _kind, _forward in (
    ("fft", "complex", True),
    ("ifft", "complex", False),
    ("rfft", "real", True),
    ("irfft", "hermitian", False),
    ("hfft", "hermitian", True),
    ("ihfft", "real", False),
):
    composite(f"fft_{_name}.default")(_line(_kind, _forward))
    composite(f"fft_{_name}n.default")(_several(_kind, _forward, None))
    composite(f"fft_{_name}2.default")(_several(_kind, _forward, (-2, -1)))


def _shift(backward: bool) -> Any:
    def rule(input: Tensor, dim: Any = None) -> Any:
        dims = list(range(input.dim())) if dim is None else [dim] if isinstance(dim, int) else list(dim)
        return aten.roll.default(input, [(input.shape[d] + backward) // 2 for d in dims], dims)

    return rule


composite("fft_fftshift.default")(_shift(False))
composite("fft_ifftshift.default")(_shift(True))
