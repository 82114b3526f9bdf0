"""torch.masked._ops: reductions and normalisations of the elements that a mask chooses.

Elements outside the mask are replaced by what leaves the result unchanged, then the ordinary operator runs; masks are
tensors that broadcast to the input. A MaskedTensor brings its own. Sums, products and extremes of sparse COO tensors are
sparse themselves (`_sparse`). Stands on core and the operators; used by the face `masked` and by MaskedTensor.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

from flambeau.base import dtype as dtypes
from flambeau.base.layout import sparse_coo, sparse_csr, strided
from flambeau.core.operator.publishing import NAMESPACE
from flambeau.core.tensor.tensor import Tensor
from flambeau.masked._sparse import reduced, where_sparse
from flambeau.masked.maskedtensor.core import MaskedTensor
from flambeau.ops.reduction.vector_norm import vector_norm

__all__ = [
    "amax",
    "amin",
    "argmax",
    "argmin",
    "cumprod",
    "cumsum",
    "log_softmax",
    "logaddexp",
    "logsumexp",
    "mean",
    "median",
    "norm",
    "normalize",
    "prod",
    "softmax",
    "softmin",
    "std",
    "sum",
    "var",
]

REDUCTIONS = frozenset("sum prod mean amax amin argmax argmin median norm logsumexp var std".split())
NORMALIZATIONS = frozenset("softmax log_softmax softmin normalize cumsum cumprod".split())
_ZERO = frozenset("sum cumsum".split())
_ONE = frozenset("prod cumprod".split())


def masked_operation(function: Callable) -> Callable:
    """A function that also takes a MaskedTensor, whose mask then is the mask unless another is given."""

    @functools.wraps(function)
    def operation(input: Any, *args: Any, **kwargs: Any) -> Tensor:
        if isinstance(input, MaskedTensor):
            if kwargs.get("mask") is None:
                kwargs["mask"] = input.get_mask()
            input = input.get_data()
        return function(input, *args, **kwargs)

    return operation


# ---------------------------------------------------------------- what PyTorch's module offers beside the functions


def _canonical_dim(dim: Any, ndim: int) -> tuple[int, ...]:
    """Dimensions as a tuple in order, not negative; None stands for all. RuntimeError where one comes twice."""
    return tuple(sorted(_dims(dim, ndim))) if ndim else ((0,) if isinstance(dim, int) else ())


def _reduction_identity(op_name: str, input: Tensor, *args: Any) -> Tensor | None:
    """What an element outside the mask is replaced by, zero-dimensional; None for an operation that counts instead.

    Raises NotImplementedError where there is no such number.
    """
    dtype = input.dtype
    if op_name in _ZERO:
        value: Any = 0
    elif op_name in _ONE:
        value = 1
    elif op_name in ("mean", "var", "std"):
        return None
    elif op_name == "norm":
        if args and args[0] == -math.inf:
            assert dtype.is_floating_point, f"input must be floating point, got {dtype}"
            value = math.inf
        else:
            value = 0
    elif op_name == "median":
        value, dtype = math.nan, dtype if dtype.is_floating_point else dtypes.get_default_dtype()
    elif op_name in ("amax", "argmax", "amin", "argmin"):
        value = _extreme(op_name, dtype, op_name.endswith("max"))
    elif op_name == "logsumexp":
        value = -math.inf if dtype.is_complex else _extreme(op_name, dtype, True)
    else:
        raise NotImplementedError(f"identity of {op_name} on {dtype} input")
    return NAMESPACE["tensor"](value, dtype=dtype, device=input.device)


def _where(mask: Tensor, input: Tensor, fill_value: Tensor) -> Tensor:
    """The input where the mask chooses, else the fill value; of sparse tensors, what the mask chooses alone."""
    if mask.layout in (sparse_coo, sparse_csr):
        return where_sparse(mask, input, fill_value)
    return NAMESPACE["where"](mask, input, fill_value)


def _input_mask(input: Any, *args: Any, **kwargs: Any) -> Tensor:
    """The mask that keyword `mask` gives for this input: booleans of its shape and layout.

    Raises ValueError for a layout without masks or without a mask, IndexError if it has too many dimensions.
    """
    if input.layout not in (strided, sparse_coo, sparse_csr):
        raise ValueError(f"_input_mask expects strided or sparse COO or sparse CSR tensor but got {input.layout}")
    mask = kwargs.get("mask")
    if mask is None:
        raise ValueError("_input_mask requires explicit mask")
    if mask.shape != input.shape:
        if mask.ndim > input.ndim:
            raise IndexError("_input_mask expected broadcastable mask (got mask dimensionality higher than of the input)")
        if mask.layout in (sparse_coo, sparse_csr):
            dense = mask.to_dense().expand(input.shape)
            mask = dense.to_sparse() if mask.layout is sparse_coo else dense.to_sparse_csr()
        else:
            mask = mask.expand(input.shape)
    if mask.layout is not input.layout:
        if input.layout is strided:
            mask = mask.to_dense()
        elif input.layout is sparse_coo:
            mask = mask.to_sparse(input.sparse_dim())
        else:
            mask = mask.to_sparse_csr()
    if mask.layout is sparse_coo:
        mask = mask.coalesce()
    return mask if mask.dtype is dtypes.bool_ else mask.to(dtypes.bool_)


def _output_mask(op: Callable, input: Any, *args: Any, **kwargs: Any) -> Tensor:
    """The mask of the result of a masked operation with these arguments. ValueError for any other operation."""
    name = getattr(op, "__name__", "")
    if not callable(op) or (name not in REDUCTIONS and name not in NORMALIZATIONS):
        raise ValueError(
            f"_output_mask expected masked operation (got {op!r})"
            if not callable(op)
            else f"_output_mask expected masked operation (got callable {getattr(op, '__module__', '')}.{name})"
        )
    mask = _input_mask(input, *args, **kwargs)
    if name in NORMALIZATIONS:
        return mask
    positional = args[1:] if name == "norm" else args
    dim = positional[0] if positional else kwargs.get("dim")
    keepdim = bool(kwargs.get("keepdim", False))
    dims = _dims(dim, input.ndim)
    if mask.layout is not strided:
        found = reduced("any", mask, dims, keepdim, False)
        return found.to_sparse_csr() if mask.layout is sparse_csr else found
    for d in sorted(dims, reverse=True):
        mask = mask.any(d, keepdim)
    return mask


def _combine_input_and_mask(op: Callable, input: Any, mask: Tensor | None, *args: Any) -> Tensor:
    """The input with what leaves the result of `op` unchanged outside of the mask."""
    if isinstance(input, MaskedTensor):
        mask = input.get_mask() if mask is None else mask
        input = input.get_data()
    if mask is None:
        return input
    chosen = _input_mask(input, mask=mask)
    identity: Any = _reduction_identity(op.__name__, input, *args)
    return _where(chosen, input, identity)


# ---------------------------------------------------------------- masks


def _mask_of(input: Tensor, mask: Tensor | None) -> Tensor | None:
    """The mask as booleans of the shape and layout of input."""
    return None if mask is None else _input_mask(input, mask=mask)


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


def _sparse_reduction(name: str, input: Tensor, dim: Any, keepdim: Any, mask: Tensor | None) -> Tensor:
    """A reduction of a sparse tensor, of the elements that are there and that a mask of its layout chooses."""
    if input.layout is sparse_csr and not keepdim:
        raise RuntimeError("reduction operations on CSR tensors with keepdim=False is unsupported")
    if mask is None and name != "sum":  # the elements that aren't there are zeros, unless a mask leaves them out
        raise ValueError(f"masked {name} expects explicit mask for {str(input.layout).partition('.')[2]} tensor input")
    identity = _reduction_identity(name, input)
    if identity is None:  # the mean of nothing
        identity = NAMESPACE["tensor"](math.nan, dtype=input.dtype)
    if mask is not None:
        input = where_sparse(_input_mask(input, mask=mask), input, identity)
    made = reduced(name, input, _dims(dim, input.ndim), bool(keepdim), identity)
    return made.to_sparse_csr() if input.layout is sparse_csr else made


@masked_operation
def sum(input: Tensor, dim: Any = None, *, keepdim: bool | None = False, dtype: Any = None, mask: Tensor | None = None) -> Tensor:
    """The sum over `dim` of the elements that the mask chooses; 0 where it chooses none."""
    if input.layout in (sparse_coo, sparse_csr):
        return _sparse_reduction("sum", _in(input, _summed_dtype(input, dtype)), dim, keepdim, mask)
    dtype = _summed_dtype(input, dtype)
    return _filled(_in(input, dtype), mask, 0).sum(_dims(dim, input.ndim), bool(keepdim), dtype=dtype)


@masked_operation
def prod(
    input: Tensor, dim: Any = None, *, keepdim: bool | None = False, dtype: Any = None, mask: Tensor | None = None
) -> Tensor:
    """The product over `dim` of the elements that the mask chooses; 1 where it chooses none."""
    if input.layout in (sparse_coo, sparse_csr):
        return _sparse_reduction("prod", _in(input, _summed_dtype(input, dtype)), dim, keepdim, mask)
    dtype = _summed_dtype(input, dtype)
    result = _filled(_in(input, dtype), mask, 1)
    listed = isinstance(dim, (tuple, list)) and not dim  # no dimension at all, which other reductions take for all of them
    for d in () if listed else sorted(_dims(dim, input.ndim), reverse=True):
        result = result.prod(d, bool(keepdim))
    return _in(result, dtype)


def _number_of(input: Tensor, dims: tuple[int, ...], mask: Tensor) -> Tensor:
    """How many elements the mask chooses along dims, which are kept with size 1."""
    chosen = _mask_of(input, mask)
    assert chosen is not None
    return chosen.to(dtypes.int64).sum(dims, True)


@masked_operation
def mean(
    input: Tensor, dim: Any = None, *, keepdim: bool | None = False, dtype: Any = None, mask: Tensor | None = None
) -> Tensor:
    """The mean over `dim` of the elements that the mask chooses, NaN where it chooses none.

    Raises ValueError for integers.
    """
    if input.layout is sparse_coo:
        raise ValueError(f"masked mean expects strided or sparse_csr tensor (got {input.layout} tensor)")
    wanted = input.dtype if dtype is None else dtype
    if not (wanted.is_floating_point or wanted.is_complex):
        which = "Input" if dtype is None else "Optional"
        raise ValueError(
            f"mean(): Could not infer output dtype. {which} dtype must be either a floating point or complex dtype. Got: {wanted}"
        )
    if input.layout is sparse_csr:
        return _sparse_reduction("mean", _in(input, wanted), dim, keepdim, mask)
    dims = _dims(dim, input.ndim)
    if mask is None:
        return _in(input, wanted).mean(dims or None, bool(keepdim))
    total = sum(input, dim, keepdim=True, dtype=wanted, mask=mask)
    result = total / _number_of(input, dims, mask)
    return result if keepdim else _squeezed(result, dims)


def _squeezed(x: Tensor, dims: tuple[int, ...]) -> Tensor:
    return x.squeeze(dims) if dims else x


@masked_operation
def amax(
    input: Tensor, dim: Any = None, *, keepdim: bool | None = False, dtype: Any = None, mask: Tensor | None = None
) -> Tensor:
    """The greatest over `dim` of the elements that the mask chooses; the least number where it chooses none."""
    if input.layout in (sparse_coo, sparse_csr):
        return _sparse_reduction("amax", _in(input, dtype), dim, keepdim, mask)
    input = _in(input, dtype)
    return _filled(input, mask, _extreme("amax", input.dtype, True)).amax(_dims(dim, input.ndim), bool(keepdim))


@masked_operation
def amin(
    input: Tensor, dim: Any = None, *, keepdim: bool | None = False, dtype: Any = None, mask: Tensor | None = None
) -> Tensor:
    """The least over `dim` of the elements that the mask chooses; the greatest number where it chooses none."""
    if input.layout in (sparse_coo, sparse_csr):
        return _sparse_reduction("amin", _in(input, dtype), dim, keepdim, mask)
    input = _in(input, dtype)
    return _filled(input, mask, _extreme("amin", input.dtype, False)).amin(_dims(dim, input.ndim), bool(keepdim))


@masked_operation
def argmax(
    input: Tensor, dim: int | None = None, *, keepdim: bool | None = False, dtype: Any = None, mask: Tensor | None = None
) -> Tensor:
    """Where the greatest element that the mask chooses is along `dim` or in the flattened input, in the dtype of input."""
    input = _in(input, dtype)
    filled = input if mask is None else _filled(input, mask, _extreme("argmax", input.dtype, True))
    return filled.argmax(dim, bool(keepdim)).to(input.dtype)


@masked_operation
def argmin(
    input: Tensor, dim: int | None = None, *, keepdim: bool | None = False, dtype: Any = None, mask: Tensor | None = None
) -> Tensor:
    """Where the least element that the mask chooses is along `dim` or in the flattened input, in the dtype of input."""
    input = _in(input, dtype)
    filled = input if mask is None else _filled(input, mask, _extreme("argmin", input.dtype, False))
    return filled.argmin(dim, bool(keepdim)).to(input.dtype)


@masked_operation
def median(input: Tensor, dim: int = -1, *, keepdim: bool = False, dtype: Any = None, mask: Tensor | None = None) -> Tensor:
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
    return (
        input.gather(dim, filled.nanmedian(dim, True)[1])
        if keepdim
        else input.gather(dim, filled.nanmedian(dim, True)[1]).squeeze(dim)
    )


@masked_operation
def norm(
    input: Tensor,
    ord: float | None = 2.0,
    dim: Any = None,
    *,
    keepdim: bool | None = False,
    dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The vector norm over `dim` of the elements that the mask chooses."""
    order = 2.0 if ord is None else float(ord)
    filled = _filled(_in(input, dtype), mask, math.inf if order == -math.inf else 0)
    return vector_norm(filled, order, _dims(dim, input.ndim) or None, bool(keepdim))


@masked_operation
def logsumexp(input: Tensor, dim: Any = None, *, keepdim: bool = False, dtype: Any = None, mask: Tensor | None = None) -> Tensor:
    """The logarithm of the sum of exponentials over `dim` of the elements that the mask chooses."""
    input = _in(input, dtype)
    least = -math.inf if input.dtype.is_complex else _extreme("logsumexp", input.dtype, True)
    filled = _filled(input, mask, least)
    return filled.logsumexp(_dims(dim, input.ndim), bool(keepdim)).to(input.dtype)


def _variance(
    input: Tensor, dim: Any, unbiased: bool | None, correction: Any, keepdim: Any, dtype: Any, mask: Tensor | None, root: bool
) -> Tensor:
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


@masked_operation
def var(
    input: Tensor,
    dim: Any = None,
    unbiased: bool | None = None,
    *,
    correction: Any = None,
    keepdim: bool | None = False,
    dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The variance over `dim` of the elements that the mask chooses; NaN where they are too few."""
    return _variance(input, dim, unbiased, correction, keepdim, dtype, mask, False)


@masked_operation
def std(
    input: Tensor,
    dim: Any = None,
    unbiased: bool | None = None,
    *,
    correction: Any = None,
    keepdim: bool | None = False,
    dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The standard deviation over `dim` of the elements that the mask chooses; NaN where they are too few."""
    return _variance(input, dim, unbiased, correction, keepdim, dtype, mask, True)


# ---------------------------------------------------------------- normalisations and scans


@masked_operation
def softmax(input: Tensor, dim: int, *, dtype: Any = None, mask: Tensor | None = None) -> Tensor:
    """softmax along `dim` of the elements that the mask chooses, 0 elsewhere; NaN where it chooses none."""
    input = _in(input, dtype)
    return _filled(input, mask, -math.inf).softmax(dim)


@masked_operation
def log_softmax(input: Tensor, dim: int, *, dtype: Any = None, mask: Tensor | None = None) -> Tensor:
    """log_softmax along `dim` of the elements that the mask chooses, minus infinity elsewhere; NaN where it chooses none."""
    input = _in(input, dtype)
    return _filled(input, mask, -math.inf).log_softmax(dim)


@masked_operation
def softmin(input: Tensor, dim: int, *, dtype: Any = None, mask: Tensor | None = None) -> Tensor:
    """softmax of -input along `dim`, of the elements that the mask chooses."""
    input = _in(input, dtype)
    return (-_filled(input, mask, math.inf)).softmax(dim)


@masked_operation
def normalize(
    input: Tensor, ord: float, dim: int, *, eps: float = 1e-12, dtype: Any = None, mask: Tensor | None = None
) -> Tensor:
    """The elements that the mask chooses, divided by their norm along `dim` (at least eps), and 0 elsewhere."""
    input = _in(input, dtype)
    length = norm(input, ord, dim, keepdim=True, mask=mask).clamp(min=eps)
    return _filled(input, mask, 0) / length


def logaddexp(
    input: Tensor, other: Tensor, *, dtype: Any = None, input_mask: Tensor | None = None, other_mask: Tensor | None = None
) -> Tensor:
    """log(exp(input) + exp(other)); elements outside of their masks add nothing."""
    return NAMESPACE["logaddexp"](
        _filled(_in(input, dtype), input_mask, -math.inf), _filled(_in(other, dtype), other_mask, -math.inf)
    )


@masked_operation
def cumsum(input: Tensor, dim: int, *, dtype: Any = None, mask: Tensor | None = None) -> Tensor:
    """Running sums along `dim` of the elements that the mask chooses."""
    dtype = input.dtype if dtype is None else dtype
    return _filled(_in(input, dtype), mask, 0).cumsum(dim, dtype=dtype)


@masked_operation
def cumprod(input: Tensor, dim: int, *, dtype: Any = None, mask: Tensor | None = None) -> Tensor:
    """Running products along `dim` of the elements that the mask chooses."""
    dtype = input.dtype if dtype is None else dtype
    return _filled(_in(input, dtype), mask, 1).cumprod(dim, dtype=dtype)
