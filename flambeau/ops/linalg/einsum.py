"""Sums of products over named or numbered dimensions: einsum, tensordot, chains of products, cross, trapezoid and relatives.

`einsum` reads the equation once (kept by equation and ranks), takes diagonals, then contracts operands pairwise from
the left. Stands on ops.linalg.contraction, and on ops.linalg.matmul.
"""

from __future__ import annotations

import builtins
import itertools
import math
import operator as python_operator
import string
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from flambeau.base import geometry, memory_order
from flambeau.base.dtype import bool_
from flambeau.base.geometry import wrap_dim
from flambeau.base.layout import Layout
from flambeau.base.warn import warn_once
from flambeau.codegen.plan import Plan, elementwise
from flambeau.codegen.targets import lowered
from flambeau.core.autograd.inplace import owned
from flambeau.core.autograd.node import one_step
from flambeau.core.modes.autocast import lower, untouched
from flambeau.core.modes.modes import active, local
from flambeau.core.operator.annotations import Tensors
from flambeau.core.operator.arguments import MISSING, refused, typename
from flambeau.core.operator.define import composite, operator
from flambeau.core.operator.facets import described, record_of
from flambeau.core.operator.out_argument import deliver
from flambeau.core.operator.out_rules import COPIED, DISTINCT, Out, check_early, exact, worded
from flambeau.core.operator.pointwise import RELEASE_FROM
from flambeau.core.operator.publishing import NAMESPACE
from flambeau.core.tensor.tensor import Tensor
from flambeau.ir.loops import Loop, Nest, element
from flambeau.ir.scalar import cast, compute_dtype
from flambeau.ops.linalg.contraction import Label, contraction, kept, of_two, pair, reduce_labels
from flambeau.ops.linalg.matmul import TENSORDOT_DTYPE, bmm, mm

ELLIPSIS = "..."
_LETTERS = string.ascii_uppercase + string.ascii_lowercase


# ---------------------------------------------------------------- the equation


def _subscripts(text: str, what: str, offset: int) -> list[Label]:
    """The labels of one operand (or of the output) in an equation."""
    found: list[Label] = []
    i = 0
    while i < len(text):
        letter = text[i]
        if letter == " ":
            i += 1
        elif letter == ".":
            if ELLIPSIS in found:
                place = "output but an ellipsis (...)" if what == "output" else f"{what} for which an ellipsis"
                raise RuntimeError(f"einsum(): found '.' for {place} was already found")
            if text[i : i + 3] != "...":
                raise RuntimeError(
                    f"einsum(): found '.' for {what} that is not part of any ellipsis" + (" (...)" if what == "output" else "")
                )
            found.append(ELLIPSIS)
            i += 3
        elif letter in _LETTERS:
            found.append(_LETTERS.index(letter))
            i += 1
        else:
            raise RuntimeError(
                f"einsum(): invalid subscript given at index {offset + i} in the equation string, subscripts must be in [a-zA-Z]"
            )
    return found


def _read(equation: str, count: int) -> tuple[list[list[Label]], list[Label] | None]:
    left, arrow, right = equation.partition("->")
    parts = left.split(",")
    inputs, offset = [], 0
    for n, part in enumerate(parts):
        if n >= count:
            raise RuntimeError("einsum(): fewer operands were provided than specified in the equation")
        inputs.append(_subscripts(part, f"operand {n}", offset))
        offset += len(part) + 1
    if len(parts) < count:
        raise RuntimeError("einsum(): more operands were provided than specified in the equation")
    return inputs, _subscripts(right, "output", len(left) + 2) if arrow else None


def _name(label: Label) -> str:
    return _LETTERS[label] if isinstance(label, int) else ELLIPSIS


def _expand(labels: list[Label], ndim: int, n: int) -> list[Label]:
    """The labels of an operand with the ellipsis replaced by one label a dimension."""
    if ELLIPSIS not in labels:
        if len(labels) != ndim:
            raise RuntimeError(
                f"einsum(): the number of subscripts in the equation ({len(labels)}) does not match the number of "
                f"dimensions ({ndim}) for operand {n} and no ellipsis was given"
            )
        return labels
    covered = ndim - (len(labels) - 1)
    if covered < 0:
        raise RuntimeError(
            f"einsum(): the number of subscripts in the equation ({len(labels) - 1}) is more than the number of "
            f"dimensions ({ndim}) for operand {n}"
        )
    at = labels.index(ELLIPSIS)
    return [*labels[:at], *((ELLIPSIS, k) for k in range(covered - 1, -1, -1)), *labels[at + 1 :]]


@lru_cache(4096)
def _resolved(equation: str, ndims: tuple[int, ...]) -> tuple[list[list[Label]], list[Label]]:
    inputs, output = _read(equation, len(ndims))
    return _resolve(inputs, output, ndims)


def _resolve(
    inputs: list[list[Label]], output: list[Label] | None, ndims: Sequence[int]
) -> tuple[list[list[Label]], list[Label]]:
    """Labels of every dimension of the operands and of the output."""
    full = [_expand(labels, ndim, n) for n, (labels, ndim) in enumerate(zip(inputs, ndims))]
    covered = max((k + 1 for labels in full for k in [x[1] for x in labels if isinstance(x, tuple)]), default=0)
    dots = [(ELLIPSIS, k) for k in range(covered - 1, -1, -1)]
    seen: dict[Label, int] = {}
    for labels in full:
        for label in labels:
            seen[label] = seen.get(label, 0) + 1
    if output is None:
        return full, dots + sorted(label for label, times in seen.items() if times == 1 and isinstance(label, int))
    result: list[Label] = []
    for label in output:
        if label == ELLIPSIS:
            result += dots
            continue
        if label in result:
            raise RuntimeError(f"einsum(): output subscript {_name(label)} appears more than once in the output")
        if label not in seen:
            raise RuntimeError(f"einsum(): output subscript {_name(label)} does not appear in the equation for any input operand")
        result.append(label)
    return full, result


def _sublists(args: Sequence[Any]) -> tuple[list[Tensor], list[list[Label]], list[Label] | None]:
    """Operands, labels and output labels of einsum(op, [0, 1], op, [1, ...], [0])."""

    def labels(given: Sequence[Any]) -> list[Label]:
        found: list[Label] = []
        for item in given:
            if item is Ellipsis:
                found.append(ELLIPSIS)
                continue
            number = python_operator.index(item)
            if not 0 <= number < 52:
                raise ValueError("einsum(): subscript in subscript list is not within the valid range [0, 52)")
            found.append(number)
        return found

    operands = list(args[: len(args) // 2 * 2 : 2])
    inputs = [labels(x) for x in args[1::2]]
    return operands, inputs, labels(args[-1]) if len(args) % 2 else None


def labels_of(equation: Any, operands: Sequence[Any]) -> tuple[list[Tensor], list[list[Label]], list[Label]]:
    """The tensors of a call of einsum, the labels of each one's dimensions, and those of the result."""
    if isinstance(equation, Tensor):
        given, inputs, output = _sublists((equation, *operands))
        return given, *_resolve(inputs, output, [x._layout.ndim for x in given])
    if not isinstance(equation, str) and operands:
        raise refused("einsum", "equation", "str", equation, 1)
    given = list(operands[0]) if len(operands) == 1 and isinstance(operands[0], (list, tuple)) else list(operands)
    if not given:
        error: Any = ValueError(
            "einsum(): must specify the equation string and at least one operand, or at least one operand and its subscripts list"
        )
        error.decided = True  # before any argument's type
        raise error
    return given, *_resolved(equation, tuple([x._layout.ndim for x in given]))


# ---------------------------------------------------------------- contraction


def labelled_once(x: Tensor, labels: list[Label], n: int, sizes: dict[Label, int]) -> tuple[Tensor, list[Label]]:
    """An operand with every label once (diagonals taken); the sizes of the labels are noted and compared."""
    kept: list[Label] = []
    for label in labels:
        if label not in kept:
            kept.append(label)
            continue
        first, second = kept.index(label), len(kept)
        if x._layout.shape[first] != x._layout.shape[second]:
            raise RuntimeError(
                f"einsum(): subscript {_name(label)} is repeated for operand {n} but the sizes don't match, "
                f"{x._layout.shape[second]} != {x._layout.shape[first]}"
            )
        x = x.diagonal(0, first, second).movedim(-1, first)
    for label, size in zip(kept, x._layout.shape):
        known = sizes.get(label, 1)
        if known != 1 and size != 1 and known != size:
            raise RuntimeError(
                f"einsum(): subscript {_name(label)} has size {size} for operand {n} which does not "
                "broadcast with "
                f"previously seen size {known}"
            )
        sizes[label] = size if known == 1 else known
    return x, kept


@described(autocast=lower)
def einsum(equation: Any = MISSING, *operands: Any) -> Tensor:
    """Sums of products of the elements of the operands along dimensions named in `equation` ("ij,jk->ik").

    Also einsum(operand, sublist, operand, sublist, ..., [output sublist]) with integers for letters and Ellipsis.
    Letters that are
    not in the output are summed; without "->" the output has the letters that occur once, in alphabetical order. "..." stands for
    broadcast dimensions. Raises RuntimeError where labels and shapes don't fit.
    """
    if len(operands) == 2 and not active.count:
        try:
            launch, spec = kept[equation, operands[0]._layout, operands[1]._layout]
        except (KeyError, AttributeError, TypeError):
            pass
        else:
            if not local.grad or (operands[0]._node is None and operands[1]._node is None):
                return launch(None, *operands)
            if spec is not None:
                return contraction(*operands, spec)
    given, full, result = labels_of(equation, operands)
    if len(given) == 2:
        made = of_two(equation, given, tuple([tuple(labels) for labels in full]), tuple(result))
        if made is not None:
            return made
    sizes: dict[Label, int] = {}
    terms = [labelled_once(x, labels, n, sizes) for n, (x, labels) in enumerate(zip(given, full))]
    x, labels = terms[0]
    for n, (y, y_labels) in enumerate(terms[1:], 2):
        keep = builtins.set(result).union(*[later for _, later in terms[n:]])
        x, labels = pair(x, labels, y, y_labels, keep)
    x, labels = reduce_labels(x, labels, [label for label in labels if label not in result])
    order = [labels.index(label) for label in result]
    return x if order == list(range(len(order))) else x.permute(order)


NAMESPACE["einsum"] = einsum


# ---------------------------------------------------------------- products of more than two, and over given dimensions


@composite(
    method=False,
    autocast=lower,
    asks="dim",
    written_in_python=True,
    out=Out(dtype=TENSORDOT_DTYPE, graph=COPIED, refuses_first=True),
)
def tensordot(a: Tensor, b: Tensor, dims: Any = 2) -> Tensor:
    """Sums of products over the last `dims` dimensions of `a` and the first of `b`, or over two lists of dimensions."""
    if isinstance(dims, Tensor):
        if dims.numel() > 1:
            if dims.shape[0] != 2:
                raise RuntimeError("tensordot expects dims to have 2 rows")
            dims = dims.tolist()
        else:
            dims = int(dims.item())
    if isinstance(dims, (tuple, list)):
        if len(dims) == 1 and not isinstance(dims[0], (tuple, list)):
            dims = (dims, dims)
        first, second = [list(d) if isinstance(d, (tuple, list)) else [d] for d in dims]
    else:
        count = python_operator.index(dims)
        if count < 0:
            raise RuntimeError(f"tensordot expects dims >= 0, but got dims={count}")
        if count > min(a._layout.ndim, b._layout.ndim):
            raise RuntimeError(f"tensordot expects dims < ndim_a or ndim_b, but got dims={count}")
        first, second = list(range(a._layout.ndim - count, a._layout.ndim)), list(range(count))
    if len(first) != len(second):
        raise RuntimeError("both dimension lists should have same length")
    if a._layout.dtype is not b._layout.dtype:
        raise RuntimeError("both inputs should have same dtype")
    named = list(range(-len(first), 0)) if isinstance(dims, int) else first
    first = [wrap_dim(d, a._layout.ndim) for d in first]
    second = [wrap_dim(d, b._layout.ndim) for d in second]
    for given, d, e in zip(named, first, second):
        n, m = a._layout.shape[d], b._layout.shape[e]
        if n != m:
            if n == 1:
                b = b.sum(e, keepdim=True, dtype=b.dtype)
            elif m == 1:
                a = a.sum(d, keepdim=True, dtype=a.dtype)
            else:
                raise RuntimeError(
                    f"contracted dimensions need to match, but first has size {n} in dim {given} and "
                    f"second has size {m} "
                    f"in dim {e}"
                )
    a_free = [d for d in range(a._layout.ndim) if d not in first]
    b_free = [d for d in range(b._layout.ndim) if d not in second]
    shape = [*[a._layout.shape[d] for d in a_free], *[b._layout.shape[d] for d in b_free]]
    length = math.prod([a._layout.shape[d] for d in first])
    left = a.permute([*a_free, *first]).reshape(math.prod(shape[: len(a_free)]), length)
    right = b.permute([*second, *b_free]).reshape(length, math.prod(shape[len(a_free) :]))
    return mm(left, right).reshape(shape)


@lru_cache(maxsize=256)
def _chain_order(sizes: tuple[int, ...]) -> dict[tuple[int, int], int]:
    """Where to split each product i..j of a chain of matrices, for the fewest multiplications (sizes: rows, then all columns)."""
    n = len(sizes) - 1
    cost = {(i, i): 0 for i in range(n)}
    split = {}
    for length in range(1, n):
        for i in range(n - length):
            j = i + length
            cost[i, j], split[i, j] = min(
                (cost[i, k] + cost[k + 1, j] + sizes[i] * sizes[k + 1] * sizes[j + 1], k) for k in range(i, j)
            )
    return split


@composite(
    method=False,
    function=False,
    name="linalg_multi_dot",
    autocast=lower,
    out=Out(dtype=worded("multi_dot(): expected out tensor to have dtype {own} but got {other}"), step="mm"),
)
def multi_dot(tensors: Tensors) -> Tensor:
    """The product of two or more matrices in the cheapest order; the first and last may be vectors."""
    chain = list(tensors)
    if len(chain) < 2:
        raise RuntimeError(f"multi_dot(): expected at least 2 tensors but got {len(chain)}")
    first, last = chain[0], chain[-1]
    for at, x in ((0, first), (len(chain) - 1, last)):
        if x._layout.ndim not in (1, 2):
            raise RuntimeError(
                f"multi_dot(): the {'first' if at == 0 else 'last'} tensor must be 1D or 2D but got {x._layout.ndim}D"
            )
    for i, x in enumerate(chain[1:-1], 1):
        if x._layout.ndim != 2:
            raise RuntimeError(f"multi_dot(): tensor {i} must be 2D but got {x._layout.ndim}D")
    for i, x in enumerate(chain[1:], 1):
        if x._layout.dtype is not first._layout.dtype:
            raise RuntimeError(
                "multi_dot(): all tensors must have be the same dtype but tensor 0 is "
                f"{first._layout.dtype.c_name} and tensor {i} {x._layout.dtype.c_name}"
            )
    chain[0] = first.unsqueeze(0) if first._layout.ndim == 1 else first
    chain[-1] = last.unsqueeze(1) if last._layout.ndim == 1 else last
    for i, (x, y) in enumerate(itertools.pairwise(chain)):
        if x._layout.shape[1] != y._layout.shape[0]:
            raise RuntimeError(
                f"multi_dot(): tensors {i} and {i + 1} with shapes {list(x._layout.shape)} and "
                f"{list(y._layout.shape)} "
                "cannot be multiplied"
            )
    sizes = (chain[0]._layout.shape[0], *[x._layout.shape[1] for x in chain])
    split = _chain_order(sizes)
    if len(chain) == 3:  # of two equal costs, as PyTorch has it, the first two come first; in longer chains the last ones
        a, b, c, d = sizes
        split[0, 2] = 0 if a * b * c + a * c * d > b * c * d + a * b * d else 1

    made = _product(chain, split, 0, len(chain) - 1)
    shape = made._layout.shape
    return made.view(shape[first._layout.ndim == 1 : len(shape) - (last._layout.ndim == 1)])


def _product(chain: list[Any], split: Any, i: int, j: int) -> Tensor:
    """Of the matrices i to j, first those up to split[i, j] and the others."""
    return chain[i] if i == j else mm(_product(chain, split, i, split[i, j]), _product(chain, split, split[i, j] + 1, j))


@described(autocast=lower)
def chain_matmul(*matrices: Any, out: Tensor | None = None) -> Tensor:
    """The product of matrices in the cheapest order."""
    warn_once(
        "torch.chain_matmul is deprecated and will be removed in a future PyTorch release. Use torch.linalg.multi_dot "
        "instead, which accepts a list of two or more tensors rather than multiple parameters."
    )
    chain = list(matrices[0]) if len(matrices) == 1 and isinstance(matrices[0], (list, tuple)) else list(matrices)
    for x in chain:
        if not isinstance(x, Tensor):
            raise TypeError(f"expected Tensor as element 0 in argument 0, but got {typename(x)}")
        if x._layout.ndim != 2:
            raise RuntimeError(f"Tensor dimension is {x._layout.ndim}, expected 2 instead.")
    if not chain:
        raise RuntimeError("chain_matmul(): Expected one or more matrices")
    if out is not None:
        check_early(record_of("chain_matmul"), out, lambda: chain)
    made = chain[0] if len(chain) == 1 else multi_dot(chain)
    return made if out is None else deliver(out, made, record_of("chain_matmul"), chain)


NAMESPACE["chain_matmul"] = chain_matmul


@composite(method=False, autocast=untouched)
def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """input1 . weight . input2 + bias: (*, in1), (*, in2) and (out, in1, in2) give (*, out)."""
    a, b, w = input1._layout, input2._layout, weight._layout
    if a.ndim != b.ndim:
        raise RuntimeError(f"bilinear(): input dimensions do not match: got {a.ndim} and {b.ndim}")
    for d in range(a.ndim - 1):
        if a.shape[d] != b.shape[d]:
            raise RuntimeError(f"bilinear(): input batch dimensions do not match at dim {d}: got {a.shape[d]} and {b.shape[d]}")
    for n, (x, size) in enumerate(((a, w.shape[1]), (b, w.shape[2])), 1):
        if x.shape[-1] != size:
            raise RuntimeError(f"bilinear(): input{n} size does not match weight size: got {x.shape[-1]} but expected {size}")
    if bias is not None and bias._layout.shape[0] != w.shape[0]:
        raise RuntimeError(
            f"bilinear(): bias size does not match weight size: got {bias._layout.shape[0]} but expected {w.shape[0]}"
        )
    rows = math.prod(a.shape[:-1])
    left, right = input1.reshape(rows, a.shape[-1]), input2.reshape(rows, b.shape[-1])
    # (rows, in1) by (in1, out * in2), then a product with in2 for each row and output
    made = mm(left, weight.transpose(0, 1).reshape(w.shape[1], w.shape[0] * w.shape[2])).reshape(rows, w.shape[0], w.shape[2])
    made = bmm(made, right.unsqueeze(2)).squeeze(2).reshape(*a.shape[:-1], w.shape[0])
    return made if bias is None else made + bias


@composite(
    method=False,
    function=False,
    name="linalg_vecdot",
    autocast=lower,
    out=Out(dtype=worded("linalg.vecdot: Expected out of dtype{have} but found {got}")),
)
def vecdot(x: Tensor, y: Tensor, *, dim: int = -1) -> Tensor:
    """Sums of conj(x) * y along `dim`, with broadcasting."""
    for given in (x, y):
        dtype = given._layout.dtype
        if not (dtype.is_floating_point or dtype.is_complex):
            raise RuntimeError(f"linalg.vecdot: Expected a floating point or complex tensor as input. Got {dtype.scalar_name}")
    if x._layout.ndim == y._layout.ndim == 1 and dim in (0, -1):
        return NAMESPACE["vdot"](x, y)
    return ((x.conj() if x.is_complex() else x) * y).sum(dim)


# ---------------------------------------------------------------- cross products, Vandermonde matrices, integrals


@operator(method=False, function=False, name="cross_vectors", node="LinalgCrossBackward0", planned=True)
def _cross(input: Tensor, other: Tensor, dim: int) -> Any:
    """Cross products along `dim` of tensors of one dtype, as one kernel: vectors' elements are operands side by side."""
    a, b = input._layout, other._layout
    shape = tuple(geometry.broadcast(a.shape, b.shape))
    out = Layout.contiguous(shape, a.dtype, a.device)
    own = compute_dtype(a.dtype)
    x, y = ([cast(element(first + i, a.dtype), own) for i in range(3)] for first in (0, 3))
    products = [cast(x[i] * y[j] - x[j] * y[i], own) for i, j in ((1, 2), (2, 0), (0, 1))]
    nest = Nest("cross", (a.dtype,) * 3, (a.dtype,) * 6, (Loop((), tuple(enumerate(products))),))
    strides, offsets = [], {}
    for operand in range(9):
        layout = (out, a, b)[operand // 3]
        steps = memory_order.broadcast_strides(layout.shape, layout.strides, shape)
        strides.append((*steps[:dim], *steps[dim + 1 :]))
        offsets[operand] = operand % 3 * layout.strides[dim] * a.dtype.itemsize
    step = elementwise(nest, (*shape[:dim], *shape[dim + 1 :]), strides, (0, 0, 0, 1, 1, 1, 2, 2, 2), offsets, scalar_slot=3)
    return lowered(Plan([step], [out], [a, b], release=out.numel >= RELEASE_FROM))


@_cross.vjp
def _(g, input, other, dim, need):
    def conjugated(x: Tensor) -> Tensor:
        return x.conj() if x.is_complex() else x

    return (
        linalg_cross(conjugated(other), g, dim=dim) if need["input"] else None,
        linalg_cross(g, conjugated(input), dim=dim) if need["other"] else None,
    )


def _cross_plan(input: Tensor, other: Tensor, dim: int | None = None) -> Callable | None:
    """The plan that served a cross product along a dimension that was given."""
    return None if dim is None else _cross.operator.kept.get((input._layout, other._layout, wrap_dim(dim, input._layout.ndim)))


@composite(
    method=False,
    function=False,
    name="linalg_cross",
    node="LinalgCrossBackward0",
    planned=_cross_plan,
    out=Out(dtype=exact, overlap=DISTINCT),
)
def linalg_cross(input: Tensor, other: Tensor, *, dim: int = -1) -> Tensor:
    """Cross products of vectors of three elements along `dim`, with broadcasting."""
    a, b = input._layout, other._layout
    if a.ndim != b.ndim:
        raise RuntimeError("linalg.cross: inputs must have the same number of dimensions.")
    d = wrap_dim(dim, a.ndim)
    if a.shape[d] != 3 or b.shape[d] != 3:
        raise RuntimeError(f"linalg.cross: inputs dimension {dim} must have length 3. Got {a.shape[d]} and {b.shape[d]}")
    if a.dtype is not b.dtype:
        raise RuntimeError(f"expected scalar type {a.dtype.scalar_name} but found {b.dtype.scalar_name}")
    if a.dtype is bool_:
        raise NotImplementedError("\"cross\" not implemented for 'Bool'")
    if a.flavor is None and b.flavor is None and a.device.type == b.device.type == "cpu":
        return _cross(input, other, d)
    x, y = input.unbind(d), other.unbind(d)
    return NAMESPACE["stack"]([x[i] * y[j] - x[j] * y[i] for i, j in ((1, 2), (2, 0), (0, 1))], d)


@composite(out=Out(dtype=exact, step="linalg_cross", overlap=DISTINCT), planned=_cross_plan)
def cross(input: Tensor, other: Tensor, dim: int | None = None) -> Tensor:
    """Cross products along `dim`; without it along the first dimension of size 3."""
    if dim is None:
        sizes = input._layout.shape
        if 3 not in sizes:
            raise RuntimeError("no dimension of size 3 in input")
        warn_once(
            "Using torch.cross without specifying the dim arg is deprecated.\nPlease either pass the dim "
            "explicitly or simply "
            "use torch.linalg.cross.\nThe default value of dim will change to agree with that of linalg.cross in a future "
            "release."
        )
        dim = tuple(sizes).index(3)
    return linalg_cross(input, other, dim=dim)


@composite(method=False, function=False, name="linalg_vander")
def linalg_vander(x: Tensor, *, N: int | None = None) -> Tensor:
    """Powers 0 to N - 1 of each element along a new last dimension: (*, n) gives (*, n, N)."""
    x = x if x._layout.ndim else x.unsqueeze(0)
    count = x._layout.shape[-1] if N is None else N
    if count <= 1:
        raise RuntimeError("N must be greater than 1.")
    ones = x.new_ones(x._layout.shape).unsqueeze(-1)
    powers = x.unsqueeze(-1).expand(*x._layout.shape, count - 1).cumprod(-1)
    return NAMESPACE["cat"]([ones, powers], -1)


@composite(method=False)
def vander(x: Tensor, N: int | None = None, increasing: bool = False) -> Tensor:
    """The Vandermonde matrix of a vector, highest power first unless `increasing`."""
    if x._layout.ndim != 1:
        raise RuntimeError("x must be a one-dimensional tensor.")
    if N is not None and N < 0:
        raise RuntimeError("N must be non-negative.")
    count = x._layout.shape[0] if N is None else N
    ones = x.new_ones(x._layout.shape).unsqueeze(-1)
    if count > 1:
        ones = NAMESPACE["cat"]([ones, x.unsqueeze(-1).expand(x._layout.shape[0], count - 1).cumprod(-1)], -1)
    made = ones[:, :count]
    return owned(made) if increasing else made.flip(1)


def _pieces(name: str, y: Tensor, x: Any, dim: int) -> Tensor:
    """Twice the areas of the trapezoids between neighbours along `dim`, with spacing 1 if x is None."""
    d = wrap_dim(dim, y._layout.ndim)
    size = y._layout.shape[d]
    left, right = y.narrow(d, 0, max(size - 1, 0)), y.narrow(d, min(1, size), max(size - 1, 0))
    if x is None:
        return left + right
    if x._layout.ndim == 0:
        raise RuntimeError(f"{name}: The `x` tensor must have at least one dimension")
    if x._layout.ndim == 1:
        if x._layout.shape[0] != size:
            raise RuntimeError(f"{name}: There must be one `x` value for each sample point")
        x = x.reshape([-1 if i == d else 1 for i in range(y._layout.ndim)])
    e = d - y._layout.ndim + x._layout.ndim if x._layout.ndim < y._layout.ndim else d
    count = x._layout.shape[e]
    step = x.narrow(e, 1, count - 1) - x.narrow(e, 0, count - 1)
    return (left + right) * step


@one_step("DivBackward1")
def _half(x: Tensor) -> Tensor:
    return x / 2


@one_step("MulBackward1")
def _times(x: Tensor, factor: float) -> Tensor:
    return x * factor


def _real_spacing(name: str, dx: Any) -> None:
    if isinstance(dx, (bool, complex)):
        raise RuntimeError(f"{name}: Currently, we only support dx as a real number.")


def _check_samples(name: str, y: Tensor, x: Any, dim: int) -> None:
    """Raise as PyTorch does for samples or points that are booleans, or have no such dimension."""
    if name == "trapezoid":
        if not y._layout.ndim:
            raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions")
        wrap_dim(dim, y._layout.ndim)
    dtypes = [z._layout.dtype for z in (y, x) if isinstance(z, Tensor)]
    if bool_ in dtypes:
        what = "`y`" if len(dtypes) == 1 else "`x` or `y`"
        raise RuntimeError(f"{name}: received a bool input for {what}, but bool is not supported")


def _trapezoid(name: str, y: Tensor, x: Any, dx: Any, dim: int) -> Tensor:
    _check_samples(name, y, x, dim)
    if x is None and isinstance(dx, Tensor):
        dx = dx.item()
    if y._layout.shape[wrap_dim(dim, y._layout.ndim)] == 0 and x is None:
        shape = [n for d, n in enumerate(y._layout.shape) if d != wrap_dim(dim, y._layout.ndim)]
        return y.new_zeros(shape)
    if x is None:
        return _times(y.sum(dim) - (y.select(dim, 0) + y.select(dim, -1)) * 0.5, dx)
    return _half(_pieces(name, y, x, dim).sum(dim))


@composite(method=False)
def trapezoid(y: Tensor, x: Tensor | None = None, *, dx: Any = None, dim: int = -1) -> Tensor:
    """The integral of samples `y` along `dim` by the trapezoidal rule, at points `x` or with spacing `dx` (1)."""
    _real_spacing("trapezoid", dx)
    return _trapezoid("trapezoid", y, x, 1 if dx is None else dx, dim)


@composite(method=False)
def trapz(y: Tensor, x: Tensor | None = None, *, dx: Any = None, dim: int = -1) -> Tensor:
    """Another name of `trapezoid`."""
    return _trapezoid("trapezoid", y, x, 1 if dx is None else dx, dim)


@composite(method=False)
def cumulative_trapezoid(y: Tensor, x: Tensor | None = None, *, dx: Any = None, dim: int = -1) -> Tensor:
    """The running integral of `trapezoid`; one element less along `dim`."""
    _check_samples("cumulative_trapezoid", y, x, dim)
    _real_spacing("cumulative_trapezoid", dx)
    if not y._layout.ndim:
        raise IndexError("slice() cannot be applied to a 0-dim tensor.")
    areas = _pieces("cumulative_trapezoid", y, x, dim)
    if x is None:
        return ((1 if dx is None else dx) / 2 * areas).cumsum(dim)
    return _half(areas.cumsum(dim))
