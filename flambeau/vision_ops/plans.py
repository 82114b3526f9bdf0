"""What the plans of this room share: kinds of elements, checks in torchvision's words, units of work, the regions' errors.

Stands on codegen.runtime and core; used by all of the room.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau.base.dtype import dtype as DType
from flambeau.base.dtype import float16, float32, float64
from flambeau.base.layout import Layout, register_cache
from flambeau.codegen.element_type import Kind, kind_of
from flambeau.codegen.plan import Phase, Plan
from flambeau.codegen.runtime import launch as launching
from flambeau.codegen.runtime.messages import KernelCheck
from flambeau.codegen.targets import lowered
from flambeau.core.operator.pointwise import RELEASE_FROM
from flambeau.core.tensor.tensor import Tensor

plans: dict[Any, Callable] = register_cache({})
UNIT = 16384  # multiplications worth waking another thread for


def kind_for(kernel: str, dtype: DType, half: bool = True) -> Kind:
    """How a kernel computes with elements of a dtype; NotImplementedError unless they are float32, float64 or (half) float16."""
    if dtype in (float32, float64) or (half and dtype is float16):
        return kind_of(dtype)
    raise NotImplementedError(f"\"{kernel}\" not implemented for '{dtype.scalar_name}'")


def check_same_type(kernel: str, name: str, first: Tensor, rois: Tensor) -> None:
    """RuntimeError unless both tensors have the same dtype."""
    if first._layout.dtype is not rois._layout.dtype:
        raise RuntimeError(
            f"Expected tensor for argument #1 '{name}' to have the same type as tensor for argument #2 'rois'; but type "
            f"{first.type()} does not equal {rois.type()} (while checking arguments for {kernel})"
        )


def check_regions(words: str, rois: Tensor) -> None:
    """RuntimeError unless regions are (K, 5)."""
    if rois.size(1) != 5:
        raise RuntimeError(words)
    if rois._layout.ndim != 2:
        raise RuntimeError(f"{words}, got {list(rois._layout.shape)}")


def sizes_of(input: Tensor) -> tuple[int, int, int, int]:
    """The sizes of (N, C, H, W); IndexError if there are fewer, RuntimeError if there are more."""
    sizes = (input.size(0), input.size(1), input.size(2), input.size(3))
    if input._layout.ndim != 4:
        raise RuntimeError(f"expected images of shape (N, C, H, W), got {list(input._layout.shape)}")
    return sizes


def like(layout: Layout, shape: tuple[int, ...], dtype: DType | None = None) -> Layout:
    """The layout of a contiguous tensor of that shape."""
    if min(shape, default=0) < 0:
        raise RuntimeError("zeros: Dimension size must be non-negative.")
    return Layout.contiguous(shape, dtype or layout.dtype, layout.device)


def accumulated(layout: Layout, kind: Kind) -> Layout:
    """The layout of the same tensor in the type that its elements are added up in."""
    return layout.with_dtype(float64 if kind.compute == "double" else float32)


def one_phase(
    kernel: Any,
    total: int,
    work: int,
    constants: list[int],
    outputs: list[Layout],
    inputs: list[Layout],
    scalars: str = "",
    slice: int = 0,
) -> Callable:
    """A plan of one kernel over `total` units that cost `work` multiplications in all; slice: bytes of scratch per thread."""
    phases = [Phase(kernel, total, max(1, total * UNIT // max(work, 1)), constants)]
    return lowered(Plan(phases, outputs, inputs, scalars, slice * launching.planned_threads(), release=work >= RELEASE_FROM))


def run_on_regions(launch: Callable, *arguments: Any) -> Any:
    """Launch a plan; IndexError if a region's first number is not that of an image."""
    try:
        return launch(*arguments)
    except KernelCheck:
        raise IndexError("the first number of a region is not the index of an image of the batch") from None


def blocks_of_channels(channels: int, others: int) -> tuple[int, int]:
    """(channels of a block, number of blocks) where there are `others` tasks to each: few enough that all threads have work."""
    wanted = max(1, -(-4 * launching.planned_threads() // max(others, 1)))
    each = max(1, min(channels, 64, -(-channels // wanted)))
    return each, -(-channels // each)
