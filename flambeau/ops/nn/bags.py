"""torch.embedding_bag: what torch.nn.functional's is made of, with numbers for modes, and all that PyTorch's gradient needs.

Stands on embedding_bag. Loaded at the first use; dispatcher.aten.embedding stands on it.
"""

from __future__ import annotations

from flambeau.core.operator.publishing import NAMESPACE
from flambeau.core.tensor.tensor import Tensor
from flambeau.core.tensor.without_data import known
from flambeau.ops.nn.embedding_bag import NOTHING, bags_and_maxima, stops_at_last_offset

MODES = ("sum", "mean", "max")
Results = tuple[Tensor, Tensor, Tensor, Tensor]


def embedding_bag(
    weight: Tensor,
    indices: Tensor,
    offsets: Tensor,
    scale_grad_by_freq: bool = False,
    mode: int = 0,
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Results:
    """Sums (mode 0), means (1) or maxima (2) of rows of `weight` over bags of indices, cut at `offsets`.

    padding_idx: an index that is left out; negative: from the end. Returns the bags (bags, weight.shape[1]); the number of the
    bag that each index is in; how many indices each bag has, 0 for sums; and the rows of maxima (bags, weight.shape[1]),
    else the numbers of indices again. Sums without padding don't need the second, which is empty where PyTorch doesn't make it.
    """
    if mode not in (0, 1, 2):
        raise RuntimeError("`mode` must be sum, mean, or max.")
    if per_sample_weights is not None and mode != 0:
        raise RuntimeError("embedding_bag: per_sample_weights only supported with mode='sum'")
    result, rows = bags_and_maxima(
        indices, weight, offsets, None, 2.0, scale_grad_by_freq, MODES[mode], sparse, per_sample_weights, include_last_offset,
        padding_idx,
    )  # fmt: skip
    starts = offsets[:-1] if include_last_offset else offsets
    dtype, many = starts._layout.dtype, indices._layout.numel
    padding = NOTHING if padding_idx is None else padding_idx % weight._layout.shape[0]
    there = known(indices)  # without data PyTorch's kernels give other sizes
    if mode == 0 and there and stops_at_last_offset(weight, per_sample_weights, padding):
        bags = starts.new_empty((0,))
    else:
        places = NAMESPACE["arange"](many, dtype=dtype, device=starts._layout.device)
        bags = NAMESPACE["searchsorted"](starts, places, right=True).to(dtype) - 1  # empty bags begin where the next one does
    sizes = NAMESPACE["zeros_like"](starts if mode else offsets)
    if mode and many:
        sizes = sizes.index_add(0, bags, (indices != padding).to(dtype))
    if rows is None:
        return result, bags, sizes, sizes.clone() if there else starts.new_empty((0,))
    return result, bags, sizes, rows.clamp(min=0).to(dtype)


def _embedding_bag(
    weight: Tensor,
    indices: Tensor,
    offsets: Tensor,
    scale_grad_by_freq: bool = False,
    mode: int = 0,
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int = -1,
) -> Results:
    """embedding_bag, in which a negative padding_idx leaves nothing out."""
    padding = None if padding_idx < 0 else padding_idx
    return embedding_bag(
        weight, indices, offsets, scale_grad_by_freq, mode, sparse, per_sample_weights, include_last_offset, padding
    )


_embedding_bag_forward_only = _embedding_bag
