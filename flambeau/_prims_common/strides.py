"""How elements lie in memory, asked of tensors or of sizes and strides. Stands on base.memory_order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import flambeau as torch
from flambeau.base import memory_order
from flambeau.base.layout import contiguous_strides

__all__ = [
    "are_strides_like_channels_last_or_false", "check_all_strides", "check_significant_strides", "clone_preserve_strides",
    "compute_elementwise_output_logical_to_physical_perm", "compute_elementwise_output_strides",
    "compute_required_storage_length", "is_channels_last_contiguous", "is_channels_last_contiguous_2d",
    "is_channels_last_contiguous_3d", "is_channels_last_contiguous_or_false", "is_channels_last_contiguous_or_false_2d",
    "is_channels_last_contiguous_or_false_3d", "is_contiguous", "is_contiguous_for_memory_format",
    "is_contiguous_for_memory_format_or_false", "is_contiguous_or_false", "is_non_overlapping_and_dense_or_false",
    "make_channels_last_1d_strides_for", "make_channels_last_2d_strides_for", "make_channels_last_3d_strides_for",
    "make_channels_last_strides_for", "make_contiguous_strides_for", "suggest_memory_format",
]  # fmt: skip


def make_contiguous_strides_for(shape: Sequence[int], row_major: bool = True) -> tuple[int, ...]:
    """The strides of a contiguous tensor; row_major=False: of one whose matrices are stored column by column."""
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    strides.reverse()
    if not row_major and len(shape) >= 2:
        strides[-2:] = [1, max(shape[-2], 1)]
    return tuple(strides)


def make_channels_last_strides_for(shape: Sequence[int]) -> tuple[int, ...]:
    """The strides of a tensor of 3, 4 or 5 dimensions whose second varies fastest. Raises RuntimeError for others."""
    if len(shape) not in (3, 4, 5):
        raise RuntimeError(f"no channels last format strides exist in {len(shape)} dimensions")
    batch, *spatial, channels = make_contiguous_strides_for([shape[0], *shape[2:], shape[1]])
    return (batch, channels, *spatial)


def _of_rank(rank: int, name: str) -> Callable[[Sequence[int]], tuple[int, ...]]:
    def make(shape: Sequence[int]) -> tuple[int, ...]:
        if len(shape) != rank:
            raise RuntimeError(f"Only tensors of rank {rank} can use the {name} memory format")
        return make_channels_last_strides_for(shape)

    make.__doc__ = f"make_channels_last_strides_for sizes of {rank} dimensions. Raises RuntimeError for others."
    return make


make_channels_last_1d_strides_for = _of_rank(3, "channels_last_1d")
make_channels_last_2d_strides_for = _of_rank(4, "channels_last")
make_channels_last_3d_strides_for = _of_rank(5, "channels_last_3d")


def is_contiguous(a: torch.Tensor, false_if_dde: bool = False) -> bool:
    """Whether the elements lie one after another."""
    return a.is_contiguous()


def is_contiguous_or_false(a: torch.Tensor) -> bool:
    """is_contiguous; sizes are always known here."""
    return a.is_contiguous()


def is_contiguous_for_memory_format(a: torch.Tensor, *, memory_format: torch.memory_format, false_if_dde: bool = False) -> bool:
    """Whether the elements lie one after another in the order of the format."""
    validate_memory_format(memory_format)
    return a.is_contiguous(memory_format=memory_format)


def is_contiguous_for_memory_format_or_false(a: torch.Tensor, *, memory_format: torch.memory_format) -> bool:
    """is_contiguous_for_memory_format; sizes are always known here."""
    return is_contiguous_for_memory_format(a, memory_format=memory_format)


def is_channels_last_contiguous_2d(a: torch.Tensor, false_if_dde: bool = False) -> bool:
    """Whether it has 4 dimensions and its elements lie one after another in channels_last order."""
    return a.dim() == 4 and memory_order.is_channels_last(a.shape, a.stride())


def is_channels_last_contiguous_3d(a: torch.Tensor, false_if_dde: bool = False) -> bool:
    """Whether it has 5 dimensions and its elements lie one after another in channels_last_3d order."""
    return a.dim() == 5 and memory_order.is_channels_last(a.shape, a.stride())


def is_channels_last_contiguous(a: torch.Tensor) -> bool:
    """Whether the elements lie one after another in channels_last or channels_last_3d order."""
    return memory_order.is_channels_last(a.shape, a.stride())


is_channels_last_contiguous_or_false = is_channels_last_contiguous
is_channels_last_contiguous_or_false_2d = is_channels_last_contiguous_2d
is_channels_last_contiguous_or_false_3d = is_channels_last_contiguous_3d


def are_strides_like_channels_last_or_false(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether a tensor of these sizes and strides suggests the channels_last order, gaps allowed."""
    return memory_order.suggests_channels_last(tuple(shape), tuple(strides))


def is_non_overlapping_and_dense_or_false(a: torch.Tensor) -> bool:
    """Whether the elements fill a stretch of memory once, in whatever order of dimensions."""
    return a.layout is torch.strided and memory_order.is_dense(a.shape, a.stride())


def suggest_memory_format(x: torch.Tensor) -> torch.memory_format:
    """channels_last or channels_last_3d for strided tensors whose strides are of that order, else contiguous_format."""
    if x.layout is torch.strided and x.dim() in (4, 5) and are_strides_like_channels_last_or_false(x.shape, x.stride()):
        return torch.channels_last if x.dim() == 4 else torch.channels_last_3d
    return torch.contiguous_format


def validate_memory_format(memory_format: Any) -> None:
    """Raises RuntimeError unless it is the contiguous or a channels-last format."""
    if memory_format not in (torch.contiguous_format, torch.channels_last, torch.channels_last_3d, torch.preserve_format):
        raise RuntimeError(f"Received unknown memory format {memory_format}!")


# ---------------------------------------------------------------- elementwise results


def _tensors(values: Sequence[Any], cause: str) -> list[torch.Tensor]:
    found = [x for x in values if isinstance(x, torch.Tensor) and not _is_cpu_scalar(x)]
    if not values:
        raise ValueError(f"Can't compute elementwise output {cause} for zero tensors!")
    return found or [x for x in values if isinstance(x, torch.Tensor)]


def _is_cpu_scalar(x: torch.Tensor) -> bool:
    return x.dim() == 0 and x.device.type == "cpu"


def compute_elementwise_output_strides(*tensors: torch.Tensor) -> tuple[int, ...]:
    """The strides of the result of an elementwise operator on tensors of one shape. ValueError for none at all."""
    given = _tensors(tensors, "strides")
    if not given:
        return ()
    shape = tuple(given[0].shape)
    return memory_order.elementwise_strides(shape, [(tuple(x.shape), x.stride()) for x in given])


def compute_elementwise_output_logical_to_physical_perm(*tensors: torch.Tensor) -> tuple[list[int], bool]:
    """The dimensions of the result of an elementwise operator, from the outermost to the innermost in memory, and False."""
    if not _tensors(tensors, "strides"):
        return [], False
    strides = compute_elementwise_output_strides(*tensors)
    shape = _tensors(tensors, "strides")[0].shape
    if strides == contiguous_strides(tuple(shape)):
        return list(range(len(strides))), False
    return sorted(range(len(strides)), key=lambda dim: (-strides[dim], dim)), False


# ---------------------------------------------------------------- strides of two tensors


def _first_difference(a: torch.Tensor, b: torch.Tensor, significant: bool) -> tuple[bool, int | None]:
    if significant and a.numel() == 0:
        return True, None
    for dim, size in enumerate(a.shape):
        if a.stride(dim) != b.stride(dim) and (size > 1 or not significant):
            return False, dim
    return True, None


def check_significant_strides(
    a: torch.Tensor, b: torch.Tensor, *, only_cuda: bool = True, allow_rhs_unbacked: bool = False
) -> tuple[bool, int | None]:
    """Whether the strides agree where there is more than one element, and the first dimension where they don't.

    only_cuda: those of tensors on the CPU and on meta aren't looked at.
    """
    if only_cuda and "cuda" not in (a.device.type, b.device.type):
        return True, None
    return _first_difference(a, b, significant=True)


def check_all_strides(a: torch.Tensor, b: torch.Tensor, *, only_cuda: bool = True) -> tuple[bool, int | None]:
    """Whether all strides agree, and the first dimension where they don't; only_cuda as in check_significant_strides."""
    if only_cuda and "cuda" not in (a.device.type, b.device.type):
        return True, None
    return _first_difference(a, b, significant=False)


def compute_required_storage_length(shape: Sequence[int], strides: Sequence[int], storage_offset: int) -> int:
    """How many elements of memory a tensor of this geometry needs, those in front of it counted too; 0 for no element."""
    if 0 in shape:
        return 0
    return memory_order.extent(shape, strides) + storage_offset


def clone_preserve_strides(x: torch.Tensor) -> torch.Tensor:
    """A copy with the same strides, gaps and repetitions included."""
    needed = compute_required_storage_length(x.shape, x.stride(), 0)
    memory = torch.as_strided(x, (needed,), (1,), x.storage_offset()).clone()
    return torch.as_strided(memory, x.shape, x.stride())
