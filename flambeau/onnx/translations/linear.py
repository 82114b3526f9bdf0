"""Translations of linear algebra: linear, products of matrices, einsum, distances."""

from __future__ import annotations

from typing import Any

from flambeau.onnx._builder import Builder
from flambeau.onnx._graph import Value
from flambeau.onnx._registry import translation
from flambeau.onnx.translations._common import axes_of, unsupported
from flambeau.onnx.translations.reduction import reduced, vector_norm


@translation("linear")
def linear(b: Builder, x: Value, weight: Value, bias: Value | None = None) -> Value:
    """x @ weight.T + bias: Gemm for matrices."""
    if x.rank == 2 and weight.rank == 2:
        return b.op("Gemm", x, weight, bias, transB=1)
    made = b.op("MatMul", x, b.swap(weight, -2, -1) if weight.rank > 1 else weight)
    return made if bias is None else b.op("Add", made, bias)


@translation("mm", "bmm", "matmul", "mv", "dot", "vdot", "linalg_matmul")
def matmul(b: Builder, x: Value, y: Value) -> Value:
    """x @ y."""
    return b.op("MatMul", x, y)


@translation("addmm")
def addmm(b: Builder, x: Value, first: Value, second: Value, *, beta: Any = 1, alpha: Any = 1) -> Value:
    """beta * x + alpha * first @ second."""
    if b.out.dtype.is_floating_point:
        return b.op("Gemm", first, second, x, alpha=float(alpha), beta=float(beta))
    return _added(b, x, b.op("MatMul", first, second), beta, alpha)


def _added(b: Builder, x: Value, made: Value, beta: Any, alpha: Any) -> Value:
    made = made if alpha == 1 else b.op("Mul", made, alpha)
    return made if beta == 0 else b.op("Add", x if beta == 1 else b.op("Mul", x, beta), made)


@translation("baddbmm", "addmv")
def baddbmm(b: Builder, x: Value, first: Value, second: Value, *, beta: Any = 1, alpha: Any = 1) -> Value:
    """beta * x + alpha * first @ second."""
    return _added(b, x, b.op("MatMul", first, second), beta, alpha)


@translation("addbmm")
def addbmm(b: Builder, x: Value, first: Value, second: Value, *, beta: Any = 1, alpha: Any = 1) -> Value:
    """beta * x + alpha * the sum of the products of a batch."""
    made = b.op("MatMul", first, second, shape=[1, 1, 1])
    return _added(b, x, reduced(b, "ReduceSum", made, 0), beta, alpha)


@translation("addr")
def addr(b: Builder, x: Value, first: Value, second: Value, *, beta: Any = 1, alpha: Any = 1) -> Value:
    """beta * x + alpha * the outer product."""
    return _added(b, x, outer(b, first, second), beta, alpha)


@translation("outer", "ger")
def outer(b: Builder, x: Value, y: Value) -> Value:
    """The products of all pairs."""
    return b.op("Mul", b.unsqueeze(x, 1), y)


@translation("inner")
def inner(b: Builder, x: Value, y: Value) -> Value:
    """Products along the last dimensions."""
    if not x.rank or not y.rank:
        return b.op("Mul", x, y)
    left, right = "abcdefghij"[: x.rank - 1], "klmnopqrst"[: y.rank - 1]
    return b.op("Einsum", x, y, equation=f"{left}z,{right}z->{left}{right}")


@translation("linalg_vecdot")
def vecdot(b: Builder, x: Value, y: Value, *, dim: int = -1) -> Value:
    """Sums of products along a dimension."""
    return b.op("ReduceSum", b.op("Mul", x, y), [dim], keepdims=0)


@translation("tensordot")
def tensordot(b: Builder, x: Value, y: Value, dims_self: list[int], dims_other: list[int]) -> Value:
    """Products summed along pairs of dimensions."""
    letters = iter("abcdefghijklmnopqrstuvwxyz")
    left = [next(letters) for _ in range(x.rank)]
    pairs = dict(zip(axes_of(y, dims_other) if dims_other else [], axes_of(x, dims_self) if dims_self else []))
    right = [left[pairs[d]] if d in pairs else next(letters) for d in range(y.rank)]
    kept = [n for n in left + right if not (n in left and n in right)]
    return b.op("Einsum", x, y, equation=f"{''.join(left)},{''.join(right)}->{''.join(kept)}")


@translation("einsum")
def einsum(b: Builder, equation: str, tensors: list[Value], *, path: Any = None) -> Value:
    """Einstein's sums."""
    return b.op("Einsum", *[b.cast(x, b.out.dtype) for x in tensors], equation=equation.replace(" ", ""))


@translation("bilinear")
def bilinear(b: Builder, x: Value, y: Value, weight: Value, bias: Value | None = None) -> Value:
    """x @ weight[o] @ y, for each output."""
    made = b.op("Einsum", x, weight, y, equation="...i,oij,...j->...o")
    return made if bias is None else b.op("Add", made, bias)


@translation("linalg_det", "det")
def det(b: Builder, x: Value) -> Value:
    """The determinant."""
    return b.op("Det", x)


@translation("linalg_cross", "cross")
def cross(b: Builder, x: Value, y: Value, dim: int | None = -1) -> Value:
    """The product of vectors in space, at right angles to both."""
    if dim is None:
        dim = next((d for d in range(x.rank) if x.shape[d] == 3), -1)
    first = [b.op("Gather", z, order, axis=dim) for z, order in ((x, [1, 2, 0]), (y, [2, 0, 1]))]
    second = [b.op("Gather", z, order, axis=dim) for z, order in ((x, [2, 0, 1]), (y, [1, 2, 0]))]
    return b.op("Sub", b.op("Mul", *first), b.op("Mul", *second))


@translation("kron")
def kron(b: Builder, x: Value, y: Value) -> Value:
    """A block of y for each element of x."""
    rank = max(x.rank, y.rank)
    x, y = (b.unsqueeze(z, *range(rank - z.rank)) if z.rank < rank else z for z in (x, y))
    wide = b.op("Mul", b.unsqueeze(x, *range(1, 2 * rank, 2)), b.unsqueeze(y, *range(0, 2 * rank, 2)))
    return b.reshape(wide, [n * m for n, m in zip(b.sizes(x), b.sizes(y))])


# ---------------------------------------------------------------- distances


@translation("cdist", "_cdist_forward")
def cdist(b: Builder, x: Value, y: Value, p: float = 2.0, compute_mode: int | None = None) -> Value:
    """Distances of the rows of one tensor from those of another."""
    away = b.op("Sub", b.unsqueeze(x, x.rank - 1), b.unsqueeze(y, y.rank - 2), shape=[1] * (max(x.rank, y.rank) + 1))
    return vector_norm(b, away, p, -1)


@translation("pairwise_distance")
def pairwise_distance(b: Builder, x: Value, y: Value, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> Value:
    """Distances of rows."""
    away = b.op("Add", b.op("Sub", x, y), float(eps), shape=[1] * max(x.rank, y.rank))
    return vector_norm(b, away, p, -1, keepdim)


@translation("cosine_similarity")
def cosine_similarity(b: Builder, x: Value, y: Value, dim: int = 1, eps: float = 1e-8) -> Value:
    """The cosine of the angle between vectors."""
    if x.rank != y.rank:
        raise unsupported(b, "of tensors of different ranks; unsqueeze one")
    x, y = b.cast(x, b.out.dtype), b.cast(y, b.out.dtype)
    product = b.op("ReduceSum", b.op("Mul", x, y), [dim], keepdims=0)
    sizes = [b.op("Max", vector_norm(b, z, 2, dim), float(eps)) for z in (x, y)]
    return b.op("Div", product, b.op("Mul", *sizes))
