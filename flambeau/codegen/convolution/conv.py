"""Convolution on the contraction template: forward and gradient of the input, in one to three dimensions.

This module plans: it turns sizes and strides into phases of the gather, depthwise and Winograd kernels, or into plain matrix
products where a convolution is one. One- and two-dimensional convolutions are three-dimensional ones with leading
extents of 1. Stands on the other files of this room and products.gemm; ops/nn/conv uses it.
"""

from __future__ import annotations

from itertools import product
from math import gcd, prod
from typing import Any

from flambeau.codegen.convolution import depthwise_channels, every_second
from flambeau.codegen.convolution import winograd_plan as winograd
from flambeau.codegen.convolution.depthwise import UNROLLED, depthwise_kernel
from flambeau.codegen.convolution.extents import LATE, PARTS, Beforehand, Convolution, Phases, Weights, rounded
from flambeau.codegen.convolution.gather import (
    BOX_PIXELS,
    PANEL_BYTES,
    TILE_VECTORS,
    channel_tile,
    forward_kernel,
    weights_kernel,
)
from flambeau.codegen.convolution.halo import Geometry, Tensor5, Window, geometry, grain, row_order
from flambeau.codegen.element_type import Kind, kind_of
from flambeau.codegen.kernel import BYTES
from flambeau.codegen.plan import Phase, Prepacked
from flambeau.codegen.products.epilogue import Epilogue, relu
from flambeau.codegen.products.gemm import gemm_phases
from flambeau.codegen.products.matrix import SCRATCH, Matrix
from flambeau.codegen.products.micro import LONG_TURN, steps_together, tile_addresses
from flambeau.codegen.products.pack import pack_kernel, pack_units, stride_class
from flambeau.codegen.runtime.threads import planned_threads

MOST_ROWS = 672  # of a task
FILL_ROWS = 16  # what filling a panel of patches costs, in rows of multiplying it
STREAM_PANELS = 0.5  # what reading the weights costs, in panels of patches
PATCH_PRODUCTS = 256  # images x channels up to which a product each is planned


def _finish(stride: int, extent: int, bias_slot: int | None, activation: str | None) -> Epilogue:
    return Epilogue(
        "unit" if stride == 1 or extent == 1 else "any",
        None if bias_slot is None else "zero",
        False,
        activation,
        relu if activation == "relu" else None,
    )


# ---------------------------------------------------------------- sums over channels and taps


def _depthwise_phases(
    kind: Kind, window: Window, groups: int, w: Weights, target: Tensor5, place: int, finish: Epilogue, bias_slot: int
) -> Phases:
    taps = len(w.taps)
    g = geometry(kind, window, groups, 1, 1, 1 << 30, window.images)
    share = ((g.band + kind.lanes) * BYTES[kind.compute] + 8 * taps + 255) // 64 * 64
    constants = (
        *g.constants,
        0,
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
    kernel = depthwise_kernel(kind, finish, row_order(window, many=False), taps if taps in UNROLLED else 0)
    total = g.boxes * groups
    return [Phase(kernel, total, grain(total, 16), constants)], share * planned_threads()


def _pack_weights(
    kind: Kind,
    w: Weights,
    groups: int,
    rows: int,
    height: int,
    panels: int,
    channels: int,
    block: int,
    into: int,
    place: int,
    flag: int,
) -> Phase:
    """The phase that packs weights into panels of rows at a place of slot `into`, if the flag is up."""
    blocks, taps = -(-channels // block), len(w.taps)
    total = groups * panels * blocks
    if w.area == 1:
        # one tap: (row, channel) is a matrix
        order = stride_class(w.strides[1], w.strides[2], rows, channels)
        kernel, total = pack_kernel(kind, height, order), groups * blocks * pack_units(kind, height, order, panels)
        strides = (w.strides[0], 0, *w.strides[1:])
        constants = (w.slot, 0, 1, *strides, rows, height, panels, channels, channels, block, place, into)
    else:
        kernel = weights_kernel(kind, height)
        # units of work follow each other in memory
        before = (blocks, 1) if w.strides[2] < w.strides[1] else (1, panels)
        constants = (w.slot, 0, *w.strides, rows, panels, channels, taps, w.area, block, *before, into, place, flag, *w.places)
    return Phase(kernel, total, grain(total, 8), constants)


def _tasks(kind: Kind, window: Window, channels: int, groups: int, panels: int, tile: tuple[int, int]) -> tuple[Geometry, int]:
    """Boxes of pixels and panels of rows for each task, so that all tasks together take least time: each fills its panels of
    patches and reads its weights, the last vector of a box may be mostly empty, and threads wait for the last task.
    """
    (height, vectors), threads = tile, planned_threads()
    width = vectors * kind.lanes
    steps, slots = PANEL_BYTES // (width * BYTES[kind.compute]), TILE_VECTORS // (height * vectors)
    best: tuple[float, Geometry, int] | None = None
    for parts in PARTS:
        tile_panels = -(-panels // parts)
        if tile_panels * height > MOST_ROWS or (best and parts > panels):
            continue
        for wanted in PARTS:
            box_pixels = min(BOX_PIXELS, slots // tile_panels * width)
            g = geometry(kind, window, channels, groups, steps, box_pixels, wanted, width // gcd(width, window.out[2]))
            rows, columns = tile_panels * height, -(-g.pixels // kind.lanes) / vectors
            task = columns * (rows + FILL_ROWS) + STREAM_PANELS * rows
            tasks = groups * -(-panels // tile_panels) * g.boxes
            time = task * (-(-tasks // threads) + LATE)
            if best is None or time < best[0]:
                best = time, g, tile_panels
    assert best is not None
    return best[1:]


def _gather_phases(
    kind: Kind,
    window: Window,
    channels: int,
    rows: int,
    groups: int,
    w: Weights,
    target: Tensor5,
    place: int,
    finish: Epilogue,
    bias_slot: int,
    beforehand: Beforehand | None = None,
) -> Phases:
    """The general form: `rows` output channels per group from `channels` input channels through the listed taps.

    `place` is the element offset of the first output. beforehand: weights are packed before the call.
    """
    taps, size_of = len(w.taps), BYTES[kind.compute]
    if not taps or not channels:
        taps = channels = 0
    if channels == rows == 1:
        if depthwise_channels.applies(kind, groups, window.source, target):
            return depthwise_channels.forward_phases(kind, window, groups, w, target, place, finish, bias_slot)
        return _depthwise_phases(kind, window, groups, w, target, place, finish, bias_slot)
    height, vectors = channel_tile(rows)
    width, panels = vectors * kind.lanes, -(-rows // height)
    g, tile_panels = _tasks(kind, window, channels, groups, panels, (height, vectors))
    count_m = -(-panels // tile_panels)
    heights = window.reach[1] if len(window.reach[0]) == 1 and taps and window.size[0] == window.out[0] == 1 else ()
    in_place = w.in_place(kind, window)
    kernel = forward_kernel(kind, finish, row_order(window), vectors, in_place)  # first, as it compiles longest
    phases: list[Phase] = []
    scratch = 0
    flag = packed = end = 0
    w_slot = w.slot if in_place else SCRATCH
    if taps and not in_place:
        if winograd.applies(kind, window, groups, taps):
            tile = height, vectors
            boxes = winograd.boxes(kind, winograd.tile_window(window), channels, panels, tile)
            if winograd.pays(kind, window, channels, rows, boxes):
                phases, end = winograd.winograd_phases(
                    kind, window, channels, rows, w, boxes, tile, target, place, finish, bias_slot, beforehand
                )
                flag, packed = winograd.FLAG, winograd.FLAG + 64
        size = rounded(groups * panels * height * channels * taps * size_of)
        if beforehand is None or flag:
            phases.append(_pack_weights(kind, w, groups, rows, height, panels, channels, g.block, SCRATCH, packed, flag))
            scratch = packed + size
        else:
            packed, w_slot, own = beforehand.size, beforehand.slot, w._replace(slot=1)
            beforehand.phases.append(_pack_weights(kind, own, groups, rows, height, panels, channels, g.block, 0, packed, 0))
            beforehand.size, beforehand.uses = packed + size, max(beforehand.uses, window.images * prod(window.out))
    share = ((g.band + 2 * width) * size_of + 63) // 64 * 64 + rounded((g.block * taps + 2) * width * size_of)
    together = steps_together(groups * rows * channels * taps * window.images * prod(window.out))
    narrow = together == LONG_TURN  # in others it would take longer to compile than it saves
    micros = tile_addresses(kind, height, vectors, "rows" if in_place else "packed", g.pixels if narrow else width, together)
    constants = (
        *g.constants,
        scratch,
        share,
        rows,
        height,
        panels,
        tile_panels,
        count_m,
        target.slot,
        place,
        *target.strides,
        bias_slot,
        w_slot,
        packed,
        0,
        0,
        *micros,
        flag,
        len(heights),
        len(window.reach[2]),
        *heights,
        *g.taps,
    )
    total = groups * count_m * g.boxes
    phases.append(Phase(kernel, total, grain(total, 16), constants))
    return phases, max(end, scratch + share * planned_threads())


def conv_forward_phases(
    dtype: object,
    conv: Convolution,
    x: Tensor5,
    weight_slot: int,
    y: Tensor5,
    bias_slot: int | None = None,
    activation: str | None = None,
    beforehand: Beforehand | None = None,
) -> Phases:
    """Phases for y = activation(conv(x, weight) + bias), and the scratch bytes they need.

    x is (images, channels, *size), y (images, outputs, *out), both with any strides; bias (outputs,). activation: None or
    "relu".
    """
    if not conv.images * conv.outputs * conv.pixels:
        return [], 0
    if conv.is_product(x, y):
        return _product_phases(
            dtype, conv.outputs, conv.channels, conv, Matrix(weight_slot, (0, 0, conv.channels, 1)), x, y, bias_slot, activation
        )
    if every_second.applies(conv, x, y):
        pick, reserved = every_second.pixels_phase(kind_of(dtype), conv, x, spread=False)
        a, pixels = Matrix(weight_slot, (0, 0, conv.channels, 1)), every_second.dense_pixels(conv)
        phases, scratch = _product_phases(
            dtype, conv.outputs, conv.channels, every_second.dense(conv), a, pixels, y, bias_slot, activation, reserved
        )
        return [pick, *phases], max(scratch, reserved)
    taps = conv.taps
    w = Weights(weight_slot, (conv.rows * conv.inputs * taps, conv.inputs * taps, taps), taps, tuple(range(taps)))
    finish = _finish(y.strides[4], conv.out[2], bias_slot, activation)
    return _gather_phases(
        kind_of(dtype), conv.window(x), conv.inputs, conv.rows, conv.groups, w, y, 0, finish, bias_slot or 0, beforehand
    )


def prepacked(step: Any, place: int) -> Prepacked | None:
    """A convolution whose weights are packed or transformed beforehand, to slot `place`; None where they are read as they lie."""
    beforehand = Beforehand(place)
    phases, scratch = conv_forward_phases(*step, beforehand=beforehand)
    if not beforehand.phases:
        return None
    return Prepacked(step.weight_slot, beforehand.phases, beforehand.size, phases, scratch, beforehand.uses)


def conv_grad_input_phases(
    dtype: object,
    conv: Convolution,
    dy: Tensor5,
    weight_slot: int,
    dx: Tensor5,
    bias_slot: int | None = None,
    activation: str | None = None,
) -> Phases:
    """Phases for dx = conv_transpose(dy, weight) (+ bias, as the forward of a transposed convolution), and the scratch bytes.

    dx is (images, channels, *size), dy (images, outputs, *out), both with any strides; bias, if any, is (channels,). `size` may
    be larger than what `out` reaches (output_padding).
    """
    if not conv.images * conv.channels * prod(conv.size):
        return [], 0
    if conv.is_product(dy, dx):
        return _product_phases(
            dtype, conv.channels, conv.outputs, conv, Matrix(weight_slot, (0, 0, 1, conv.channels)), dy, dx, bias_slot, activation
        )
    if bias_slot is None and activation is None and conv.pixels and every_second.applies(conv, dx, dy):
        spread, reserved = every_second.pixels_phase(kind_of(dtype), conv, dx, spread=True)
        a, pixels = Matrix(weight_slot, (0, 0, 1, conv.channels)), every_second.dense_pixels(conv)
        products, end = _product_phases(
            dtype, conv.channels, conv.outputs, every_second.dense(conv), a, dy, pixels, None, None, reserved
        )
        return [*products, spread], max(end, reserved)
    if bias_slot is None and activation is None and _tiles_image(conv):
        return _patch_phases(dtype, conv, dy, weight_slot, dx)
    taps = conv.taps
    phases: list[Phase] = []
    scratch = 0
    for start in product(*(range(min(s, n)) for s, n in zip(conv.stride, conv.size, strict=True))):
        # positions start + stride * q receive from output q + reach[tap] - pad, for the taps that hit a whole output
        axes = [_taps_of_phase(conv, axis, start[axis]) for axis in range(3)]
        extent = tuple(-(-(n - first) // s) for n, first, s in zip(conv.size, start, conv.stride, strict=True))
        strides = (*dx.strides[:2], *(step * s for step, s in zip(dx.strides[2:], conv.stride, strict=True)))
        place = sum(first * step for first, step in zip(start, dx.strides[2:], strict=True))
        chosen = tuple((z * conv.kernel[1] + y) * conv.kernel[2] + x for z, y, x in product(*(taken for taken, _, _ in axes)))
        w = Weights(weight_slot, (conv.rows * conv.inputs * taps, taps, conv.inputs * taps), taps, chosen)
        reach, back = (tuple(axis[i] for axis in axes) for i in (1, 2))
        window = Window(conv.images, conv.out, reach, (1, 1, 1), back, extent, dy)
        finish = _finish(strides[4], extent[2], bias_slot, activation)
        more, end = _gather_phases(
            kind_of(dtype),
            window,
            conv.rows,
            conv.inputs,
            conv.groups,
            w,
            Tensor5(dx.slot, strides),
            place,
            finish,
            bias_slot or 0,
        )
        phases += more
        scratch = max(scratch, end)
    return phases, scratch


def _taps_of_phase(conv: Convolution, axis: int, start: int) -> tuple[tuple[int, ...], tuple[int, ...], int]:
    """Along an axis: the taps through which positions start + stride * q receive, the offsets of their sources from the first
    one, and how far that lies before q.
    """
    stride, dilation = conv.stride[axis], conv.dilation[axis]
    distances = [(start + conv.pad[axis] - tap * dilation, tap) for tap in range(conv.kernel[axis])]
    found = sorted((distance // stride, tap) for distance, tap in distances if distance % stride == 0)
    low = found[0][0] if found else 0
    return tuple(tap for _, tap in found), tuple(place - low for place, _ in found), -low


# ---------------------------------------------------------------- matrix products


def _product_phases(
    dtype: object,
    m: int,
    k: int,
    conv: Convolution,
    weights: Matrix,
    source: Tensor5,
    target: Tensor5,
    bias_slot: int | None,
    activation: str | None,
    reserved: int = 0,
) -> Phases:
    """target[m, pixels] = weights[m, k] source[k, pixels] for each image, or for all where their pixels are one axis."""
    images, pixels, steps = conv.pixel_axis(source, target)
    b, c = (Matrix(t.slot, (t.strides[0], 0, t.strides[1], step)) for t, step in zip((source, target), steps, strict=True))
    bias = None if bias_slot is None else Matrix(bias_slot, (0, 0, 1, 0))
    return gemm_phases(dtype, m, pixels, k, weights, b, c, (images, 1), bias, activation=activation, reserved=reserved)


def _tiles_image(conv: Convolution) -> bool:
    """Whether the patches tile the image, in rows worth a product each."""
    return (
        conv.kernel == conv.stride
        and conv.kernel[0] == conv.groups == 1
        and conv.pad == (0, 0, 0)
        and conv.size == (1, conv.out[1] * conv.kernel[1], conv.out[2] * conv.kernel[2])
        and conv.kernel[2] >= 8
        and conv.images * conv.channels <= PATCH_PRODUCTS
    )


def _patch_phases(dtype: object, conv: Convolution, dy: Tensor5, weight_slot: int, dx: Tensor5) -> Phases:
    """Gradient of the input of a convolution whose patches tile the image: a product per image and channel, in place.

    For each row of outputs and each row of the kernel, dx[x, tap] = sum over o of dy[o, x] * weight[o, tap].
    """
    phases: list[Phase] = []
    scratch = 0
    _, height, width = conv.kernel
    area = height * width
    for image, channel in product(range(conv.images), range(conv.channels)):
        a = Matrix(dy.slot, (0, dy.strides[3], dy.strides[4], dy.strides[1]), image * dy.strides[0])
        b = Matrix(weight_slot, (width, 0, conv.channels * area, 1), channel * area)
        c = Matrix(
            dx.slot,
            (dx.strides[3], height * dx.strides[3], width * dx.strides[4], dx.strides[4]),
            image * dx.strides[0] + channel * dx.strides[1],
        )
        more, need = gemm_phases(dtype, conv.out[2], width, conv.outputs, a, b, c, (height, conv.out[1]))
        phases += more
        scratch = max(scratch, need)
    return phases, scratch
