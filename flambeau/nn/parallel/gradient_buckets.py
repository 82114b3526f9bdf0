"""Buckets of gradients: which parameters' gradients are reduced together, and what a communication hook sees of them.

Stands on the public tensor; reducer uses it.
"""

from __future__ import annotations

import inspect
from collections.abc import Collection, Sequence
from typing import Any

import flambeau as torch
from flambeau.base.naming import called
from flambeau.nn.parallel import sparse_gradients

FIRST_BUCKET = 1 << 20  # bytes: the first is small, so that the exchange begins early


def assigned(
    parameters: Sequence[Any], order: Sequence[int], limits: Sequence[int], sparse: Collection[int] = ()
) -> list[list[int]]:
    """Indices of parameters in buckets: in this order, each bucket of one dtype and closed when it has `limits[i]` bytes; the
    last limit is that of all further ones. sparse: indices that have a bucket each.
    """
    buckets: list[list[int]] = []
    open_: dict[Any, tuple[list[int], int]] = {}
    for index in order:
        parameter = parameters[index]
        if index in sparse:
            buckets.append([index])
            continue
        members, size = open_.pop(parameter.dtype, ([], 0))
        members.append(index)
        size += parameter.numel() * parameter.element_size()
        if size >= limits[min(len(buckets), len(limits) - 1)]:
            buckets.append(members)
        else:
            open_[parameter.dtype] = members, size
    return buckets + [members for members, _ in open_.values()]


class Bucket:
    """Some parameters, one flat tensor for their gradients, and a view into it for each.

    sparse: the one parameter's gradients are sparse; `flat` is then this pass's gradient itself, and there are no views.
    """

    def __init__(self, indices: Sequence[int], parameters: Sequence[Any], sparse: bool = False) -> None:
        self.indices, self.sparse = list(indices), sparse
        self.parameters = [parameters[index] for index in indices]
        self.flat: Any = None
        self.views: list[Any] = []
        self.waiting = 0  # parameters whose gradients are to come
        self.future: Any = None  # of the reduced gradients
        if sparse:
            self.flat, self.views = sparse_gradients.none(self.parameters[0]), [None]
            return
        self.flat = torch.zeros(sum(each.numel() for each in self.parameters), dtype=self.parameters[0].dtype)
        start = 0
        for parameter in self.parameters:
            piece = self.flat[start : start + parameter.numel()]
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
        return [self._bucket.flat] if self._bucket.sparse else list(self._bucket.views)

    def parameters(self) -> list[Any]:
        """The parameters whose gradients they are."""
        return list(self._bucket.parameters)

    def is_last(self) -> bool:
        """Whether it is the last of a backward pass."""
        return self._last


def check_annotations(hook: Any) -> None:
    """Raise ValueError for a communication hook whose annotations are other than (state, GradBucket) -> Future of a Tensor."""
    try:
        signature = inspect.signature(hook, eval_str=True)
    except Exception:
        return  # a function without Python code, or names that only type checkers know
    free = (inspect.Parameter.empty, Any)
    given = [each.annotation for each in signature.parameters.values()][1:2]
    if any(each not in free and each is not GradBucket for each in given):
        raise ValueError("Communication hook: bucket annotation should be dist.GradBucket.")
    answer, wanted = signature.return_annotation, torch.futures.Future
    if answer not in free and answer not in (wanted, wanted[torch.Tensor]):
        raise ValueError("Communication hook: return annotation should be torch.futures.Future[torch.Tensor].")
