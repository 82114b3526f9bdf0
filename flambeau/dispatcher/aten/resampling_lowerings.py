"""The lowering of resampling: PyTorch's operator for the kind and the number of dimensions.

Stands on lowerings and ops.nn.interpolate; loaded by dispatcher.dispatch_modes.
"""

from __future__ import annotations

from typing import Any

from flambeau.core.tensor.tensor import Tensor
from flambeau.dispatcher.aten.lowerings import lowering, packets
from flambeau.ops.nn import interpolate

__all__: list[str] = []
_LINEAR = {1: "upsample_linear1d", 2: "upsample_bilinear2d", 3: "upsample_trilinear3d"}
_SIMPLE = {interpolate.NEAREST: "upsample_nearest{}d", interpolate.EXACT: "_upsample_nearest_exact{}d"}


@lowering
def resample(own: Any, input: Tensor, spec: interpolate.Spec) -> Any:
    """An image of another size."""
    dims, size, scales = len(spec.size), list(spec.size), spec.scales
    if spec.mode in _SIMPLE:
        return getattr(packets(), _SIMPLE[spec.mode].format(dims)).default(input, size, *scales)
    name = _LINEAR[dims] if spec.mode == interpolate.LINEAR else f"upsample_{spec.mode}2d"
    name = f"_{name}_aa" if spec.antialias else name
    if not hasattr(packets(), name):
        return NotImplemented
    return getattr(packets(), name).default(input, size, spec.align_corners, *scales)
