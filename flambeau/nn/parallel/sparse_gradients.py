"""Sparse gradients of DistributedDataParallel: those of embeddings made with sparse=True, reduced by gathering rows.

Stands on torch.distributed; reducer uses it.
"""

from __future__ import annotations

from typing import Any

import flambeau as torch


def expected(module: Any) -> set[int]:
    """The ids of a module's parameters whose gradients will be sparse."""
    kinds = (torch.nn.Embedding, torch.nn.EmbeddingBag)
    return {id(each.weight) for each in module.modules() if isinstance(each, kinds) and each.sparse}


def total(gradient: Any, group: Any) -> Any:
    """The sum over a group of a sparse gradient with one sparse dimension, coalesced. All processes of the group call it.

    Raises NotImplementedError for a gradient that is sparse in more dimensions.
    """
    gradient = gradient.coalesce()
    if gradient.sparse_dim() != 1:
        raise NotImplementedError(
            "DistributedDataParallel reduces gradients that are sparse in their first dimension only: make "
            f"the gradient dense before, it is sparse in {gradient.sparse_dim()}"
        )
    indices, values = gradient.indices()[0], gradient.values()
    counts = [torch.zeros(1, dtype=torch.int64) for _ in range(group.size())]
    torch.distributed.all_gather(counts, torch.tensor([indices.numel()]), group=group)
    lengths = [int(each.item()) for each in counts]
    rows = torch.cat(_gathered(indices, lengths, group))
    found = torch.cat(_gathered(values, lengths, group))
    return torch.sparse_coo_tensor(rows.unsqueeze(0), found, gradient.shape).coalesce()


def _gathered(tensor: Any, lengths: list[int], group: Any) -> list[Any]:
    """Every process's rows of a tensor; they travel in pieces of one length."""
    padded = tensor.new_zeros((max(lengths), *tensor.shape[1:]))
    padded[: tensor.shape[0]] = tensor
    everyone = [torch.empty_like(padded) for _ in lengths]
    if padded.numel():
        torch.distributed.all_gather(everyone, padded, group=group)
    return [each[:length] for each, length in zip(everyone, lengths, strict=True)]


def none(parameter: Any) -> Any:
    """A sparse gradient of zeros."""
    rows = torch.zeros((1, 0), dtype=torch.int64)
    return torch.sparse_coo_tensor(rows, parameter.new_zeros((0, *parameter.shape[1:])).detach(), parameter.shape)
