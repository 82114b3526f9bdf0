"""The operators of torch_cluster's compiled libraries: neighbours among points, clusterings, walks and samples of edges.

Points that belong to several examples are sorted by them; `ptr` says where each example begins. Distances are compared directly,
as many at a time as fit into a block; no tree of points is built. Written in the public operators; nothing here has a gradient.
Stands on `definitions` and `graphs`; the table of extensions imports it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import flambeau as torch
from flambeau.core.tensor.tensor import Tensor
from flambeau.extensions.definitions import define
from flambeau.extensions.graphs import random_walk, sampled_edges

__all__ = ["register"]

_BLOCK = 1 << 22  # differences of coordinates that are held at a time


def _squared_distances(x: Tensor, y: Tensor, ptr_x: Tensor | None, ptr_y: Tensor | None) -> Iterator[tuple[int, int, Tensor]]:
    """(first of x, first of y, squared distances of some of y to all of x of their example)."""
    limits_x = [0, x.size(0)] if ptr_x is None else ptr_x.tolist()
    limits_y = [0, y.size(0)] if ptr_y is None else ptr_y.tolist()
    for x_first, x_end, y_first, y_end in zip(limits_x, limits_x[1:], limits_y, limits_y[1:], strict=False):
        if x_first == x_end:
            continue
        rows = max(_BLOCK // ((x_end - x_first) * max(x.size(1), 1)), 1)
        for first in range(y_first, y_end, rows):
            some = y[first : min(first + rows, y_end)]
            yield x_first, first, (some[:, None] - x[None, x_first:x_end]).square().sum(-1, dtype=x.dtype)


def _together(found: list[tuple[Tensor, Tensor]]) -> Tensor:
    """`[2, edges]`: places in y, places in x."""
    if not found:
        return torch.empty(2, 0, dtype=torch.long)
    return torch.stack([torch.cat([rows for rows, _ in found]), torch.cat([columns for _, columns in found])])


def _knn(x: Tensor, y: Tensor, ptr_x: Tensor | None, ptr_y: Tensor | None, k: int, cosine: bool, num_workers: int) -> Tensor:
    """The k nearest of x for each of y, the nearest first; all of x of an example that has fewer."""
    if cosine:
        raise RuntimeError("`cosine` argument not supported on CPU")
    found = []
    with torch.no_grad():
        for x_first, y_first, distances in _squared_distances(x, y, ptr_x, ptr_y):
            nearest = distances.topk(min(k, distances.size(1)), largest=False).indices
            rows = torch.arange(y_first, y_first + len(distances))[:, None].expand_as(nearest)
            found.append((rows.flatten(), nearest.flatten() + x_first))
    return _together(found)


def _radius(
    x: Tensor, y: Tensor, ptr_x: Tensor | None, ptr_y: Tensor | None, r: float, max_num_neighbors: int, num_workers: int
) -> Tensor:
    """Those of x nearer than r to each of y, in their order; the first ones where there are more than asked for."""
    found = []
    with torch.no_grad():
        for x_first, y_first, distances in _squared_distances(x, y, ptr_x, ptr_y):
            near = distances < r * r
            near &= near.cumsum(1) <= max_num_neighbors
            rows, columns = near.nonzero(as_tuple=True)
            found.append((rows + y_first, columns + x_first))
    return _together(found)


def _nearest(x: Tensor, y: Tensor, ptr_x: Tensor, ptr_y: Tensor) -> Tensor:
    raise RuntimeError("No CPU version supported")


def _fps(src: Tensor, ptr: Tensor, ratio: Tensor, random_start: bool) -> Tensor:
    """Of each example the share `ratio` of points, rounded up, each the farthest from those that were taken before it."""
    points, limits = src.detach().reshape(src.size(0), -1), ptr.tolist()
    counts = ((ptr[1:] - ptr[:-1]).float() * ratio).ceil().long().tolist()
    taken = []
    for first, end, count in zip(limits, limits[1:], counts, strict=False):
        some = points[first:end]
        place = int(torch.randint(end - first, ())) if random_start and end > first else 0
        farthest: Tensor | None = None
        for _ in range(count):
            taken.append(first + place)
            distances = (some - some[place]).square().sum(1)
            farthest = distances if farthest is None else farthest.minimum(distances)
            place = int(farthest.argmax())
    return torch.tensor(taken, dtype=torch.long)


def _fps_ptr_list(src: Tensor, ptr: list[int], ratio: Tensor, random_start: bool) -> Tensor:
    return _fps(src, torch.tensor(ptr, dtype=torch.long), ratio, random_start)


def _grid(pos: Tensor, size: Tensor, start: Tensor | None, end: Tensor | None) -> Tensor:
    """The number of each point's cell in a grid from `start` to `end`, the first dimension counting fastest."""
    pos = pos.reshape(pos.size(0), -1)
    if size.numel() != pos.size(1):
        raise RuntimeError("Input mismatch")
    start = pos.min(0).values if start is None else start
    end = pos.max(0).values if end is None else end
    cells = (end - start).true_divide(size).long() + 1
    weights = torch.cat([cells.new_ones(1), cells.cumprod(0)[:-1]])
    return ((pos - start).true_divide(size).long() * weights).sum(1)


def _graclus(rowptr: Tensor, col: Tensor, weight: Tensor | None) -> Tensor:
    """Pairs of nodes, named by the lesser: each, in random order, with the first or heaviest neighbour that is still single."""
    begins, ends = rowptr.tolist(), col.tolist()
    weights = None if weight is None else weight.tolist()
    cluster = [-1] * (len(begins) - 1)
    for node in torch.randperm(len(cluster)).tolist():
        if cluster[node] >= 0:
            continue
        edges = [e for e in range(begins[node], begins[node + 1]) if cluster[ends[e]] < 0 and ends[e] != node]
        if weights is None:
            chosen = edges[:1]
        else:  # the last of equally heavy ones, and none of negative weight
            chosen = (
                [max((e for e in edges if weights[e] >= 0), key=lambda e: (weights[e], e))]
                if any(weights[e] >= 0 for e in edges)
                else []
            )
        other = ends[chosen[0]] if chosen else node
        cluster[node] = cluster[other] = min(node, other)
    return torch.tensor(cluster, dtype=rowptr.dtype)


def _neighbor_sampler(start: Tensor, rowptr: Tensor, count: int, factor: float) -> Tensor:
    """The numbers of `count` edges of each node, or of the share `factor` of them, without repetition."""
    degree = rowptr[start + 1] - rowptr[start]
    sizes = torch.full_like(degree, count) if count >= 1 else (factor * degree.double()).ceil().long()
    return sampled_edges(rowptr, start, sizes)[1]


_NEAR = "Tensor _0, Tensor _1, Tensor? _2, Tensor? _3"
_OPERATORS: dict[str, Callable[..., Any]] = {
    "cuda_version() -> int _0": lambda: -1,
    "fps(Tensor _0, Tensor _1, Tensor _2, bool _3) -> Tensor _0": _fps,
    "fps_ptr_list(Tensor _0, int[] _1, Tensor _2, bool _3) -> Tensor _0": _fps_ptr_list,
    "graclus(Tensor _0, Tensor _1, Tensor? _2) -> Tensor _0": _graclus,
    f"grid({_NEAR}) -> Tensor _0": _grid,
    f"knn({_NEAR}, int _4, bool _5, int _6) -> Tensor _0": _knn,
    "nearest(Tensor _0, Tensor _1, Tensor _2, Tensor _3) -> Tensor _0": _nearest,
    "neighbor_sampler(Tensor _0, Tensor _1, int _2, float _3) -> Tensor _0": _neighbor_sampler,
    f"radius({_NEAR}, float _4, int _5, int _6) -> Tensor _0": _radius,
    "random_walk(Tensor _0, Tensor _1, Tensor _2, int _3, float _4, float _5) -> (Tensor _0, Tensor _1)": random_walk,
}


def register() -> list[Any]:
    """Define the operators of `torch.ops.torch_cluster`; returns the library that holds them."""
    return define("torch_cluster", _OPERATORS)
