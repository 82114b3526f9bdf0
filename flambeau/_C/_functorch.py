"""torch._C._functorch: questions about the tensors of transforms in progress, and the switches of vmap's fallback.

A batched tensor holds all examples with the batch in front, so its batch dimension is always 0. Tensors that a function is
differentiated with respect to are plain tensors here, and none of them is wrapped. Stands on transform.
"""

from __future__ import annotations

import enum

from flambeau.core.tensor.tensor import Tensor
from flambeau.transform.batched import Batched, Fallback
from flambeau.transform.batched import add_batch_dim as _add_batch_dim
from flambeau.transform.batched import remove_batch_dim as _remove_batch_dim
from flambeau.transform.dual import Dual
from flambeau.transform.levels import Wrapped, stack

__all__ = [
    "RandomnessType", "TransformType", "_add_batch_dim", "_is_vmap_fallback_enabled", "_remove_batch_dim",
    "_set_vmap_fallback_enabled", "_set_vmap_fallback_warning_enabled", "_unwrap_batched", "current_level",
    "get_unwrapped", "is_batchedtensor", "is_dead_tensor_wrapper", "is_functionaltensor",
    "is_functorch_wrapped_tensor", "is_gradtrackingtensor", "is_legacy_batchedtensor", "maybe_current_level",
    "maybe_get_bdim", "maybe_get_level", "unwrap_if_dead",
]  # fmt: skip


class TransformType(enum.Enum):
    """What a transform in progress does."""

    Torch, Vmap, Grad, Jvp, Functionalize = range(5)


class RandomnessType(enum.Enum):
    """What random operators do in a vmap."""

    Error, Same, Different = range(3)


def is_functorch_wrapped_tensor(tensor: Tensor) -> bool:
    """Whether it stands for another tensor inside a transform."""
    return isinstance(tensor, Wrapped)


def is_batchedtensor(tensor: Tensor) -> bool:
    """Whether it is one example's view of a tensor of examples."""
    return isinstance(tensor, Batched)


def is_gradtrackingtensor(tensor: Tensor) -> bool:
    """Whether it is a dual tensor; for reverse mode no tensors are wrapped."""
    return isinstance(tensor, Dual)


def is_functionaltensor(tensor: Tensor) -> bool:
    """False: functionalize wraps no tensors."""
    return False


is_legacy_batchedtensor = is_functionaltensor


def is_dead_tensor_wrapper(tensor: Tensor) -> bool:
    """Whether the transform that wrapped it has ended."""
    return isinstance(tensor, Wrapped) and not tensor.level.depth


def unwrap_if_dead(tensor: Tensor) -> Tensor:
    """What remains of a tensor whose transform has ended."""
    while is_dead_tensor_wrapper(tensor):
        tensor = tensor.remains()  # type: ignore[attr-defined]
    return tensor


def maybe_get_level(tensor: Tensor) -> int:
    """The depth of the transform that it belongs to, -1 of a tensor that belongs to none."""
    return (tensor.level.depth or -2) if isinstance(tensor, Wrapped) else -1


def maybe_get_bdim(tensor: Tensor) -> int:
    """Where the batch is in what it holds: 0, or -1 of a tensor that isn't batched."""
    return 0 if isinstance(tensor, Batched) else -1


def get_unwrapped(tensor: Tensor) -> Tensor:
    """What it holds. RuntimeError for a tensor of no transform."""
    if not isinstance(tensor, Wrapped):
        raise RuntimeError("No wrappers present!")
    return tensor.held


def current_level() -> int:
    """The depth of the innermost transform. RuntimeError if none is in progress."""
    if not stack.levels:
        raise RuntimeError("no transform is in progress")
    return stack.levels[-1].depth


def maybe_current_level() -> int | None:
    """The depth of the innermost transform, or None."""
    return stack.levels[-1].depth if stack.levels else None


def _unwrap_batched(tensor: Tensor, level: int) -> tuple[Tensor, int | None]:
    """(all examples, 0) of a tensor that the vmap of that depth batches, else (the tensor, None)."""
    return (tensor.value, 0) if isinstance(tensor, Batched) and tensor.level.depth == level else (tensor, None)


def _set_vmap_fallback_enabled(enabled: bool) -> None:
    """Whether an operator without a batching rule may run once per example; otherwise it raises RuntimeError."""
    Fallback.allowed = bool(enabled)


def _is_vmap_fallback_enabled() -> bool:
    """Whether it may."""
    return Fallback.allowed


def _set_vmap_fallback_warning_enabled(enabled: bool) -> None:
    """Whether that warns."""
    Fallback.warned = bool(enabled)
