"""The first rank's state dict on every rank, a tensor at a time. Used by `state_dict` for `broadcast_from_rank0`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import flambeau as torch
from flambeau.distributed import distributed_c10d as c10d

__all__ = ["first_rank", "sent"]


class _Coming(NamedTuple):
    """What stands for a tensor that is sent after the rest."""

    shape: torch.Size
    dtype: torch.dtype


def first_rank() -> bool:
    """Whether this rank is the first, or alone."""
    return not c10d.is_initialized() or c10d.get_rank() == 0


def _outline(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return _Coming(value.shape, value.dtype)
    if isinstance(value, Mapping):
        return {key: _outline(item) for key, item in value.items()}
    if type(value) in (list, tuple):
        return type(value)([_outline(item) for item in value])
    return value


def _received(outline: Any, own: Any) -> Any:
    """A value with its tensors, which all ranks broadcast in the same order; `own` is the first rank's, elsewhere None."""
    if isinstance(outline, _Coming):
        tensor = torch.empty(outline.shape, dtype=outline.dtype) if own is None else own.detach().contiguous()
        c10d.broadcast(tensor, src=0)
        return tensor
    if isinstance(outline, dict):
        return {key: _received(item, None if own is None else own[key]) for key, item in outline.items()}
    if type(outline) in (list, tuple):
        return type(outline)([_received(item, None if own is None else own[k]) for k, item in enumerate(outline)])
    return outline


def sent(state_dict: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """The entries of the first rank's state dict, whose tensors are plain, on every rank of the default group.

    Each entry is sent when it is asked for, so that what is cut at once is never there as a whole; all ranks have to take all.
    """
    if not c10d.is_initialized() or c10d.get_world_size() == 1:
        yield from state_dict.items()
        return
    held = [_outline(state_dict) if first_rank() else None]
    c10d.broadcast_object_list(held, src=0)
    outline: Any = held[0]
    for name, each in outline.items():
        yield name, _received(each, state_dict[name] if first_rank() else None)
