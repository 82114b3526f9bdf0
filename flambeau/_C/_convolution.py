"""torch._C._ConvBackend: the kinds of convolution in PyTorch's words, and which of them a call is.

flambeau's kernels are its own: of the kinds they are those that PyTorch calls slow, which are its own too, by the number of
dimensions and by dilation and transposition. The other names are of libraries and devices that are not here.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence

from flambeau.core.tensor.tensor import Tensor
from flambeau.ops.nn.conv import checked_arguments


class _Kind(enum.IntEnum):
    """What prints as a name of its enumeration."""

    __str__ = enum.Enum.__str__


_ConvBackend = _Kind(  # type: ignore[misc]  # names with their numbers
    "_ConvBackend",
    {
        name: number
        for number, name in enumerate(
            "CudaDepthwise2d CudaDepthwise3d Cudnn CudnnTranspose Empty Miopen MiopenDepthwise MiopenTranspose Mkldnn "
            "MkldnnTranspose MkldnnEmpty NnpackSpatial Overrideable Slow2d Slow3d SlowDilated2d SlowDilated3d "
            "SlowTranspose2d SlowTranspose3d Winograd3x3Depthwise Xnnpack2d Mps MpsTranspose".split()
        )
        if name != "MkldnnTranspose"
    },
)


def _select_conv_backend(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
    bias_sizes: Sequence[int] | None = None,
) -> _ConvBackend:
    """The kind of a convolution with these arguments. Raises RuntimeError where they don't fit."""
    _, _, dilation, _, _ = checked_arguments(
        input, weight, bias, stride, padding, dilation, transposed, output_padding, groups
    )
    if 0 in input.shape[:2]:
        return _ConvBackend.Empty
    kind = "Transpose" if transposed else "Dilated" if any(step != 1 for step in dilation) else ""
    # One dimension is computed as two.
    return _ConvBackend[f"Slow{kind}{max(len(dilation), 2)}d"]
