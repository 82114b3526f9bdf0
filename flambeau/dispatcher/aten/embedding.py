"""Embedding bags, and their gradients from what PyTorch saves for them.

Stands on ops.nn.bags and ops.nn.embedding_bag.
"""

from __future__ import annotations

from typing import Any

from flambeau.core.tensor.tensor import Tensor
from flambeau.dispatcher.aten.gradients import gradients_of
from flambeau.dispatcher.aten.registry import implementation
from flambeau.ops.nn.bags import MODES, _embedding_bag
from flambeau.ops.nn.bags import embedding_bag as all_of_embedding_bag
from flambeau.ops.nn.embedding_bag import embedding_bag

implementation("_embedding_bag", "_embedding_bag_forward_only")(_embedding_bag)
implementation("embedding_bag")(all_of_embedding_bag)


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
