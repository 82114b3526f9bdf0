"""All choices of elements, one per row: combinations of one vector's, cartesian_prod of several vectors'.

Stands on codegen.ordering.combinations and on ops.views.cat.
"""

from __future__ import annotations

import math
from typing import Any

from flambeau.base.layout import Layout
from flambeau.codegen.gather_scatter.move import Buffer, Move
from flambeau.codegen.ordering.combinations import combinations_plan
from flambeau.core.operator.annotations import Tensors
from flambeau.core.operator.define import composite, operator
from flambeau.core.operator.publishing import NAMESPACE
from flambeau.core.operator.view import select
from flambeau.core.tensor.tensor import Tensor
from flambeau.ops.indexing.gather_plans import make_plan, zeros_for
from flambeau.ops.views.cat import MOST_INPUTS, stack


@operator(method=False, function=False, name="_combinations", node="StackBackward0", planned=True)
def _combinations(input: Tensor, r: int, with_replacement: bool):
    """The combinations of at least one element."""
    return combinations_plan(input._layout, r, with_replacement)


@_combinations.vjp
def _(g, layouts, r, with_replacement):
    places = _places(layouts[0], r, with_replacement)
    return zeros_for(layouts[0], g).index_add(0, places, g.reshape(-1))


def _places(layout: Layout, r: int, with_replacement: bool) -> Tensor:
    return _combinations(NAMESPACE["arange"](layout.shape[0], device=layout.device), r, with_replacement).reshape(-1)


def _combinations_plan(input: Tensor, r: int, with_replacement: bool) -> Any:
    return _combinations.operator.kept.get((input._layout, r, with_replacement))


@composite(method=False, planned=_combinations_plan)
def combinations(input: Tensor, r: int = 2, with_replacement: bool = False) -> Tensor:
    """All combinations of r elements of a vector, one per row."""
    if input._layout.ndim != 1:
        raise RuntimeError(f"Expect a 1D vector, but got shape {list(input._layout.shape)}")
    if r < 0:
        raise RuntimeError(f"Expect a non-negative number, but got {r}")
    if r == 0:
        return NAMESPACE["empty"]((0,), dtype=input._layout.dtype, device=input._layout.device)
    if input._layout.flavor is not None:
        return input.index_select(0, _places(input._layout, r, with_replacement)).reshape(-1, r)
    return _combinations(input, r, bool(with_replacement))


@operator(method=False, function=False, name="_cartesian_prod", node="StackBackward0", planned=True)
def _product(tensors: Tensors, sizes: tuple[int, ...]):
    """The combinations of vectors of one dtype."""
    layouts = [x._layout for x in tensors]
    out = Layout.contiguous((math.prod(sizes), len(sizes)), layouts[0].dtype, layouts[0].device)
    to = Layout.contiguous((*sizes, len(sizes)), out.dtype, out.device).strides[:-1]
    moves = []
    for i, layout in enumerate(layouts):
        own = tuple([layout.strides[0] if d == i else 0 for d in range(len(sizes))])
        moves.append(Move(layout.dtype, sizes, Buffer(1 + i, 0, own), Buffer(0, i, to)))
    return make_plan(moves, [out], layouts)


@_product.vjp
def _(g, sizes, need):
    grid, made = g.reshape(*sizes, len(sizes)), []
    for i, wanted in enumerate(need["tensors"]):
        others = [d for d in range(len(sizes)) if d != i]
        made.append(select(grid, -1, i).sum(others) if wanted else None)
    return (made,)


@composite(method=False)
def cartesian_prod(*tensors: Any) -> Tensor:
    """All combinations of one element of each vector, one per row. Raises RuntimeError for other shapes or several dtypes."""
    given = list(tensors[0]) if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)) else list(tensors)
    plain = len(given) <= MOST_INPUTS
    for x in given:
        layout = x._layout
        if layout.ndim != 1:
            raise RuntimeError(f"Expect a 1D vector, but got shape {list(layout.shape)}")
        plain = plain and layout.dtype is given[0]._layout.dtype and layout.flavor is None
    if len(given) == 1:
        return given[0]
    if plain and given:
        return _product(given, tuple([x._layout.shape[0] for x in given]))
    grids = NAMESPACE["meshgrid"](*given, indexing="ij")
    return stack([x.reshape(-1) for x in grids], 1)
