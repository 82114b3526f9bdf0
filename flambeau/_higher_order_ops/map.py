"""map: a function of each slice along the first dimension, one after the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import flambeau as torch
from flambeau.dispatcher.higher_order import flow
from flambeau.utils._pytree import tree_flatten

__all__ = ["map"]


def map(f: Callable[..., Any], xs: Any, *args: Any) -> Any:
    """f(slice of xs, *args) for the slices along dimension 0 of all tensors in xs, stacked.

    Raises ValueError where those have different lengths, or none.
    """
    leaves, spec = tree_flatten(xs)
    lengths = {leaf.shape[0] for leaf in leaves}
    if len(lengths) != 1 or 0 in lengths:
        raise ValueError(f"Leading dimensions of mapped xs must be consistent and not 0, got shapes {[x.shape for x in leaves]}")
    recorder = flow()
    if recorder is not None:
        return recorder.map(f, xs, args)
    made = [tree_flatten(f(spec.unflatten(parts), *args)) for parts in zip(*[leaf.unbind(0) for leaf in leaves])]
    return made[0][1].unflatten([torch.stack(parts) for parts in zip(*[parts for parts, _ in made])])
