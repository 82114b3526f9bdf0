"""Matrix products: mm, bmm, mv, dot, matmul, outer, inner.

Stands on codegen.products.gemm: each call is one plan, kept by the layouts of its operands. Transposed and broadcast operands
are read where they lie.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from flambeau.base import geometry, memory_order
from flambeau.base.dtype import bool_, float32, uint8
from flambeau.base.dtype import dtype as DType
from flambeau.base.layout import Layout
from flambeau.base.small_floats import FORMATS
from flambeau.codegen.plan import Plan
from flambeau.codegen.products.matrix import Matrix
from flambeau.codegen.products.steps import Contraction
from flambeau.codegen.targets import lowered
from flambeau.core.autograd.inplace import owned
from flambeau.core.autograd.node import one_step, rename
from flambeau.core.modes.autocast import lower
from flambeau.core.operator.annotations import Planned
from flambeau.core.operator.define import composite, operator
from flambeau.core.operator.facets import Product
from flambeau.core.operator.out_rules import BEFORE_DATA, COPIED, DISTINCT, Out, exact, worded
from flambeau.core.operator.pointwise import RELEASE_FROM
from flambeau.core.operator.publishing import OPERATORS
from flambeau.core.operator.row_program import KEPT, Rows
from flambeau.core.tensor.fakes import refuse_mixing, two_devices
from flambeau.core.tensor.tensor import Tensor
from flambeau.ir.loops import Loop, Row, folded
from flambeau.ir.scalar import cast, compute_dtype
from flambeau.ops.reduction.sum import adding, wide


def product_plan(
    given: Sequence[Tensor],
    shape: tuple[int, ...],
    sizes: tuple[int, int, int],
    batch: tuple[int, int],
    a: Matrix,
    b: Matrix,
    addend: Matrix | None = None,
    alpha: float = 1,
    beta: float = 1,
) -> Callable:
    """The plan of a product of contiguous result: sizes (m, n, k), slots count what is given from 1."""
    m, n, k = sizes
    own = given[a.slot - 1]._layout
    out = Layout.contiguous(shape, own.dtype, own.device)
    c = Matrix(0, (batch[1] * m * n, m * n, n, 1))
    held = uint8 if own.dtype is bool_ else own.dtype  # of booleans there are only empty sums
    step = Contraction(held, m, n, k, a, b, c, batch, addend, alpha, beta)
    return lowered(
        Plan([step], [out], [x._layout for x in given], release=m * n * max(k, 1) * batch[0] * batch[1] >= RELEASE_FROM)
    )


_PRODUCTS = frozenset(
    ("float16", "bfloat16", "float32", "float64", "complex64", "complex128", "uint8", "int8", "int16", "int32", "int64")
)
_REFUSALS = {
    "mm": "addmm_impl_cpu_",
    "addmm": "addmm_impl_cpu_",
    "linear": "addmm_impl_cpu_",
    "mv": "addmv_impl_cpu",
    "addmv": "addmv_impl_cpu",
    "einsum": "bmm",
}


def same_dtype(name: str, *tensors: Tensor) -> None:
    """Raise unless all tensors have one dtype, which products are defined for, and one device.

    Booleans will do where there is nothing to multiply, in the product of an empty tensor.
    """
    first = tensors[0]._layout
    for t in tensors[1:]:
        if t._layout.dtype is not first.dtype:
            if name == "mm":
                raise RuntimeError(
                    f"expected m1 and m2 to have the same dtype, but got: {first.dtype.c_name} != {t._layout.dtype.c_name}"
                )
            raise RuntimeError(f"expected scalar type {first.dtype.scalar_name} but found {t._layout.dtype.scalar_name}")
        if t._layout.device is not first.device:
            refuse_mixing(first.device, t._layout.device)
            raise two_devices(first.device, t._layout.device)
    refuse_dtype(name, *tensors)


def without_products(a: Tensor, b: Tensor) -> bool:
    """Whether there is nothing to multiply of two tensors, whose dtypes PyTorch's batches of matrices then don't compare."""
    x, y = a._layout, b._layout
    return x.dtype is not y.dtype and x.device is y.device and not (x.numel and y.numel)


def refuse_dtype(name: str, *tensors: Tensor) -> None:
    first = tensors[0]._layout
    if first.dtype.name not in _PRODUCTS and (first.dtype is not bool_ or all(t._layout.numel for t in tensors)):
        raise NotImplementedError(f"\"{_REFUSALS.get(name, name)}\" not implemented for '{first.dtype.scalar_name}'")


def widened(product: Callable[..., Tensor], dtype: DType) -> Callable:
    """The plan of a product of float8 operands: they are multiplied as float32, and the result is rounded once."""

    def launch(out: Tensor | None, *operands: Tensor) -> Tensor:
        result = product(*[x.detach().to(float32) for x in operands]).to(dtype)
        return result if out is None else out.copy_(result)

    return launch


@operator(
    node="MmBackward0", out=Out(dtype=exact, fitted=BEFORE_DATA), planned=True, autocast=lower, jvp=Product("input", "mat2")
)
def mm(input: Tensor, mat2: Tensor) -> Planned:
    """The product of two matrices, (m, k) by (k, n). Both of one dtype; RuntimeError if shapes or dtypes don't fit."""
    a, b = input._layout, mat2._layout
    if a.ndim != 2 or b.ndim != 2:
        raise RuntimeError("self must be a matrix" if a.ndim != 2 else "mat2 must be a matrix")
    if a.shape[1] != b.shape[0]:
        raise RuntimeError(f"mat1 and mat2 shapes cannot be multiplied ({a.shape[0]}x{a.shape[1]} and {b.shape[0]}x{b.shape[1]})")
    if a.dtype in FORMATS and a.dtype is b.dtype:
        return widened(mm, a.dtype)
    same_dtype("mm", input, mat2)
    return product_plan(
        (input, mat2),
        (a.shape[0], b.shape[1]),
        (a.shape[0], b.shape[1], a.shape[1]),
        (1, 1),
        Matrix(1, (0, 0, *a.strides)),
        Matrix(2, (0, 0, *b.strides)),
    )


@mm.vjp
def _(g, input, mat2, need):
    return (mm(g, adjoint(mat2)) if need["input"] else None, mm(adjoint(input), g) if need["mat2"] else None)


def adjoint(x: Tensor) -> Tensor:
    """The conjugate transpose of the last two dimensions."""
    x = x.transpose(-2, -1)
    return x.conj() if x._layout.dtype.is_complex else x


@operator(node="BmmBackward0", out=Out(dtype=exact), planned=True, autocast=lower, jvp=Product("input", "mat2"))
def bmm(input: Tensor, mat2: Tensor) -> Planned:
    """Products of matrices in batches, (b, m, k) by (b, k, n)."""
    a, b = input._layout, mat2._layout
    for position, layout in ((1, a), (2, b)):
        if layout.ndim != 3:
            raise RuntimeError(f"batch{position} must be a 3D tensor")
    if a.shape[0] != b.shape[0] or a.shape[2] != b.shape[1]:
        raise RuntimeError(
            f"Expected size for first two dimensions of batch2 tensor to be: [{a.shape[0]}, "
            f"{a.shape[2]}] but got: "
            f"[{b.shape[0]}, {b.shape[1]}]."
        )
    count, m, k = a.shape
    if without_products(input, mat2):
        return mat2.new_zeros((count, m, b.shape[2]))
    same_dtype("bmm", input, mat2)
    return product_plan(
        (input, mat2),
        (count, m, b.shape[2]),
        (m, b.shape[2], k),
        (1, count),
        Matrix(1, (0, *a.strides)),
        Matrix(2, (0, *b.strides)),
    )


@bmm.vjp
def _(g, input, mat2, need):
    return (bmm(g, adjoint(mat2)) if need["input"] else None, bmm(adjoint(input), g) if need["mat2"] else None)


def same_dtype_of_vectors(*tensors: Tensor) -> None:
    names = [t._layout.dtype.scalar_name for t in tensors]
    if len(set(names)) > 1:
        raise RuntimeError(f"addmv input tensors must have the same dtype, but got {names[0]}, {names[1]}, and {names[2]}")
    same_dtype("mv", *tensors)


@operator(node="MvBackward0", out=Out(dtype=exact), planned=True, jvp=Product("input", "vec"))
def mv(input: Tensor, vec: Tensor) -> Planned:
    """The product of a matrix and a vector, (m, k) by (k,)."""
    a, b = input._layout, vec._layout
    if not a.ndim:
        raise IndexError("Dimension specified as 0 but tensor has no dimensions")
    if a.ndim != 2 or b.ndim != 1:
        raise RuntimeError(f"vector + matrix @ vector expected, got 1, {a.ndim}, {b.ndim}")
    if a.shape[1] != b.shape[0]:
        raise RuntimeError(f"size mismatch, got input ({a.shape[0]}), mat ({a.shape[0]}x{a.shape[1]}), vec ({b.shape[0]})")
    same_dtype_of_vectors(vec, input, vec)
    return product_plan(
        (input, vec),
        (a.shape[0],),
        (a.shape[0], 1, a.shape[1]),
        (1, 1),
        Matrix(1, (0, 0, *a.strides)),
        Matrix(2, (0, 0, b.strides[0], 0)),
    )


@mv.vjp
def _(g, input, vec, need):
    return (
        g.unsqueeze(1) * (vec.conj() if vec.is_complex() else vec) if need["input"] else None,
        mv(adjoint(input), g) if need["vec"] else None,
    )


def _dot_stages(elements: tuple, numbers: tuple, result: DType) -> tuple:
    total = wide(result)
    x, y = (cast(element, compute_dtype(result)) for element in elements)
    return Loop((adding("dot", cast(x * y, total)),)), Row(((0, cast(folded("dot", total), compute_dtype(result))),))


_DOT = Rows("dot", _dot_stages, lambda dtypes, result: [(result, KEPT)])  # for vectors that aren't rows of a matrix


def _no_dimensions(given: Sequence[Any], refused: bool) -> tuple[int, ...]:
    return ()


@operator(
    node="DotBackward0",
    planned=True,
    out=Out(dtype=worded("result dtype {got} does not match input dtype {have}"), left=_no_dimensions),
    jvp=Product("input", "tensor"),
)
def dot(input: Tensor, tensor: Tensor) -> Planned:
    """The sum of the products of two vectors' elements; zero-dim."""
    a, b = input._layout, tensor._layout
    if a.ndim != 1 or b.ndim != 1:
        raise RuntimeError(f"1D tensors expected, but got {a.ndim}D and {b.ndim}D tensors")
    if a.dtype is not b.dtype:
        raise RuntimeError(
            f"dot : expected both vectors to have same dtype, but found {a.dtype.scalar_name} and {b.dtype.scalar_name}"
        )
    if a.shape != b.shape:
        raise RuntimeError(
            f"inconsistent tensor size, expected tensor [{a.shape[0]}] and src [{b.shape[0]}] to have "
            "the same number "
            f"of elements, but got {a.shape[0]} and {b.shape[0]} elements respectively"
        )
    same_dtype("dot", input, tensor)
    if a.dtype is bool_:
        raise NotImplementedError("\"dot\" not implemented for 'Bool'")
    if a.dtype.is_complex or not (a.strides[0] == b.strides[0] == 1):
        return _DOT.launcher((input, tensor), (0,), statics=(a.dtype,))
    return product_plan(
        (input, tensor), (), (1, 1, a.shape[0]), (1, 1), Matrix(1, (0, 0, 0, a.strides[0])), Matrix(2, (0, 0, b.strides[0], 0))
    )


@dot.vjp
def _(g, input, tensor, need):
    def conjugated(x):
        return x.conj() if x.is_complex() else x

    return (g * conjugated(tensor) if need["input"] else None, g * conjugated(input) if need["tensor"] else None)


def batches(lead: Sequence[int], a: Sequence[int], b: Sequence[int]) -> list[tuple[int, int, int]]:
    """(size, stride in a, stride in b) of leading dimensions, merged where both walk evenly across the seam."""
    found: list[tuple[int, int, int]] = []
    for size, one, other in zip(lead, a, b):
        if size == 1:
            continue
        if found and found[-1][1:] == (one * size, other * size):
            found[-1] = (found[-1][0] * size, one, other)
        else:
            found.append((size, one, other))
    return found


@operator(
    node=lambda arguments: "CloneBackward0" if arguments[0]._layout.ndim == 2 else "UnsafeViewBackward0",
    method=False,
    function=False,
    planned=True,
)
def _matmul_batched(input: Tensor, other: Tensor) -> Any:
    """matmul of matrices and batches of them, that fit; leading dimensions broadcast where they lie."""
    a, b = input._layout, other._layout
    same_dtype("bmm" if b.ndim > 2 else "mm", input, other)
    lead = tuple(geometry.broadcast(a.shape[:-2], b.shape[:-2]))
    m, k, n = a.shape[-2], a.shape[-1], b.shape[-1]
    groups = batches(
        lead,
        memory_order.broadcast_strides(a.shape[:-2], a.strides[:-2], lead),
        memory_order.broadcast_strides(b.shape[:-2], b.strides[:-2], lead),
    )
    if len(groups) > 2:
        count = math.prod(lead)
        left = input.expand(*lead, m, k).reshape(count, m, k)
        return bmm(left, other.expand(*lead, k, n).reshape(count, k, n)).view(*lead, m, n)
    rows = m
    if groups and groups[-1][1:] == (m * a.strides[-2], 0):
        rows = m * groups.pop()[0]  # one matrix for all of them: their rows are those of one larger one
    (outer, a0, b0), (inner, a1, b1) = [(1, 0, 0)] * (2 - len(groups)) + groups
    out = Layout.contiguous((*lead, m, n), a.dtype, a.device)
    step = Contraction(
        a.dtype,
        rows,
        n,
        k,
        Matrix(1, (a0, a1, *a.strides[-2:])),
        Matrix(2, (b0, b1, *b.strides[-2:])),
        Matrix(0, (inner * rows * n, rows * n, n, 1)),
        (outer, inner),
    )
    return lowered(Plan([step], [out], [a, b], release=out.numel * max(k, 1) >= RELEASE_FROM))


@_matmul_batched.vjp
def _(g, input, other, need):
    second = None
    if need["other"]:
        if other._layout.ndim == 2:  # one matrix for all: one product over all rows
            flat = input.reshape(math.prod(g._layout.shape[:-1]), other._layout.shape[0])
            second = mm(adjoint(flat), g.reshape(math.prod(g._layout.shape[:-1]), g._layout.shape[-1]))
        else:
            second = matmul(adjoint(input), g)
    return matmul(g, adjoint(other)) if need["input"] else None, second


def _matmul_plan(input: Tensor, other: Tensor) -> Callable | None:
    """The plan that served a product of two matrices, or of batches of them."""
    a, b = input._layout, other._layout
    if a.ndim <= 2 and b.ndim <= 2:
        served = {(2, 2): mm, (2, 1): mv, (1, 1): dot}.get((a.ndim, b.ndim))
        return None if served is None else served.operator.kept.get((a, b))
    return _matmul_batched.operator.kept.get((a, b))


def _left_shape(given: Sequence[Any], refused: bool) -> tuple[int, ...] | None:
    """What `out` of a failed product is left with: the shape of the batch, whether or not rows are as long as columns."""
    a, b = given[:2]
    if not (isinstance(a, Tensor) and isinstance(b, Tensor)) or not a.ndim or not b.ndim:
        return None
    if max(a.ndim, b.ndim) < 3:
        if refused and (a.ndim, b.ndim) == (1, 2):  # computed as a matrix of one row
            return (1, b.shape[1])
        return () if a.ndim == b.ndim == 1 else None
    try:
        batch = geometry.broadcast(a.shape[:-2], b.shape[:-2])
    except RuntimeError:
        return None
    return (*batch, *a.shape[-2:-1], *(b.shape[-1:] if b.ndim > 1 else ()))


@composite(dunder="__matmul__", out=Out(dtype=exact, fitted=BEFORE_DATA, left=_left_shape), planned=_matmul_plan, autocast=lower)
def matmul(input: Tensor, other: Tensor) -> Tensor:
    """Matrix product: vectors, matrices, and batches of matrices whose leading dimensions broadcast."""
    if not isinstance(other, Tensor):
        raise TypeError(f"matmul(): argument 'other' (position 2) must be Tensor, not {type(other).__name__}")
    a, b = input._layout, other._layout
    if a.ndim == 2 and b.ndim == 2:
        return mm(input, other)
    if a.ndim == 0 or b.ndim == 0:
        raise RuntimeError(f"both arguments to matmul need to be at least 1D, but they are {a.ndim}D and {b.ndim}D")
    if a.ndim == 1 and b.ndim == 1:
        return dot(input, other)
    if a.ndim == 2 and b.ndim == 1:
        return mv(input, other)
    if a.ndim == 1:
        made = owned(matmul(input.unsqueeze(0), other).squeeze(-2))
        if made._node is not None:
            rename(made._node, "UnsafeViewBackward0" if b.ndim > 2 else "SqueezeBackward4")
        return made
    if b.ndim == 1:
        made = owned(mv(input.reshape(math.prod(a.shape[:-1]), a.shape[-1]), other).view(*a.shape[:-1]))
        if made._node is not None:
            rename(made._node, "UnsafeViewBackward0")
        return made
    if a.shape[-1] != b.shape[-2]:
        if b.ndim == 2:
            rows = 1
            for size in a.shape[:-1]:
                rows *= size
            raise RuntimeError(f"mat1 and mat2 shapes cannot be multiplied ({rows}x{a.shape[-1]} and {b.shape[0]}x{b.shape[1]})")
        batch = 1
        for size in geometry.broadcast(a.shape[:-2], b.shape[:-2]):
            batch *= size
        raise RuntimeError(
            f"Expected size for first two dimensions of batch2 tensor to be: [{batch}, {a.shape[-1]}] but got: "
            f"[{batch}, {b.shape[-2]}]."
        )
    if a.flavor is None and b.flavor is None:
        return _matmul_batched(input, other)
    lead = tuple(geometry.broadcast(a.shape[:-2], b.shape[:-2]))
    count = math.prod(lead)
    left = input.expand(*lead, *a.shape[-2:]).reshape(count, *a.shape[-2:])
    right = other.expand(*lead, *b.shape[-2:]).reshape(count, *b.shape[-2:])
    return bmm(left, right).view(*lead, a.shape[-2], b.shape[-1])


def __rmatmul__(self: Tensor, other: Any) -> Any:
    return matmul(other, self) if isinstance(other, Tensor) else NotImplemented


Tensor.__rmatmul__ = __rmatmul__


@operator(method=False, function=False, planned=True, name="outer", node="MulBackward0")
def _outer(input: Tensor, vec2: Tensor) -> Any:
    return OPERATORS["mul"].plan([input.unsqueeze(1), vec2], (), (), None)


@_outer.vjp
def _(g, input, vec2, need):
    def conjugated(x):
        return (x.conj() if x.is_complex() else x).to(g._layout.dtype)

    return (mv(g, conjugated(vec2)) if need["input"] else None, mv(g.t(), conjugated(input)) if need["vec2"] else None)


def outer_plan(input: Tensor, vec2: Tensor) -> Callable | None:
    """The plan that served an outer product."""
    return _outer.operator.kept.get((input._layout, vec2._layout))


@composite(out=Out(step="mul", overlap=DISTINCT), planned=outer_plan)
def outer(input: Tensor, vec2: Tensor) -> Tensor:
    """The products of each element of one vector with each of the other, (n, m)."""
    if input._layout.ndim != 1 or vec2._layout.ndim != 1:
        raise RuntimeError(
            f"outer: Expected 1-D argument {'self' if input._layout.ndim != 1 else 'vec2'}, but got "
            f"{(input if input._layout.ndim != 1 else vec2)._layout.ndim}-D"
        )
    if input._layout.flavor is None and vec2._layout.flavor is None and input.device.type == vec2.device.type == "cpu":
        return _outer(input, vec2)
    return input.unsqueeze(1) * vec2


@composite(out=Out(overlap=DISTINCT))
def ger(input: Tensor, vec2: Tensor) -> Tensor:
    """Another name of `outer`."""
    return outer(input, vec2)


@composite(
    node="VdotBackward0", out=Out(dtype=worded("result dtype {got} does not match input dtype {have}"), left=_no_dimensions)
)
def vdot(input: Tensor, other: Tensor) -> Tensor:
    """dot with the conjugate of the first vector."""
    return dot(input.conj() if input.is_complex() else input, other)


_inner = one_step("ViewBackward0")(dot)


TENSORDOT_DTYPE = worded("tensordot: Expected the output tensor to have dtype {have}, but got an output tensor with dtype {got}")


@composite(autocast=lower, out=Out(dtype=TENSORDOT_DTYPE, graph=COPIED, refuses_first=True))
def inner(input: Tensor, other: Tensor) -> Tensor:
    """Sums of products over the last dimensions of both."""
    if input._layout.ndim == 0 or other._layout.ndim == 0:
        return input * other
    if input._layout.shape[-1] != other._layout.shape[-1]:
        raise RuntimeError(
            "inner() the last dimension must match on both input tensors but got shapes "
            f"{list(input._layout.shape)} and {list(other._layout.shape)}"
        )
    if input._layout.dtype is not other._layout.dtype:
        raise RuntimeError("both inputs should have same dtype")
    a, b = input._layout.shape, other._layout.shape
    if len(a) == len(b) == 1:
        return _inner(input, other)
    rows, columns = math.prod(a[:-1]), math.prod(b[:-1])
    product = mm(input.reshape(rows, a[-1]), other.reshape(columns, b[-1]).t())
    return product.reshape((*a[:-1], *b[:-1]))
