"""Choices over graphs in compressed rows, for torch_cluster and torch_sparse: edges of nodes, random walks, names in a sample.

A graph is `rowptr`, where each node's edges begin, and `col`, where they lead. Written in the public operators, for all nodes at
a time. Random numbers are those of torch's default generator.
"""

from __future__ import annotations

import flambeau as torch
from flambeau.core.tensor.tensor import Tensor

__all__ = ["chosen_edges", "edges_among", "edges_of", "numbered", "random_walk", "sampled_edges"]


def edges_of(rowptr: Tensor, nodes: Tensor) -> tuple[Tensor, Tensor]:
    """(for each edge of the nodes, in their order, which of the nodes it belongs to; the number of the edge)."""
    first, degree = rowptr[nodes], rowptr[nodes + 1] - rowptr[nodes]
    owner = torch.repeat_interleave(torch.arange(nodes.numel()), degree)
    before = degree.cumsum(0) - degree
    return owner, torch.arange(owner.numel()) - before[owner] + first[owner]


def sampled_edges(rowptr: Tensor, nodes: Tensor, sizes: Tensor) -> tuple[Tensor, Tensor]:
    """As `edges_of`, of each node as many as `sizes` says at most, all choices equally likely."""
    owner, edges = edges_of(rowptr, nodes)
    degree = rowptr[nodes + 1] - rowptr[nodes]
    order = torch.argsort(torch.rand(owner.numel(), dtype=torch.float64))
    order = order[torch.argsort(owner[order], stable=True)]  # shuffled within each node
    place = torch.arange(owner.numel()) - (degree.cumsum(0) - degree)[owner]
    kept = torch.zeros_like(owner, dtype=torch.bool)
    kept[order] = place < sizes[owner]
    return owner[kept], edges[kept]


def chosen_edges(rowptr: Tensor, nodes: Tensor, count: int, replace: bool) -> tuple[Tensor, Tensor]:
    """As `edges_of`: `count` of each node's, drawn with or without repetition; without, all where there are fewer; all by -1."""
    if count < 0:
        return edges_of(rowptr, nodes)
    degree = rowptr[nodes + 1] - rowptr[nodes]
    if not replace:
        return sampled_edges(rowptr, nodes, torch.full_like(degree, count))
    owner = torch.repeat_interleave((degree > 0).nonzero().flatten(), count)
    return owner, _any_edge(rowptr, nodes[owner], degree[owner])


def numbered(known: Tensor, found: Tensor) -> tuple[Tensor, Tensor]:
    """(numbers of the elements of `found`, which of them are new): known ones are numbered by where they stand first, new ones
    behind those in the order in which they appear."""
    every = torch.cat([known, found])
    values, inverse = every.unique(return_inverse=True)
    first = torch.full_like(values, every.numel()).scatter_reduce(0, inverse, torch.arange(every.numel()), "amin")
    new = first[first >= known.numel()].sort().values
    numbers = torch.where(first < known.numel(), first, known.numel() + torch.searchsorted(new, first))
    return numbers[inverse[known.numel() :]], new - known.numel()


def edges_among(rowptr: Tensor, col: Tensor, nodes: Tensor, others: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """(place in nodes, place in others, edge) of all edges that lead from `nodes` to `others`, in the order of the nodes."""
    owner, edges = edges_of(rowptr, nodes)
    numbers, _ = numbered(others, col[edges])
    within = numbers < others.numel()
    return owner[within], numbers[within], edges[within]


def _any_edge(rowptr: Tensor, nodes: Tensor, degree: Tensor) -> Tensor:
    """One of the edges of each node; any number where it has none."""
    draw = (torch.rand(nodes.numel(), dtype=torch.float64) * degree).long()
    return rowptr[nodes] + draw.minimum((degree - 1).clamp(min=0))


def _step(rowptr: Tensor, col: Tensor, nodes: Tensor) -> tuple[Tensor, Tensor]:
    """(where an edge leads that is drawn among each node's, the edge); a node without edges stays, by the edge -1."""
    degree = rowptr[nodes + 1] - rowptr[nodes]
    edge = torch.where(degree > 0, _any_edge(rowptr, nodes, degree), -1)
    return torch.where(edge >= 0, col[edge.clamp(min=0)] if col.numel() else nodes, nodes), edge


def _biased_step(
    rowptr: Tensor, col: Tensor, pairs: Tensor, before: Tensor, nodes: Tensor, p: float, q: float
) -> tuple[Tensor, Tensor]:
    """A step of node2vec: an edge back to `before` weighs 1 / p, one to a node with an edge to it 1, any other 1 / q.

    Edges are drawn evenly and taken with a probability that is their weight's share of the greatest. `pairs` are the edges'
    (from, to) as single sorted numbers.
    """
    heaviest, count = max(1 / p, 1.0, 1 / q), rowptr.numel() - 1
    reached, edge = _step(rowptr, col, nodes)
    open_ = (edge >= 0).nonzero().flatten()
    while open_.numel():
        key = reached[open_] * count + before[open_]
        found = torch.searchsorted(pairs, key).clamp(max=pairs.numel() - 1)
        weight = torch.where(pairs[found] == key, 1.0, 1 / q)
        weight = torch.where(reached[open_] == before[open_], 1 / p, weight)
        open_ = open_[torch.rand(open_.numel(), dtype=torch.float64) * heaviest >= weight]
        if open_.numel():
            reached[open_], edge[open_] = _step(rowptr, col, nodes[open_])
    return reached, edge


def random_walk(rowptr: Tensor, col: Tensor, start: Tensor, walk_length: int, p: float, q: float) -> tuple[Tensor, Tensor]:
    """(nodes, edges) of a walk from each of `start`: `[walks, walk_length + 1]` and `[walks, walk_length]`.

    At a node without edges a walk stays, by the edge -1. With p = q = 1 each edge is as likely; else those of node2vec.
    """
    nodes, edges = [start], []
    sources, _ = edges_of(rowptr, torch.arange(rowptr.numel() - 1))
    pairs = (sources * (rowptr.numel() - 1) + col).sort().values if (p, q) != (1, 1) else None
    for step in range(walk_length):
        if pairs is None or step == 0:
            reached, edge = _step(rowptr, col, nodes[-1])
        else:
            reached, edge = _biased_step(rowptr, col, pairs, nodes[-2], nodes[-1], p, q)
        nodes.append(reached)
        edges.append(edge)
    return torch.stack(nodes, 1), torch.stack(edges, 1) if edges else start.new_empty(start.numel(), 0)
