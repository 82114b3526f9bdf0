"""embedding_bag: sums, means and maxima of a table's rows over bags of indices.

Each is one kernel (codegen.embedding.bags) and so is the gradient of the table, which is the sum's adjoint, so that it can be
differentiated as often as one likes.
"""

from __future__ import annotations

from typing import Any

from flambeau.base.dtype import bfloat16, float16, float32, float64, int64, promote_types
from flambeau.base.layout import Layout
from flambeau.codegen.element_type import kind_of
from flambeau.codegen.embedding import bags as kernels
from flambeau.codegen.plan import Phase, Plan
from flambeau.codegen.runtime.messages import KernelCheck
from flambeau.codegen.runtime.threads import planned_threads
from flambeau.codegen.targets import lowered
from flambeau.core.operator.define import operator
from flambeau.core.operator.pointwise import RELEASE_FROM
from flambeau.core.operator.publishing import NAMESPACE, explained
from flambeau.core.tensor.tensor import Tensor
from flambeau.core.tensor.without_data import known
from flambeau.ops.creation.copy import contiguous
from flambeau.ops.indexing.gather_plans import INDEX_TYPES, plans
from flambeau.ops.nn.embedding import EXPORTED, frequency, renormalise

UNIT = 16384  # elements of work worth waking another thread for
NOTHING = -1  # a padding index that no index is


def _launch(
    kind: str,
    target: Tensor | None,
    matrix: Tensor,
    indices: Tensor,
    offsets: Tensor,
    factors: Tensor | None,
    mode: str,
    padding: int,
    rows: int,
) -> Any:
    """Run a kernel of rows.bags; `matrix`: the table ("forward"), or the gradient of the result ("gradient", in `target`)."""
    if matrix._layout.strides[1] != 1:
        matrix = contiguous(matrix)
    indices, offsets = contiguous(indices), contiguous(offsets)
    given = [matrix, indices, offsets] if factors is None else [matrix, indices, offsets, contiguous(factors)]
    key = ("embedding_bag", kind, mode, padding, rows, *[x._layout for x in given])
    launch = plans.get(key)
    if launch is None:
        layout, count, bags = matrix._layout, indices._layout.numel, offsets._layout.numel
        width = layout.shape[1]
        form = kernels.Form(kind_of(layout.dtype), INDEX_TYPES[indices._layout.dtype], mode, factors is not None)
        forward = kind == "forward"
        shape = (bags if forward else rows, width)
        outputs = [Layout.contiguous(shape, layout.dtype, layout.device)]
        if mode == "max":
            outputs.append(Layout.contiguous(shape, int64, layout.device))
        threads, work = planned_threads(), count * width
        if forward:
            total, grain = bags, max(1, bags * UNIT // max(work, 1))
        else:
            total, grain = (min(4 * threads, rows) if work > UNIT and threads > 1 else 1), 1
        constants = [width, layout.strides[0], rows, count, bags, padding, total]
        address = (kernels.forward_kernel if forward else kernels.gradient_kernel)(form)
        launch = plans[key] = lowered(
            Plan(
                [Phase(address, total if bags and width else 0, grain, constants)],
                outputs,
                [x._layout for x in given],
                release=work >= RELEASE_FROM,
            )
        )
    if mode == "max":
        return launch(None, None, *given)
    return launch(target, *given)


def weighted_sums(table: Tensor, indices: Tensor, offsets: Tensor, factors: Tensor) -> Tensor:
    """The sum of the table's rows in each bag, each multiplied by its factor; nothing is recorded."""
    return _launch("forward", None, table, indices, offsets, factors, "sum", NOTHING, table._layout.shape[0])


@operator(
    function=False, method=False, name="embedding_bag_sums", node="EmbeddingBagBackward0", asks="dim", underneath="embedding_bag"
)
def _bag(
    weight: Tensor, indices: Tensor, offsets: Tensor, mean: bool, padding: int, by_frequency: bool, sparse: bool = False
) -> Tensor:
    """The sum or mean of weight's rows in each bag; by_frequency: gradients are divided by how often an index occurs; sparse:
    the gradient is a sparse tensor."""
    return _launch("forward", None, weight, indices, offsets, None, "mean" if mean else "sum", padding, weight._layout.shape[0])


@_bag.vjp
def _(g, indices, offsets, mean, padding, by_frequency, sparse, layouts):
    rows = layouts[0].shape[0]
    if sparse:
        return _sparse_gradient(g, indices, offsets, None, rows, mean, padding, by_frequency), None, None
    return _gradient(g, indices, offsets, _factors(None, indices, rows, by_frequency, g), rows, mean, padding), None, None


def _factors(factors: Tensor | None, indices: Tensor, rows: int, by_frequency: bool, g: Tensor) -> Tensor | None:
    """What the gradient of each index is multiplied with."""
    if not by_frequency:
        return factors
    share = frequency(indices, rows).to(g._layout.dtype).reciprocal()
    return share if factors is None else factors * share


@operator(function=False, method=False, name="weighted_embedding_bag", node="EmbeddingBagBackward0")
def _weighted_bag(
    weight: Tensor,
    indices: Tensor,
    offsets: Tensor,
    factors: Tensor,
    mean: bool,
    padding: int,
    by_frequency: bool,
    sparse: bool = False,
) -> Tensor:
    """_bag of rows that are first multiplied by a factor for each index."""
    return _launch(
        "forward", None, weight, indices, offsets, factors, "mean" if mean else "sum", padding, weight._layout.shape[0]
    )


@_weighted_bag.vjp
def _(g, weight, indices, offsets, factors, mean, padding, by_frequency, sparse, need):
    rows = weight._layout.shape[0]
    table = theirs = None
    if need["weight"] and sparse:
        table = _sparse_gradient(g, indices, offsets, factors, rows, mean, padding, by_frequency)
    elif need["weight"]:
        table = _gradient(g, indices, offsets, _factors(factors, indices, rows, by_frequency, g), rows, mean, padding)
    if need["factors"]:
        theirs = _products(weight, g, indices, offsets, mean, padding)
    return table, None, None, theirs


def _sparse_gradient(
    g: Tensor, indices: Tensor, offsets: Tensor, factors: Tensor | None, rows: int, mean: bool, padding: int, by_frequency: bool
) -> Any:
    """The gradient of a table of `rows` rows as a sparse tensor: for each index what its bag got."""
    if by_frequency:
        raise RuntimeError("embedding_backward: scale_grad_by_freq not supported with sparse gradients")
    from flambeau.ops.sparse import gradients

    bag, g = _bags_of(g, indices, offsets, mean, indices != padding)
    terms = g.index_select(0, bag)
    return gradients.of_rows(terms if factors is None else terms * factors.unsqueeze(1), indices, rows, padding)


def _bags_of(g: Tensor, indices: Tensor, offsets: Tensor, mean: bool, kept: Tensor) -> tuple[Tensor, Tensor]:
    """(the bag of each index, the gradient of a bag's sum from that of its sum or mean)"""
    count = indices._layout.numel
    bag = NAMESPACE["searchsorted"](offsets, NAMESPACE["arange"](count, device=offsets._layout.device), right=True) - 1
    if mean:
        sizes = NAMESPACE["zeros_like"](offsets, dtype=int64).index_add_(0, bag, kept.to(int64))
        g = g / sizes.clamp(min=1).to(g._layout.dtype).unsqueeze(1)
    return bag, g


def _products(weight: Tensor, g: Tensor, indices: Tensor, offsets: Tensor, mean: bool, padding: int) -> Tensor:
    """The product of each index's row with its bag's gradient."""
    kept = indices != padding
    bag, g = _bags_of(g, indices, offsets, mean, kept)
    products = (weight.index_select(0, indices) * g.index_select(0, bag)).sum(1)
    return products.masked_fill(kept.logical_not(), 0)


@operator(function=False, method=False, name="embedding_bag_backward")
def _gradient(
    grad: Tensor, indices: Tensor, offsets: Tensor, factors: Tensor | None, rows: int, mean: bool, padding: int
) -> Tensor:
    """The gradient of a table of `rows` rows: what each bag got, added to the rows that are in it."""
    layout = grad._layout
    out = NAMESPACE["zeros"]((rows, layout.shape[1]), dtype=layout.dtype, device=layout.device)
    _launch("gradient", out, grad, indices, offsets, factors, "mean" if mean else "sum", padding, rows)
    out._storage.writes = 0
    return out


@_gradient.vjp
def _(g, grad, indices, offsets, factors, mean, padding, need):
    mine = theirs = None
    if need["grad"]:
        mine = (
            _bag(g, indices, offsets, mean, padding, False)
            if factors is None
            else _weighted_bag(g, indices, offsets, factors, mean, padding, False)
        )
    if need["factors"]:
        theirs = _products(g, grad, indices, offsets, mean, padding)
    return mine, None, None, theirs


@operator(function=False, method=False, name="embedding_bag_max", node="EmbeddingBagBackward0", differentiable=1)
def _bag_maximum(weight: Tensor, indices: Tensor, offsets: Tensor, padding: int):
    """(maxima of each bag, 0 for empty ones; the rows they are in, the first of equal ones, -1 for none)."""
    return _launch("forward", None, weight, indices, offsets, None, "max", padding, weight._layout.shape[0])


@_bag_maximum.vjp
def _(g, outs, layouts):
    chosen = outs[1]
    table = NAMESPACE["zeros"](layouts[0].shape, dtype=g._layout.dtype, device=g._layout.device)
    return table.scatter_add(0, chosen.clamp(min=0), g.masked_fill(chosen < 0, 0)), None, None


def _cut(input: Tensor, offsets: Tensor | None, per_sample_weights: Tensor | None, include_last_offset: bool) -> tuple:
    """(one vector of indices, where its bags begin, its factors or None, the number of bags); ValueError for other ranks."""
    if input._layout.ndim == 2:
        if offsets is not None:
            raise ValueError(
                "if input is 2D, then offsets has to be None, as input is treated is a mini-batch of fixed length "
                f"sequences. However, found offsets of type {type(offsets)}"
            )
        bags, size = input._layout.shape
        offsets = NAMESPACE["arange"](bags, device=input._layout.device) * size
        input = input.reshape(-1)
        per_sample_weights = None if per_sample_weights is None else per_sample_weights.reshape(-1)
    elif input._layout.ndim == 1:
        if offsets is None:
            raise ValueError("offsets has to be a 1D Tensor but got None")
        if offsets._layout.ndim != 1:
            raise ValueError("offsets has to be a 1D Tensor")
        bags = offsets._layout.numel - bool(include_last_offset)
    else:
        raise ValueError(f"input has to be 1D or 2D Tensor, but got Tensor of dimension {input._layout.ndim}")
    return input, offsets, per_sample_weights, bags


def _check_mode(mode: str, scale_grad_by_freq: bool, sparse: bool, per_sample_weights: Tensor | None) -> None:
    """Raise for a mode that there is not, or that doesn't go with the options."""
    if mode not in ("sum", "mean", "max"):
        raise ValueError("mode has to be one of sum, mean or max")
    if mode == "max" and (scale_grad_by_freq or sparse):
        raise ValueError(
            "max mode does not support " + ("scaling the gradient by the frequency" if scale_grad_by_freq else "sparse weights")
        )
    if per_sample_weights is not None and mode != "sum":
        raise NotImplementedError(
            "embedding_bag: per_sample_weights was not None. per_sample_weights is only supported for mode='sum' "
            f"(got mode='{mode}'). Please open a feature request on GitHub."
        )


@explained
def embedding_bag(
    input: Tensor,
    weight: Tensor,
    offsets: Tensor | None = None,
    max_norm: float | None = None,
    norm_type: float = 2,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Tensor:
    """Sums, means or maxima of rows of `weight` over bags of indices.

    input: (bags, size) of indices, or one vector cut at `offsets`. per_sample_weights: a factor for each index, mode
    "sum" only.
    padding_idx: an index that is left out. Returns (bags, weight.shape[1]).
    """
    return bags_and_maxima(
        input, weight, offsets, max_norm, norm_type, scale_grad_by_freq, mode, sparse, per_sample_weights, include_last_offset,
        padding_idx,
    )[0]  # fmt: skip


def bags_and_maxima(
    input: Tensor, weight: Tensor, offsets: Tensor | None, max_norm: float | None, norm_type: float, scale_grad_by_freq: bool,
    mode: str, sparse: bool, per_sample_weights: Tensor | None, include_last_offset: bool, padding_idx: int | None,
) -> tuple[Tensor, Tensor | None]:  # fmt: skip
    """embedding_bag, and the rows in which its maxima are, -1 for empty bags: None in other modes."""
    if weight._layout.dtype in INDEX_TYPES and input._layout.dtype not in INDEX_TYPES:
        input, weight = weight, input
    if per_sample_weights is not None and input._layout.shape != per_sample_weights._layout.shape:
        raise ValueError(
            f"embedding_bag: If per_sample_weights ({per_sample_weights._layout.shape}) is not None, then it must have the same "
            f"shape as the input ({input._layout.shape})"
        )
    if not weight._layout.ndim == 2:
        raise ValueError(f"weight has to be a 2D Tensor, but got Tensor of dimension {weight._layout.ndim}")
    input, offsets, per_sample_weights, bags = _cut(input, offsets, per_sample_weights, include_last_offset)
    _check_mode(mode, scale_grad_by_freq, sparse, per_sample_weights)
    _check_types(weight, input, offsets, per_sample_weights)
    if input._layout.dtype is not offsets._layout.dtype:
        input, offsets = input.to(int64), offsets.to(int64)
    count, rows = input._layout.numel, weight._layout.shape[0]
    if padding_idx is None:
        padding_idx = NOTHING
    elif not -rows <= padding_idx < rows:
        raise RuntimeError(
            f"padding_idx must be within the number of embeddings, {-rows} through {rows - 1}, but got {padding_idx}"
        )
    elif padding_idx < 0:
        padding_idx += rows
    if max_norm is not None:
        renormalise(weight, input, max_norm, norm_type)
    told = bags and known(offsets)
    if told and (first := int(offsets[0].item())) != 0:
        raise RuntimeError(
            "offsets[0] has to be 0, i.e., the first sequence in the mini-batch has to start from position 0. "
            f"However, got {first}"
        )
    if told and (last := int(offsets[-1].item())) > count:
        raise RuntimeError(f"offsets[-1] can not be greater than input's length {count} but got offsets[-1] of {last}")
    if include_last_offset:
        offsets = offsets[:bags]
        if told and last < count and mode != "max" and stops_at_last_offset(weight, per_sample_weights, padding_idx):
            input = input[: max(last, 0)]
            per_sample_weights = None if per_sample_weights is None else per_sample_weights[: max(last, 0)]
    try:
        if mode == "max":
            return _bag_maximum(weight, input, offsets, padding_idx)
        factors = per_sample_weights
        if factors is not None:
            return _weighted_bag(weight, input, offsets, factors, False, padding_idx, scale_grad_by_freq, sparse), None
        return _bag(weight, input, offsets, mode == "mean", padding_idx, scale_grad_by_freq, sparse), None
    except KernelCheck as error:
        if error.args[0] == kernels.OFFSET_ERROR:
            raise IndexError("index out of range in self") from None
    outside = ((input < 0) | (input >= rows)).nonzero()
    if not outside.numel():
        raise RuntimeError("embedding_bag: another thread changed the indices while they were read")
    wrong = outside[0, 0].item()
    if mode == "max" or padding_idx != NOTHING:
        raise RuntimeError(f"embedding_bag: Expected idx >= 0 && idx < num_embeddings but found idx to be {input[wrong].item()}")
    raise RuntimeError(f"Index {wrong} of input takes value {input[wrong].item()} which is not in the valid range [0, {rows})")


def stops_at_last_offset(weight: Tensor, factors: Tensor | None, padding_idx: int) -> bool:
    """Whether what follows the last offset is in no bag; otherwise, as in a maximum, it is in the last one. PyTorch's kernels
    differ in this, so the operands on which it chooses between them decide."""
    layout = weight._layout
    return (
        padding_idx == NOTHING
        and layout.dtype is not float64
        and layout.strides[1] == 1
        and (factors is None or factors._layout.strides[0] == 1)
    )


def _check_types(weight: Tensor, indices: Tensor, offsets: Tensor, factors: Tensor | None) -> None:
    """RuntimeError for dtypes that don't fit."""
    checking = "(while checking arguments for embedding_bag)"
    index, table = promote_types(indices._layout.dtype, offsets._layout.dtype), weight._layout.dtype
    if index not in INDEX_TYPES:
        raise RuntimeError(
            "Expected tensor for argument #1 'indices' to have one of the following scalar types: Long, Int; but "
            f"got torch.{index.scalar_name}Tensor instead {checking}"
        )
    if table not in (float32, float64, float16, bfloat16):
        raise RuntimeError(
            "Expected tensor for argument #1 'weight' to have one of the following scalar types: Half, BFloat16, "
            f"Float, Double; but got torch.{table.scalar_name}Tensor instead {checking}"
        )
    if factors is not None and factors._layout.dtype is not table:
        raise RuntimeError(
            "Expected tensor for argument #1 'weight' to have the same type as tensor for argument #1 "
            f"'per_sample_weights'; but type torch.{table.scalar_name}Tensor does not equal "
            f"torch.{factors._layout.dtype.scalar_name}Tensor {checking}"
        )


EXPORTED["embedding_bag"] = embedding_bag
