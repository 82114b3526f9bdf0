"""Buckets of gradients: which parameters' gradients are reduced together, and what a communication hook sees of them.

Stands on the public tensor; reducer uses it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import flambeau as torch
from flambeau.base.naming import called

FIRST_BUCKET = 1 << 20      # bytes: the first is small, so that the exchange begins early


def assigned(parameters: Sequence[Any], order: Sequence[int], limits: Sequence[int]) -> list[list[int]]:
    """Indices of parameters in buckets: in this order, each bucket of one dtype and closed when it has `limits[i]` bytes; the
    last limit is that of all further ones.
    """
    buckets: list[list[int]] = []
    open_: dict[Any, tuple[list[int], int]] = {}
    for index in order:
        parameter = parameters[index]
        members, size = open_.pop(parameter.dtype, ([], 0))
        members.append(index)
        size += parameter.numel() * parameter.element_size()
        if size >= limits[min(len(buckets), len(limits) - 1)]:
            buckets.append(members)
        else:
            open_[parameter.dtype] = members, size
    return buckets + [members for members, _ in open_.values()]


class Bucket:
    """Some parameters, one flat tensor for their gradients, and a view into it for each."""

    def __init__(self, indices: Sequence[int], parameters: Sequence[Any]) -> None:
        self.indices = list(indices)
        self.parameters = [parameters[index] for index in indices]
        self.flat = torch.zeros(sum(each.numel() for each in self.parameters), dtype=self.parameters[0].dtype)
        self.views: list[Any] = []
        self.waiting = 0            # parameters whose gradients are to come
        self.future: Any = None     # of the reduced gradients
        start = 0
        for parameter in self.parameters:
            piece = self.flat[start:start + parameter.numel()]
            dense = parameter.is_contiguous() or parameter.numel() == 0
            # A gradient lies as its parameter does.
            self.views.append(piece.view(parameter.shape) if dense else _as_lies(piece, parameter))
            start += parameter.numel()


def _as_lies(piece: Any, parameter: Any) -> Any:
    """A view of contiguous memory with a parameter's strides, if those fill it; else in order."""
    filled, expected = sorted(zip(parameter.stride(), parameter.shape)), 1
    for stride, size in filled:
        if size == 1:
            continue
        if stride != expected:
            return piece.view(parameter.shape)
        expected *= size
    return piece.as_strided(parameter.shape, parameter.stride())


@called("distributed", "GradBucket")
class GradBucket:
    """What a communication hook is given: the gradients of a bucket, one after another in `buffer()`."""

    def __init__(self, bucket: Bucket, index: int, last: bool) -> None:
        self._bucket, self._index, self._last, self._buffer = bucket, index, last, bucket.flat

    def index(self) -> int:
        """Its number, in the order in which buckets are reduced."""
        return self._index

    def buffer(self) -> Any:
        """All its gradients in one flat tensor."""
        return self._buffer

    def set_buffer(self, tensor: Any) -> None:
        """Put another flat tensor in the place of `buffer()`."""
        self._buffer = tensor

    def gradients(self) -> list[Any]:
        """Its gradients, as views of the flat tensor."""
        return list(self._bucket.views)

    def parameters(self) -> list[Any]:
        """The parameters whose gradients they are."""
        return list(self._bucket.parameters)

    def is_last(self) -> bool:
        """Whether it is the last of a backward pass."""
        return self._last
