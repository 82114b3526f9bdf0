"""The operators of torch_sparse's compiled libraries: products with sparse matrices, their rows, and samples of graphs.

A matrix is in compressed rows: `rowptr`, where each row begins, and `col`, with a value for each entry or none, which is 1.
Written in the public operators, which give the gradients. Samples of several hops are `graph_samples`'; stands on `definitions`,
`graphs` and `torch_scatter`; the table of extensions imports it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import flambeau as torch
from flambeau.core.tensor.tensor import Tensor
from flambeau.extensions import graph_samples
from flambeau.extensions.definitions import define
from flambeau.extensions.graphs import chosen_edges, edges_among, edges_of, numbered, random_walk
from flambeau.extensions.torch_scatter import segment_csr_extreme

__all__ = ["register"]


def _ptr2ind(ptr: Tensor, E: int) -> Tensor:
    """The row of each of E entries."""
    return torch.repeat_interleave(torch.arange(ptr.numel() - 1), ptr[1:] - ptr[:-1], output_size=E)


def _ind2ptr(ind: Tensor, M: int) -> Tensor:
    """Where each of M rows begins, of sorted rows of entries."""
    return torch.searchsorted(ind, torch.arange(M + 1))


def _non_diag_mask(row: Tensor, col: Tensor, M: int, N: int, k: int) -> Tensor:
    """Of the entries that there are when the k-th diagonal is put in, whose entries aren't there yet: which are not of it."""
    first, length = max(-k, 0), min(M + k, N) if k < 0 else min(M, N - k)
    before = (row - first + (col > row + k)).clamp(0, max(length, 0))  # entries of the diagonal before each
    mask = torch.zeros(row.numel() + length, dtype=torch.bool)
    mask[torch.arange(row.numel()) + before] = True
    return mask


# ---------------------------------------------------------------- products


def _terms(col: Tensor, value: Tensor | None, mat: Tensor) -> Tensor:
    """`[..., entries, K]`: what each entry adds to its row."""
    rows = mat.index_select(-2, col)
    return rows if value is None else rows * value[:, None]


def _spmm_sum(
    row: Tensor | None,
    rowptr: Tensor,
    col: Tensor,
    value: Tensor | None,
    colptr: Tensor | None,
    csr2csc: Tensor | None,
    mat: Tensor,
) -> Tensor:
    row = _ptr2ind(rowptr, col.numel()) if row is None else row
    start = mat.new_zeros(*mat.shape[:-2], rowptr.numel() - 1, mat.size(-1))
    return start.index_add(-2, row, _terms(col, value, mat))


def _spmm_mean(
    row: Tensor | None,
    rowptr: Tensor,
    col: Tensor,
    value: Tensor | None,
    rowcount: Tensor | None,
    colptr: Tensor | None,
    csr2csc: Tensor | None,
    mat: Tensor,
) -> Tensor:
    counts = rowptr[1:] - rowptr[:-1] if rowcount is None else rowcount
    return _spmm_sum(row, rowptr, col, value, colptr, csr2csc, mat) / counts.clamp(min=1).to(mat.dtype)[:, None]


def _spmm_extreme(name: str) -> Callable[..., tuple[Tensor, Tensor]]:
    reduced = segment_csr_extreme(name)

    def answer(rowptr: Tensor, col: Tensor, value: Tensor | None, mat: Tensor) -> tuple[Tensor, Tensor]:
        """(results, which entry gave each; the number of entries where a row has none)."""
        return reduced(_terms(col, value, mat), rowptr.reshape([*[1] * (mat.dim() - 2), -1]), None)

    return answer


# ---------------------------------------------------------------- parts of graphs


def _partition(*operands: Any) -> Tensor:
    raise RuntimeError("Not compiled with METIS support")


def _random_walk(rowptr: Tensor, col: Tensor, start: Tensor, walk_length: int) -> Tensor:
    return random_walk(rowptr, col, start, walk_length, 1, 1)[0]


def _saint_subgraph(idx: Tensor, rowptr: Tensor, row: Tensor, col: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """(rows, columns, edges) of the graph among the nodes `idx`, numbered by their places."""
    return edges_among(rowptr, col, idx, idx)


def _relabel(col: Tensor, idx: Tensor) -> tuple[Tensor, Tensor]:
    """(numbers of the nodes `col`, the nodes by their numbers): those of `idx` first, then others as they appear."""
    numbers, new = numbered(idx, col)
    return numbers, torch.cat([idx, col[new]])


def _relabel_one_hop(
    rowptr: Tensor, col: Tensor, value: Tensor | None, idx: Tensor, bipartite: bool
) -> tuple[Tensor, Tensor, Tensor | None, Tensor]:
    """(rowptr, col, value, nodes) of the rows `idx`; without `bipartite`, nodes that are new have rows without entries."""
    owner, edges = edges_of(rowptr, idx)
    numbers, nodes = _relabel(col[edges], idx)
    begins = _ind2ptr(owner, idx.numel() if bipartite else nodes.numel())
    return begins, numbers, None if value is None else value[edges], nodes


def _sample_adj(
    rowptr: Tensor, col: Tensor, idx: Tensor, num_neighbors: int, replace: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """(rowptr, col, nodes, edges) of a choice of the edges of the rows `idx`; a row's columns are sorted by their numbers."""
    owner, edges = chosen_edges(rowptr, idx, num_neighbors, replace)
    numbers, nodes = _relabel(col[edges], idx)
    order = torch.argsort(owner * max(nodes.numel(), 1) + numbers, stable=True)
    return _ind2ptr(owner, idx.numel()), numbers[order], nodes, edges[order]


_TWO, _FOUR = (f"({', '.join(f'Tensor _{at}' for at in range(count))})" for count in (2, 4))
_DICTS = "(Dict(str, Tensor) _0, Dict(str, Tensor) _1, Dict(str, Tensor) _2, Dict(str, Tensor) _3)"
_TYPED = "str[] _0, (str, str, str)[] _1, Dict(str, Tensor) _2, Dict(str, Tensor) _3, Dict(str, Tensor) _4, Dict(str, int[]) _5"
_MATRIX = "Tensor _0, Tensor _1, Tensor? _2"
_OPERATORS: dict[str, Callable[..., Any]] = {
    "cuda_version() -> int _0": lambda: -1,
    "ptr2ind(Tensor _0, int _1) -> Tensor _0": _ptr2ind,
    "ind2ptr(Tensor _0, int _1) -> Tensor _0": _ind2ptr,
    "non_diag_mask(Tensor _0, Tensor _1, int _2, int _3, int _4) -> Tensor _0": _non_diag_mask,
    "spmm_sum(Tensor? _0, Tensor _1, Tensor _2, Tensor? _3, Tensor? _4, Tensor? _5, Tensor _6) -> Tensor _0": _spmm_sum,
    "spmm_mean(Tensor? _0, Tensor _1, Tensor _2, Tensor? _3, Tensor? _4, Tensor? _5, Tensor? _6, Tensor _7) -> Tensor _0": _spmm_mean,
    f"spmm_min({_MATRIX}, Tensor _3) -> {_TWO}": _spmm_extreme("amin"),
    f"spmm_max({_MATRIX}, Tensor _3) -> {_TWO}": _spmm_extreme("amax"),
    f"partition({_MATRIX}, int _3, bool _4) -> Tensor _0": _partition,
    f"partition2({_MATRIX}, Tensor? _3, int _4, bool _5) -> Tensor _0": _partition,
    f"mt_partition({_MATRIX}, Tensor? _3, int _4, bool _5, int _6) -> Tensor _0": _partition,
    "random_walk(Tensor _0, Tensor _1, Tensor _2, int _3) -> Tensor _0": _random_walk,
    "saint_subgraph(Tensor _0, Tensor _1, Tensor _2, Tensor _3) -> (Tensor _0, Tensor _1, Tensor _2)": _saint_subgraph,
    f"relabel(Tensor _0, Tensor _1) -> {_TWO}": _relabel,
    f"relabel_one_hop({_MATRIX}, Tensor _3, bool _4) -> (Tensor _0, Tensor _1, Tensor? _2, Tensor _3)": _relabel_one_hop,
    f"sample_adj(Tensor _0, Tensor _1, Tensor _2, int _3, bool _4) -> {_FOUR}": _sample_adj,
    "ego_k_hop_sample_adj(Tensor _0, Tensor _1, Tensor _2, int _3, int _4, bool _5) -> "
    "(Tensor _0, Tensor _1, Tensor _2, Tensor _3, Tensor _4, Tensor _5)": graph_samples.ego_k_hop,
    f"neighbor_sample(Tensor _0, Tensor _1, Tensor _2, int[] _3, bool _4, bool _5) -> {_FOUR}": graph_samples.neighbors,
    f"hetero_neighbor_sample({_TYPED}, int _6, bool _7, bool _8) -> {_DICTS}": graph_samples.typed_neighbors,
    f"hetero_temporal_neighbor_sample({_TYPED}, Dict(str, Tensor) _6, int _7, bool _8, bool _9) -> {_DICTS}": graph_samples.typed_neighbors_in_time,
    f"hgt_sample(Dict(str, Tensor) _0, Dict(str, Tensor) _1, Dict(str, Tensor) _2, Dict(str, int[]) _3, int _4) -> {_DICTS}": graph_samples.by_budgets,
}


def register() -> list[Any]:
    """Define the operators of `torch.ops.torch_sparse`; returns the library that holds them."""
    return define("torch_sparse", _OPERATORS)
