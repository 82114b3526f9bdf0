"""torch._refs: operators by the names of their references, PyTorch's second implementation of them in Python.

A reference of a pointwise operator is its declaration, evaluated by primitive operators (pointwise); those of factories and
reductions that are primitive operators themselves are in structured. Any other operator is in Python here anyhow, so it is
its own reference: `torch._refs.expand` is `Tensor.expand`. What only the references have is defined here. Stands on the
public namespace; used by tests that compare the two, and by programs that trace references.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import flambeau as torch
from flambeau._refs import nn, special
from flambeau._refs.names import ROOT
from flambeau.base.lazy_import import submodules

__all__ = list(ROOT)
_ALSO = {"swap_axes": "swapaxes"}


def __getattr__(name: str) -> Any:
    if name in ROOT:
        own = _ALSO.get(name, name)
        found = _found(own)
        if found is not None:
            globals()[name] = found
            return found
    if name in ("_conversions", "fft", "linalg"):
        return submodules(__name__)(name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _found(name: str) -> Callable[..., Any] | None:
    """The reference of a function or method of that name; None where there is none."""
    from flambeau._refs import structured
    from flambeau._refs.pointwise import in_place, reference_of

    if name in structured.REFERENCES:
        return structured.REFERENCES[name]
    if name.endswith("_") and name[:-1] in ROOT and callable(getattr(torch, name[:-1], None)):
        whole = _found(name[:-1])
        if getattr(whole, "is_reference", False):
            return in_place(whole, name)  # type: ignore[arg-type]
    found = getattr(torch, name, None) or getattr(torch.Tensor, name, None)
    return reference_of(found) if callable(found) else None


def alias(a: Any) -> Any:
    """Another tensor on the same memory."""
    return a.view(a.shape) if a.is_contiguous() else a.as_strided(a.shape, a.stride(), a.storage_offset())


def _broadcast_shapes(*shapes: Any) -> list[int] | None:
    """The shape that shapes broadcast to; None counts for no shape, and is given for none."""
    given = [tuple(shape) if not isinstance(shape, int) else (shape,) for shape in shapes if shape is not None]
    return list(torch.broadcast_shapes(*given)) if given else None


def T(a: Any) -> Any:
    """The matrix transposed."""
    return a.T


def copy_to(a: Any, b: Any, *, allow_cross_device: bool = True) -> Any:
    """Write `b` to `a`. RuntimeError for tensors on two devices, if that isn't allowed."""
    if not allow_cross_device and a.device != b.device:
        raise RuntimeError(
            f"Attempting to copy from device {b.device} to device {a.device}, but cross-device copies are not allowed!"
        )
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
