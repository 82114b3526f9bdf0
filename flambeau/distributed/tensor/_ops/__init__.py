"""How operators act on parts: for each, the ways in which inputs may lie along one dimension of a mesh, and how results lie then.

A file per family; `registry` has what they are written with. `_dispatch` picks the way that moves least.
"""

from flambeau.distributed.tensor._ops import attention, images, indexing, matrices, pointwise, reductions, rows, views

__all__ = ["attention", "images", "indexing", "matrices", "pointwise", "reductions", "rows", "views"]
