"""Tensors as MPI sees them: contiguous memory at an address. What isn't is copied before, and back afterwards.

Stands on the public operators; used by engine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import flambeau as torch

Buffer = tuple[int, int]
Finish = Callable[[], None] | None


def readable(tensor: Any) -> Any:
    """The tensor without a graph, contiguous and as it lies in memory; a copy if it wasn't."""
    if tensor.layout is not torch.strided:
        raise NotImplementedError("collectives take dense tensors: use tensor.to_dense()")
    if tensor.device.type != "cpu":
        raise RuntimeError(f"No backend type associated with device type {tensor.device.type}")
    if tensor.requires_grad:
        tensor = tensor.detach()
    if tensor.is_conj() or tensor.is_neg():
        tensor = tensor.resolve_conj().resolve_neg()
    return tensor if tensor.is_contiguous() else tensor.contiguous()


def writable(tensor: Any) -> tuple[Any, Finish]:
    """A contiguous tensor in which the result may be made, and what copies it to `tensor` then (None: it is there)."""
    made = readable(tensor)
    if made.data_ptr() == tensor.data_ptr():
        return made, None
    target = tensor.detach()
    return made, lambda: _copy(target, made)


def _copy(target: Any, source: Any) -> None:
    with torch.no_grad():
        target.copy_(source)


def buffer(tensor: Any) -> Buffer:
    """Address and bytes of a contiguous tensor."""
    return tensor.data_ptr(), tensor.numel() * tensor.element_size()


def joined(tensors: Sequence[Any]) -> Any:
    """The elements of several tensors one after another."""
    return torch.cat([readable(tensor).reshape(-1) for tensor in tensors])


def divided(flat: Any, tensors: Sequence[Any]) -> Finish:
    """What copies the elements of `flat` one after another to several tensors."""
    targets = [tensor.detach() for tensor in tensors]

    def finish() -> None:
        start = 0
        with torch.no_grad():
            for target in targets:
                target.copy_(flat[start : start + target.numel()].view(target.shape))
                start += target.numel()

    return finish


def both(first: Finish, second: Finish) -> Finish:
    """One after the other."""
    if first is None or second is None:
        return first or second

    def finish() -> None:
        first()
        second()

    return finish
