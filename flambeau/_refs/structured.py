"""References made of a few primitive operators, of operators that aren't pointwise: choices, factories, reductions.

Stands on torch._prims; used by torch._refs.
"""

from __future__ import annotations

import builtins
import functools
from collections.abc import Callable, Sequence
from typing import Any

import flambeau as torch
import flambeau._prims_common as utils
from flambeau._prims_common import ELEMENTWISE_TYPE_PROMOTION_KIND as Kind
from flambeau._refs.pointwise import broadcast

__all__ = ["REFERENCES", "reference"]

prims = torch.ops.prims
REFERENCES: dict[str, Callable[..., Any]] = {}


def reference(function: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator: the reference of torch.<name>, whose `out=` it gets."""

    @functools.wraps(function)
    def refer(*args: Any, out: Any = None, **kwargs: Any) -> Any:
        made = function(*args, **kwargs)
        if out is None:
            return made
        utils.wrappers._deliver(made, out, False, False)
        return out

    refer.__module__ = "torch._refs"
    refer.is_reference = True  # type: ignore[attr-defined]
    REFERENCES[function.__name__] = refer
    return refer


def _cast(x: Any, dtype: torch.dtype | None) -> Any:
    return x if dtype is None else utils.wrappers._maybe_convert_to_dtype(x, dtype)


# ---------------------------------------------------------------- choices


@reference
def where(condition: Any, self: Any = None, other: Any = None) -> Any:
    """torch.where with three arguments by prims.where."""
    if self is None and other is None:
        return torch.where(condition)
    if condition.dtype is not torch.bool:
        if condition.dtype is not torch.uint8:
            raise RuntimeError(
                f"where expected condition to be a boolean tensor, but got a tensor with dtype {condition.dtype.scalar_name}"
            )
        condition = prims.ne(condition, 0)
    _, result = utils.elementwise_dtypes(self, other, type_promotion_kind=Kind.NO_OPMATH)
    chosen, a, b = broadcast(condition, _cast(self, result), _cast(other, result))
    if not isinstance(a, torch.Tensor) and not isinstance(b, torch.Tensor):
        a = prims.scalar_tensor(a, dtype=result, device=condition.device)
    return prims.where(chosen, a, b)


@reference
def masked_fill(input: torch.Tensor, mask: torch.Tensor, value: Any) -> Any:
    """torch.masked_fill by prims.where."""
    if not isinstance(value, torch.Tensor):
        if not utils.is_weakly_lesser_type(type(value), utils.dtype_to_type(input.dtype)):
            raise RuntimeError(f"value cannot be converted to type {utils.dtype_to_type(input.dtype)} without overflow")
    elif value.dim():
        raise RuntimeError(f"only supports a 0-dimensional value tensor, but got tensor with {value.dim()} dimension")
    if isinstance(value, torch.Tensor):
        value = _cast(value, input.dtype)
    made = prims.where(*_like_input(mask, value, input))
    return prims.clone(made) if made is input else made


def _like_input(mask: torch.Tensor, value: Any, input: torch.Tensor) -> tuple[Any, Any, Any]:
    chosen, x, filled = broadcast(mask, input, value)
    return chosen, filled, x


@reference
def clamp(input: torch.Tensor, min: Any = None, max: Any = None) -> Any:
    """torch.clamp by prims.maximum and prims.minimum."""
    if min is None and max is None:
        raise ValueError("clamp called but both min and max are none!")
    computation, result = utils.elementwise_dtypes(input, min, max, type_promotion_kind=Kind.DEFAULT)
    if result.is_complex:
        raise NotImplementedError("clamp is not supported for complex types")
    x, low, high = broadcast(*(_cast(v, computation) for v in (input, min, max)))
    made = x if low is None else prims.maximum(x, low)
    return _cast(made if high is None else prims.minimum(made, high), result)


@reference
def conj_physical(input: torch.Tensor) -> Any:
    """torch.conj_physical by prims.conj_physical; of real numbers themselves."""
    return prims.conj_physical(input) if input.is_complex() else input


# ---------------------------------------------------------------- factories


def _placed(device: Any) -> torch.device:
    return utils.canonicalize_device(utils.device_or_default(device))


@reference
def arange(
    start: Any = 0,
    end: Any = None,
    step: Any = 1,
    *,
    dtype: Any = None,
    layout: Any = torch.strided,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Any:
    """torch.arange by prims.iota, of floating point numbers by multiples of the step."""
    utils.check_layout(layout)
    utils.check_pin_memory(pin_memory)
    if end is None:
        start, end = 0, start
    for x, name in ((start, "start"), (end, "end"), (step, "step")):
        if isinstance(x, complex):
            raise AssertionError(f"{name} must not be complex, got {type(x)}")
    if step == 0:
        raise RuntimeError("step must be nonzero")
    if (end < start) if step > 0 else (end > start):
        raise RuntimeError("upper bound and lower bound inconsistent with step sign")
    for x in (start, end):
        if (isinstance(x, float) and x in (float("inf"), -float("inf"))) or x != x:
            raise RuntimeError(f"unsupported range: {start} -> {end}")
    whole = builtins.all(isinstance(x, int) for x in (start, end, step))
    if dtype is None:
        dtype = torch.int64 if whole else torch.get_default_dtype()
    if utils.is_integer_dtype(dtype) and not whole:
        start, end, step = int(start), int(end), int(step)
        whole = True
    length = -((start - end) // step) if whole else -int(-((end - start) / step) // 1)
    if utils.is_integer_dtype(dtype):
        return prims.iota(length, start=start, step=step, dtype=dtype, device=_placed(device), requires_grad=requires_grad)
    index = prims.iota(length, start=0, step=1, dtype=torch.int64, device=_placed(device), requires_grad=False)
    computed = utils.get_acc_type(dtype, _placed(device)) if not whole else torch.int64
    made = prims.add(prims.mul(_cast(index, computed), step), start)
    made = _cast(made, dtype)
    return made.requires_grad_() if requires_grad else made


def _filled(name: str, number: Any) -> None:
    def fill(
        *size: Any,
        dtype: Any = None,
        layout: Any = torch.strided,
        device: Any = None,
        pin_memory: bool = False,
        requires_grad: bool = False,
    ) -> Any:
        return full(
            utils.extract_shape_from_varargs(size),
            number,
            dtype=dtype or torch.get_default_dtype(),
            layout=layout,
            device=device,
            pin_memory=pin_memory,
            requires_grad=requires_grad,
        )

    fill.__name__, fill.__doc__ = name, f"torch.{name} by prims.full."
    reference(fill)


@reference
def full(
    size: Sequence[int],
    fill_value: Any,
    *,
    dtype: Any = None,
    layout: Any = torch.strided,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Any:
    """torch.full by prims.full."""
    utils.check_layout(layout)
    utils.check_pin_memory(pin_memory)
    dtype = utils.type_to_dtype(utils.number_type(fill_value)) if dtype is None else dtype
    return prims.full(list(size), fill_value, dtype=dtype, device=_placed(device), requires_grad=requires_grad)


_filled("zeros", 0)
_filled("ones", 1)


# ---------------------------------------------------------------- reductions


def _kept(made: torch.Tensor, a: torch.Tensor, dims: Sequence[int], keepdim: bool) -> Any:
    if not keepdim:
        return made
    shape = [1 if dim in dims else size for dim, size in enumerate(a.shape)]
    return prims.broadcast_in_dim(made, shape, [dim for dim in range(a.dim()) if dim not in dims])


def _over(dim: Any) -> Any:
    return (dim,) if isinstance(dim, int) else tuple(dim) if dim else None


def _reduced(
    prim: Callable[..., Any],
    a: torch.Tensor,
    dim: Any,
    keepdim: bool,
    computation: torch.dtype,
    result: torch.dtype | None,
    **given: Any,
) -> Any:
    dims = utils.reduction_dims(a.shape, _over(dim))
    x = _cast(a, computation)
    if not a.dim():
        made = prim(x, [], **given)
    else:
        made = _kept(prim(x, list(dims), **given), a, dims, keepdim)
    return _cast(made, result)


@reference
def sum(input: torch.Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """torch.sum by prims.sum."""
    if dtype is None:
        dtype = torch.int64 if utils.is_integer_dtype(input.dtype) or input.dtype is torch.bool else input.dtype
    return _reduced(prims.sum, input, dim, keepdim, utils.get_computation_dtype(dtype), dtype)


@reference
def prod(input: torch.Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """torch.prod by prims.prod."""
    if dtype is None:
        dtype = torch.int64 if utils.is_integer_dtype(input.dtype) or input.dtype is torch.bool else input.dtype
    return _reduced(prims.prod, input, dim, keepdim, utils.get_computation_dtype(dtype), dtype)


def _extremum(name: str) -> None:
    def extremum(input: torch.Tensor, dim: Any = (), keepdim: bool = False) -> Any:
        if input.is_complex():
            raise RuntimeError(f"{name}: not supported for complex numbers")
        if 0 in input.shape and not dim and dim != 0:
            raise RuntimeError(
                f"{name}(): Expected reduction dim to be specified for input.numel() == 0. Specify the reduction "
                "dim with the 'dim' argument."
            )
        dims = utils.reduction_dims(input.shape, _over(dim))
        for place in dims if input.dim() else ():
            if input.shape[place] == 0:
                raise IndexError(f"{name}(): Expected reduction dim {place} to have non-zero size.")
        return _reduced(getattr(prims, name), input, dim, keepdim, input.dtype, None)

    extremum.__name__, extremum.__doc__ = name, f"torch.{name} by prims.{name}."
    reference(extremum)


_extremum("amax")
_extremum("amin")


@reference
def any(input: torch.Tensor, dim: Any = None, keepdim: bool = False) -> Any:
    """torch.any by the sum of truth values."""
    truth = prims.ne(input, 0) if input.dtype is not torch.bool else input
    made = prims.ne(sum(truth, dim, keepdim), 0)
    return _cast(made, torch.uint8) if input.dtype is torch.uint8 else made


@reference
def all(input: torch.Tensor, dim: Any = None, keepdim: bool = False) -> Any:
    """torch.all: no element is false."""
    made = prims.bitwise_not(any(prims.eq(input, 0) if input.dtype is not torch.bool else prims.bitwise_not(input), dim, keepdim))
    return _cast(made, torch.uint8) if input.dtype is torch.uint8 else made


def _floating(input: torch.Tensor, dtype: Any, name: str) -> torch.dtype:
    own: torch.dtype = input.dtype if dtype is None else dtype
    if not (own.is_floating_point or own.is_complex):
        if name == "mean":
            raise RuntimeError(
                "mean(): could not infer output dtype. Input dtype must be either a floating point or complex "
                f"dtype. Got: {input.dtype.scalar_name}"
            )
        raise RuntimeError(f"{name} only support floating point and complex dtypes")
    return own


@reference
def mean(input: torch.Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """torch.mean: the sum divided by the number of elements."""
    own = _floating(input, dtype, "mean")
    dims = utils.reduction_dims(input.shape, _over(dim))
    count = utils.prod([input.shape[d] for d in dims]) if input.dim() else 1
    total = _reduced(prims.sum, input, dim, keepdim, utils.get_computation_dtype(own), None)
    return _cast(prims.div(total, count), own)


@reference
def var(input: torch.Tensor, dim: Any = None, unbiased: Any = None, keepdim: bool = False, *, correction: Any = None) -> Any:
    """torch.var by prims.var."""
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    own = _floating(input, None, "std and var")
    result = own.to_real() if own.is_complex else own
    return _reduced(
        prims.var,
        input,
        dim,
        keepdim,
        utils.get_computation_dtype(own),
        result,
        correction=utils.set_correction(unbiased, correction),
    )


@reference
def std(input: torch.Tensor, dim: Any = None, unbiased: Any = None, keepdim: bool = False, *, correction: Any = None) -> Any:
    """torch.std: the root of the variance."""
    own = _floating(input, None, "std and var")
    computation = utils.get_computation_dtype(own)
    made = prims.sqrt(var(_cast(input, computation), dim, unbiased, keepdim, correction=correction))
    return _cast(made, own.to_real() if own.is_complex else own)


# ---------------------------------------------------------------- rearrangements


@reference
def cat(tensors: Sequence[torch.Tensor], dim: int = 0) -> Any:
    """torch.cat by prims.cat."""
    if builtins.any(not isinstance(x, torch.Tensor) for x in tensors) or not tensors:
        return torch.cat(tensors, dim)
    whole = [x for x in tensors if x.dim() != 1 or x.shape[0] != 0]
    if len(whole) < len(tensors) or builtins.any(x.dim() == 0 for x in tensors):
        return torch.cat(tensors, dim)
    _, result = utils.elementwise_dtypes(*tensors, type_promotion_kind=Kind.NO_OPMATH)
    return prims.cat([_cast(x, result) for x in whole], utils.canonicalize_dim(whole[0].dim(), dim))


@reference
def flip(input: torch.Tensor, *dims: Any) -> Any:
    """torch.flip by prims.rev."""
    given = utils.canonicalize_dims(input.dim(), tuple(utils.extract_dims_from_varargs(dims)))
    return prims.rev(input, list(given)) if input.dim() else prims.clone(input)


def _shape(function: Callable[..., Any]) -> Callable[..., Any]:
    """A method that takes sizes one by one, as a function does."""

    @functools.wraps(function)
    def shaped(a: torch.Tensor, *shape: Any, **named: Any) -> Any:
        return function(a, *((utils.extract_shape_from_varargs(shape, validate=False),) if shape else ()), **named)

    return shaped


for _name in ("reshape", "view", "expand", "permute", "repeat"):
    _own = getattr(torch.Tensor, _name)
    if _name != "view":
        REFERENCES[_name] = _shape(_own)
REFERENCES["view"] = lambda a, *shape: a.view(*shape)
