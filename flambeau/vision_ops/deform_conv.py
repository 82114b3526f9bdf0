"""deform_conv2d: convolution whose taps are moved by offsets (Dai et al., 2017) and weighted by a mask (Zhu et al., 2018).

Elements between the pixels are gathered into columns, which are multiplied with the weights; the way back likewise. Stands on
codegen.vision.deform_conv and ops.linalg.matmul. Differentiable by all operands, once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from flambeau.base.layout import Layout
from flambeau.codegen.vision import deform_conv as kernels
from flambeau.core.operator.define import operator
from flambeau.core.operator.publishing import NAMESPACE
from flambeau.core.tensor.tensor import Tensor
from flambeau.ops.creation.copy import contiguous
from flambeau.vision_ops.plans import accumulated, kind_for, like, one_phase, plans

CHUNK_BYTES = 1 << 26  # of columns that are kept at a time, unless those of one image are more
CHANNELS = 8  # that one task adds the input's gradient up for


def _expect(condition: bool, words: str) -> None:
    if not condition:
        raise RuntimeError(
            f"Expected {words} to be true, but got false.  (Could this error message be improved?  If so, "
            "please report an enhancement request to PyTorch.)"
        )


def _require(condition: bool, words: str) -> None:
    if not condition:
        raise RuntimeError(words)


class _Geometry(NamedTuple):
    """The numbers of a convolution; pairs are (y, x)."""

    batch: int
    channels: int
    size: tuple[int, int]
    taps: tuple[int, int]
    out: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, int]
    dilation: tuple[int, int]
    groups: int
    offset_groups: int
    made: int

    @property
    def places(self) -> int:
        return self.out[0] * self.out[1]

    @property
    def rows(self) -> int:
        """Rows of an image's columns."""
        return self.channels * self.taps[0] * self.taps[1]

    def constants(self, lanes: int, images: int) -> list[int]:
        each = self.channels // self.offset_groups
        pairs = (self.size, self.taps, self.out, self.stride, self.padding, self.dilation)
        return [
            self.channels,
            *[n for pair in pairs for n in pair],
            self.offset_groups,
            -(-self.places // lanes),
            CHANNELS,
            -(-each // CHANNELS),
        ]


def _geometry(
    input: Tensor,
    weight: Tensor,
    offset: Tensor,
    mask: Tensor,
    stride: tuple[int, int],
    padding: tuple[int, int],
    dilation: tuple[int, int],
    groups: int,
    offset_groups: int,
    use_mask: bool,
) -> _Geometry:
    """The geometry, after torchvision's checks of shapes."""
    _expect(input.ndim == 4, "input_c.ndimension() == 4")
    _expect(offset.ndim == 4, "offset_c.ndimension() == 4")
    _expect(not use_mask or mask.ndim == 4, "!use_mask || mask_c.ndimension() == 4")
    _expect(weight.ndim == 4, "weight_c.ndimension() == 4")
    batch, channels, *size = input.shape
    made, share, *taps = weight.shape
    _require(min(taps) > 0, f"weight_h: {taps[0]} weight_w: {taps[1]}")
    _require(min(stride) > 0, f"stride_h: {stride[0]} stride_w: {stride[1]}")
    _require(min(padding) >= 0, f"pad_h: {padding[0]} pad_w: {padding[1]}")
    _require(min(dilation) > 0, f"dilation_h: {dilation[0]} dilation_w: {dilation[1]}")
    _expect(share * groups == channels, "weight_c.size(1) * n_weight_grps == input_c.size(1)")
    _expect(made % groups == 0, "weight_c.size(0) % n_weight_grps == 0")
    wanted = offset_groups * taps[0] * taps[1]
    _require(offset.shape[1] == 2 * wanted, f"offset.shape[1] is not valid: got: {offset.shape[1]} expected: {2 * wanted}")
    _expect(channels % offset_groups == 0, "input_c.size(1) % n_offset_grps == 0")
    out = [int((n + 2 * p - (d * (k - 1) + 1)) / s) + 1 for n, p, d, k, s in zip(size, padding, dilation, taps, stride)]
    _require(offset.shape[0] == batch, "invalid batch size of offset")
    _require(
        tuple(offset.shape[2:]) == tuple(out),
        f"offset output dims: ({offset.shape[2]}, {offset.shape[3]}) - computed output dims: ({out[0]}, {out[1]})",
    )
    if use_mask:
        _require(mask.shape[1] == wanted, f"mask.shape[1] is not valid: got: {mask.shape[1]} expected: {wanted}")
        _require(mask.shape[0] == batch, "invalid batch size of mask")
        _require(
            tuple(mask.shape[2:]) == tuple(out),
            f"mask output dims: ({mask.shape[2]}, {mask.shape[3]}) - computed output dims: ({out[0]}, {out[1]})",
        )
    _require(min(out) > 0, f"Calculated output size too small - out_h: {out[0]} out_w: {out[1]}")
    if size[0] * size[1] >= 1 << 31:
        raise NotImplementedError("deform_conv2d of images with 2^31 pixels and more; convolve parts of the image")
    return _Geometry(
        batch,
        channels,
        (size[0], size[1]),
        (taps[0], taps[1]),
        (out[0], out[1]),
        stride,
        padding,
        dilation,
        groups,
        offset_groups,
        made,
    )


def _check_types(input: Tensor, weight: Tensor, offset: Tensor, mask: Tensor, use_mask: bool) -> None:
    """RuntimeError unless all tensors have the input's dtype."""
    own = input._layout.dtype
    for other in (offset, mask) if use_mask else (offset,):
        if other._layout.dtype is not own:
            raise RuntimeError(f"expected scalar type {own.scalar_name} but found {other._layout.dtype.scalar_name}")
    if weight._layout.dtype is not own:
        raise RuntimeError(
            f"mat1 and mat2 must have the same dtype, but got {weight._layout.dtype.c_name.title()} and {own.c_name.title()}"
        )


def _launched(form: str, geometry: _Geometry, outputs: list[Layout], inputs: list[Tensor | None]) -> Any:
    """What one of the kernels makes of some images; the last input, the mask, may be None."""
    tensors = [x for x in inputs if x is not None]
    masked = inputs[-1] is not None
    key = ("deform", form, geometry, masked, *[x._layout for x in tensors])
    launch: Callable | None = plans.get(key)
    if launch is None:
        kind = kind_for("deformable_im2col", tensors[-1]._layout.dtype)
        images = tensors[0]._layout.shape[0]
        constants = geometry.constants(kind.lanes, images)
        write = {"columns": kernels.columns_kernel, "offsets": kernels.offsets_kernel, "input": kernels.input_kernel}[form]
        blocks, parts = constants[-3], constants[-1]
        units = parts if form == "input" else geometry.taps[0] * geometry.taps[1] * blocks
        work = images * geometry.rows * geometry.places * 4
        launch = plans[key] = one_phase(
            write(kind, masked), images * geometry.offset_groups * units, work, constants, outputs, [x._layout for x in tensors]
        )
    return launch(*[None] * len(outputs), *tensors)


def _columns(geometry: _Geometry, input: Tensor, offset: Tensor, mask: Tensor | None) -> Tensor:
    """(images, groups, rows of a group, places)."""
    images = input._layout.shape[0]
    shape = images, geometry.groups, geometry.rows // geometry.groups, geometry.places
    return _launched("columns", geometry, [like(input._layout, shape)], [input, offset, mask])


def _chunks(geometry: _Geometry, item: int) -> Iterator[slice]:
    """The images, as many at a time as CHUNK_BYTES hold the columns of."""
    step = max(1, CHUNK_BYTES // max(1, geometry.rows * geometry.places * item))
    for first in range(0, geometry.batch, step):
        yield slice(first, min(first + step, geometry.batch))


def _some(tensor: Tensor, images: slice) -> Tensor:
    """Those images of a batch."""
    return tensor if images == slice(0, tensor._layout.shape[0]) else tensor[images]


@operator(method=False, function=False, name="torchvision_deform_conv2d", node="TorchvisionDeformConv2d")
def deform_conv2d(
    input: Tensor,
    weight: Tensor,
    offset: Tensor,
    mask: Tensor,
    bias: Tensor,
    stride_h: int,
    stride_w: int,
    pad_h: int,
    pad_w: int,
    dilation_h: int,
    dilation_w: int,
    groups: int,
    offset_groups: int,
    use_mask: bool,
) -> Tensor:
    """The convolution (N, O, out_h, out_w) of images (N, C, H, W) with weights (O, C / groups, h, w), and bias (O,).

    offset (N, 2 * offset_groups * h * w, out_h, out_w): by how much each tap reads further down and to the right (in turn);
    mask (N, offset_groups * h * w, out_h, out_w): what it is multiplied by, if use_mask. Zeros lie around the images. float16,
    float32 and float64. RuntimeError where shapes don't fit.
    """
    geometry = _geometry(
        input,
        weight,
        offset,
        mask,
        (stride_h, stride_w),
        (pad_h, pad_w),
        (dilation_h, dilation_w),
        groups,
        offset_groups,
        use_mask,
    )
    shape = geometry.batch, geometry.made, *geometry.out
    if not math.prod(shape):
        return input.new_zeros(shape)
    kind_for("deformable_im2col", input._layout.dtype)
    _check_types(input, weight, offset, mask, use_mask)
    input, offset = contiguous(input), contiguous(offset)
    masks = contiguous(mask) if use_mask else None
    filters = weight.reshape(groups, geometry.made // groups, geometry.rows // groups)
    parts = [
        filters @ _columns(geometry, _some(input, images), _some(offset, images), None if masks is None else _some(masks, images))
        for images in _chunks(geometry, input._layout.dtype.itemsize)
    ]
    out = (parts[0] if len(parts) == 1 else NAMESPACE["cat"](parts)).reshape(shape)
    return out + bias.view(1, geometry.made, 1, 1)


@deform_conv2d.vjp
def _(
    g,
    input,
    weight,
    offset,
    mask,
    stride_h,
    stride_w,
    pad_h,
    pad_w,
    dilation_h,
    dilation_w,
    groups,
    offset_groups,
    use_mask,
    need,
):
    numbers = stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w, groups, offset_groups, use_mask
    wanted = tuple([name for name in ("input", "weight", "offset", "mask", "bias") if need[name]])
    return _gradients(g, input, weight, offset, mask, *numbers, wanted)


@operator(method=False, function=False, name="_torchvision_deform_conv2d_gradients", node="TorchvisionDeformConv2dBackward")
def _gradients(
    grad: Tensor,
    input: Tensor,
    weight: Tensor,
    offset: Tensor,
    mask: Tensor,
    stride_h: int,
    stride_w: int,
    pad_h: int,
    pad_w: int,
    dilation_h: int,
    dilation_w: int,
    groups: int,
    offset_groups: int,
    use_mask: bool,
    wanted: tuple[str, ...],
) -> tuple[Tensor | None, ...]:
    """The gradients by the operands in `wanted`, None for the others."""
    geometry = _geometry(
        input,
        weight,
        offset,
        mask,
        (stride_h, stride_w),
        (pad_h, pad_w),
        (dilation_h, dilation_w),
        groups,
        offset_groups,
        use_mask,
    )
    made: dict[str, Tensor] = {}
    if "bias" in wanted:
        made["bias"] = grad.sum((0, 2, 3))
    if "mask" in wanted and not use_mask:
        made["mask"] = mask.new_zeros(mask.shape)
    if not grad._layout.numel:
        operands = {"input": input, "weight": weight, "offset": offset, "mask": mask}
        made |= {name: x.new_zeros(x.shape) for name, x in operands.items() if name in wanted}
    elif set(wanted) - made.keys():
        kind_for("deformable_col2im", input._layout.dtype)
        _check_types(input, weight, offset, mask, use_mask)
        made |= _by_columns(
            geometry, grad, contiguous(input), weight, contiguous(offset), contiguous(mask) if use_mask else None, wanted
        )
    return tuple([made.get(name) for name in ("input", "weight", "offset", "mask", "bias")])


@_gradients.vjp
def _(g) -> Any:
    raise RuntimeError("double backwards on deform_conv2d not supported")


def _by_columns(
    geometry: _Geometry, grad: Tensor, input: Tensor, weight: Tensor, offset: Tensor, mask: Tensor | None, wanted: tuple[str, ...]
) -> dict[str, Tensor]:
    """The gradients that are made from columns, or from the gradient of columns."""
    kind = kind_for("deformable_col2im", input._layout.dtype)
    groups, inner = geometry.groups, geometry.made // geometry.groups
    filters = weight.reshape(groups, inner, geometry.rows // groups)
    rows = contiguous(grad).view(geometry.batch, groups, inner, geometry.places)
    made: dict[str, list[Tensor]] = {name: [] for name in ("input", "weight", "offset", "mask")}
    for images in _chunks(geometry, input._layout.dtype.itemsize):
        own, places, some = _some(input, images), _some(offset, images), _some(rows, images)
        masks = None if mask is None else _some(mask, images)
        if "weight" in wanted:
            made["weight"].append((some @ _columns(geometry, own, places, masks).mT).sum(0))
        if not {"input", "offset", "mask"} & set(wanted):
            continue
        columns = contiguous(filters.mT @ some)
        if "input" in wanted:
            out = accumulated(like(own._layout, tuple(own._layout.shape)), kind)
            made["input"].append(_launched("input", geometry, [out], [columns, places, masks]).to(input._layout.dtype))
        if {"offset", "mask"} & set(wanted):
            outputs = [x._layout for x in (places, masks) if x is not None]
            found = _launched("offsets", geometry, outputs, [columns, own, places, masks])
            of_offset, of_mask = found if masks is not None else (found, None)
            made["offset"].append(of_offset)
            if of_mask is not None:
                made["mask"].append(of_mask)
    joined = {
        name: parts[0] if len(parts) == 1 else NAMESPACE["cat"](parts)
        for name, parts in made.items()
        if parts and name != "weight"
    }
    if made["weight"]:
        total = made["weight"][0]
        for part in made["weight"][1:]:
            total = total + part
        joined["weight"] = total.reshape(weight.shape)
    return {name: x for name, x in joined.items() if name in wanted}


def deform_conv2d_backward(
    grad: Tensor,
    input: Tensor,
    weight: Tensor,
    offset: Tensor,
    mask: Tensor,
    bias: Tensor,
    stride_h: int,
    stride_w: int,
    pad_h: int,
    pad_w: int,
    dilation_h: int,
    dilation_w: int,
    groups: int,
    offset_groups: int,
    use_mask: bool,
) -> tuple[Tensor, ...]:
    """The gradients of deform_conv2d by (input, weight, offset, mask, bias), from that of its result."""
    return _gradients(
        grad,
        input,
        weight,
        offset,
        mask,
        stride_h,
        stride_w,
        pad_h,
        pad_w,
        dilation_h,
        dilation_w,
        groups,
        offset_groups,
        use_mask,
        ("input", "weight", "offset", "mask", "bias"),
    )
