"""Embedding bags with PyTorch's numbers for modes (0 sum, 1 mean, 2 max) and all of their results.

Stands on nn.functional.embedding_bag.
"""

from __future__ import annotations

from typing import Any

from flambeau.core.operator.publishing import NAMESPACE
from flambeau.core.tensor.tensor import Tensor
from flambeau.dispatcher.aten.gradients import gradients_of
from flambeau.dispatcher.aten.registry import implementation
from flambeau.ops.nn.embedding_bag import embedding_bag

MODES = ("sum", "mean", "max")


@implementation("_embedding_bag", "_embedding_bag_forward_only", "embedding_bag")
def _embedding_bag(
    weight: Tensor,
    indices: Tensor,
    offsets: Tensor,
    scale_grad_by_freq: bool = False,
    mode: int = 0,
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = -1,
) -> Any:
    """The bags; which bag each index is in; how many each bag has; and where a maximum came from."""
    result = embedding_bag(
        indices,
        weight,
        offsets,
        None,
        2.0,
        scale_grad_by_freq,
        MODES[mode],
        sparse,
        per_sample_weights,
        include_last_offset,
        None if padding_idx is None or padding_idx < 0 else padding_idx,
    )
    starts = offsets[:-1] if include_last_offset else offsets
    count = indices.numel()
    ends = NAMESPACE["cat"]((starts[1:], starts.new_full((1,), count)))
    sizes = ends - starts
    places = NAMESPACE["arange"](count, dtype=starts._layout.dtype, device=starts.device)
    bags = NAMESPACE["searchsorted"](starts, places, right=True) - 1  # empty bags begin where the next one does
    return result, bags.to(offsets._layout.dtype), sizes, offsets.new_empty((0,))


def _ends_listed(grad: Tensor, offsets: Tensor) -> bool:
    """Whether the offsets have the end of the last bag too."""
    return bool(grad._layout.shape[0] < offsets.numel())


@implementation()
def _embedding_bag_backward(
    grad: Tensor,
    indices: Tensor,
    offsets: Tensor,
    offset2bag: Tensor,
    bag_size: Tensor,
    maximum_indices: Tensor,
    num_weights: int,
    scale_grad_by_freq: bool,
    mode: int,
    sparse: bool,
    per_sample_weights: Tensor | None,
    padding_idx: int = -1,
) -> Any:
    """The gradient for the table."""
    weight = grad.new_zeros((num_weights, grad._layout.shape[-1]))

    def bags(table: Tensor) -> Any:
        return embedding_bag(
            indices,
            table,
            offsets,
            None,
            2.0,
            scale_grad_by_freq,
            MODES[mode],
            sparse,
            per_sample_weights,
            _ends_listed(grad, offsets),
            None if padding_idx < 0 else padding_idx,
        )

    return gradients_of(bags, (weight,), grad)[0]


@implementation()
def _embedding_bag_per_sample_weights_backward(
    grad: Tensor, weight: Tensor, indices: Tensor, offsets: Tensor, offset2bag: Tensor, mode: int, padding_idx: int = -1
) -> Any:
    """The gradient for the weights of the samples."""
    factors = grad.new_ones((indices.numel(),))

    def bags(given: Tensor) -> Any:
        return embedding_bag(
            indices,
            weight,
            offsets,
            mode=MODES[mode],
            per_sample_weights=given,
            include_last_offset=_ends_listed(grad, offsets),
            padding_idx=None if padding_idx < 0 else padding_idx,
        )

    return gradients_of(bags, (factors,), grad)[0]
