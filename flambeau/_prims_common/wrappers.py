"""torch._prims_common.wrappers: what stands around a reference. Conversions of its arguments to a common dtype, `out=`, numbers.

Used by the references that are made of primitive operators, and by programs that write such ones.
"""

from __future__ import annotations

import collections
import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import flambeau as torch
from flambeau._prims_common.dtypes import can_safe_cast_to, dtype_to_type_ctor, type_to_dtype
from flambeau._prims_common.promotion import ELEMENTWISE_TYPE_PROMOTION_KIND, NUMBERS, elementwise_dtypes
from flambeau.core.operator.out_argument import resize_out

__all__ = ["_maybe_remove_out_wrapper", "elementwise_type_promotion_wrapper", "elementwise_unary_scalar_wrapper", "out_wrapper"]

_UNSAFE = "Attempting to cast from {} to out tensor with dtype {}, but this can't be cast because it is not safe!"


def _maybe_convert_to_dtype(a: Any, dtype: torch.dtype) -> Any:
    """A tensor, number or sequence of them in a dtype; None stays. ValueError for anything else."""
    if isinstance(a, torch.Tensor):
        return a if a.dtype is dtype else torch.ops.prims.convert_element_type(a, dtype)
    if isinstance(a, NUMBERS):
        return dtype_to_type_ctor(dtype)(a)
    if isinstance(a, Sequence) and not isinstance(a, str):
        return tuple(_maybe_convert_to_dtype(x, dtype) for x in a)
    if a is None:
        return None
    raise ValueError(f"Received unsupported type {type(a)}. Expected TensorLike, Number, or Sequence.")


class elementwise_type_promotion_wrapper:
    """Decorator: a function whose arguments of these names are converted to the dtype of computation that
    `elementwise_dtypes` finds for them, and whose results to that of the result.
    """

    def __init__(
        self, *, type_promotion_kind: ELEMENTWISE_TYPE_PROMOTION_KIND, type_promoting_args: Sequence[str] | None = None
    ) -> None:
        self.kind, self.names = type_promotion_kind, type_promoting_args

    def __call__(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        signature = inspect.signature(fn)

        @functools.wraps(fn)
        def converted(*args: Any, **kwargs: Any) -> Any:
            bound = signature.bind(*args, **kwargs)
            names = [n for n in self.names or () if n in bound.arguments]
            values = [bound.arguments[n] for n in names]
            flat = [x for v in values for x in (v if isinstance(v, (list, tuple)) else (v,))]
            computation, result = elementwise_dtypes(*flat, type_promotion_kind=self.kind)
            bound.arguments.update({n: _maybe_convert_to_dtype(v, computation) for n, v in zip(names, values)})
            made = fn(*bound.args, **bound.kwargs)
            if isinstance(made, (list, tuple)):
                return type(made)(_maybe_convert_to_dtype(x, result) for x in made)
            return _maybe_convert_to_dtype(made, result)

        converted.__signature__ = signature  # type: ignore[attr-defined]
        return converted


def elementwise_unary_scalar_wrapper(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator: a function of a tensor that takes a number too, and gives one for it."""

    @functools.wraps(fn)
    def taking_numbers(*args: Any, **kwargs: Any) -> Any:
        if args and isinstance(args[0], NUMBERS):
            made = fn(torch.tensor(args[0], dtype=type_to_dtype(type(args[0]))), *args[1:], **kwargs)
            return made.item()
        return fn(*args, **kwargs)

    taking_numbers.__signature__ = inspect.signature(fn)  # type: ignore[attr-defined]
    return taking_numbers


def _deliver(made: torch.Tensor, out: torch.Tensor, exact_dtype: bool, preserve_memory_format: bool) -> None:
    """Write a result to the tensor that was given for it. RuntimeError where dtype or device don't fit."""
    if made.device != out.device:
        raise RuntimeError(
            f"Attempting to copy from device {made.device} to device {out.device}, but cross-device copies are not allowed!"
        )
    if exact_dtype and made.dtype is not out.dtype:
        raise RuntimeError(f"Expected out tensor to have dtype {made.dtype} but got {out.dtype} instead")
    if not can_safe_cast_to(cast_from=made.dtype, cast_to=out.dtype):
        raise RuntimeError(_UNSAFE.format(made.dtype, out.dtype))
    resize_out(out, tuple(made.shape), made.stride() if preserve_memory_format else None)
    torch.ops.prims.copy_to(out, made)


def out_wrapper(
    *out_names: str, exact_dtype: bool = False, pass_is_out: bool = False, preserve_memory_format: bool = False
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorator: `out=` for a function: its result, or the results of these names, are written to what is given.

    exact_dtype: to tensors of the same dtype only, else of one that numbers may be converted to; pass_is_out: the function is
    told by `is_out`; preserve_memory_format: what is resized gets the result's strides.
    """
    names = out_names or ("out",)
    several = len(names) > 1

    def wrap(fn: Callable[..., Any]) -> Callable[..., Any]:
        signature = inspect.signature(fn)
        kind = collections.namedtuple(f"return_types_{fn.__name__}", names) if several else None  # type: ignore[misc]

        @functools.wraps(fn)
        def delivering(*args: Any, out: Any = None, **kwargs: Any) -> Any:
            if several and out is None and any(name in kwargs for name in names):
                out = tuple(kwargs.pop(name) for name in names)
            elif not several and names[0] in kwargs:
                out = kwargs.pop(names[0])
            told = {"is_out": out is not None} if pass_is_out else {}
            made = fn(*args, **kwargs, **told)
            if out is None:
                return kind(*made) if kind is not None else made
            for value, target in zip(made, out, strict=True) if several else ((made, out),):
                _deliver(value, target, exact_dtype, preserve_memory_format)
            return kind(*out) if kind is not None else out

        type_of_out: Any = tuple[(torch.Tensor,) * len(names)] if several else torch.Tensor  # type: ignore[misc]
        own = [p for p in signature.parameters.values() if p.name != "is_out"]
        at = next((i for i, p in enumerate(own) if p.kind is p.VAR_KEYWORD), len(own))
        own.insert(
            at,
            inspect.Parameter(
                names[0] if not several else "out", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=type_of_out
            ),
        )
        returned = kind if several else signature.return_annotation
        delivering.__signature__ = signature.replace(parameters=own, return_annotation=returned)  # type: ignore[attr-defined]
        delivering.__annotations__ = {**getattr(fn, "__annotations__", {}), "out": type_of_out, "return": returned}
        delivering._torch_decompositions_out_wrapper = True  # type: ignore[attr-defined]
        return delivering

    return wrap


def _maybe_remove_out_wrapper(fn: Any) -> Callable[..., Any]:
    """A function without what `out_wrapper` put around it; any other itself."""
    return fn.__wrapped__ if getattr(fn, "_torch_decompositions_out_wrapper", False) else fn
