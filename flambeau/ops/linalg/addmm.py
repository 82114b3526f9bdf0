"""Products that are added to something: addmm, baddbmm, addbmm, addmv and addr.

Stands on ops.linalg.matmul. What is added is read by the product's epilogue; it may broadcast.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from flambeau.base import memory_order
from flambeau.base import scalar_range as elements
from flambeau.base.dtype import bool_, promote_types
from flambeau.base.dtype import dtype as DType
from flambeau.base.layout import Layout
from flambeau.base.small_floats import FORMATS
from flambeau.codegen.products.matrix import Matrix
from flambeau.core.modes.autocast import lower
from flambeau.core.operator.annotations import Planned
from flambeau.core.operator.define import composite, operator
from flambeau.core.operator.out_rules import Out, exact
from flambeau.core.tensor.tensor import Tensor
from flambeau.ir.scalar import compute_dtype
from flambeau.ops.linalg.matmul import (
    adjoint,
    bmm,
    mm,
    mv,
    outer,
    product_plan,
    same_dtype,
    same_dtype_of_vectors,
    widened,
    without_products,
)


@operator(node="AddmmBackward0", out=Out(dtype=exact), inplace=True, planned=True, autocast=lower, factors=True)
def addmm(input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Planned:
    """beta * input + alpha * mat1 @ mat2; input broadcasts to (m, n)."""
    a, b = mat1._layout, mat2._layout
    for name, other in (("self", input._layout), ("mat1", a)):
        if other.dtype is not b.dtype:
            raise RuntimeError(
                f"{name} and mat2 must have the same dtype, but got {other.dtype.scalar_name} and {b.dtype.scalar_name}"
            )
    if a.ndim != 2 or b.ndim != 2:
        raise RuntimeError(
            f"mat1 must be a matrix, got {a.ndim}-D tensor" if a.ndim != 2 else f"mat2 must be a matrix, got {b.ndim}-D tensor"
        )
    if a.shape[1] != b.shape[0]:
        raise RuntimeError(f"mat1 and mat2 shapes cannot be multiplied ({a.shape[0]}x{a.shape[1]} and {b.shape[0]}x{b.shape[1]})")
    if a.dtype in FORMATS:
        return widened(partial(addmm, beta=beta, alpha=alpha), a.dtype)
    same_dtype("addmm", mat1, mat2)
    shape = (a.shape[0], b.shape[1])
    return _with_addend(
        (input, mat1, mat2),
        shape,
        (*shape, a.shape[1]),
        (1, 1),
        (0, 0, *a.strides),
        (0, 0, *b.strides),
        beta,
        alpha,
        lambda: mm(mat1, mat2),
    )


def _check_factors(dtype: DType, alpha: Any, beta: Any, widened: bool) -> None:
    """RuntimeError for factors that the dtype can't hold; widened: half precision counts as float32."""
    for factor in (beta, alpha):
        elements.check(factor, compute_dtype(dtype) if widened else dtype)


def _with_addend(
    given: Sequence[Tensor],
    shape: tuple[int, ...],
    sizes: tuple[int, int, int],
    batch: tuple[int, int],
    a_strides: tuple,
    b_strides: tuple,
    beta: Any,
    alpha: Any,
    product: Callable[[], Tensor],
) -> Any:
    """The plan of beta * input + alpha * product, of what is given as (input, a, b); or the sum itself, for complex factors."""
    input = given[0]
    own = input._layout
    if own.ndim > len(shape) or any(size not in (1, wanted) for size, wanted in zip(reversed(own.shape), reversed(shape))):
        input.expand(*shape)  # raises, in its own words
    if own.dtype.is_complex and (complex(alpha).imag or complex(beta).imag):
        return product() * alpha if beta == 0 else product() * alpha + input * beta
    _check_factors(own.dtype, alpha, beta, widened=len(shape) > 1)
    if not (own.dtype.is_floating_point or own.dtype.is_complex):
        alpha, beta = int(alpha), int(beta)
    addend = None
    if beta != 0:
        strides = memory_order.broadcast_strides(own.shape, own.strides, shape)
        strides = (*strides, 0) if len(shape) == 1 else strides  # a vector is a matrix of one column
        addend = Matrix(1, (0,) * (4 - len(strides)) + strides)
    return product_plan(given, shape, sizes, batch, Matrix(2, a_strides), Matrix(3, b_strides), addend, alpha, beta)


@addmm.vjp
def _(g, mat1, mat2, beta, alpha, need):
    return (
        g * _conjugated(beta) if need["input"] else None,
        mm(g, adjoint(mat2)) * _conjugated(alpha) if need["mat1"] else None,
        mm(adjoint(mat1), g) * _conjugated(alpha) if need["mat2"] else None,
    )


@operator(node="BaddbmmBackward0", out=Out(dtype=exact), inplace=True, planned=True, autocast=lower, factors=True)
def baddbmm(input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Planned:
    """beta * input + alpha * bmm(batch1, batch2)."""
    a, b = batch1._layout, batch2._layout
    _check_sizes(a, b)
    shape = (a.shape[0], a.shape[1], b.shape[2])
    if tuple(input._layout.shape) != shape:
        input.expand(*shape)
    if a.ndim != 3:
        raise RuntimeError("batch1 must be a 3D tensor")
    if a.shape[0] != b.shape[0] or a.shape[2] != b.shape[1]:
        raise RuntimeError(
            f"Expected size for first two dimensions of batch2 tensor to be: [{a.shape[0]}, "
            f"{a.shape[2]}] but got: "
            f"[{b.shape[0]}, {b.shape[1]}]."
        )
    if input._layout.dtype is not a.dtype:
        raise RuntimeError(
            f"Input dtypes must be the same, got: input {input._layout.dtype.c_name}, batch1: "
            f"{a.dtype.c_name}, batch2: {b.dtype.c_name}"
        )
    if 0 in shape and without_products(batch1, batch2):
        return batch2.new_empty(shape)
    same_dtype("baddbmm", batch1, batch2)
    return _with_addend(
        (input, batch1, batch2),
        shape,
        (a.shape[1], b.shape[2], a.shape[2]),
        (1, a.shape[0]),
        (0, *a.strides),
        (0, *b.strides),
        beta,
        alpha,
        lambda: bmm(batch1, batch2),
    )


@baddbmm.vjp
def _(g, batch1, batch2, beta, alpha, need):
    return (
        g * _conjugated(beta) if need["input"] else None,
        bmm(g, adjoint(batch2)) * _conjugated(alpha) if need["batch1"] else None,
        bmm(adjoint(batch1), g) * _conjugated(alpha) if need["batch2"] else None,
    )


def _check_sizes(batch1: Layout, batch2: Layout) -> None:
    """IndexError where one of the sizes is missing that the result would have; they are asked for in turn."""
    for layout, dim in ((batch1, 0), (batch1, 1), (batch2, 2)):
        if not layout.ndim:
            raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions")
        if layout.ndim <= dim:
            raise IndexError(
                f"Dimension out of range (expected to be in range of [{-layout.ndim}, {layout.ndim - 1}], but got {dim})"
            )


def _combined(input: Tensor, product: Tensor, beta: Any, alpha: Any, leads: bool = False) -> Tensor:
    """beta * input + alpha * product; what input holds does not matter if beta is 0. leads: the result lies as input does."""
    layout = product._layout
    if not (layout.dtype.is_floating_point or layout.dtype.is_complex):
        alpha, beta = int(alpha), int(beta)
    product = product if alpha == 1 else product * alpha
    if beta == 0:
        return product
    own = input if beta == 1 else input * beta
    return own + product if leads else product + own


@composite(out=Out(dtype=exact, warns=False), inplace=True, node="AddbmmBackward0", resizes=True, autocast=lower, factors=True)
def addbmm(input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """beta * input + alpha * the sum over the batch of bmm(batch1, batch2)."""
    a, b = batch1._layout, batch2._layout
    _check_sizes(a, b)
    input.expand(a.shape[1], b.shape[2])
    if a.ndim != 3:
        raise RuntimeError("batch1 must be a 3D tensor")
    if a.shape[0] != b.shape[0]:
        raise RuntimeError(f"batch1 and batch2 must have same number of batches, got {a.shape[0]} and {b.shape[0]}")
    for name, layout in (("self", input._layout), ("mat1", a)):
        if layout.dtype is not b.dtype:
            raise RuntimeError(
                f"{name} and mat2 must have the same dtype, but got {layout.dtype.scalar_name} and {b.dtype.scalar_name}"
            )
    _check_factors(a.dtype, alpha, beta, widened=True)
    return _combined(input, bmm(batch1, batch2).sum(0, dtype=a.dtype), beta, alpha)


@operator(node="AddmvBackward0", out=Out(dtype=exact), inplace="function", planned=True, factors=True)
def addmv(input: Tensor, mat: Tensor, vec: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Planned:
    """beta * input + alpha * mat @ vec; input broadcasts to (m,)."""
    a, b, own = mat._layout, vec._layout, input._layout
    if a.ndim != 2 or b.ndim != 1 or own.ndim > 1:
        raise RuntimeError(f"vector + matrix @ vector expected, got {own.ndim}, {a.ndim}, {b.ndim}")
    if a.shape[1] != b.shape[0] or (own.numel != 1 and own.shape[0] != a.shape[0]):
        raise RuntimeError(f"size mismatch, got input ({own.numel}), mat ({a.shape[0]}x{a.shape[1]}), vec ({b.shape[0]})")
    same_dtype_of_vectors(input, mat, vec)
    return _with_addend(
        (input, mat, vec),
        (a.shape[0],),
        (a.shape[0], 1, a.shape[1]),
        (1, 1),
        (0, 0, *a.strides),
        (0, 0, b.strides[0], 0),
        beta,
        alpha,
        lambda: mv(mat, vec),
    )


@addmv.vjp
def _(g, mat, vec, beta, alpha, need):
    return (
        g * _conjugated(beta) if need["input"] else None,
        g.unsqueeze(1) * (vec.conj() if vec.is_complex() else vec) * _conjugated(alpha) if need["mat"] else None,
        mv(adjoint(mat), g) * _conjugated(alpha) if need["vec"] else None,
    )


def _conjugated(factor: Any) -> Any:
    return factor.conjugate() if isinstance(factor, complex) else factor


@composite(out=True, inplace=True, node="AddrBackward0", factors=True)
def addr(input: Tensor, vec1: Tensor, vec2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """beta * input + alpha * outer(vec1, vec2)."""
    for name, vector in (("vec1", vec1), ("vec2", vec2)):
        if vector._layout.ndim != 1:
            raise RuntimeError(f"addr: Expected 1-D argument {name}, but got {vector._layout.ndim}-D")
    input.expand(vec1._layout.shape[0], vec2._layout.shape[0])
    common = promote_types(input._layout.dtype, promote_types(vec1._layout.dtype, vec2._layout.dtype))
    product = outer(vec1.to(common), vec2)
    for name, factor in (("beta", beta), ("alpha", alpha)):
        if isinstance(factor, float) and not (common.is_floating_point or common.is_complex):
            raise RuntimeError(f"For integral input tensors, argument {name} must not be a floating point number.")
        if isinstance(factor, bool) and common is not bool_:
            raise RuntimeError(f"Boolean {name} only supported for Boolean results.")
    _check_factors(common, alpha, beta, widened=False)
    return _combined(input, product, beta, alpha, leads=True).to(common)
