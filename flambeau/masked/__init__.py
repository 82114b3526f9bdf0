"""torch.masked: reductions and normalisations of the elements that a mask chooses.

Elements outside the mask are replaced by what leaves the result unchanged, then the ordinary operator runs; masks are
tensors that broadcast to the input. Tensors with a mask of their own are not implemented. Stands on core and the operators.
"""

from __future__ import annotations

import math
from typing import Any

from flambeau.base import dtype as dtypes
from flambeau.core import absent
from flambeau.core.derive import NAMESPACE
from flambeau.core.tensor import Tensor
from flambeau.ops.magnitude import vector_norm

__all__ = [
    "MaskedTensor", "amax", "amin", "argmax", "argmin", "as_masked_tensor", "cumprod", "cumsum", "is_masked_tensor",
    "log_softmax", "logaddexp", "logsumexp", "masked_tensor", "mean", "median", "norm", "normalize", "prod", "softmax",
    "softmin", "std", "sum", "var"]

ADVICE = "keep data and mask as two tensors and use the functions of torch.masked with mask=, or torch.where"
MaskedTensor = absent.kind("masked.MaskedTensor", ADVICE)
masked_tensor = absent.function("masked.masked_tensor", ADVICE)
as_masked_tensor = absent.function("masked.as_masked_tensor", ADVICE)


def is_masked_tensor(obj: Any, /) -> bool:
    """Whether it is a MaskedTensor: never, since there are none."""
    return isinstance(obj, MaskedTensor)


# ---------------------------------------------------------------- masks


def _mask_of(input: Tensor, mask: Tensor | None) -> Tensor | None:
    """The mask as booleans of the shape of input."""
    if mask is None:
        return None
    if len(mask.shape) > input.ndim:
        raise IndexError("_input_mask expected broadcastable mask (got mask dimensionality higher than of the input)")
    if mask.shape != input.shape:
        mask = mask.expand(input.shape)
    return mask if mask.dtype is dtypes.bool_ else mask.to(dtypes.bool_)


def _filled(input: Tensor, mask: Tensor | None, value: Any) -> Tensor:
    chosen = _mask_of(input, mask)
    return input if chosen is None else NAMESPACE["where"](chosen, input, value)


def _extreme(name: str, dtype: Any, least: bool) -> Any:
    """The least or the greatest number of a dtype, an infinity where it has one."""
    if dtype.is_floating_point:
        return -math.inf if least else math.inf
    if dtype.is_complex or dtype is dtypes.bool_:
        raise NotImplementedError(f"identity of {name} on {dtype} input")
    return dtypes.iinfo(dtype).min if least else dtypes.iinfo(dtype).max


def _dims(dim: Any, ndim: int) -> tuple[int, ...]:
    """Dimensions to reduce, not negative. Raises IndexError out of range, RuntimeError where one comes twice."""
    if dim is None or (isinstance(dim, (tuple, list)) and not dim):
        return tuple(range(ndim))
    found: list[int] = []
    bound = max(ndim, 1)
    for d in (dim,) if isinstance(dim, int) else dim:
        if not -bound <= d < bound:
            raise IndexError(f"Dimension out of range (expected to be in range of [{-bound}, {bound - 1}], but got {d})")
        if d % bound in found:
            raise RuntimeError(f"dim={d % bound} appears multiple times in the list of dims")
        found.append(d % bound)
    return tuple(found) if ndim else ()


def _summed_dtype(input: Tensor, dtype: Any) -> Any:
    if dtype is not None:
        return dtype
    return input.dtype if input.dtype.is_floating_point or input.dtype.is_complex else dtypes.int64


def _in(input: Tensor, dtype: Any) -> Tensor:
    return input if dtype is None or input.dtype is dtype else input.to(dtype)


# ---------------------------------------------------------------- reductions


def sum(input: Tensor, dim: Any = None, *, keepdim: bool | None = False, dtype: Any = None,
        mask: Tensor | None = None) -> Tensor:
    """The sum over `dim` of the elements that the mask chooses; 0 where it chooses none."""
    dtype = _summed_dtype(input, dtype)
    return _filled(_in(input, dtype), mask, 0).sum(_dims(dim, input.ndim), bool(keepdim), dtype=dtype)


def prod(input: Tensor, dim: Any = None, *, keepdim: bool | None = False, dtype: Any = None,
         mask: Tensor | None = None) -> Tensor:
    """The product over `dim` of the elements that the mask chooses; 1 where it chooses none."""
    dtype = _summed_dtype(input, dtype)
    result = _filled(_in(input, dtype), mask, 1)
    for d in sorted(_dims(dim, input.ndim), reverse=True):
        result = result.prod(d, bool(keepdim))
    return _in(result, dtype)


def _number_of(input: Tensor, dims: tuple[int, ...], mask: Tensor) -> Tensor:
    """How many elements the mask chooses along dims, which are kept with size 1."""
    chosen = _mask_of(input, mask)
    assert chosen is not None
    return chosen.to(dtypes.int64).sum(dims, True)


def mean(input: Tensor, dim: Any = None, *, keepdim: bool | None = False, dtype: Any = None,
         mask: Tensor | None = None) -> Tensor:
    """The mean over `dim` of the elements that the mask chooses, NaN where it chooses none.

    Raises ValueError for integers.
    """
    wanted = input.dtype if dtype is None else dtype
    if not (wanted.is_floating_point or wanted.is_complex):
        which = "Input" if dtype is None else "Optional"
        raise ValueError("mean(): Could not infer output dtype. "
                         f"{which} dtype must be either a floating point or complex dtype. Got: {wanted}")
    dims = _dims(dim, input.ndim)
    if mask is None:
        return _in(input, wanted).mean(dims or None, bool(keepdim))
    total = sum(input, dim, keepdim=True, dtype=wanted, mask=mask)
    result = total / _number_of(input, dims, mask)
    return result if keepdim else _squeezed(result, dims)


def _squeezed(x: Tensor, dims: tuple[int, ...]) -> Tensor:
    return x.squeeze(dims) if dims else x


def amax(input: Tensor, dim: Any = None, *, keepdim: bool | None = False, dtype: Any = None,
         mask: Tensor | None = None) -> Tensor:
    """The greatest over `dim` of the elements that the mask chooses; the least number where it chooses none."""
    input = _in(input, dtype)
    return _filled(input, mask, _extreme("amax", input.dtype, True)).amax(_dims(dim, input.ndim), bool(keepdim))


def amin(input: Tensor, dim: Any = None, *, keepdim: bool | None = False, dtype: Any = None,
         mask: Tensor | None = None) -> Tensor:
    """The least over `dim` of the elements that the mask chooses; the greatest number where it chooses none."""
    input = _in(input, dtype)
    return _filled(input, mask, _extreme("amin", input.dtype, False)).amin(_dims(dim, input.ndim), bool(keepdim))


def argmax(input: Tensor, dim: int | None = None, *, keepdim: bool | None = False, dtype: Any = None,
           mask: Tensor | None = None) -> Tensor:
    """Where the greatest element that the mask chooses is along `dim` or in the flattened input, in the dtype of input."""
    input = _in(input, dtype)
    filled = input if mask is None else _filled(input, mask, _extreme("argmax", input.dtype, True))
    return filled.argmax(dim, bool(keepdim)).to(input.dtype)


def argmin(input: Tensor, dim: int | None = None, *, keepdim: bool | None = False, dtype: Any = None,
           mask: Tensor | None = None) -> Tensor:
    """Where the least element that the mask chooses is along `dim` or in the flattened input, in the dtype of input."""
    input = _in(input, dtype)
    filled = input if mask is None else _filled(input, mask, _extreme("argmin", input.dtype, False))
    return filled.argmin(dim, bool(keepdim)).to(input.dtype)


def median(input: Tensor, dim: int = -1, *, keepdim: bool = False, dtype: Any = None,
           mask: Tensor | None = None) -> Tensor:
    """The median along `dim` of the elements that the mask chooses; NaN for none, ValueError for integers."""
    input = _in(input, dtype)
    if mask is None:
        return input.median(dim, keepdim)[0]
    if input.dtype.is_floating_point:
        return _filled(input, mask, math.nan).nanmedian(dim, keepdim)[0]
    chosen = _mask_of(input, mask)
    assert chosen is not None
    if not bool(chosen.any(dim).all()):
        raise ValueError("masked median expects no fully masked out rows if dtype is not floating point")
    filled = _filled(input.to(dtypes.float64), mask, math.nan)
    return input.gather(dim, filled.nanmedian(dim, True)[1]) if keepdim else \
        input.gather(dim, filled.nanmedian(dim, True)[1]).squeeze(dim)


def norm(input: Tensor, ord: float | None = 2.0, dim: Any = None, *, keepdim: bool | None = False, dtype: Any = None,
         mask: Tensor | None = None) -> Tensor:
    """The vector norm over `dim` of the elements that the mask chooses."""
    order = 2.0 if ord is None else float(ord)
    filled = _filled(_in(input, dtype), mask, math.inf if order == -math.inf else 0)
    return vector_norm(filled, order, _dims(dim, input.ndim) or None, bool(keepdim))


def logsumexp(input: Tensor, dim: Any = None, *, keepdim: bool = False, dtype: Any = None,
              mask: Tensor | None = None) -> Tensor:
    """The logarithm of the sum of exponentials over `dim` of the elements that the mask chooses."""
    input = _in(input, dtype)
    least = -math.inf if input.dtype.is_complex else _extreme("logsumexp", input.dtype, True)
    filled = _filled(input, mask, least)
    return filled.logsumexp(_dims(dim, input.ndim), bool(keepdim)).to(input.dtype)


def _variance(input: Tensor, dim: Any, unbiased: bool | None, correction: Any, keepdim: Any, dtype: Any, mask: Tensor | None,
              root: bool) -> Tensor:
    assert unbiased is None or correction is None, "Only one of unbiased and correction may be given"
    freedom = int(unbiased) if unbiased is not None else 1 if correction is None else correction
    wanted = dtype if dtype is not None else input.dtype
    if not (wanted.is_floating_point or wanted.is_complex):
        wanted = dtypes.float32
    dims = _dims(dim, input.ndim)
    x = _in(input, wanted)
    if mask is None:
        return _in(getattr(x, "std" if root else "var")(dims or None, correction=freedom, keepdim=bool(keepdim)), wanted)
    count = _number_of(x, dims, mask)
    average = _filled(x, mask, 0).sum(dims, True) / count
    delta = _filled(x - average, mask, 0)
    squares = (delta * delta.conj()).sum(dims, bool(keepdim))
    number = count if keepdim else _squeezed(count, dims)
    result = squares / (number - freedom).clamp(min=0).to(squares.dtype)
    result = _in(result, wanted)
    return result.sqrt() if root else result


def var(input: Tensor, dim: Any = None, unbiased: bool | None = None, *, correction: Any = None, keepdim: bool | None = False,
        dtype: Any = None, mask: Tensor | None = None) -> Tensor:
    """The variance over `dim` of the elements that the mask chooses; NaN where they are too few."""
    return _variance(input, dim, unbiased, correction, keepdim, dtype, mask, False)


def std(input: Tensor, dim: Any = None, unbiased: bool | None = None, *, correction: Any = None, keepdim: bool | None = False,
        dtype: Any = None, mask: Tensor | None = None) -> Tensor:
    """The standard deviation over `dim` of the elements that the mask chooses; NaN where they are too few."""
    return _variance(input, dim, unbiased, correction, keepdim, dtype, mask, True)


# ---------------------------------------------------------------- normalisations and scans


def softmax(input: Tensor, dim: int, *, dtype: Any = None, mask: Tensor | None = None) -> Tensor:
    """softmax along `dim` of the elements that the mask chooses, 0 elsewhere; NaN where it chooses none."""
    input = _in(input, dtype)
    return _filled(input, mask, -math.inf).softmax(dim)


def log_softmax(input: Tensor, dim: int, *, dtype: Any = None, mask: Tensor | None = None) -> Tensor:
    """log_softmax along `dim` of the elements that the mask chooses, minus infinity elsewhere; NaN where it chooses none."""
    input = _in(input, dtype)
    return _filled(input, mask, -math.inf).log_softmax(dim)


def softmin(input: Tensor, dim: int, *, dtype: Any = None, mask: Tensor | None = None) -> Tensor:
    """softmax of -input along `dim`, of the elements that the mask chooses."""
    input = _in(input, dtype)
    return (-_filled(input, mask, math.inf)).softmax(dim)


def normalize(input: Tensor, ord: float, dim: int, *, eps: float = 1e-12, dtype: Any = None,
              mask: Tensor | None = None) -> Tensor:
    """The elements that the mask chooses, divided by their norm along `dim` (at least eps), and 0 elsewhere."""
    input = _in(input, dtype)
    length = norm(input, ord, dim, keepdim=True, mask=mask).clamp(min=eps)
    return _filled(input, mask, 0) / length


def logaddexp(input: Tensor, other: Tensor, *, dtype: Any = None, input_mask: Tensor | None = None,
              other_mask: Tensor | None = None) -> Tensor:
    """log(exp(input) + exp(other)); elements outside of their masks add nothing."""
    return NAMESPACE["logaddexp"](_filled(_in(input, dtype), input_mask, -math.inf),
                                  _filled(_in(other, dtype), other_mask, -math.inf))


def cumsum(input: Tensor, dim: int, *, dtype: Any = None, mask: Tensor | None = None) -> Tensor:
    """Running sums along `dim` of the elements that the mask chooses."""
    dtype = input.dtype if dtype is None else dtype
    return _filled(_in(input, dtype), mask, 0).cumsum(dim, dtype=dtype)


def cumprod(input: Tensor, dim: int, *, dtype: Any = None, mask: Tensor | None = None) -> Tensor:
    """Running products along `dim` of the elements that the mask chooses."""
    dtype = input.dtype if dtype is None else dtype
    return _filled(_in(input, dtype), mask, 1).cumprod(dim, dtype=dtype)
