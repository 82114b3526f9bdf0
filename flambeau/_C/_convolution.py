"""torch._C._ConvBackend: the kinds of convolution in PyTorch's words, and which of them a call is.

flambeau's kernels are its own: of the kinds they are those that PyTorch calls slow, which are its own too, by the number of
dimensions and by dilation and transposition. The other names are of libraries and devices that are not here.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence

from flambeau.core.tensor.tensor import Tensor
from flambeau.ops.nn.conv import checked_arguments


class _ConvBackend(enum.IntEnum):
    """The kinds of convolution, by PyTorch's numbers."""

    CudaDepthwise2d = 0
    CudaDepthwise3d = 1
    Cudnn = 2
    CudnnTranspose = 3
    Empty = 4
    Miopen = 5
    MiopenDepthwise = 6
    MiopenTranspose = 7
    Mkldnn = 8
    MkldnnEmpty = 10
    NnpackSpatial = 11
    Overrideable = 12
    Slow2d = 13
    Slow3d = 14
    SlowDilated2d = 15
    SlowDilated3d = 16
    SlowTranspose2d = 17
    SlowTranspose3d = 18
    Winograd3x3Depthwise = 19
    Xnnpack2d = 20
    Mps = 21
    MpsTranspose = 22

    __str__ = enum.Enum.__str__


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
    _, _, dilation, _, _ = checked_arguments(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups)
    if 0 in input.shape[:2]:
        return _ConvBackend.Empty
    kind = "Transpose" if transposed else "Dilated" if any(step != 1 for step in dilation) else ""
    # One dimension is computed as two.
    return _ConvBackend[f"Slow{kind}{max(len(dilation), 2)}d"]
