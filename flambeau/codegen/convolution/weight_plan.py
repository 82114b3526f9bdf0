"""Phases of the gradient of a convolution's weight.

Stands on weight.py, winograd_plan.py and depthwise.py; steps.py uses it.
"""

from __future__ import annotations

from flambeau.codegen.convolution import depthwise_channels, every_second
from flambeau.codegen.convolution import winograd_plan as winograd
from flambeau.codegen.convolution.depthwise import depthwise_weight_kernel
from flambeau.codegen.convolution.extents import Convolution, Phases, flat, rounded
from flambeau.codegen.convolution.halo import Tensor5, geometry, grain, row_order
from flambeau.codegen.convolution.weight import (
    PIXEL_STEPS,
    ROW_VECTORS,
    pack_gradient_kernel,
    patch_table,
    reduce_kernel,
    weight_kernel,
)
from flambeau.codegen.cpu import register_rows
from flambeau.codegen.element_type import Kind, kind_of
from flambeau.codegen.kernel import BYTES
from flambeau.codegen.plan import Phase
from flambeau.codegen.products.gemm import Matrix, gemm_phases
from flambeau.codegen.products.micro import row_counts
from flambeau.codegen.runtime.threads import planned_threads

WEIGHT_ROWS = 126  # (channel, tap) rows per task of the weight gradient
WEIGHT_ROWS_ALONE = 320
WEIGHT_PIXELS = 4096


def conv_grad_weight_phases(dtype: object, conv: Convolution, x: Tensor5, dy: Tensor5, weight_slot: int) -> Phases:
    """Phases for the gradient of the weight, contiguous, from x and the output's gradient; and the scratch bytes.

    x with any strides; the pixels of dy must be one axis (a single stride along z, y, x), or NotImplementedError is raised.
    """
    if not conv.outputs * conv.channels * conv.taps:
        return [], 0
    step = flat(dy.strides, conv.out) if conv.images else 1  # of no images, strides may be any
    if step is None:
        raise NotImplementedError("conv weight gradient: make the output's gradient contiguous first")
    kind = kind_of(dtype)
    if conv.inputs == conv.rows == 1 and depthwise_channels.applies(kind, conv.groups, x, dy):
        return depthwise_channels.weight_phases(kind, conv.window(x), conv.groups, dy, weight_slot)
    if conv.inputs == conv.rows == 1 and (step == 1 or conv.out[2] == 1):
        return _depthwise_weight_phases(kind, conv, x, dy, weight_slot)
    if conv.images and every_second.applies(conv, x, dy):
        pick, reserved = every_second.pixels_phase(kind, conv, x, spread=False)
        found = _product_phases(dtype, every_second.dense(conv), every_second.dense_pixels(conv), dy, weight_slot, reserved)
        if found:
            return [pick, *found[0]], max(found[1], reserved)
    product = conv.is_product(x, dy)
    found = _product_phases(dtype, conv, x, dy, weight_slot) if product and conv.images else None
    if found:
        return found
    if conv.outputs > conv.channels and product:
        # the operand that is transposed while it is packed should be the smaller one
        swapped = conv._replace(channels=conv.outputs, outputs=conv.channels)
        step = flat(x.strides, conv.size)
        assert step is not None
        return _weight_phases(kind, swapped, dy, x, step, weight_slot, transposed=True)
    return _weight_phases(kind, conv, x, dy, step, weight_slot)


def _product_phases(
    dtype: object, conv: Convolution, x: Tensor5, dy: Tensor5, weight_slot: int, reserved: int = 0
) -> Phases | None:
    """A product along the pixels of all images, if they are one axis."""
    images, pixels, (step_x, step_dy) = conv.pixel_axis(x, dy)
    if images > 1:
        return None
    a, b = Matrix(dy.slot, (0, 0, dy.strides[1], step_dy)), Matrix(x.slot, (0, 0, step_x, x.strides[1]))
    c = Matrix(weight_slot, (0, 0, conv.channels, 1))
    return gemm_phases(dtype, conv.outputs, conv.channels, pixels, a, b, c, reserved=reserved)


def _depthwise_weight_phases(kind: Kind, conv: Convolution, x: Tensor5, dy: Tensor5, weight_slot: int) -> Phases:
    window = conv.window(x)
    g = geometry(kind, window, conv.groups, 1, 1, 1 << 30, conv.images)
    share = ((g.band * BYTES[kind.compute] + 255) // 64 + conv.taps) * 64 + 128
    constants = (*g.constants, 0, share, dy.slot, *dy.strides, weight_slot, *g.taps)
    kernel = depthwise_weight_kernel(kind, row_order(window, many=False))
    return [Phase(kernel, conv.groups, grain(conv.groups, 16), constants)], share * planned_threads()


def _weight_phases(
    kind: Kind, conv: Convolution, x: Tensor5, dy: Tensor5, step: int, weight_slot: int, transposed: bool = False
) -> Phases:
    """Partial sums over slices of the boxes, and a phase that adds them up; step: the stride along dy's pixels."""
    taps, inputs, pixels, window = conv.taps, conv.inputs, conv.pixels, conv.window(x)
    size_of, width, height = BYTES[kind.compute], 2 * kind.lanes, register_rows()
    panels = -(-conv.rows // width)
    order = "lane" if dy.strides[1] == 1 or conv.rows == 1 else "depth" if step == 1 or pixels == 1 else "any"
    alone = inputs * taps <= WEIGHT_ROWS_ALONE
    g = geometry(kind, window, inputs, conv.groups, WEIGHT_ROWS_ALONE if alone else WEIGHT_ROWS, WEIGHT_PIXELS)
    blocks = -(-inputs // g.block)
    by_tiles = not transposed and winograd.weight_pays(kind, conv, window)
    # with one block of channels each pixel of the gradient is used once: its task packs it; otherwise a phase packs it for all
    fused = blocks == 1 and g.images == 1 and not by_tiles
    packed = 0 if fused else rounded(conv.groups * panels * conv.images * pixels * width * size_of)
    phases: list[Phase] = []
    if packed and conv.images * pixels:
        total = conv.groups * panels * conv.images
        constants = (dy.slot, dy.strides[0], dy.strides[1], step, conv.images, conv.groups, conv.rows, panels, pixels, 0)
        phases.append(Phase(pack_gradient_kernel(kind, order), total, grain(total, 16), constants))
    rows = g.block * taps
    row_step = -(-rows // -(-rows // height))
    slices = max(1, min(g.boxes, -(-12 * planned_threads() // (conv.groups * blocks))))
    partial, flag, end = packed, 0, 0
    if by_tiles:
        flag, partial, slices = packed, packed + 64, 1
        free = partial + rounded(inputs * taps * panels * width * size_of)
        more, end = winograd.weight_phases(kind, conv, window, flag, partial, free)
        phases += more
    gradient = fused * panels * PIXEL_STEPS * width * size_of
    share = (((g.band + width) * size_of + 63) // 64 + (rows * 8 + 63) // 64 + 2) * 64 + gradient
    work = partial + rounded(slices * conv.groups * inputs * taps * panels * width * size_of)
    table = patch_table(kind, row_counts(rows, row_step) | row_counts(inputs % g.block * taps, row_step))
    constants = (
        *g.constants,
        work,
        share,
        conv.rows,
        panels,
        slices,
        blocks,
        row_step,
        0,
        partial,
        dy.slot,
        *dy.strides[:2],
        step,
        table,
        flag,
        *g.taps,
    )
    kernel = weight_kernel(kind, row_order(window), order if fused else None)
    phases.append(Phase(kernel, slices * conv.groups * blocks, 1, constants))
    row_tiles = -(-inputs * taps // (kind.lanes * ROW_VECTORS))
    total = conv.groups * row_tiles
    slices = slices if conv.images * pixels else 0
    constants = (inputs * taps, conv.rows, panels, conv.groups, slices, partial, weight_slot, row_tiles)
    phases.append(Phase(reduce_kernel(kind, transposed), total, grain(total, 8), constants))
    return phases, max(end, work + share * planned_threads())
