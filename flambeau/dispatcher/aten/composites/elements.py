"""Operators of elements, and rearrangements, that are another operator's special case, as exported graphs have them."""

from __future__ import annotations

import math
from typing import Any

from flambeau.base import dtype as dtypes
from flambeau.base.layout import contiguous_format, preserve_format, strided
from flambeau.dispatcher.aten.composites import helpers
from flambeau.dispatcher.aten.composites.registry import aten, composite

__all__: list[str] = []


@composite("where.Scalar", "where.ScalarSelf", "where.ScalarOther")
def where(condition: Any, self: Any, other: Any) -> Any:
    return helpers.where(condition, self, other)


@composite("where.default")
def places(condition: Any) -> Any:
    return aten.unbind.int(aten.nonzero.default(condition), 1)


@composite("max.other")
def larger(self: Any, other: Any) -> Any:
    return aten.maximum.default(self, other)


@composite("min.other")
def smaller(self: Any, other: Any) -> Any:
    return aten.minimum.default(self, other)


@composite("float_power.Tensor_Scalar")
def float_power(self: Any, exponent: Any) -> Any:
    dtype = dtypes.complex128 if self.is_complex() else dtypes.float64
    return aten.pow.Tensor_Scalar(self if self.dtype is dtype else aten._to_copy.default(self, dtype=dtype), float(exponent))


@composite("float_power.Tensor_Tensor")
def float_power_of_tensors(self: Any, exponent: Any) -> Any:
    wide = dtypes.complex128 if self.is_complex() or exponent.is_complex() else dtypes.float64
    power, base = (x if x.dtype is wide else aten._to_copy.default(x, dtype=wide) for x in (exponent, self))
    return aten.pow.Tensor_Tensor(base, power)


@composite("isreal.default")
def isreal(self: Any) -> Any:
    if self.is_complex():
        return aten.eq.Scalar(aten.imag.default(self), 0)
    return aten.ones_like.default(self, dtype=dtypes.bool_, memory_format=preserve_format)


@composite("msort.default")
def msort(self: Any) -> Any:
    return aten.sort.default(self, 0)[0]


@composite("nanmean.default")
def nanmean(self: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    plain = aten.detach.default(self)
    counted = aten.logical_not_.default(aten.ne.Tensor(plain, plain))
    count = aten.sum.dim_IntList(counted, dim, *([True] if keepdim else []))
    total = aten.nansum.default(
        self,
        *([] if dim is None and not keepdim else [dim]),
        *([True] if keepdim else []),
        **({} if dtype is None else {"dtype": dtype}),
    )
    return aten.div.Tensor(total, count)


@composite("tensordot.default")
def tensordot(self: Any, other: Any, dims_self: Any, dims_other: Any) -> Any:
    done = [d % self.dim() for d in dims_self], [d % other.dim() for d in dims_other]
    rest = [d for d in range(self.dim()) if d not in done[0]], [d for d in range(other.dim()) if d not in done[1]]
    width = math.prod(self.shape[d] for d in done[0])
    if not rest[0] and not rest[1]:
        flat = aten.permute.default(self, list(dims_self)), aten.permute.default(other, list(dims_other))
        second = flat[1].reshape(width)
        return aten.dot.default(flat[0].reshape(width), second).reshape([])
    sizes = [self.shape[d] for d in rest[0]], [other.shape[d] for d in rest[1]]
    first = aten.permute.default(self, [*rest[0], *dims_self]).reshape(math.prod(sizes[0]), width)
    second = aten.permute.default(other, [*dims_other, *rest[1]]).reshape(width, math.prod(sizes[1]))
    return aten.mm.default(first, second).reshape([*sizes[0], *sizes[1]])


@composite("atleast_1d.default")
def atleast_1d(self: Any) -> Any:
    return self if self.dim() else self.reshape([1])


@composite("atleast_2d.default")
def atleast_2d(self: Any) -> Any:
    if not self.dim():
        return self.reshape([1, 1])
    return self if self.dim() > 1 else aten.unsqueeze.default(self, 0)


@composite("atleast_3d.default")
def atleast_3d(self: Any) -> Any:
    if not self.dim():
        return self.reshape([1, 1, 1])
    if self.dim() == 1:
        self = aten.unsqueeze.default(self, 0)
    return self if self.dim() > 2 else aten.unsqueeze.default(self, -1)


@composite("unsafe_chunk.default")
def unsafe_chunk(self: Any, chunks: int, dim: int = 0) -> Any:
    size = self.shape[dim]
    return NotImplemented if chunks < 1 or not size else aten.unsafe_split.Tensor(self, -(-size // chunks), dim)


@composite("diff.default")
def diff(self: Any, n: int = 1, dim: int = -1, prepend: Any = None, append: Any = None) -> Any:
    if prepend is not None or append is not None:
        parts = [x for x in (prepend, self, append) if x is not None]
        self = aten.cat.default(parts, dim)
    for _ in range(n):
        length = self.shape[dim]
        before = aten.slice.Tensor(self, dim, 0, length - 1)
        after = aten.slice.Tensor(self, dim, 1, length)
        compare = aten.bitwise_xor.Tensor if self.dtype is dtypes.bool_ else aten.sub.Tensor
        self = compare(after, before)
    return self


@composite("take_along_dim.default")
def take_along_dim(self: Any, indices: Any, dim: int | None = None) -> Any:
    if dim is None:
        return aten.gather.default(self.reshape(-1), 0, indices.reshape(-1))
    dim = dim % self.dim()
    both = [max(n, m) for n, m in zip(self.shape, indices.shape)]
    places = aten.expand.default(indices, [m if d == dim else n for d, (n, m) in enumerate(zip(both, indices.shape))])
    values = aten.expand.default(self, [m if d == dim else n for d, (n, m) in enumerate(zip(both, self.shape))])
    return aten.gather.default(values, dim, aten.remainder.Scalar(places, self.shape[dim]))


@composite("repeat_interleave.self_int")
def repeat_interleave(self: Any, repeats: int, dim: int | None = None, *, output_size: int | None = None) -> Any:
    flat = self.reshape(math.prod(self.shape)) if dim is None else self
    dim = 0 if dim is None else dim % flat.dim()
    shape = list(flat.shape)
    spread = aten.expand.default(aten.unsqueeze.default(flat, dim + 1), [*shape[: dim + 1], repeats, *shape[dim + 1 :]])
    copied = aten.clone.default(spread, memory_format=contiguous_format)
    return copied.view([*shape[:dim], shape[dim] * repeats, *shape[dim + 1 :]])


def _soft(name: str) -> None:
    @composite(f"{name}.int")
    def soft(self: Any, dim: int, dtype: Any = None) -> Any:
        if dtype is not None and dtype is not self.dtype:
            self = aten._to_copy.default(self, dtype=dtype, layout=strided, device=self.device)
        return getattr(aten, f"_{name}").default(self, dim, False)


_soft("softmax")
_soft("log_softmax")


# ---------------------------------------------------------------- linear algebra


@composite("linalg_norm.default")
def linalg_norm(A: Any, ord: Any = None, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    if ord is not None or dtype is not None:
        return NotImplemented
    along = [] if dim is None and not keepdim else [dim, True] if keepdim else [dim]
    return aten.linalg_vector_norm.default(A, 2.0, *along)


@composite("det.default", "linalg_det.default")
def det(A: Any) -> Any:
    return aten._linalg_det.default(A)[0]


@composite("linalg_svdvals.default")
def svdvals(A: Any, *, driver: Any = None) -> Any:
    return aten._linalg_svd.default(A)[1]


@composite("linalg_matrix_power.default", "matrix_power.default")
def matrix_power(self: Any, n: int) -> Any:
    if n < 0 or n == 0:
        return NotImplemented
    made, square = None, self
    if n == 3:
        return aten.matmul.default(aten.matmul.default(self, self), self)
    while n:
        if n & 1:
            made = square if made is None else aten.matmul.default(made, square)
        n >>= 1
        if n:
            square = aten.matmul.default(square, square)
    return made if made is not self else aten.clone.default(self)


@composite("broadcast_to.default")
def broadcast_to(self: Any, size: Any) -> Any:
    return aten.expand.default(self, list(size))
