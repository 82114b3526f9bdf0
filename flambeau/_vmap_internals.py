"""torch._vmap_internals: the vmap that came before torch.vmap, of functions that return a tensor or a tuple of tensors.

Dimensions to map over are not negative here, and no random operators are allowed. Stands on func.vmap.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

from flambeau.core.tensor.tensor import Tensor
from flambeau.func.vmap import _examples, _in_front, _lifted, name_of
from flambeau.transform.batched import Batch
from flambeau.utils._pytree import tree_unflatten

__all__ = ["vmap"]

in_dims_t = int | tuple[Any, ...]
out_dims_t = int | tuple[int, ...]
_get_name = name_of


class _OlderBatch(Batch):
    """A vmap in progress, which doesn't tell that an operator runs once per example unless asked to."""

    warns = False


def _display_fallback_warnings(wanted: bool) -> None:
    """Whether vmaps of this module warn where an operator runs once per example."""
    _OlderBatch.warns = wanted


def _fallback_warnings_displayed() -> bool:
    """Whether they do."""
    return _OlderBatch.warns


def vmap(func: Callable[..., Any], in_dims: in_dims_t = 0, out_dims: out_dims_t = 0) -> Callable[..., Any]:
    """The older vmap; deprecated: use torch.vmap."""
    warnings.warn(
        "Please use `torch.vmap` instead of `torch._vmap_internals.vmap`.", FutureWarning, stacklevel=2)
    return _vmap(func, in_dims, out_dims)


def _vmap(
    func: Callable[..., Any], in_dims: in_dims_t = 0, out_dims: out_dims_t = 0, allow_none_pass_through: bool = False
) -> Callable[..., Any]:
    """A function that maps `func` over a dimension of its arguments; allow_none_pass_through: results may be None."""

    @functools.wraps(func)
    def mapped(*args: Any) -> Any:
        _check_out_dims(func, out_dims)
        size, dims, leaves, spec = _examples(func, in_dims, args, negative=False)
        with _OlderBatch(size) as batch:
            given = [x if dim is None else batch.wrap(_in_front(x, dim)) for x, dim in zip(leaves, dims, strict=True)]
            result = func(*tree_unflatten(given, spec))
            if not allow_none_pass_through:
                _check_outputs(func, result)
            outputs = result if isinstance(result, tuple) else (result,)
            places = out_dims if isinstance(out_dims, tuple) else (out_dims,) * len(outputs)
            if len(places) != len(outputs):
                raise ValueError(
                    f"vmap({name_of(func)}, ..., out_dims={out_dims}): `out_dims` must have one dim per output (got "
                    f"{len(outputs)} outputs) of {name_of(func)}."
                )
            made = [x if x is None else _lifted(func, batch, x, place) for x, place in zip(outputs, places, strict=True)]
        made = [x.movedim(0, place) if x is not None and place else x for x, place in zip(made, places, strict=True)]
        return made[0] if isinstance(result, Tensor) else tuple(made)

    return mapped


def _check_out_dims(func: Callable[..., Any], out_dims: Any) -> None:
    places = out_dims if isinstance(out_dims, tuple) else (out_dims,)
    if not all(isinstance(place, int) for place in places):
        raise ValueError(
            f"vmap({name_of(func)}, ..., out_dims={out_dims}): `out_dims` must be an int or a tuple of int representing "
            "where in the outputs the vmapped dimension should appear."
        )


def _check_outputs(func: Callable[..., Any], outputs: Any) -> None:
    words = f"vmap({name_of(func)}, ...): `{name_of(func)}` must only return Tensors, got type "
    if isinstance(outputs, Tensor):
        return
    if not isinstance(outputs, tuple):
        raise ValueError(f"{words}{type(outputs)} as the return.")
    for position, x in enumerate(outputs):
        if not isinstance(x, Tensor):
            raise ValueError(f"{words}{type(x)} for return {position}.")
