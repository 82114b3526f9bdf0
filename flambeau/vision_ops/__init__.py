"""The operators of torchvision's compiled library, `torch.ops.torchvision`, as kernels of this package.

torchvision's wheel holds them in `_C.so` or `_C_stable.so`, made for PyTorch's C++ classes; `torch.ops.load_library` of that
file calls `register` instead. torchvision then adds gradients, shapes and autocast in Python; where only the library is loaded,
the operators have gradient rules of their own. Stands on codegen.vision and torch.library; nothing imports it but extensions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import flambeau as torch
from flambeau.core.tensor.tensor import Tensor
from flambeau.vision_ops import deform_conv, nms, ps_roi, roi_align, roi_pool, rotated

__all__ = ["register"]

_SCALE = "float spatial_scale, SymInt pooled_height, SymInt pooled_width"
_SIZES = "SymInt batch_size, SymInt channels, SymInt height, SymInt width"
_DEFORM = (
    "Tensor input, Tensor weight, Tensor offset, Tensor mask, Tensor bias, SymInt stride_h, SymInt stride_w, SymInt pad_h, "
    "SymInt pad_w, SymInt dilation_h, SymInt dilation_w, SymInt groups, SymInt offset_groups, bool use_mask"
)


def _quantized(name: str) -> Callable[..., NoReturn]:
    """A kernel for quantised tensors, which there are none of: what torchvision says to others."""

    def refuse(first: Tensor, *rest: Any) -> NoReturn:
        raise NotImplementedError(f"\"{name}_kernel\" not implemented for '{first.dtype.scalar_name}'")

    return refuse


def _schemas() -> dict[str, Callable[..., Any]]:
    """The operators' schemas, each with its kernel."""
    return {
        "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor": nms.nms,
        "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor": _quantized("qnms"),
        "box_iou_rotated(Tensor boxes1, Tensor boxes2) -> Tensor": rotated.box_iou_rotated,
        f"roi_align(Tensor input, Tensor rois, {_SCALE}, int sampling_ratio, bool aligned) -> Tensor": roi_align.roi_align,
        f"_roi_align_backward(Tensor grad, Tensor rois, {_SCALE}, {_SIZES}, int sampling_ratio, bool aligned) -> Tensor": roi_align.roi_align_backward,
        "qroi_align(Tensor input, Tensor rois, float input_scale, int input_zero_point, float rois_scale, int rois_zero_point, "
        f"{_SCALE}, int sampling_ratio, bool aligned) -> Tensor": _quantized("qroi_align"),
        f"roi_pool(Tensor input, Tensor rois, {_SCALE}) -> (Tensor, Tensor)": roi_pool.roi_pool,
        f"_roi_pool_backward(Tensor grad, Tensor rois, Tensor argmax, {_SCALE}, {_SIZES}) -> Tensor": roi_pool.roi_pool_backward,
        f"ps_roi_align(Tensor input, Tensor rois, {_SCALE}, int sampling_ratio) -> (Tensor, Tensor)": ps_roi.ps_roi_align,
        f"_ps_roi_align_backward(Tensor grad, Tensor rois, Tensor channel_mapping, {_SCALE}, int sampling_ratio, {_SIZES}) "
        "-> Tensor": ps_roi.ps_roi_align_backward,
        f"ps_roi_pool(Tensor input, Tensor rois, {_SCALE}) -> (Tensor, Tensor)": ps_roi.ps_roi_pool,
        f"_ps_roi_pool_backward(Tensor grad, Tensor rois, Tensor channel_mapping, {_SCALE}, {_SIZES}) -> Tensor": ps_roi.ps_roi_pool_backward,
        f"deform_conv2d({_DEFORM}) -> Tensor": deform_conv.deform_conv2d,
        f"_deform_conv2d_backward(Tensor grad, {_DEFORM}) -> (Tensor, Tensor, Tensor, Tensor, Tensor)": deform_conv.deform_conv2d_backward,
    }


def register() -> list[Any]:
    """Define the operators of `torch.ops.torchvision`; returns the library that holds them."""
    library = torch.library.Library("torchvision", "DEF")
    for schema, kernel in _schemas().items():
        library.define(schema)
        library.impl(schema.partition("(")[0], kernel, "CPU")
    library.define("_cuda_version() -> int")
    library.impl("_cuda_version", lambda: -1, "CompositeImplicitAutograd")
    return [library]
