"""Operators beside their ONNX models: selection, gathering, scattering, sorting, and what makes tensors.

Run by test_onnx_operators.
"""

from onnx_cases import Cases, ints, randn

import flambeau as torch
import flambeau.nn.functional as F

CASES = case = Cases()
x = randn(2, 3, 4)
case(lambda a: a[1], x)
case(lambda a: a[:, -1], x)
case(lambda a: a[:, 1:], x)
case(lambda a: a[..., ::2], x)
case(lambda a: a[:, None, 0:2], x)
case(lambda a: a[:, :-1], x)
case(lambda a: a.narrow(1, 1, 2), x)
case(lambda a: a.tril(), randn(3, 4))
case(lambda a: a.triu(1), randn(3, 4))
case(lambda a: (a > 0).tril(-1), randn(3, 4))
case(lambda a: torch.diag_embed(a), randn(2, 3))
case(lambda a: torch.diag_embed(a, 1), randn(2, 3))
case(lambda a: torch.diag_embed(a, -1), randn(2, 3))
case(lambda a: torch.diag(a), randn(3))
case(lambda a: torch.diag(a), randn(3, 4))
case(lambda a: torch.trace(a), randn(3, 3))
case(lambda a, s: torch.select_scatter(a, s, 1, -1), randn(2, 3), randn(2))
case(lambda a, s: torch.slice_scatter(a, s, 1, 1, 3), randn(2, 4), randn(2, 2))
case(lambda a, s: torch.slice_scatter(a, s, 1, 0, 4, 2), randn(2, 4), randn(2, 2))
case(lambda a, s: torch.diagonal_scatter(a, s, 1), randn(3, 4), randn(3))
case(lambda a, i: a.gather(1, i), randn(2, 5), ints(2, 3))
case(lambda a, i: torch.take_along_dim(a, i, 1), randn(2, 5), ints(1, 3))
case(lambda a, i: a.take(i), randn(2, 5), ints(3))
case(lambda a, i: a.index_select(1, i), randn(2, 5), ints(3))
case(lambda a, i, s: a.scatter(1, i, s), randn(2, 5), torch.tensor([[0, 1], [2, 3]]), randn(2, 2))
case(lambda a, i: a.scatter(1, i, 1.0), randn(2, 5), ints(2, 2))
case(lambda a, i, s: a.scatter_add(1, i, s), randn(2, 5), ints(2, 3), randn(2, 3))
case(lambda a, i, s: a.scatter_reduce(1, i, s, "amax"), randn(2, 5), ints(2, 3), randn(2, 3))
case(lambda a, i, s: a.scatter_reduce(1, i, s, "mean"), randn(2, 5), ints(2, 3), randn(2, 3))
case(lambda a, i, s: a.scatter_reduce(1, i, s, "sum", include_self=False), randn(2, 5), ints(2, 3), randn(2, 3))
case(lambda a, i, s: a.scatter_reduce(1, i, s, "mean", include_self=False), randn(2, 5), ints(2, 3), randn(2, 3))
case(lambda a, i, s: a.index_add(1, i, s), randn(2, 5), ints(3), randn(2, 3))
case(lambda a, i, s: a.index_copy(1, i, s), randn(2, 5), torch.tensor([0, 2, 4]), randn(2, 3))
case(lambda a, i: a.index_fill(1, i, 3.0), randn(2, 5), torch.tensor([0, 2, 4]))
case(lambda a, i: a[i], randn(5, 4), ints(3))
case(lambda a, i: a[:, i], randn(2, 5, 4), ints(3, 2))
case(lambda a, i, j: a[i, j], randn(5, 6, 4), ints(3), ints(3))
case(lambda a, i, j: a[:, i, j], randn(2, 5, 6, 4), ints(3, 1), ints(1, 2))
case(lambda a, i, j: a[i, :, j], randn(5, 3, 6), ints(3), ints(3))
case(lambda a, i: a[:, i, :, i], randn(2, 5, 3, 6), ints(3))
case(lambda a: a[:, [0, 2]], randn(2, 3))
case(lambda a, i: a[0, i], randn(2, 5), ints(2))


def put(a, i, v):
    a = a.clone()
    a[i] = v
    return a


def put2(a, i, j, v):
    a = a.clone()
    a[i, j] = v
    return a


def put3(a, i, v):
    a = a.clone()
    a[:, i] = v
    return a


def mput(a):
    a = a.clone()
    a[a > 0] = 0.0
    return a


case(put, randn(5, 4), torch.tensor([0, 3]), randn(2, 4))
case(put2, randn(5, 4), torch.tensor([0, 3]), torch.tensor([1, 2]), randn(2))
case(put3, randn(5, 4, 2), torch.tensor([0, 3]), randn(5, 2, 2))
case(mput, randn(3, 4))
case(lambda a, i, v: a.index_put((i,), v, accumulate=True), randn(5, 4), ints(6), randn(6, 4))


def sl(a):
    a = a.clone()
    a[:, 1:3] = 0
    a[0] += 1
    return a


case(sl, randn(3, 4))
case(lambda a, m, s: a.masked_scatter(m, s), randn(2, 3), randn(2, 3) > 0, randn(6))
case(lambda i, w: F.embedding(i, w), ints(2, 3), randn(5, 4))
case(lambda i: F.one_hot(i, 5), ints(2, 3))
case(lambda i, w, o: F.embedding_bag(i, w, o, mode="sum"), ints(6), randn(5, 4), torch.tensor([0, 2, 2]))
case(lambda i, w: F.embedding_bag(i, w, mode="mean"), ints(2, 3), randn(5, 4))
case(lambda a: a.topk(2, 1), randn(3, 5))
case(lambda a: a.topk(2, 1, False), randn(3, 5))
case(lambda a: a.sort(1), randn(3, 5))
case(lambda a: a.sort(-1, descending=True), randn(3, 5))
case(lambda a: a.argsort(1), randn(3, 5))
case(lambda a: torch.msort(a), randn(3, 5))
case(lambda a: a.kthvalue(2, 1), randn(3, 5))
case(lambda a, b: torch.bucketize(a, b), randn(3, 5), torch.tensor([-1.0, 0, 1]))
case(lambda a, b: torch.searchsorted(b, a, right=True), randn(3), torch.tensor([-1.0, 0, 1]))
case(lambda a, b: torch.searchsorted(b, a), randn(2, 3), randn(2, 4).sort(1)[0])
case(lambda a, b: torch.isin(a, b), ints(3, 4), ints(2))
case(lambda a: a + torch.arange(4), randn(4))
case(lambda a: a + torch.arange(1, 9, 2), randn(4))
case(lambda a: a + torch.linspace(0, 1, 4), randn(4))
case(lambda a: a + torch.zeros(3, 4) + torch.ones(4) + torch.full((4,), 2.0), randn(4))
case(lambda a: a + torch.zeros_like(a) + torch.ones_like(a) + torch.full_like(a, 3), randn(4))
case(lambda a: a + a.new_zeros(4) + a.new_ones(4) + a.new_full((4,), 2.0), randn(4))
case(lambda a: a @ torch.eye(4), randn(4))
case(lambda a: a * torch.tensor([1.0, 2, 3, 4]), randn(4))
case(lambda a: a[torch.tril_indices(3, 3)[0]], randn(3))
case(lambda a: a * torch.ones(4, dtype=torch.bool), randn(4))
