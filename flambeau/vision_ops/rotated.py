"""box_iou_rotated: how much rotated boxes overlap. Stands on codegen.vision.rotated; there is no gradient, as in torchvision."""

from __future__ import annotations

import math

from flambeau.base.dtype import float32, float64
from flambeau.codegen.vision import rotated as kernels
from flambeau.core.operator.publishing import NAMESPACE
from flambeau.core.tensor.tensor import Tensor
from flambeau.ops.creation.copy import contiguous
from flambeau.vision_ops.plans import kind_for, like, one_phase, plans

WORK = 200  # multiplications for a pair, roughly


def box_iou_rotated(boxes1: Tensor, boxes2: Tensor) -> Tensor:
    """Overlap (n, m; float32) of boxes (n, 5) and (m, 5): the area in common by that of the union.

    A box is the x and y of its middle, width, height, and degrees by which it is turned counterclockwise. float32 and float64;
    RuntimeError for other shapes.
    """
    for name, boxes in (("boxes1", boxes1), ("boxes2", boxes2)):
        if boxes.ndim != 2 or boxes.shape[1] != 5:
            raise RuntimeError(f"{name} should have shape (N, 5), got {list(boxes.shape)}")
    if boxes1._layout.dtype is not boxes2._layout.dtype:
        raise RuntimeError("boxes1 and boxes2 must have the same dtype")
    shape = boxes1.shape[0], boxes2.shape[0]
    if not shape[0] * shape[1]:
        return boxes1.new_zeros(shape, dtype=float32)
    kind_for("box_iou_rotated_cpu", boxes1._layout.dtype, half=False)
    x, y, width, height, cosine, sine = _turned(boxes1)
    across = [(a * cosine, a * sine) for a in (width / 2, -width / 2)]
    down = [(b * sine, b * cosine) for b in (height / 2, -height / 2)]
    corners = [(x + u + p, y - v + q) for i, j in ((0, 0), (0, 1), (1, 1), (1, 0)) for (u, v), (p, q) in [(across[i], down[j])]]
    first = NAMESPACE["stack"]([number for corner in corners for number in corner], 1)
    x, y, width2, height2, cosine, sine = _turned(boxes2)
    second = NAMESPACE["stack"]([x, y, cosine, sine, width2 / 2, height2 / 2], 1)
    areas = contiguous(width * height)
    key = "rotated", shape, boxes1._layout.device
    launch = plans.get(key)
    if launch is None:
        launch = plans[key] = one_phase(
            kernels.overlap_kernel(),
            shape[0] * shape[1],
            shape[0] * shape[1] * WORK,
            list(shape),
            [like(first._layout, shape, float32)],
            [first._layout, areas._layout, second._layout],
        )
    return launch(None, first, areas, second)


def _turned(boxes: Tensor) -> tuple[Tensor, ...]:
    """(x, y, width, height, cosine and sine of the angle) as float64."""
    x, y, width, height, angle = boxes.detach().to(float64).unbind(1)
    radians = angle * (math.pi / 180)
    return x, y, width, height, radians.cos(), radians.sin()
