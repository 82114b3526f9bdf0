"""torch._refs: operators by the names of their references.

PyTorch has a second implementation of many operators, in Python, beside the one that its users call. Here every operator has
one, in Python, so its reference is the operator itself: `torch._refs.sin` is `torch.sin`, `torch._refs.expand` is
`Tensor.expand`. What only the references have is defined here. Stands on the public namespace; used by tests that compare the
two, and by programs that trace references.
"""

from __future__ import annotations

from typing import Any

import flambeau as torch
from flambeau._refs import _conversions, fft, linalg, nn, special
from flambeau._refs.names import ROOT

__all__ = list(ROOT)
_ALSO = {"swap_axes": "swapaxes"}


def __getattr__(name: str) -> Any:
    if name in ROOT:
        own = _ALSO.get(name, name)
        for place in (torch, torch.Tensor):
            found = getattr(place, own, None)
            if callable(found):
                globals()[name] = found
                return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def alias(a: Any) -> Any:
    """Another tensor on the same memory."""
    return a.view(a.shape) if a.is_contiguous() else a.as_strided(a.shape, a.stride(), a.storage_offset())


def T(a: Any) -> Any:
    """The matrix transposed."""
    return a.T


def copy_to(a: Any, b: Any, *, allow_cross_device: bool = True) -> Any:
    """Write `b` to `a`. RuntimeError for tensors on two devices, if that isn't allowed."""
    if not allow_cross_device and a.device != b.device:
        raise RuntimeError(f"Attempting to copy from device {b.device} to device {a.device}, but cross-device copies are not "
                           "allowed!")
    return a.copy_(b)


def zero(input: Any) -> Any:
    """Zeros like a tensor."""
    return torch.zeros_like(input)


def rpow(a: Any, b: Any) -> Any:
    """b to the power of a."""
    return torch.pow(b, a)


def rtruediv(a: Any, b: Any) -> Any:
    """b divided by a."""
    return torch.div(b, a)


def rfloordiv(a: Any, b: Any) -> Any:
    """b divided by a and rounded down."""
    return torch.floor_divide(b, a)


def trunc_divide(a: Any, b: Any) -> Any:
    """a divided by b and rounded towards zero."""
    return torch.div(a, b, rounding_mode="trunc")


def cauchy(self: Any, median: float = 0, sigma: float = 1, generator: Any = None) -> Any:
    """Samples of a Cauchy distribution, like a tensor."""
    return torch.empty_like(self).cauchy_(median, sigma, generator=generator)


def exponential(self: Any, rate: float = 1, generator: Any = None) -> Any:
    """Samples of an exponential distribution, like a tensor."""
    return torch.empty_like(self).exponential_(rate, generator=generator)


def geometric(self: Any, p: float, generator: Any = None) -> Any:
    """Samples of a geometric distribution, like a tensor."""
    return torch.empty_like(self).geometric_(p, generator=generator)


def log_normal(self: Any, mean: float = 1, std: float = 2, generator: Any = None) -> Any:
    """Samples of a log-normal distribution, like a tensor."""
    return torch.empty_like(self).log_normal_(mean, std, generator=generator)
