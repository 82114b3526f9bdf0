"""torch.ops.torch_cluster: what loading torch_cluster's compiled libraries registers, beside the definitions."""

from __future__ import annotations

from pathlib import Path

import pytest

import flambeau as torch
from flambeau.extensions import torch_cluster


@pytest.fixture(autouse=True)
def ops(tmp_path: Path):
    """A file where the package has one; it isn't read."""
    path = tmp_path / "torch_cluster" / "_knn_cpu.so"
    path.parent.mkdir()
    path.touch()
    torch.ops.load_library(path)
    return torch.ops.torch_cluster


@pytest.fixture
def points() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    return torch.randn(40, 3), torch.randn(25, 3), torch.tensor([0, 30, 30, 40]), torch.tensor([0, 10, 12, 25])


def examples(ptr_x: torch.Tensor, ptr_y: torch.Tensor) -> list[tuple[range, range]]:
    x, y = ptr_x.tolist(), ptr_y.tolist()
    return [(range(*x[at : at + 2]), range(*y[at : at + 2])) for at in range(len(x) - 1)]


@pytest.mark.parametrize("block", [1, 100, 1 << 22])
def test_neighbours_are_those_of_the_example(ops, points, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_cluster, "_BLOCK", block)
    x, y, ptr_x, ptr_y = points
    distance = (y[:, None] - x).square().sum(-1).tolist()
    nearest, near = [], []
    for xs, ys in examples(ptr_x, ptr_y):
        for j in ys:
            nearest += [(j, i) for i in sorted(xs, key=distance[j].__getitem__)[:12]]
            near += [(j, i) for i in xs if distance[j][i] < 2.25][:4]
    assert ops.knn(x, y, ptr_x, ptr_y, 12, False, 1).t().tolist() == [list(pair) for pair in nearest]
    assert ops.radius(x, y, ptr_x, ptr_y, 1.5, 4, 1).t().tolist() == [list(pair) for pair in near]
    assert ops.radius(x, x, None, None, 0.0, 4, 1).shape == (2, 0)
    assert ops.knn(torch.tensor([[0], [5]]), torch.tensor([[4]]), None, None, 1, False, 1).tolist() == [[0], [1]]


def test_a_radius_excludes_its_border(ops) -> None:
    x = torch.tensor([[0.0], [1], [2]])
    assert ops.radius(x, x[:1], None, None, 2.0, 9, 1)[1].tolist() == [0, 1]


def test_what_the_processor_is_refused(ops) -> None:
    x = torch.ones(2, 2)
    with pytest.raises(RuntimeError, match="not supported on CPU"):
        ops.knn(x, x, None, None, 1, True, 1)
    with pytest.raises(RuntimeError, match="No CPU version"):
        ops.nearest(x, x, torch.tensor([0, 2]), torch.tensor([0, 2]))
    assert ops.cuda_version() == -1


def test_farthest_points(ops) -> None:
    line = torch.tensor([[0.0], [1], [10], [4], [0], [100], [103]])
    half = torch.tensor(0.5)
    assert ops.fps(line, torch.tensor([0, 4, 7]), half, False).tolist() == [0, 2, 4, 6]
    assert ops.fps_ptr_list(line, [0, 4, 7], torch.tensor([0.75, 0.1]), False).tolist() == [0, 2, 3, 4]
    assert {int(ops.fps(line, torch.tensor([0, 7]), torch.tensor(0.1), True)) for _ in range(60)} == set(range(7))


def test_cells_of_a_grid(ops) -> None:
    pos = torch.tensor([[0.0, 0], [11, 9], [2, 8], [2, 2], [8, 3]])
    size = torch.tensor([5.0, 5])
    assert ops.grid(pos, size, None, None).tolist() == [0, 5, 3, 0, 1]
    assert ops.grid(pos, size, torch.tensor([-5.0, 0]), torch.tensor([14.0, 9])).tolist() == [1, 7, 5, 1, 2]


def test_a_matching_is_of_neighbours_and_maximal(ops) -> None:
    rowptr, col = torch.tensor([0, 2, 5, 7, 8, 8]), torch.tensor([1, 2, 0, 2, 3, 0, 1, 1])
    edges = {(0, 1), (0, 2), (1, 2), (1, 3)}
    for _ in range(20):
        cluster = ops.graclus(rowptr, col, None).tolist()
        pairs = {tuple(i for i, c in enumerate(cluster) if c == name) for name in set(cluster)}
        assert all(min(pair) == cluster[pair[0]] and (len(pair) == 1 or pair in edges) for pair in pairs)
        single = {pair[0] for pair in pairs if len(pair) == 1}
        assert not any(a in single and b in single for a, b in edges)
    heavy = torch.tensor([1.0, 9, 1, 1, 5, 9, 1, 5])
    assert ops.graclus(rowptr, col, heavy).tolist() == [0, 1, 0, 1, 4]
    assert ops.graclus(rowptr, col, -heavy).tolist() == [0, 1, 2, 3, 4]


def test_walks_follow_edges(ops) -> None:
    torch.manual_seed(0)
    rowptr, col = torch.tensor([0, 2, 4, 6, 6]), torch.tensor([1, 2, 0, 2, 1, 3])
    start = torch.tensor([0, 1, 2, 3] * 50)
    for p, q in ((1.0, 1.0), (0.5, 2.0)):
        nodes, edges = ops.random_walk(rowptr, col, start, 4, p, q)
        assert nodes.shape == (200, 5) and edges.shape == (200, 4) and torch.equal(nodes[:, 0], start)
        stays = edges < 0
        assert torch.equal(stays, nodes[:, :-1] == 3) and torch.equal(nodes[:, 1:][stays], nodes[:, :-1][stays])
        assert torch.equal(nodes[:, 1:][~stays], col[edges[~stays]])
        assert bool(((edges >= rowptr[nodes[:, :-1]]) & (edges < rowptr[nodes[:, :-1] + 1]))[~stays].all())


def test_steps_weigh_as_node2vec_says(ops) -> None:
    """From 0 over 1, whose neighbours are 0 (the way back), 2 (a neighbour of 0) and 3 (neither)."""
    torch.manual_seed(0)
    rowptr = torch.tensor([0, 2, 5, 7, 8])
    col = torch.tensor([1, 2, 0, 2, 3, 0, 1, 1])
    nodes, _ = ops.random_walk(rowptr, col, torch.zeros(20000, dtype=torch.long), 2, 4.0, 0.5)
    counts = nodes[nodes[:, 1] == 1, 2].bincount(minlength=4)
    shares = counts / counts.sum()
    torch.testing.assert_close(shares, torch.tensor([0.25, 0, 1, 2]) / 3.25, atol=0.02, rtol=0)


def test_sampled_edges_are_different_ones_of_their_nodes(ops) -> None:
    rowptr, start = torch.tensor([0, 5, 5, 7, 17]), torch.tensor([3, 0, 1, 2])
    seen = set()
    for _ in range(60):
        picked = ops.neighbor_sampler(start, rowptr, 3, -1.0).tolist()
        assert len(picked) == 8 == len(set(picked)) and {5, 6} == set(picked[6:])
        assert all(7 <= e < 17 for e in picked[:3]) and all(0 <= e < 5 for e in picked[3:6])
        seen.update(picked)
    assert seen == set(range(17)) and len(ops.neighbor_sampler(start, rowptr, -1, 0.5)) == 5 + 3 + 0 + 1
