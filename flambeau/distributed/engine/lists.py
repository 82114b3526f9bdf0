"""Lists of tensors as a group's operations take them: one tensor or a list, a list in a list, pieces of one for each rank.

Stands on buffers; the parts of the engine use it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import flambeau as torch
from flambeau.distributed import buffers, reduce_ops
from flambeau.distributed.buffers import buffer, writable
from flambeau.distributed.reduce_ops import ReduceOp
from flambeau.distributed.work import Work, Works

Tensors = Sequence[Any]


def combined(op: Any) -> str:
    """A reduction, unless it is the usual one."""
    kind = reduce_ops.kind_of(op)
    return "" if kind == ReduceOp.SUM else kind.name


def rooted(options: Any, op: Any = ReduceOp.SUM) -> str:
    """A root, and a reduction."""
    return ", ".join(filter(None, (f"root {options.rootRank}", combined(op))))


def shape(tensor: Any) -> str:
    return f"({', '.join(map(str, tensor.shape))})"


def ranked(tensors: Tensors) -> list[tuple[int, buffers.Buffer]]:
    """The memory of a tensor for each rank."""
    return [(rank, buffer(tensor)) for rank, tensor in enumerate(tensors)]


def places_of(tensors: Tensors) -> tuple[list[Any], buffers.Finish]:
    """Contiguous tensors in which results may be made, and what copies them to `tensors` then."""
    pairs = [writable(tensor) for tensor in tensors]
    finish = None
    for _, each in pairs:
        finish = buffers.both(finish, each)
    return [made for made, _ in pairs], finish


def cut(tensor: Any, sizes: Sequence[int]) -> list[tuple[int, buffers.Buffer]]:
    """Pieces of a tensor's memory, of so many bytes each, for the ranks in turn."""
    pieces, address = [], tensor.data_ptr()
    for rank, size in enumerate(sizes):
        pieces.append((rank, (address, size)))
        address += size
    return pieces


def listed(tensors: Any) -> list[Any]:
    return [tensors] if isinstance(tensors, torch.Tensor) else list(tensors)


def inner(lists: Any) -> list[Any]:
    """The tensors of a list of one list, or of a list."""
    return list(lists[0]) if lists and not isinstance(lists[0], torch.Tensor) else list(lists)


def options_of(kind: Any, given: Any) -> Any:
    if isinstance(given, ReduceOp):
        options = kind()
        options.reduceOp = given
        return options
    return kind() if given is None else given


def together(works: list[Work]) -> Work:
    return works[0] if len(works) == 1 else Works(works)
