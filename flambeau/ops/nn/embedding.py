"""Rows of a table: embedding, one_hot.

Stands on ops.indexing.gather_plans; the gradient of embedding is a scatter in which each thread owns a range of the table's rows.
"""

from __future__ import annotations

from typing import Any

from flambeau.base.dtype import float32, float64, int64
from flambeau.base.layout import Layout
from flambeau.codegen.gather_scatter.move import Buffer, Index, Move
from flambeau.core.modes import modes
from flambeau.core.operator.define import composite, operator
from flambeau.core.operator.facets import LINEAR
from flambeau.core.operator.publishing import NAMESPACE
from flambeau.core.tensor.tensor import Tensor, tensor_from
from flambeau.core.tensor.without_data import known
from flambeau.ops.indexing.gather_plans import INDEX_TYPES, KernelCheck, checking_alone, filling, first_bad, make_plan, plans
from flambeau.ops.reduction.vector_norm import vector_norm

EXPORTED: dict[str, Any] = {}


def _move(table: Layout, index: Layout, other: Layout, slots: tuple[int, int, int], write: bool, combine: str | None) -> Move:
    sizes = (*index.shape, table.shape[1])
    i = Index(Buffer(slots[2], 0, (*index.strides, 0)), INDEX_TYPES[index.dtype], table.strides[0], table.shape[0])
    place = Buffer(slots[0], 0, (*[0] * index.ndim, table.strides[1]))
    return Move(table.dtype, sizes, place, Buffer(slots[1], 0, other.strides), (i,), write, combine, wraps=False)


def _check(indices: Tensor) -> None:
    if indices._layout.dtype not in INDEX_TYPES:
        raise RuntimeError(
            "Expected tensor for argument #1 'indices' to have one of the following scalar types: Long, Int; but got "
            f"torch.{indices._layout.dtype.scalar_name}Tensor instead (while checking arguments for embedding)"
        )


@operator(function=False, method=False, name="embedding", node="EmbeddingBackward0", jvp=LINEAR)
def _embedding(
    weight: Tensor, indices: Tensor, padding_idx: int = -1, scale_grad_by_freq: bool = False, sparse: bool = False
) -> Tensor:
    """weight[indices]; positions equal to padding_idx give no gradient."""
    key = ("embedding", weight._layout, indices._layout)
    launch = plans.get(key)
    if launch is None:
        table, index = weight._layout, indices._layout
        if table.ndim != 2:
            raise RuntimeError("'weight' must be 2-D")
        _check(indices)
        if not table.shape[0] and index.numel:
            raise RuntimeError("index_select(): self indexing axis dim should be positive")
        out = Layout.contiguous((*index.shape, table.shape[1]), table.dtype, table.device)
        launch = make_plan([_move(table, index, out, (1, 0, 2), False, None)], [out], [table, index])
        plans[key] = launch = launch if out.numel else checking_alone(launch, index, table.shape[0])
    try:
        return launch(None, weight, indices)
    except KernelCheck:
        if not weight._layout.numel:
            rows = weight._layout.shape[0]
            raise RuntimeError(
                f"INDICES element is out of DATA bounds, id={first_bad(indices, rows, False)} axis_dim={rows}"
            ) from None
        raise IndexError("index out of range in self") from None


@_embedding.vjp
def _(g, indices, padding_idx, scale_grad_by_freq, sparse, layouts):
    if sparse:
        if scale_grad_by_freq:
            raise RuntimeError("embedding_backward: scale_grad_by_freq not supported with sparse gradients")
        from flambeau.ops.sparse import gradients

        return (gradients.of_rows(g, indices, layouts[0].shape[0], padding_idx),)
    return (_backward(g, indices, layouts[0].shape[0], padding_idx, scale_grad_by_freq),)


@operator(function=False, method=False, name="embedding_dense_backward", jvp=LINEAR)
def _backward(grad: Tensor, indices: Tensor, count: int, padding_idx: int, scale_grad_by_freq: bool) -> Tensor:
    """The gradient of a table of `count` rows: grad summed into the rows that were read."""
    layout, index = grad._layout, indices._layout
    table = Layout.contiguous((count, layout.shape[-1]), layout.dtype, layout.device)
    out = NAMESPACE["zeros"](table.shape, dtype=layout.dtype, device=layout.device)
    if scale_grad_by_freq:
        grad = grad * frequency(indices, count).to(layout.dtype).reciprocal().unsqueeze(-1)
        layout = grad._layout
    key = ("embedding_backward", layout, index, count)
    launch = plans.get(key)
    if launch is None:
        launch = plans[key] = make_plan([_move(table, index, layout, (0, 1, 2), True, "add")], [table], [layout, index])
    try:
        launch(out, grad, indices)
    except KernelCheck:
        raise IndexError("index out of range in self") from None
    if padding_idx >= 0:
        out.select(0, padding_idx).zero_()
    out._storage.writes = 0
    return out


@_backward.vjp
def _(g, indices, padding_idx, scale_grad_by_freq, layouts):
    made = _embedding(g, indices)
    if scale_grad_by_freq:
        made = made / frequency(indices, g._layout.shape[0]).to(made._layout.dtype).unsqueeze(-1)
    if padding_idx >= 0:
        made = made.masked_fill((indices == padding_idx).unsqueeze(-1), 0)
    return (made,)


def frequency(indices: Tensor, count: int) -> Tensor:
    """How often each index occurs among the indices."""
    flat = indices.reshape(-1)
    ones = NAMESPACE["ones"](flat._layout.shape, dtype=int64, device=flat._layout.device)
    counts = NAMESPACE["zeros"]((count,), dtype=int64, device=flat._layout.device).index_add_(0, flat, ones)
    return counts.index_select(0, flat).reshape(indices._layout.shape)


def embedding(
    input: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """Rows of `weight` (count, size) at the positions `input` (int64 or int32): shape (*input.shape, size).

    padding_idx: the row that gets no gradient; max_norm: rows that are read and longer (in norm_type) are first
    scaled down in
    `weight` itself; scale_grad_by_freq: gradients are divided by how often the index occurs. IndexError out of range.
    """
    if padding_idx is None and max_norm is None and not sparse:
        return _embedding(weight, input, -1, scale_grad_by_freq)
    if padding_idx is not None:
        rows = weight._layout.shape[0]
        if not -rows <= padding_idx < rows:
            raise AssertionError("Padding_idx must be within num_embeddings")
        if padding_idx < 0:
            padding_idx += rows
    else:
        padding_idx = -1
    if max_norm is not None:
        renormalise(weight, input, max_norm, norm_type)
    return _embedding(weight, input, padding_idx, scale_grad_by_freq, sparse)


def renormalise(weight: Tensor, indices: Tensor, max_norm: float, norm_type: float) -> None:
    """Scale the rows that are read down to max_norm, in place; of a dual tensor the value alone."""
    _check(indices)
    while getattr(weight, "primal", None) is not None:
        weight = weight.primal
    if not known(weight):
        weight._storage.writes += 1
        return
    before, modes.local.grad = modes.local.grad, False
    try:
        raw = tensor_from(weight._storage, weight._offset, weight._layout)
        used = NAMESPACE["unique"](indices.reshape(-1))
        bad = first_bad(used, weight._layout.shape[0], False)
        if bad is not None:
            raise IndexError("index out of range in self")
        rows = raw.index_select(0, used)
        length = vector_norm(rows, norm_type, 1, True)
        scale = max_norm / (length.to(float64) + 1e-7)
        if rows._layout.dtype is not float64:
            scale = scale.to(float32)  # rounded once, as PyTorch's number is
        scaled = NAMESPACE["where"](length > max_norm, (rows * scale).to(rows._layout.dtype), rows)
        raw.index_copy_(0, used.to(int64), scaled)
    finally:
        modes.local.grad = before


# ---------------------------------------------------------------- one_hot


@composite(function=False, method=False, written_in_python=False)
def one_hot(input: Tensor, num_classes: int = -1) -> Tensor:
    """int64 zeros of shape (*input.shape, num_classes) with a 1 where the class is; num_classes -1: the largest class
    plus one."""
    if input._layout.dtype is not int64:
        raise RuntimeError("one_hot is only applicable to index tensor of type LongTensor.")
    if not input._layout.numel:
        if num_classes <= 0:
            raise RuntimeError("Can not infer total number of classes from empty tensor.")
        return NAMESPACE["empty"]((*input._layout.shape, num_classes), dtype=int64, device=input._layout.device)
    if num_classes == -1:
        if int(input.min().item()) < 0:
            raise RuntimeError("Class values must be non-negative.")
        num_classes = int(input.max().item()) + 1
    elif num_classes < 1:
        raise RuntimeError("num_classes should be positive")
    out = Layout.contiguous((*input._layout.shape, num_classes), int64, input._layout.device)
    launch = plans.get(("one_hot", input._layout, out))
    if launch is None:
        index = Index(Buffer(2, 0, input._layout.strides), "i64", 1, num_classes)
        ones = Buffer(1, 0, (0,) * input._layout.ndim)
        launch = plans["one_hot", input._layout, out] = make_plan(
            [Move(int64, input._layout.shape, Buffer(0, 0, out.strides[:-1]), ones, (index,), True, wraps=False)],
            [out],
            [filling(1, int64, out.device)._layout, input._layout],
        )
    try:
        made = launch(NAMESPACE["zeros"](out.shape, dtype=int64, device=out.device), filling(1, int64, out.device), input)
        made._storage.writes = 0
        return made
    except KernelCheck:
        if int(input.min().item()) < 0:
            raise RuntimeError("Class values must be non-negative.") from None
        raise RuntimeError("Class values must be smaller than num_classes.") from None


EXPORTED.update(embedding=embedding, one_hot=one_hot)
NAMESPACE["embedding"] = _embedding
