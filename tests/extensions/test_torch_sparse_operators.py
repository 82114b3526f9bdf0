"""torch.ops.torch_sparse: what loading torch_sparse's compiled libraries registers, beside the definitions."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

import flambeau as torch

ROWPTR, COL = torch.tensor([0, 2, 2, 5, 7]), torch.tensor([0, 3, 1, 2, 3, 0, 2])
ROW = torch.tensor([0, 0, 2, 2, 2, 3, 3])


@pytest.fixture(autouse=True)
def ops(tmp_path: Path):
    """A file where the package has one; it isn't read."""
    path = tmp_path / "torch_sparse" / "_spmm_cpu.so"
    path.parent.mkdir()
    path.touch()
    torch.ops.load_library(path)
    torch.manual_seed(0)
    return torch.ops.torch_sparse


def test_rows_of_entries(ops) -> None:
    assert ops.cuda_version() == -1
    assert torch.equal(ops.ptr2ind(ROWPTR, 7), ROW) and torch.equal(ops.ind2ptr(ROW, 4), ROWPTR)
    assert ops.ind2ptr(torch.tensor([1, 1]), 4).tolist() == [0, 0, 2, 2, 2]


@pytest.mark.parametrize("k", [-2, -1, 0, 1, 2])
@pytest.mark.parametrize("shape", [(4, 6), (6, 4)])
def test_where_a_diagonal_goes(ops, k: int, shape: tuple[int, int]) -> None:
    entries = [(i, j) for i in range(shape[0]) for j in range(shape[1]) if j - i != k and (i * 5 + j * 3) % 4]
    diagonal = [(i, i + k) for i in range(shape[0]) if 0 <= i + k < shape[1]]
    row, col = (torch.tensor(each) for each in zip(*entries))
    expected = [each in entries for each in sorted(entries + diagonal)]
    assert ops.non_diag_mask(row, col, *shape, k).tolist() == expected


@pytest.mark.parametrize("shape", [(4, 3), (2, 4, 3)])
def test_products_and_their_gradients(ops, shape: tuple[int, ...]) -> None:
    mat = torch.randn(shape, dtype=torch.float64, requires_grad=True)
    value = torch.randn(7, dtype=torch.float64, requires_grad=True)
    dense = torch.zeros(4, 4, dtype=torch.float64).index_put((ROW, COL), value)
    counts = (ROWPTR[1:] - ROWPTR[:-1]).clamp(min=1)[:, None]
    for made, expected in (
        (ops.spmm_sum(None, ROWPTR, COL, value, None, None, mat), dense @ mat),
        (ops.spmm_mean(ROW, ROWPTR, COL, value, None, None, None, mat), dense @ mat / counts),
    ):
        torch.testing.assert_close(made, expected)
        weight = torch.randn_like(made)
        torch.testing.assert_close(
            torch.autograd.grad(made, (mat, value), weight),
            torch.autograd.grad(expected, (mat, value), weight, retain_graph=True),
        )
    ones = dense.detach().bool().double()
    torch.testing.assert_close(ops.spmm_sum(ROW, ROWPTR, COL, None, None, None, mat), ones @ mat)


@pytest.mark.parametrize("shape", [(4, 3), (2, 4, 3)])
def test_least_and_greatest_terms(ops, shape: tuple[int, ...]) -> None:
    mat = torch.randn(shape, requires_grad=True)
    value = torch.randn(7, requires_grad=True)
    terms = mat[..., COL, :] * value[:, None]
    for operator, choose in ((ops.spmm_min, torch.min), (ops.spmm_max, torch.max)):
        best, places = operator(ROWPTR, COL, value, mat)
        for row in range(4):
            begin, end = ROWPTR[row : row + 2].tolist()
            if begin == end:
                assert not best[..., row, :].any() and bool((places[..., row, :] == 7).all())
                continue
            found = choose(terms[..., begin:end, :], -2)
            assert torch.equal(best[..., row, :], found.values)
            assert torch.equal(places[..., row, :], found.indices + begin)
        ours = torch.autograd.grad(best.sum(), (mat, value), retain_graph=True)
        chosen = terms.gather(-2, places.clamp(max=6))[..., [0, 2, 3], :]
        theirs = torch.autograd.grad(chosen.sum(), (mat, value), retain_graph=True)
        torch.testing.assert_close(ours, theirs)


def test_parts_of_a_graph(ops) -> None:
    row, col, edge = ops.saint_subgraph(torch.tensor([3, 0]), ROWPTR, ROW, COL)
    assert (row.tolist(), col.tolist(), edge.tolist()) == ([0, 1, 1], [1, 1, 0], [5, 0, 1])
    numbers, nodes = ops.relabel(torch.tensor([7, 5, 9, 7, 2]), torch.tensor([9, 1]))
    assert numbers.tolist() == [2, 3, 0, 2, 4] and nodes.tolist() == [9, 1, 7, 5, 2]
    begins, numbers, value, nodes = ops.relabel_one_hop(ROWPTR, COL, torch.arange(7.0), torch.tensor([2, 0]), False)
    assert begins.tolist() == [0, 3, 5, 5, 5] and numbers.tolist() == [2, 0, 3, 1, 3]
    assert value.tolist() == [2, 3, 4, 0, 1] and nodes.tolist() == [2, 0, 1, 3]
    assert ops.relabel_one_hop(ROWPTR, COL, None, torch.tensor([2, 0]), True)[0].tolist() == [0, 3, 5]
    walks = ops.random_walk(ROWPTR, COL, torch.tensor([0, 1, 2, 3]), 6)
    edges = set(zip(ROW.tolist(), COL.tolist())) | {(1, 1)}
    assert walks.shape == (4, 7) and all(pair in edges for walk in walks.tolist() for pair in itertools.pairwise(walk))
    with pytest.raises(RuntimeError, match="Not compiled with METIS support"):
        ops.partition(ROWPTR, COL, None, 2, False)


def test_samples_of_rows(ops) -> None:
    idx = torch.tensor([2, 3, 1])
    begins, numbers, nodes, edges = ops.sample_adj(ROWPTR, COL, idx, -1, False)
    assert begins.tolist() == [0, 3, 5, 5] and nodes.tolist() == [2, 3, 1, 0]
    assert numbers.tolist() == [0, 1, 2, 0, 3] and edges.tolist() == [3, 4, 2, 6, 5]
    seen = set()
    for _ in range(40):
        begins, numbers, nodes, edges = ops.sample_adj(ROWPTR, COL, idx, 2, False)
        assert begins.tolist() == [0, 2, 4, 4] and len(set(edges.tolist())) == 4
        assert torch.equal(nodes[numbers], COL[edges]) and torch.equal(ROW[edges], idx[[0, 0, 1, 1]])
        seen.update(edges.tolist())
    assert seen == {2, 3, 4, 5, 6}
    begins, numbers, nodes, edges = ops.sample_adj(ROWPTR, COL, idx, 9, True)
    assert begins.tolist() == [0, 9, 18, 18] and torch.equal(nodes[numbers], COL[edges])


def graph(nodes: int, edges: int) -> tuple[torch.Tensor, torch.Tensor]:
    """(colptr, row) of a random graph in compressed columns."""
    columns = torch.randint(nodes, (edges,)).sort().values
    return torch.searchsorted(columns, torch.arange(nodes + 1)), torch.randint(nodes, (edges,))


@pytest.mark.parametrize("replace", [False, True])
@pytest.mark.parametrize("directed", [False, True])
def test_neighbours_of_several_hops(ops, replace: bool, directed: bool) -> None:
    colptr, row = graph(40, 150)
    start = torch.tensor([3, 8, 30])
    nodes, rows, columns, edges = ops.neighbor_sample(colptr, row, start, [3, 2], replace, directed)
    assert torch.equal(nodes[:3], start) and len(set(nodes.tolist())) == len(nodes)
    assert torch.equal(nodes[rows], row[edges])
    heads = torch.searchsorted(colptr, edges, right=True) - 1
    assert torch.equal(nodes[columns], heads)
    degree = colptr[1:] - colptr[:-1]
    if directed:
        taken = columns.bincount(minlength=len(nodes))
        expected = torch.where(torch.arange(len(nodes)) < 3, 3, 2)
        if not replace:
            assert len(set(edges.tolist())) == len(edges)
            expected = expected.minimum(degree[nodes])
        inner = torch.arange(len(nodes)) <= columns.max()
        assert torch.equal(taken[inner], torch.where(degree[nodes] > 0, expected, 0)[inner])
        assert set(nodes[3:].tolist()) <= set(row[edges].tolist())
    else:
        among = torch.isin(row, nodes) & torch.isin(torch.searchsorted(colptr, torch.arange(150), right=True) - 1, nodes)
        assert sorted(edges.tolist()) == among.nonzero().flatten().tolist()


NODES, EDGES = ["a", "b"], [("a", "to", "b"), ("b", "to", "a"), ("a", "in", "a")]


def typed() -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
    graphs = {"__".join(kind): graph(30, 120) for kind in EDGES}
    return {name: each[0] for name, each in graphs.items()}, {name: each[1] for name, each in graphs.items()}


def test_neighbours_of_several_kinds(ops) -> None:
    colptrs, rows = typed()
    start = {"a": torch.tensor([1, 5]), "b": torch.tensor([7])}
    counts = {name: [2, 1] for name in colptrs}
    for directed in (True, False):
        nodes, sources, targets, edges = ops.hetero_neighbor_sample(
            NODES, EDGES, colptrs, rows, start, counts, 2, False, directed
        )
        for source, relation, target in EDGES:
            name = f"{source}__{relation}__{target}"
            heads = torch.searchsorted(colptrs[name], edges[name], right=True) - 1
            assert len(edges[name]) and torch.equal(nodes[source][sources[name]], rows[name][edges[name]])
            assert torch.equal(nodes[target][targets[name]], heads)
            if directed:
                first = targets[name] < len(start[target])
                taken = targets[name][first].bincount(minlength=len(start[target]))
                assert taken.tolist() == (colptrs[name].diff()[start[target]]).clamp(max=2).tolist()
        assert all(torch.equal(nodes[kind][: len(each)], each) for kind, each in start.items())
        assert all(len(set(each.tolist())) == len(each) for each in nodes.values())


def test_neighbours_in_time_are_none_of_the_future_and_of_one_root(ops) -> None:
    colptrs, rows = typed()
    times = {"a": torch.arange(30), "b": torch.arange(30).flip(0)}
    start = {"a": torch.tensor([12, 20])}
    counts = {name: [4, 4] for name in colptrs}
    nodes, sources, targets, _ = ops.hetero_temporal_neighbor_sample(
        NODES, EDGES, colptrs, rows, start, counts, times, 2, False, True
    )
    roots = {"a": {0: 0, 1: 1}, "b": {}}
    for _ in range(4):
        for source, relation, target in EDGES:
            name = f"{source}__{relation}__{target}"
            for head, tail in zip(targets[name].tolist(), sources[name].tolist()):
                if head in roots[target]:
                    assert roots[source].setdefault(tail, roots[target][head]) == roots[target][head]
    for kind, each in roots.items():
        assert len(each) == len(nodes[kind]) > 3
        for place, root in each.items():
            assert times[kind][nodes[kind][place]] <= times["a"][start["a"][root]]
    with pytest.raises(RuntimeError, match="requires 'directed' sampling"):
        ops.hetero_temporal_neighbor_sample(NODES, EDGES, colptrs, rows, start, counts, times, 2, False, False)


def test_samples_by_budgets(ops) -> None:
    colptrs, rows = typed()
    counts = {"a": [3, 4], "b": [5, 2]}
    nodes, sources, targets, edges = ops.hgt_sample(colptrs, rows, {"a": torch.tensor([4])}, counts, 2)
    assert nodes["a"][0] == 4 and len(nodes["a"]) <= 8 and len(nodes["b"]) <= 7
    for source, relation, target in EDGES:
        name = f"{source}__{relation}__{target}"
        heads = torch.searchsorted(colptrs[name], torch.arange(120), right=True) - 1
        among = torch.isin(rows[name], nodes[source]) & torch.isin(heads, nodes[target])
        assert edges[name].sort().values.tolist() == among.nonzero().flatten().tolist()
        assert torch.equal(nodes[source][sources[name]], rows[name][edges[name]])
        assert torch.equal(nodes[target][targets[name]], heads[edges[name]])


def test_budgets_count_as_their_squares(ops) -> None:
    """Node 0 has neighbours 1 and 2, node 5 only 1: their budgets are 1.5 and 0.5, their chances 9 to 1."""
    colptr = {"n__to__n": torch.tensor([0, 2, 2, 2, 2, 2, 3])}
    row = {"n__to__n": torch.tensor([1, 2, 1])}
    drawn = [ops.hgt_sample(colptr, row, {"n": torch.tensor([0, 5])}, {"n": [1]}, 1)[0]["n"][2].item() for _ in range(400)]
    assert set(drawn) == {1, 2} and 0.84 < drawn.count(1) / 400 < 0.96


@pytest.mark.parametrize("replace", [False, True])
def test_graphs_around_nodes(ops, replace: bool) -> None:
    colptr, row = graph(30, 70)
    idx = torch.tensor([2, 11, 5])
    begins, columns, nodes, edges, limits, roots = ops.ego_k_hop_sample_adj(colptr, row, idx, 2, 1000, replace)
    assert torch.equal(nodes[roots], idx) and limits[0] == 0 and limits[-1] == len(nodes) == len(begins) - 1
    heads = torch.repeat_interleave(torch.arange(len(nodes)), begins.diff())
    assert torch.equal(nodes[columns], row[edges]) and torch.equal(
        nodes[heads], torch.searchsorted(colptr, edges, right=True) - 1
    )
    lists = [row[colptr[node] : colptr[node + 1]].tolist() for node in range(30)]
    for at, root in enumerate(idx.tolist()):
        one = {root, *lists[root]}
        two = one | {far for near in one for far in lists[near]}
        assert nodes[limits[at] : limits[at + 1]].tolist() == sorted(two)
        inner = sum(far in two for near in two for far in lists[near])
        assert inner == begins[limits[at + 1]] - begins[limits[at]]
    few = ops.ego_k_hop_sample_adj(colptr, row, idx, 1, 1, replace)
    assert all(few[4].diff() <= 2)
