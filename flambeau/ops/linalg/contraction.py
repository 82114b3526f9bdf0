"""Sums of products of two operands whose dimensions have labels: what `einsum` and its gradients are made of.

What only one operand has is summed first, what both have becomes a batch or the inner dimension of one product. Where nothing is
to be summed first, all of it is one launch that reads the operands where they lie. Stands on ops.linalg.matmul.
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Sequence
from typing import Any

from flambeau.base.dtype import bool_
from flambeau.base.layout import Layout, contiguous_strides, register_cache
from flambeau.codegen.plan import Plan
from flambeau.codegen.products.matrix import Matrix
from flambeau.codegen.products.steps import Contraction
from flambeau.codegen.targets import lowered
from flambeau.core.modes.modes import active
from flambeau.core.operator.define import operator
from flambeau.core.operator.pointwise import RELEASE_FROM
from flambeau.core.tensor.tensor import Tensor, tensor_from
from flambeau.ops.linalg.matmul import batches, bmm, mm, outer, outer_plan, same_dtype, without_products

Label = Any  # a letter's number, or ("...", k) for the k-th dimension from the right that an ellipsis covers


def reduce_labels(x: Tensor, labels: list[Label], dropped: Sequence[Label]) -> tuple[Tensor, list[Label]]:
    if not dropped:
        return x, labels
    dims = [labels.index(label) for label in dropped]
    singles = [d for d in dims if x._layout.shape[d] == 1]
    x = x.squeeze(tuple(dims)) if len(singles) == len(dims) else x.sum(dims)
    return x, [label for label in labels if label not in dropped]


def pair(x: Tensor, x_labels: list[Label], y: Tensor, y_labels: list[Label], keep: builtins.set) -> tuple[Tensor, list[Label]]:
    """The product of two operands, summed over the labels that are not to be kept."""
    x_sizes, y_sizes = dict(zip(x_labels, x._layout.shape)), dict(zip(y_labels, y._layout.shape))
    common = [label for label in x_labels if label in y_sizes]

    def alone(label: Label, own: dict[Label, int], other: dict[Label, int]) -> bool:
        """Whether a label can go before the product: the other operand broadcasts it, or nobody wants it."""
        return own[label] == 1 != other[label] if label in other else label not in keep

    x, x_labels = reduce_labels(x, x_labels, [label for label in x_labels if alone(label, x_sizes, y_sizes)])
    y, y_labels = reduce_labels(y, y_labels, [label for label in y_labels if alone(label, y_sizes, x_sizes)])
    x_only = [label for label in x_labels if label not in y_labels]
    y_only = [label for label in y_labels if label not in x_labels]
    # a label that was broadcast away from one operand and is not kept is summed where it remains
    x, x_labels = reduce_labels(x, x_labels, [label for label in x_only if label not in keep])
    y, y_labels = reduce_labels(y, y_labels, [label for label in y_only if label not in keep])
    x_only = [label for label in x_only if label in keep]
    y_only = [label for label in y_only if label in keep]
    batch = [label for label in common if label in x_labels and label in y_labels and label in keep]
    inner = [label for label in common if label in x_labels and label in y_labels and label not in keep]
    left = x.permute([x_labels.index(label) for label in [*batch, *x_only, *inner]])
    right = y.permute([y_labels.index(label) for label in [*batch, *inner, *y_only]])
    labels = [*batch, *x_only, *y_only]
    b, m = len(batch), len(x_only)
    shape = [*left._layout.shape[: b + m], *right._layout.shape[b + len(inner) :]]
    rows, columns = math.prod(shape[b : b + m]), math.prod(shape[b + m :])
    length = math.prod(left._layout.shape[b + m :])
    if not inner or (length == 1 and x._layout.dtype is bool_):  # which have no products of matrices
        left = left.reshape((*shape[: b + m], *[1] * len(y_only)))
        right = right.reshape((*shape[:b], *[1] * m, *shape[b + m :]))
        return left * right, labels
    if without_products(left, right):
        return right.new_zeros(shape), labels
    same_dtype("einsum", left, right)
    if not batch:
        return mm(left.reshape(rows, length), right.reshape(length, columns)).reshape(shape), labels
    count = math.prod(shape[:b])
    return bmm(left.reshape(count, rows, length), right.reshape(count, length, columns)).reshape(shape), labels


# Two operands whose labels occur once in each, and are all in the other one or in the result: a product that is one launch.

Spec = tuple[tuple[Label, ...], tuple[Label, ...], tuple[Label, ...]]
kept: dict[Any, tuple[Any, Spec | None]] = register_cache({})  # (launcher, spec of a contraction) by equation and layouts


def of_two(equation: Any, given: list[Tensor], full: tuple[tuple[Label, ...], ...], result: tuple[Label, ...]) -> Any:
    """The sum of products of two operands where it is one launch, or None."""
    x, y = given
    own, other = full
    if x._layout.flavor is not None or y._layout.flavor is not None:
        return None
    sizes, others = dict(zip(own, x._layout.shape)), dict(zip(other, y._layout.shape))
    if len(sizes) != len(own) or len(others) != len(other) or any(others.get(k, size) != size for k, size in sizes.items()):
        return None
    wanted = builtins.set(result)
    if any(k not in others and k not in wanted for k in own) or any(k not in sizes and k not in wanted for k in other):
        return None
    key = (equation, x._layout, y._layout)
    if all(k in wanted for k in own) and all(k in wanted for k in other):
        if len(own) == len(other) == 1 and result == own + other:
            made = outer(x, y)
            launch = outer_plan(x, y)
            if launch is not None and not active.count and isinstance(equation, str):
                kept[key] = launch, None
            return made
        return None
    if x._layout.dtype is not y._layout.dtype or x._layout.dtype is bool_:
        return None
    spec = own, other, result
    made = contraction(x, y, spec)
    launch = contraction.operator.kept.get((x._layout, y._layout, spec))
    if launch is not None and isinstance(equation, str):
        kept[key] = launch, spec
    return made


def _one_stride(labels: Sequence[Label], layout: Layout, own: Sequence[Label]) -> tuple[int, int] | None:
    """(size, stride) of several dimensions walked as one; None where they don't lie that way."""
    size, stride = 1, 0
    for label in reversed(labels):
        d = own.index(label)
        if layout.shape[d] == 1:
            continue
        if size == 1:
            stride = layout.strides[d]
        elif layout.strides[d] != stride * size:
            return None
        size *= layout.shape[d]
    return size, stride


@operator(name="einsum_pair", node="ViewBackward0", method=False, function=False, planned=True)
def contraction(x: Tensor, y: Tensor, spec: Spec) -> Any:
    """Products summed over the labels that both have and the result has not."""
    own, other, result = spec
    if result and result[-1] in own and result[-1] not in other:
        x, y, own, other = y, x, other, own  # the result then is contiguous
    swapped = own is not spec[0]
    a, b = x._layout, y._layout
    sizes = dict(zip(own, a.shape)) | dict(zip(other, b.shape))
    if without_products(x, y):
        return (x if swapped else y).new_zeros([sizes[k] for k in result])
    same_dtype("einsum", x, y)
    batch = [k for k in result if k in own and k in other]
    rows, columns = [k for k in result if k not in other], [k for k in result if k not in own]
    inner = [k for k in own if k not in result]
    order = [*batch, *rows, *columns]
    dense = dict(zip(order, contiguous_strides([sizes[k] for k in order])))
    out = Layout.of(tuple([sizes[k] for k in result]), tuple([dense[k] for k in result]), a.dtype, a.device)
    groups = batches(
        [sizes[k] for k in batch], [a.strides[own.index(k)] for k in batch], [b.strides[other.index(k)] for k in batch]
    )
    places = [_one_stride(rows, a, own), _one_stride(inner, a, own), _one_stride(inner, b, other), _one_stride(columns, b, other)]
    count, m, k, n = (math.prod([sizes[label] for label in part]) for part in (batch, rows, inner, columns))
    if len(groups) > 2 or None in places:
        left = x.permute([own.index(label) for label in [*batch, *rows, *inner]]).reshape(count, m, k)
        right = y.permute([other.index(label) for label in [*batch, *inner, *columns]]).reshape(count, k, n)
        product = bmm(left, right)
        return tensor_from(product._storage, product._offset, out)
    (outer, a0, b0), (more, a1, b1) = [(1, 0, 0)] * (2 - len(groups)) + groups
    a_row, a_step, b_step, b_column = [place[1] for place in places]  # type: ignore[index]
    step = Contraction(
        a.dtype,
        m,
        n,
        k,
        Matrix(2 if swapped else 1, (a0, a1, a_row, a_step)),
        Matrix(1 if swapped else 2, (b0, b1, b_step, b_column)),
        Matrix(0, (more * m * n, m * n, n, 1)),
        (outer, more),
    )
    return lowered(Plan([step], [out], [b, a] if swapped else [a, b], release=out.numel * max(k, 1) >= RELEASE_FROM))


@contraction.vjp
def _(g, x, y, spec, need):
    own, other, result = spec

    def conjugated(z: Tensor) -> Tensor:
        return z.conj() if z.is_complex() else z

    return (
        _of_labels(g, conjugated(y), (result, other, own)) if need["x"] else None,
        _of_labels(g, conjugated(x), (result, own, other)) if need["y"] else None,
    )


def _of_labels(x: Tensor, y: Tensor, spec: Spec) -> Tensor:
    """The sum of products of two operands by their labels, all of which the other one or the result has."""
    own, other, result = spec
    if any(k not in result for k in own):
        return contraction(x, y, spec)
    made, labels = pair(x, list(own), y, list(other), builtins.set(result))
    order = [labels.index(label) for label in result]
    return made if order == list(range(len(order))) else made.permute(order)
