"""The vmap that came before torch.vmap, of functions that return a tensor or a tuple of tensors.

Dimensions to map over are not negative here, and no random operators are allowed. Stands on func.vmap; programs know it
as torch._vmap_internals.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

from flambeau.core.tensor.tensor import Tensor
from flambeau.func.vmap import (
    _create_batched_inputs,
    _get_name,
    _maybe_remove_batch_dim,
    _process_batched_inputs,
    in_dims_t,
    out_dims_t,
)
from flambeau.transform.batched import Batch

__all__ = ["vmap"]

#: What the factors of products must be for one example, in words and by their dimensions.
_FACTORS = {
    "mm": ("expected matrix {} and matrix {}", [2, 2]),
    "mv": ("expected matrix {} and vector {}", [2, 1]),
    "dot": ("vector {} and vector {}", [1, 1]),
    "bmm": ("expected 3D `self` {} and 3D `other` {}", [3, 3]),
}


class _OlderBatch(Batch):
    """A vmap in progress, which doesn't tell that an operator runs once per example unless asked to."""

    warns = False

    def answer(self, function: Callable[..., Any], args: Any, kwargs: dict[str, Any]) -> Any:
        expected = _FACTORS.get(getattr(function, "__name__", ""))
        given = [*args, *kwargs.values()][:2]
        if expected is not None and len(given) == 2 and [x.dim() for x in given] != expected[1]:
            sizes = [f"(got `{name}` of size {list(x.shape)})" for name, x in zip(("self", "other"), given)]
            raise RuntimeError(f"{function.__name__}(self, other): Shape mismatch: {expected[0].format(*sizes)}")
        return super().answer(function, args, kwargs)


def _display_fallback_warnings(wanted: bool) -> None:
    """Whether vmaps of this module warn where an operator runs once per example."""
    _OlderBatch.warns = wanted


def _fallback_warnings_displayed() -> bool:
    """Whether they do."""
    return _OlderBatch.warns


def vmap(func: Callable[..., Any], in_dims: in_dims_t = 0, out_dims: out_dims_t = 0) -> Callable[..., Any]:
    """The older vmap; deprecated: use torch.vmap."""
    warnings.warn("Please use `torch.vmap` instead of `torch._vmap_internals.vmap`.", FutureWarning, stacklevel=2)
    return _vmap(func, in_dims, out_dims)


def _vmap(
    func: Callable[..., Any], in_dims: in_dims_t = 0, out_dims: out_dims_t = 0, allow_none_pass_through: bool = False
) -> Callable[..., Any]:
    """A function that maps `func` over a dimension of its arguments; allow_none_pass_through: results may be None."""

    @functools.wraps(func)
    def mapped(*args: Any) -> Any:
        _check_out_dims(func, out_dims)
        size, dims, leaves, spec = _process_batched_inputs(in_dims, args, func, negative=False)
        with _OlderBatch(size) as batch:
            result = func(*_create_batched_inputs(dims, leaves, batch.depth, spec))
            if not allow_none_pass_through:
                _check_outputs(func, result)
            outputs = result if isinstance(result, tuple) else (result,)
            places = out_dims if isinstance(out_dims, tuple) else (out_dims,) * len(outputs)
            if len(places) != len(outputs):
                raise ValueError(
                    f"vmap({_get_name(func)}, ..., out_dims={out_dims}): `out_dims` must have one dim per output (got "
                    f"{len(outputs)} outputs) of {_get_name(func)}."
                )
            made = [
                x if x is None else _maybe_remove_batch_dim(_get_name(func), x, batch.depth, size, place)
                for x, place in zip(outputs, places, strict=True)
            ]
        return made[0] if isinstance(result, Tensor) else tuple(made)

    return mapped


def _check_out_dims(func: Callable[..., Any], out_dims: Any) -> None:
    places = out_dims if isinstance(out_dims, tuple) else (out_dims,)
    if not all(isinstance(place, int) for place in places):
        raise ValueError(
            f"vmap({_get_name(func)}, ..., out_dims={out_dims}): `out_dims` must be an int or a tuple of int representing "
            "where in the outputs the vmapped dimension should appear."
        )


def _check_outputs(func: Callable[..., Any], outputs: Any) -> None:
    words = f"vmap({_get_name(func)}, ...): `{_get_name(func)}` must only return Tensors, got type "
    if isinstance(outputs, Tensor):
        return
    if not isinstance(outputs, tuple):
        raise ValueError(f"{words}{type(outputs)} as the return.")
    for position, x in enumerate(outputs):
        if not isinstance(x, Tensor):
            raise ValueError(f"{words}{type(x)} for return {position}.")
