"""associative_scan: all prefixes' combinations along a dimension, in as many steps as the length has bits.

Pairs of neighbours are combined, the scan of the pairs gives every second result, and one more combination the others
(Blelloch, "Prefix sums and their applications", 1990).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import flambeau as torch
from flambeau.utils._pytree import tree_flatten

__all__ = ["associative_scan"]


def associative_scan(
    combine_fn: Callable[[Any, Any], Any], xs: Any, dim: int, reverse: bool = False, combine_mode: str = "pointwise"
) -> Any:
    """x0, combine_fn(x0, x1), combine_fn(combine_fn(x0, x1), x2), ... along dim of all tensors in xs; combine_fn associates.

    combine_fn takes slices without that dimension and is called under vmap. reverse: from the end.
    combine_mode: "generic"; "pointwise" needs a GPU, as in PyTorch, and raises ValueError here.
    """
    if not callable(combine_fn):
        raise ValueError(f"Combine_fn must be a callable, but got {combine_fn}")
    if combine_mode not in ("pointwise", "generic"):
        raise ValueError(f"Combine_mode must either 'pointwise' or 'generic', but got {combine_mode}")
    leaves, spec = tree_flatten(xs)
    if combine_mode == "pointwise":
        raise ValueError("For combine_mode='pointwise', all input tensors need to be on CUDA or XPU")
    first = leaves[0]
    if not -first.dim() <= dim < first.dim():
        raise IndexError(
            f"Dimension out of range (expected to be in range of [-{first.dim()}, {first.dim() - 1}], but got {dim})"
        )
    leaves = [leaf.movedim(dim, 0) for leaf in leaves]
    if reverse:
        leaves = [leaf.flip(0) for leaf in leaves]

    def combine(*both: Any) -> list[Any]:
        count = len(both) // 2
        return tree_flatten(combine_fn(spec.unflatten(both[:count]), spec.unflatten(both[count:])))[0]

    leaves = _scan(torch.vmap(combine), leaves)
    if reverse:
        leaves = [leaf.flip(0) for leaf in leaves]
    return spec.unflatten([leaf.movedim(0, dim) for leaf in leaves])


def _scan(combine: Callable[..., list[Any]], leaves: list[Any]) -> list[Any]:
    """The scan along dimension 0."""
    length = leaves[0].shape[0]
    if length < 2:
        return leaves
    odd = _scan(combine, combine(*[x[:-1:2] for x in leaves], *[x[1::2] for x in leaves]))
    before = odd if length % 2 else [x[:-1] for x in odd]
    even = [x[:1] for x in leaves]
    if length > 2:
        even = [torch.cat(pair) for pair in zip(even, combine(*before, *[x[2::2] for x in leaves]))]
    return [_interleaved(a, b) for a, b in zip(even, odd)]


def _interleaved(even: Any, odd: Any) -> Any:
    """even[0], odd[0], even[1], ...; even may have one more."""
    pairs = torch.stack([even[: odd.shape[0]], odd], 1).flatten(0, 1)
    return pairs if even.shape[0] == odd.shape[0] else torch.cat([pairs, even[-1:]])
