"""Similarity and distance of vectors: cosine_similarity, pairwise_distance, pdist.

Written in operators. Stands on ops.magnitude and ops.facts; used by ops.loss and nn.functional. cdist is in ops.matmul's
neighbourhood.
"""

from __future__ import annotations

from flambeau.base import geometry
from flambeau.core.annotations import Number
from flambeau.core.declare import composite
from flambeau.core.derive import NAMESPACE, pointwise
from flambeau.core.tensor import Tensor
from flambeau.ir import scalar as s
from flambeau.ops.facts import result_type
from flambeau.ops.magnitude import vector_norm


@composite(method=False)
def cosine_similarity(x1: Tensor, x2: Tensor, dim=1, eps=1e-8):
    """x1 . x2 / (max(|x1|, eps) max(|x2|, eps)) along `dim`; the shapes broadcast. Returns them without `dim`.

    Raises RuntimeError for integers.
    """
    common = result_type(x1, x2) if x1.dtype is not x2.dtype else x1.dtype
    if not common.is_floating_point:
        raise RuntimeError(f"expected common dtype to be floating point, yet common dtype is {common.scalar_name}")
    shape = geometry.broadcast(x1._layout.shape, x2._layout.shape)
    x1, x2 = x1.to(common).expand(shape), x2.to(common).expand(shape)
    sizes = [raised(vector_norm(x, 2, dim, True), eps) for x in (x1, x2)]
    return _scaled_product(x1, sizes[0], x2, sizes[1]).sum(dim)


@pointwise(method=False, function=False, inplace=False, name="_raised")
def raised(size: Tensor, least: Number = 0.0):
    """The larger of size and least, whose gradient passes to size everywhere, as PyTorch's does."""
    return s.where(size < least, least, size)


@raised.vjp
def _(g):
    return g


@pointwise(method=False, function=False, inplace=False)
def _scaled_product(x: Tensor, size: Tensor, y: Tensor, other_size: Tensor):
    return (x / size) * (y / other_size)


@composite(method=False, node="NormBackward1")
def pairwise_distance(x1: Tensor, x2: Tensor, p=2.0, eps=1e-6, keepdim=False):
    """The p-norm of x1 - x2 + eps over the last dimension; the shapes broadcast."""
    shape = geometry.broadcast(x1._layout.shape, x2._layout.shape)
    return vector_norm(x1 - x2 + eps, float(p), max(len(shape) - 1, 0), keepdim)


@composite(method=False, node="PdistBackward0")
def pdist(input: Tensor, p=2.0):
    """The p-norm distances of all pairs of rows i < j of an (N, M) matrix: (N (N - 1) / 2,)."""
    if input.dim() != 2:
        raise RuntimeError(f"pdist only supports 2D tensors, got: {input.dim()}D")
    if p < 0:
        raise RuntimeError("pdist only supports non-negative p values")
    n = input.size(0)
    pairs = NAMESPACE["triu_indices"](n, n, 1)
    return vector_norm(input.index_select(0, pairs[0]) - input.index_select(0, pairs[1]), float(p), 1)
