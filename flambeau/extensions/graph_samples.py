"""Samples of graphs around given nodes: of several hops, with kinds of nodes and edges, with times, by budgets.

A graph is in compressed columns: `colptr`, where the edges into each node begin, and `row`, where they come from. Kinds of edges
are called `source__relation__destination`. A sample names its nodes in the order in which they were found and its edges by the
places of their ends in it. Stands on `graphs`; used by torch_sparse.
"""

from __future__ import annotations

import flambeau as torch
from flambeau.core.tensor.tensor import Tensor
from flambeau.extensions.graphs import chosen_edges, edges_among, edges_of, numbered, sampled_edges

__all__ = ["by_budgets", "ego_k_hop", "neighbors", "typed_neighbors", "typed_neighbors_in_time"]

Tensors = dict[str, Tensor]
_WIDEST = 50  # edges of a node that sampling by budgets looks at


def _joined(parts: list[Tensor]) -> Tensor:
    return torch.cat(parts) if parts else torch.empty(0, dtype=torch.long)


def neighbors(
    colptr: Tensor, row: Tensor, input_node: Tensor, num_neighbors: list[int], replace: bool, directed: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """(nodes, rows, columns, edges): of each node of a hop some of the edges into it; without `directed`, all among the nodes."""
    nodes, begin, found = input_node, 0, []
    for count in num_neighbors:
        owner, edges = chosen_edges(colptr, nodes[begin:], count, replace)
        numbers, new = numbered(nodes, row[edges])
        found.append((numbers, owner + begin, edges))
        begin, nodes = nodes.numel(), torch.cat([nodes, row[edges[new]]])
    if not directed:
        columns, rows, edges = edges_among(colptr, row, nodes, nodes)
        return nodes, rows, columns, edges
    rows, columns, edges = (_joined([part[at] for part in found]) for at in range(3))
    return nodes, rows, columns, edges


# ---------------------------------------------------------------- kinds of nodes and edges


class _Sample:
    """Nodes of every kind, each with the place of its root and its root's time where the sample is one in time.

    Then the trees of different roots are apart: the same node is as many nodes as there are trees that it is in.
    """

    def __init__(self, node_types: list[str], inputs: Tensors, times: Tensors | None, span: int) -> None:
        nothing = torch.empty(0, dtype=torch.long)
        self.span, self.in_time = span, times is not None
        self.nodes = {kind: inputs.get(kind, nothing) for kind in node_types}
        self.roots = {kind: torch.arange(nodes.numel()) for kind, nodes in self.nodes.items()}
        self.times = {
            kind: times[kind][nodes] if times is not None and kind in times else torch.zeros_like(nodes)
            for kind, nodes in self.nodes.items()
        }

    def add(self, kind: str, found: Tensor, roots: Tensor, times: Tensor) -> Tensor:
        """The numbers of nodes that were found, new ones after they joined the sample."""
        known = self.nodes[kind]
        if self.in_time:
            numbers, new = numbered(self.roots[kind] * self.span + known, roots * self.span + found)
        else:
            numbers, new = numbered(known, found)
        self.nodes[kind] = torch.cat([known, found[new]])
        self.roots[kind] = torch.cat([self.roots[kind], roots[new]])
        self.times[kind] = torch.cat([self.times[kind], times[new]])
        return numbers


def _grow(
    node_types: list[str],
    edge_types: list[tuple[str, str, str]],
    colptrs: Tensors,
    rows: Tensors,
    inputs: Tensors,
    counts: dict[str, list[int]],
    times: Tensors | None,
    hops: int,
    replace: bool,
) -> tuple[_Sample, dict[str, list[tuple[Tensor, Tensor, Tensor]]]]:
    """(the sample, for each kind of edges what each hop found: rows, columns, edges)."""
    kinds = {"__".join(each): each for each in edge_types}
    span = 1 + max((int(each.max()) for each in (*rows.values(), *inputs.values()) if each.numel()), default=0)
    sample = _Sample(node_types, inputs, times, span)
    begins = dict.fromkeys(node_types, 0)
    found: dict[str, list[tuple[Tensor, Tensor, Tensor]]] = {name: [] for name in kinds}
    for hop in range(hops):
        ends = {kind: nodes.numel() for kind, nodes in sample.nodes.items()}
        for name in sorted(counts):
            source, _, target = kinds[name]
            begin, count = begins[target], counts[name][hop]
            heads = sample.nodes[target][begin : ends[target]]
            if times is not None and source in times:  # of the edges from sources that were there in time
                owner, edges = edges_of(colptrs[name], heads)
                early = times[source][rows[name][edges]] <= sample.times[target][begin + owner]
                owner, edges = owner[early], edges[early]
                limits = torch.searchsorted(owner, torch.arange(heads.numel() + 1))
                owner, places = chosen_edges(limits, torch.arange(heads.numel()), count, replace)
                edges = edges[places]
            else:
                owner, edges = chosen_edges(colptrs[name], heads, count, replace)
            columns = owner + begin
            numbers = sample.add(source, rows[name][edges], sample.roots[target][columns], sample.times[target][columns])
            found[name].append((numbers, columns, edges))
        begins = ends
    return sample, found


def _separate(found: dict[str, list[tuple[Tensor, Tensor, Tensor]]]) -> tuple[Tensors, Tensors, Tensors]:
    rows, columns, edges = ({name: _joined([part[at] for part in parts]) for name, parts in found.items()} for at in range(3))
    return rows, columns, edges


def typed_neighbors(
    node_types: list[str],
    edge_types: list[tuple[str, str, str]],
    colptrs: Tensors,
    rows: Tensors,
    inputs: Tensors,
    counts: dict[str, list[int]],
    hops: int,
    replace: bool,
    directed: bool,
) -> tuple[Tensors, Tensors, Tensors, Tensors]:
    """`neighbors` of several kinds: (nodes by kind; rows, columns and edges by kind of edges)."""
    sample, found = _grow(node_types, edge_types, colptrs, rows, inputs, counts, None, hops, replace)
    if not directed:
        found = {name: [] for name in found}
        for source, relation, target in edge_types:
            name = "__".join((source, relation, target))
            columns, sources, edges = edges_among(colptrs[name], rows[name], sample.nodes[target], sample.nodes[source])
            found[name].append((sources, columns, edges))
    return sample.nodes, *_separate(found)


def typed_neighbors_in_time(
    node_types: list[str],
    edge_types: list[tuple[str, str, str]],
    colptrs: Tensors,
    rows: Tensors,
    inputs: Tensors,
    counts: dict[str, list[int]],
    times: Tensors,
    hops: int,
    replace: bool,
    directed: bool,
) -> tuple[Tensors, Tensors, Tensors, Tensors]:
    """`typed_neighbors` of which none has a time after its root's; each root has a tree of its own."""
    if not directed:
        raise RuntimeError("Temporal sampling requires 'directed' sampling")
    sample, found = _grow(node_types, edge_types, colptrs, rows, inputs, counts, times, hops, replace)
    return sample.nodes, *_separate(found)


def by_budgets(
    colptrs: Tensors, rows: Tensors, inputs: Tensors, counts: dict[str, list[int]], hops: int
) -> tuple[Tensors, Tensors, Tensors, Tensors]:
    """The sampling of heterogeneous graph transformers: nodes of each kind, drawn in each hop by the squares of their budgets.

    A node in the sample gives each of its neighbours that isn't one part of the budget 1. Returns all edges among the nodes.
    """
    kinds = {name: name.split("__") for name in colptrs}
    nodes: dict[str, list[int]] = {kind: inputs[kind].tolist() if kind in inputs else [] for kind in counts}
    budgets: dict[str, dict[int, float]] = {kind: {} for kind in counts}

    def spend(latest: dict[str, list[int]]) -> None:
        for name, (source, _, target) in kinds.items():
            heads = torch.tensor(latest.get(target, []), dtype=torch.long)
            owner, edges = sampled_edges(colptrs[name], heads, torch.full_like(heads, _WIDEST))
            shares = (1 / torch.bincount(owner, minlength=heads.numel()).float())[owner].tolist()
            seen = set(nodes[source])
            for node, share in zip(rows[name][edges].tolist(), shares, strict=True):
                if node not in seen:
                    budgets[source][node] = budgets[source].get(node, 0.0) + share

    spend(nodes)
    for hop in range(hops):
        latest = {}
        for kind, budget in budgets.items():
            names, count = list(budget), counts[kind][hop]
            if count < len(names):
                weights = torch.tensor(list(budget.values())).square()
                names = [names[at] for at in torch.multinomial(weights, count).tolist()] if count else []
            latest[kind] = names
            nodes[kind] += names
            for name in names:
                del budget[name]
        spend(latest)
    made = {kind: torch.tensor(names, dtype=torch.long) for kind, names in nodes.items()}
    found: dict[str, list[tuple[Tensor, Tensor, Tensor]]] = {}
    for edge, (source, _, target) in kinds.items():
        owner, edges = sampled_edges(colptrs[edge], made[target], torch.full_like(made[target], _WIDEST))
        numbers, _ = numbered(made[source], rows[edge][edges])
        within = numbers < made[source].numel()
        found[edge] = [(numbers[within], owner[within], edges[within])]
    return {kind: each for kind, each in made.items() if each.numel()}, *_separate(found)


def ego_k_hop(
    rowptr: Tensor, col: Tensor, idx: Tensor, depth: int, num_neighbors: int, replace: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """(rowptr, col, nodes, edges, where each graph begins, the root of each): a graph around each node, side by side."""
    degree = rowptr[1:] - rowptr[:-1]
    begins, limits = [torch.zeros(1, dtype=torch.long)], [0]
    columns: list[Tensor] = []
    nodes: list[Tensor] = []
    edges: list[Tensor] = []
    roots: list[int] = []
    for root in idx.tolist():
        latest = torch.tensor([root])
        reached = [latest]
        for _ in range(depth):
            few = degree[latest] <= num_neighbors
            some = [edges_of(rowptr, latest[few])[1], chosen_edges(rowptr, latest[~few], num_neighbors, replace)[1]]
            latest = col[torch.cat(some)]
            reached.append(latest)
        names = torch.cat(reached).unique()
        owner, numbers, inner = edges_among(rowptr, col, names, names)
        before = sum(each.numel() for each in edges)
        begins.append(torch.searchsorted(owner, torch.arange(1, names.numel() + 1)) + before)
        columns.append(numbers + limits[-1])
        nodes.append(names)
        edges.append(inner)
        roots.append(limits[-1] + int(torch.searchsorted(names, root)))
        limits.append(limits[-1] + names.numel())
    return (
        torch.cat(begins),
        _joined(columns),
        _joined(nodes),
        _joined(edges),
        torch.tensor(limits),
        torch.tensor(roots, dtype=torch.long),
    )
