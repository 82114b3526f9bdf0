"""scan: a function that carries values along a dimension, one slice after the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import flambeau as torch
from flambeau.dispatcher.higher_order import flow
from flambeau.utils._pytree import tree_flatten

__all__ = ["scan"]


def scan(
    combine_fn: Callable[[Any, Any], tuple[Any, Any]], init: Any, xs: Any, *, dim: int = 0, reverse: bool = False
) -> tuple[Any, Any]:
    """(the last carry, all results stacked along dim) of carry, result = combine_fn(carry, slice of xs along dim).

    reverse: from the last slice to the first; results keep their slices' places.
    Raises RuntimeError where nothing is scanned, or slices differ in number.
    """
    if not callable(combine_fn):
        raise RuntimeError(f"Combine_fn must be a callable, but got {combine_fn}")
    leaves, spec = tree_flatten(xs)
    lengths = {leaf.shape[dim] for leaf in leaves}
    if len(lengths) != 1 or 0 in lengths:
        raise RuntimeError(f"All xs leaves must have the same scan dimension, and elements in it; got {sorted(lengths)}")
    recorder = flow()
    if recorder is not None:
        return recorder.scan(combine_fn, init, xs, dim, reverse)
    slices = list(zip(*[leaf.unbind(dim) for leaf in leaves]))
    carry, results = init, []
    for parts in reversed(slices) if reverse else slices:
        carry, result = combine_fn(carry, spec.unflatten(parts))
        results.append(tree_flatten(result))
    if reverse:
        results.reverse()
    stacked = [torch.stack(parts).movedim(0, dim) for parts in zip(*[parts for parts, _ in results])]
    return carry, results[0][1].unflatten(stacked)
