"""Sparse tensors and the operators on them; loaded when a program makes the first one. What they are says `tensor`."""

from flambeau.ops.sparse import (
    construction,
    conversions,
    elementwise,
    facts,
    gradients,
    likes,
    pickling,
    places,
    printing,
    products,
    reductions,
    views,
)

__all__ = [
    "construction",
    "conversions",
    "elementwise",
    "facts",
    "gradients",
    "likes",
    "pickling",
    "places",
    "printing",
    "products",
    "reductions",
    "views",
]
