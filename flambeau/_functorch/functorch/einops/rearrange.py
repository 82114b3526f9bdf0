"""`rearrange`: a view of a tensor, or where that isn't possible a copy, with its axes in another order, joined or split."""

from __future__ import annotations

import functools
import math
from typing import Any

import flambeau as torch
from flambeau._functorch.functorch.einops._parsing import (
    ParsedExpression,
    _ellipsis,
    parse_pattern,
    validate_rearrange_expressions,
)

__all__ = ["rearrange"]


class DimensionBindError(Exception):
    """The sizes that a tensor has aren't those of the axes that a pattern says it has."""

    __module__ = "functorch.dim"


@functools.lru_cache(256)
def _parsed(pattern: str, lengths: tuple[tuple[str, int], ...]) -> tuple[ParsedExpression, ParsedExpression]:
    sizes = dict(lengths)
    left, right = parse_pattern(pattern, sizes)
    validate_rearrange_expressions(left, right, sizes)
    return left, right


def rearrange(tensor: Any, pattern: str, **axes_lengths: int) -> Any:
    """A tensor with its axes as the right side of a pattern orders, joins and splits those of the left side.

    tensor: a tensor, or several of one shape, which are stacked along a new first axis. pattern: "b (h w) ... -> b h w ...":
    names of axes, brackets around those that are one axis of the tensor, 1 or () for an axis of size 1, `...` for any number.
    axes_lengths: sizes of axes by name, needed where a bracket leaves more than one of them open.

    ValueError for a pattern that is wrong, or not one of this tensor; DimensionBindError for sizes that don't fit; TypeError for
    sizes that aren't integers.
    """
    if not isinstance(tensor, torch.Tensor):
        tensor = torch.stack(tensor)
    left, right = _parsed(pattern, tuple((name, length) for name, length in axes_lengths.items()))
    named = len(left.composition) - left.has_ellipsis
    if named > tensor.ndim if left.has_ellipsis else named != tensor.ndim:
        bound = "less than or equal" if left.has_ellipsis else "equal"
        raise ValueError(
            f"Number of dimensions in pattern ({named}) must be {bound} to the number of dimensions in the tensor ({tensor.ndim})"
        )
    if not tensor.ndim:
        return tensor
    more = tensor.ndim - named
    shape: list[int] = []  # of the tensor with its axes split
    places: dict[Any, list[int]] = {}  # which of those an axis is
    at = 0
    for axes in left.composition:
        if axes == _ellipsis:
            places[_ellipsis] = list(range(len(shape), len(shape) + more))
            shape += tensor.shape[at : at + more]
            at += more
            continue
        if not axes:  # one of size 1, of which there is one element to take
            tensor = tensor.select(at, 0)
            continue
        for axis, size in zip(axes, _sizes(axes, tensor.shape[at], axes_lengths)):
            places[axis] = [len(shape)]
            shape.append(size)
        at += 1
    groups = [[place for axis in ([axes] if axes == _ellipsis else axes) for place in places[axis]] for axes in right.composition]
    made: list[int] = []
    for axes, group in zip(right.composition, groups):
        made += [shape[place] for place in group] if axes == _ellipsis else [math.prod(shape[place] for place in group)]
    return tensor.reshape(shape).permute([place for group in groups for place in group]).reshape(made)


def _sizes(axes: list[Any], whole: int, given: dict[str, int]) -> list[int]:
    """The sizes of the axes that one axis of the tensor is made of. DimensionBindError where they don't fit."""
    open_axes = [axis for axis in axes if axis not in given]
    if len(open_axes) > 1:
        raise DimensionBindError(f"cannot infer the sizes of two dimensions at once {open_axes[0]} and {open_axes[1]}")
    known = math.prod(given[axis] for axis in axes if axis in given)
    if not open_axes and known != whole:
        raise DimensionBindError(
            f"Dimension sizes to do not match ({whole} != {known}) when matching dimension pack {tuple(axes)}"
        )
    if open_axes and (not known or whole % known):
        shown = tuple(given.get(axis, "?") for axis in axes)
        raise DimensionBindError(f"inferred dimension does not evenly fit into larger dimension: {whole} vs {shown}")
    return [given.get(axis, whole // known if known else 0) for axis in axes]
