"""Convolution on the contraction template: forward, gradient of the input, gradient of the weight, in one to three dimensions.

This module plans: it turns sizes and strides into phases of the gather, depthwise and weight-gradient kernels, or into plain
matrix products where a convolution is one. One- and two-dimensional convolutions are three-dimensional ones with leading
extents of 1. Stands on conv_band.py, conv_gather.py, conv_depthwise.py, conv_weight.py and gemm.py; ops/conv uses it.
"""

from __future__ import annotations

from itertools import product
from math import gcd
from typing import NamedTuple

from flambeau.codegen import state
from flambeau.codegen.conv_band import Reach, Tensor5, Triple, geometry, row_order
from flambeau.codegen.conv_depthwise import depthwise_kernel, depthwise_weight_kernel
from flambeau.codegen.conv_gather import BLOCK_STEPS, BOX_PIXELS, TILE_SLOTS, forward_kernel, weights_kernel
from flambeau.codegen.conv_weight import (
    PIXEL_STEPS,
    ROW_VECTORS,
    pack_gradient_kernel,
    patch_table,
    reduce_kernel,
    weight_kernel,
)
from flambeau.codegen.gemm import Matrix, gemm_phases, pack_kernel
from flambeau.codegen.gemm_micro import BYTES, Epilogue, Kind, kind_of, micro_table, register_rows, relu, row_counts
from flambeau.codegen.launch import Phase
from flambeau.codegen.pack import stride_class

WEIGHT_ROWS = 126  # (channel, tap) rows per task of the weight gradient
WEIGHT_ROWS_ALONE = 320
WEIGHT_BYTES = 2 << 20
PATCH_PRODUCTS = 256  # images x channels up to which a product each is planned
WEIGHT_PIXELS = 4096


def _threads() -> int:
    return max(1, state.words[state.THREADS])


class Weights(NamedTuple):
    """Where a convolution's weights lie: slot, strides per group, row and channel, taps of the kernel, and which are used."""

    slot: int
    strides: Triple
    area: int
    taps: tuple[int, ...]


def _dilated(kernel: Triple, dilation: Triple) -> Reach:
    return tuple(tuple(range(0, n * d, d)) for n, d in zip(kernel, dilation, strict=True))


def _gather_phases(
    kind: Kind,
    images: int,
    channels: int,
    rows: int,
    groups: int,
    size: Triple,
    reach: Reach,
    stride: Triple,
    pad: Triple,
    out: Triple,
    source: Tensor5,
    target: Tensor5,
    place: int,
    w: Weights,
    finish: Epilogue,
    bias_slot: int,
    scratch: int,
) -> tuple[list[Phase], int]:
    """The general form: `rows` output channels per group from `channels` input channels through the listed taps.

    `place` is the element offset of the first output. Returns the phases and the end of the scratch memory they use.
    """
    threads = _threads()
    taps, size_of = len(w.taps), BYTES[kind.compute]
    if not taps or not channels:
        taps = channels = 0
    if channels == rows == 1:
        g = geometry(kind, images, groups, 1, size, reach, stride, pad, out, 1 << 30, images, source, 1)
        share = ((g.band + kind.lanes) * size_of + 8 * taps + 255) // 64 * 64
        constants = (
            *g.constants,
            scratch,
            share,
            target.slot,
            place,
            *target.strides,
            bias_slot,
            w.slot,
            0,
            w.strides[0],
            *g.taps,
            *w.taps,
        )
        total = g.boxes * groups
        return [
            Phase(
                depthwise_kernel(kind, finish, row_order(source, size, stride), taps),
                total,
                max(1, total // (16 * threads)),
                constants,
            )
        ], scratch + share * threads
    height, width = register_rows(), 2 * kind.lanes
    panels = -(-rows // height)
    row_step = -(-rows // panels)
    panels = -(-rows // row_step)
    # every task streams all weights: where they are large, fewer and larger boxes
    tasks = (2 if rows * channels * taps * size_of > WEIGHT_BYTES else 4) * threads
    tile_panels = -(-panels // -(-panels // 48))
    count_m = -(-panels // tile_panels)
    g = geometry(
        kind,
        images,
        channels,
        groups,
        size,
        reach,
        stride,
        pad,
        out,
        min(BOX_PIXELS, TILE_SLOTS // tile_panels * width),
        -(-tasks // (groups * count_m)),
        source,
        BLOCK_STEPS,
        width // gcd(width, out[2]),
    )
    heights = reach[1] if len(reach[0]) == 1 and taps and size[0] == out[0] == 1 else ()
    phases: list[Phase] = []
    weights = scratch
    total = groups * panels * -(-channels // g.block)
    if w.area == 1 and taps:
        # one tap: (row, channel) is a matrix
        order = stride_class(w.strides[1], w.strides[2], rows, channels)
        constants = (
            w.slot,
            0,
            1,
            w.strides[0],
            0,
            w.strides[1],
            w.strides[2],
            rows,
            row_step,
            panels,
            channels,
            channels,
            g.block,
            weights,
        )
        phases.append(Phase(pack_kernel(kind, height, order), total, max(1, total // (8 * threads)), constants))
    elif taps:
        places = [-1] * w.area
        for place_of, tap in enumerate(w.taps):
            places[tap] = place_of
        constants = (w.slot, 0, *w.strides, rows, row_step, panels, channels, taps, w.area, g.block, weights, *places)
        phases.append(Phase(weights_kernel(kind), total, max(1, total // (8 * threads)), constants))
    scratch += (groups * panels * height * channels * taps * size_of + 127) // 64 * 64
    share = ((g.band + 2 * width) * size_of + 63) // 64 * 64 + ((g.block * taps + 2) * width * size_of + 127) // 64 * 64
    constants = (
        *g.constants,
        scratch,
        share,
        rows,
        row_step,
        panels,
        tile_panels,
        count_m,
        target.slot,
        place,
        *target.strides,
        bias_slot,
        weights,
        0,
        0,
        micro_table(kind, 2, height, True, True, row_counts(rows, row_step)),
        len(heights),
        len(reach[2]),
        *heights,
        *g.taps,
    )
    total = groups * count_m * g.boxes
    phases.append(
        Phase(
            forward_kernel(kind, finish, row_order(source, size, stride)),
            total,
            max(1, total // (16 * threads)),
            constants,
        )
    )
    return phases, scratch + share * threads


def _flat(strides: tuple[int, ...], out: Triple) -> int | None:
    """The one stride along (z, y, x) as a single axis of pixels, or None if there is none."""
    if out[0] * out[1] * out[2] == 1:
        return 1
    step = strides[4] if out[2] > 1 else strides[3] if out[1] > 1 else strides[2]
    rows = out[1] == 1 or strides[3] == out[2] * step
    planes = out[0] == 1 or strides[2] == out[1] * out[2] * step
    return step if rows and planes else None


def _pointwise(size: Triple, kernel: Triple, stride: Triple, pad: Triple, groups: int, x: Tensor5, y: Tensor5) -> bool:
    """Whether a convolution is a plain matrix product per image."""
    return (
        kernel == stride == (1, 1, 1)
        and pad == (0, 0, 0)
        and groups == 1
        and _flat(x.strides, size) == _flat(y.strides, size) == 1
    )


def conv_forward_phases(
    dtype: object,
    images: int,
    channels: int,
    outputs: int,
    size: Triple,
    kernel: Triple,
    stride: Triple,
    pad: Triple,
    dilation: Triple,
    groups: int,
    out: Triple,
    x: Tensor5,
    weight_slot: int,
    y: Tensor5,
    bias_slot: int | None = None,
    activation: str | None = None,
) -> tuple[list[Phase], int]:
    """Phases for y = activation(conv(x, weight) + bias), and the scratch bytes they need.

    x is (images, channels, *size), weight (outputs, channels / groups, *kernel) contiguous, y (images, outputs, *out), bias
    (outputs,); x and y with any strides. activation: None or "relu".
    """
    pixels = out[0] * out[1] * out[2]
    if not images * outputs * pixels:
        return [], 0
    kind, taps = kind_of(dtype), kernel[0] * kernel[1] * kernel[2]
    if _pointwise(size, kernel, stride, pad, groups, x, y):
        bias = None if bias_slot is None else Matrix(bias_slot, (0, 0, 1, 0))
        return gemm_phases(
            dtype,
            outputs,
            pixels,
            channels,
            Matrix(weight_slot, (0, 0, channels, 1)),
            Matrix(x.slot, (x.strides[0], 0, x.strides[1], 1)),
            Matrix(y.slot, (y.strides[0], 0, y.strides[1], 1)),
            (images, 1),
            bias,
            activation=activation,
        )
    finish = Epilogue(
        "unit" if y.strides[4] == 1 or out[2] == 1 else "any",
        None if bias_slot is None else "zero",
        False,
        activation,
        relu if activation == "relu" else None,
    )
    inputs, rows = channels // groups, outputs // groups
    w = Weights(weight_slot, (rows * inputs * taps, inputs * taps, taps), taps, tuple(range(taps)))
    return _gather_phases(
        kind,
        images,
        inputs,
        rows,
        groups,
        size,
        _dilated(kernel, dilation),
        stride,
        pad,
        out,
        x,
        y,
        0,
        w,
        finish,
        bias_slot or 0,
        0,
    )


def conv_grad_input_phases(
    dtype: object,
    images: int,
    channels: int,
    outputs: int,
    size: Triple,
    kernel: Triple,
    stride: Triple,
    pad: Triple,
    dilation: Triple,
    groups: int,
    out: Triple,
    dy: Tensor5,
    weight_slot: int,
    dx: Tensor5,
    bias_slot: int | None = None,
    activation: str | None = None,
) -> tuple[list[Phase], int]:
    """Phases for dx = conv_transpose(dy, weight) (+ bias, as the forward of a transposed convolution), and the scratch bytes.

    The arguments describe the forward convolution from dx's shape (images, channels, *size) to dy's (images, outputs, *out);
    bias, if any, is (channels,). `size` may be larger than what `out` reaches (output_padding).
    """
    if not images * channels * size[0] * size[1] * size[2]:
        return [], 0
    kind, taps = kind_of(dtype), kernel[0] * kernel[1] * kernel[2]
    if _pointwise(size, kernel, stride, pad, groups, dy, dx):
        bias = None if bias_slot is None else Matrix(bias_slot, (0, 0, 1, 0))
        return gemm_phases(
            dtype,
            channels,
            size[0] * size[1] * size[2],
            outputs,
            Matrix(weight_slot, (0, 0, 1, channels)),
            Matrix(dy.slot, (dy.strides[0], 0, dy.strides[1], 1)),
            Matrix(dx.slot, (dx.strides[0], 0, dx.strides[1], 1)),
            (images, 1),
            bias,
            activation=activation,
        )
    if (
        kernel == stride
        and kernel[0] == groups == 1
        and pad == (0, 0, 0)
        and size == (1, out[1] * kernel[1], out[2] * kernel[2])
        and kernel[2] >= 8
        and images * channels <= PATCH_PRODUCTS
        and bias_slot is None
        and activation is None
    ):
        return _patch_phases(dtype, images, channels, outputs, kernel, out, dy, weight_slot, dx)
    rows, inputs = channels // groups, outputs // groups
    phases: list[Phase] = []
    scratch = 0
    for start in product(*(range(min(s, n)) for s, n in zip(stride, size, strict=True))):
        # positions start + stride * q receive from output q + reach[tap] - pad, for the taps that hit a whole output
        chosen, reach, back, extent = [], [], [], []
        for axis in range(3):
            found = sorted(
                ((start[axis] + pad[axis] - tap * dilation[axis]) // stride[axis], tap)
                for tap in range(kernel[axis])
                if (start[axis] + pad[axis] - tap * dilation[axis]) % stride[axis] == 0
            )
            low = found[0][0] if found else 0
            chosen.append([tap for _, tap in found])
            reach.append(tuple(place - low for place, _ in found))
            back.append(-low)
            extent.append(-(-(size[axis] - start[axis]) // stride[axis]))
        strides = (*dx.strides[:2], *(dx.strides[axis + 2] * stride[axis] for axis in range(3)))
        place = sum(start[axis] * dx.strides[axis + 2] for axis in range(3))
        w = Weights(
            weight_slot,
            (rows * inputs * taps, taps, rows * taps),
            taps,
            tuple((z * kernel[1] + y) * kernel[2] + x for z, y, x in product(*chosen)),
        )
        finish = Epilogue(
            "unit" if strides[4] == 1 or extent[2] == 1 else "any",
            None if bias_slot is None else "zero",
            False,
            activation,
            relu if activation == "relu" else None,
        )
        more, end = _gather_phases(
            kind,
            images,
            inputs,
            rows,
            groups,
            out,
            tuple(reach),
            (1, 1, 1),
            tuple(back),
            tuple(extent),
            dy,
            Tensor5(dx.slot, strides),
            place,
            w,
            finish,
            bias_slot or 0,
            0,
        )
        phases += more
        scratch = max(scratch, end)
    return phases, scratch


def _patch_phases(
    dtype: object,
    images: int,
    channels: int,
    outputs: int,
    kernel: Triple,
    out: Triple,
    dy: Tensor5,
    weight_slot: int,
    dx: Tensor5,
) -> tuple[list[Phase], int]:
    """Gradient of the input of a convolution whose patches tile the image: a product per image and channel, in place.

    For each row of outputs and each row of the kernel, dx[x, tap] = sum over o of dy[o, x] * weight[o, tap].
    """
    phases: list[Phase] = []
    area = kernel[1] * kernel[2]
    for image, channel in product(range(images), range(channels)):
        a = Matrix(dy.slot, (0, dy.strides[3], dy.strides[4], dy.strides[1]), image * dy.strides[0])
        b = Matrix(weight_slot, (kernel[2], 0, channels * area, 1), channel * area)
        c = Matrix(
            dx.slot,
            (dx.strides[3], kernel[1] * dx.strides[3], kernel[2] * dx.strides[4], dx.strides[4]),
            image * dx.strides[0] + channel * dx.strides[1],
        )
        phases += gemm_phases(dtype, out[2], kernel[2], outputs, a, b, c, (kernel[1], out[1]))[0]
    return phases, 0


def conv_grad_weight_phases(
    dtype: object,
    images: int,
    channels: int,
    outputs: int,
    size: Triple,
    kernel: Triple,
    stride: Triple,
    pad: Triple,
    dilation: Triple,
    groups: int,
    out: Triple,
    x: Tensor5,
    dy: Tensor5,
    weight_slot: int,
) -> tuple[list[Phase], int]:
    """Phases for dw (outputs, channels / groups, *kernel), contiguous, from x and the output's gradient; and the scratch bytes.

    x with any strides; the pixels of dy must be one axis (a single stride along z, y, x), or NotImplementedError is raised.
    """
    taps = kernel[0] * kernel[1] * kernel[2]
    if not outputs * channels * taps:
        return [], 0
    kind, threads = kind_of(dtype), _threads()
    pixels = out[0] * out[1] * out[2]
    inputs, rows_of = channels // groups, outputs // groups
    step = _flat(dy.strides, out)
    if step is None:
        raise NotImplementedError("conv weight gradient: make the output's gradient contiguous first")
    size_of, width, height = BYTES[kind.compute], 2 * kind.lanes, register_rows()
    reach = _dilated(kernel, dilation)
    order_of_rows = row_order(x, size, stride)
    if inputs == rows_of == 1 and (step == 1 or out[2] == 1):
        g = geometry(kind, images, groups, 1, size, reach, stride, pad, out, 1 << 30, images, x, 1)
        share = ((g.band * size_of + 255) // 64 + taps) * 64 + 128
        constants = (*g.constants, 0, share, dy.slot, *dy.strides, weight_slot, *g.taps)
        return [
            Phase(depthwise_weight_kernel(kind, order_of_rows), groups, max(1, groups // (16 * threads)), constants)
        ], share * threads
    swapped = outputs > channels and _pointwise(size, kernel, stride, pad, groups, x, dy)
    if swapped:  # the operand that is transposed while it is packed should be the smaller one
        x, dy, inputs, rows_of, step = dy, x, outputs, channels, 1
        order_of_rows = "copy"
    phases: list[Phase] = []
    panels = -(-rows_of // width)
    order = "lane" if dy.strides[1] == 1 or rows_of == 1 else "depth" if step == 1 or pixels == 1 else "any"
    alone = inputs * taps <= WEIGHT_ROWS_ALONE
    g = geometry(
        kind,
        images,
        inputs,
        groups,
        size,
        reach,
        stride,
        pad,
        out,
        WEIGHT_PIXELS,
        1,
        x,
        WEIGHT_ROWS_ALONE if alone else WEIGHT_ROWS,
    )
    blocks = -(-inputs // g.block)
    # with one block of channels each pixel of the gradient is used once: its task packs it; otherwise a phase packs it for all
    fused = blocks == 1 and g.images == 1
    packed = 0 if fused else (groups * panels * images * pixels * width * size_of + 127) // 64 * 64
    if packed and images * pixels:
        total = groups * panels * images
        phases.append(
            Phase(
                pack_gradient_kernel(kind, order),
                total,
                max(1, total // (16 * threads)),
                (dy.slot, dy.strides[0], dy.strides[1], step, images, groups, rows_of, panels, pixels, 0),
            )
        )
    rows = g.block * taps
    row_step = -(-rows // -(-rows // height))
    slices = max(1, min(g.boxes, -(-12 * threads // (groups * blocks))))
    partial = packed
    share = (
        ((g.band + width) * size_of + 63) // 64 + (rows * 8 + 63) // 64 + 2
    ) * 64 + fused * panels * PIXEL_STEPS * width * size_of
    work = partial + (slices * groups * inputs * taps * panels * width * size_of + 127) // 64 * 64
    constants = (
        *g.constants,
        work,
        share,
        rows_of,
        panels,
        slices,
        blocks,
        row_step,
        0,
        partial,
        dy.slot,
        *dy.strides[:2],
        step,
        patch_table(kind, row_counts(rows, row_step) | row_counts(inputs % g.block * taps, row_step)),
        *g.taps,
    )
    phases.append(Phase(weight_kernel(kind, order_of_rows, order if fused else None), slices * groups * blocks, 1, constants))
    row_tiles = -(-inputs * taps // (kind.lanes * ROW_VECTORS))
    total = groups * row_tiles
    phases.append(
        Phase(
            reduce_kernel(kind, swapped),
            total,
            max(1, total // (8 * threads)),
            (inputs * taps, rows_of, panels, groups, slices if images * pixels else 0, partial, weight_slot, row_tiles),
        )
    )
    return phases, work + share * threads
