"""What distributions share: broadcasting of parameters, properties computed once, probabilities and logits,
triangles as vectors.

Stands on the public operators.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable
from functools import update_wrapper
from typing import Any

import flambeau as torch
from flambeau import Tensor

__all__ = [
    "broadcast_all",
    "clamp_probs",
    "euler_constant",
    "lazy_property",
    "logits_to_probs",
    "probs_to_logits",
    "tril_matrix_to_vec",
    "vec_to_tril_matrix",
]

euler_constant = 0.57721566490153286060
half_log_tau = 0.5 * math.log(2 * math.pi)  # of the normal density


def broadcast_all(*values: Any) -> tuple[Tensor, ...]:
    """The values, numbers or tensors, as tensors of one shape.

    Numbers take dtype and device of the first tensor, or the default dtype where there is none. Raises ValueError
    for what is neither, RuntimeError where shapes don't broadcast."""
    numbers = [isinstance(value, (bool, int, float)) for value in values]
    if not all(number or _is_tensor(value) for number, value in zip(numbers, values)):
        raise ValueError(
            "Input arguments must all be instances of Number, torch.Tensor or objects implementing __torch_function__."
        )
    if any(numbers):
        like = next((value for value in values if isinstance(value, Tensor)), None)
        kind = {"dtype": torch.get_default_dtype()} if like is None else {"dtype": like.dtype, "device": like.device}
        values = tuple(torch.tensor(v, **kind) if number else v for number, v in zip(numbers, values))
    return torch.broadcast_tensors(*values)


def _is_tensor(value: Any) -> bool:
    return isinstance(value, Tensor) or hasattr(type(value), "__torch_function__")


def _sum_rightmost(value: Any, dims: int) -> Any:
    """The sum over the last `dims` dimensions."""
    return value if dims == 0 else value.reshape(value.shape[:-dims] + (-1,)).sum(-1)


def log_beta(a: Tensor, b: Tensor) -> Tensor:
    """The logarithm of the beta function."""
    return a.lgamma() + b.lgamma() - (a + b).lgamma()


# ---- noise ---------------------------------------------------------------------------------------------------------


def blank(shape: Any, like: Tensor) -> Tensor:
    """A tensor to draw numbers into, of the dtype and device of `like`."""
    return torch.empty(shape, dtype=like.dtype, device=like.device)


def normal_noise(shape: Any, like: Tensor) -> Tensor:
    """Standard normal numbers of the dtype and device of `like`."""
    return blank(shape, like).normal_()


def _standard_normal(shape: Any, dtype: Any, device: Any) -> Tensor:
    """Standard normal numbers, for distributions of a program's own."""
    numbers = torch.empty(shape, dtype=dtype, device=device)
    return numbers.normal_()


def uniform_noise(shape: Any, like: Tensor) -> Tensor:
    """Uniform numbers from [0, 1) of the dtype and device of `like`."""
    return torch.rand(shape, dtype=like.dtype, device=like.device)


# ---- probabilities -------------------------------------------------------------------------------------------------


def clamp_probs(probs: Tensor) -> Tensor:
    """Probabilities moved away from 0 and 1 by the dtype's eps, so that their logits are finite."""
    margin = torch.finfo(probs.dtype).eps
    return probs.clamp(margin, 1 - margin)


def log_odds(p: Tensor) -> Tensor:
    """log(p / (1 - p))."""
    return p.log() - p.neg().log1p()


def logits_to_probs(logits: Tensor, is_binary: bool = False) -> Tensor:
    """Probabilities of log odds (binary) or of unnormalised log probabilities along the last dimension."""
    return torch.sigmoid(logits) if is_binary else torch.softmax(logits, -1)


def probs_to_logits(probs: Tensor, is_binary: bool = False) -> Tensor:
    """Log odds (binary), or logarithms, of probabilities; finite, since these are clamped."""
    inner = clamp_probs(probs)
    return log_odds(inner) if is_binary else inner.log()


# ---- properties ----------------------------------------------------------------------------------------------------


def formula(compute: Callable[[Any], Any], doc: str | None = None) -> Any:
    """A property that is a formula of the instance."""
    return property(compute, doc=doc)


def forwarded(path: str, doc: str | None = None) -> Any:
    """A property that is another object's: "base_dist.loc" is the `loc` of the instance's `base_dist`."""
    return property(operator.attrgetter(path), doc=doc)


def unknown(doc: str, message: str = "") -> Any:
    """A property that subclasses define: it raises NotImplementedError, with the class put into a message."""

    def refuse(instance: Any) -> Any:
        raise NotImplementedError(*[message.format(type(instance))] if message else [])

    return property(refuse, doc=doc)


class lazy_property:
    """A property that is computed at the first access, with gradients recorded, and kept in the instance's
    dictionary."""

    def __init__(self, wrapped: Callable[[Any], Any]) -> None:
        self.wrapped = wrapped
        update_wrapper(self, wrapped)  # type: ignore[arg-type]

    def __get__(self, instance: Any, kind: type | None = None) -> Any:
        if instance is None:
            return _OnClass(self.wrapped)
        with torch.enable_grad():
            kept = instance.__dict__[self.wrapped.__name__] = self.wrapped(instance)
        return kept


class _OnClass(lazy_property, property):
    """What a lazy property is on its class: a property for those who look."""

    def __init__(self, wrapped: Callable[[Any], Any]) -> None:
        property.__init__(self, wrapped)


# ---- triangles -----------------------------------------------------------------------------------------------------


def _triangle(n: int, diag: int) -> int:
    """The elements of an n x n matrix up to diagonal `diag`."""
    return sum(min(max(row + 1 + diag, 0), n) for row in range(n))


def tril_matrix_to_vec(mat: Tensor, diag: int = 0) -> Tensor:
    """The lower triangle of matrices (..., n, n), up to diagonal `diag`, row by row. Raises ValueError if `diag` is
    none."""
    n = mat.size(-1)
    if diag not in range(-n, n):
        raise ValueError(f"diag ({diag}) provided is outside [{-n}, {n - 1}].")
    return mat[(..., *torch.tril_indices(n, n, diag))]


def vec_to_tril_matrix(vec: Tensor, diag: int = 0) -> Tensor:
    """Matrices (..., n, n) with the vectors as their lower triangles and zeros above. Raises ValueError if no n
    fits."""
    count = vec.shape[-1]
    size = next(n for n in itertools.count(1) if _triangle(n, diag) >= count)
    if _triangle(size, diag) != count:
        raise ValueError(
            f"The size of last dimension is {count} which cannot be expressed as "
            "the lower triangular part of a square D x D matrix."
        )
    matrix = vec.new_zeros((*vec.shape[:-1], size, size))
    matrix[(..., *torch.tril_indices(size, size, diag))] = vec
    return matrix
