"""nms: of boxes that overlap, those with the highest scores.

Stands on codegen.vision.nms and ops.sorting.sort. A result is numbers of boxes, so that there is no gradient.
"""

from __future__ import annotations

import numpy as np

from flambeau.base.dtype import int64
from flambeau.codegen.plan import Phase, Plan
from flambeau.codegen.targets import lowered
from flambeau.codegen.vision import nms as kernels
from flambeau.core.operator.pointwise import RELEASE_FROM
from flambeau.core.tensor import fakes
from flambeau.core.tensor.tensor import Tensor
from flambeau.ops.creation.copy import contiguous
from flambeau.ops.sorting.sort import sort_along
from flambeau.vision_ops.plans import UNIT, kind_for, like, plans

BLOCK = 1024  # boxes that one thread compares with each other before all threads go on


def _check(dets: Tensor, scores: Tensor) -> None:
    boxes, values = dets._layout, scores._layout
    if boxes.ndim != 2:
        raise RuntimeError(f"boxes should be a 2d tensor, got {boxes.ndim}D")
    if boxes.shape[1] != 4:
        raise RuntimeError(f"boxes should have 4 elements in dimension 1, got {boxes.shape[1]}")
    if values.ndim != 1:
        raise RuntimeError(f"scores should be a 1d tensor, got {values.ndim}D")
    if boxes.shape[0] != values.shape[0]:
        raise RuntimeError(
            f"boxes and scores should have same number of elements in dimension 0, got {boxes.shape[0]} and {values.shape[0]}"
        )
    if boxes.dtype is not values.dtype:
        raise RuntimeError("dets should have the same type as scores")


def nms(dets: Tensor, scores: Tensor, iou_threshold: float) -> Tensor:
    """Numbers (int64) of the boxes (n, 4; x1, y1, x2, y2) that are kept, by decreasing score.

    A box is dropped if the area that it has in common with a kept one of higher score, divided by the area of their union, is
    above `iou_threshold`. Of equal scores the first box goes first. float32 and float64; NotImplementedError for other dtypes.
    """
    _check(dets, scores)
    boxes, _ = dets._layout.shape
    kind = kind_for("nms_kernel", dets._layout.dtype, half=False)
    if fakes.is_fake(dets._layout):
        raise fakes.DynamicOutputShapeException(fakes.overload_named("torchvision::nms"))
    if dets.is_meta:
        raise NotImplementedError("nms on the meta device: how many boxes are kept depends on their values")
    dets = contiguous(dets.detach())
    _, order = sort_along(contiguous(scores.detach()), 0, True)
    key = "nms", dets._layout
    launch = plans.get(key)
    if launch is None:
        pitch = kernels.pitch_of(kind, boxes)
        phases = [Phase(kernels.order_kernel(kind), boxes, UNIT, [boxes, pitch, 0, boxes])]
        for first in range(0, max(boxes, 1), BLOCK):
            last = min(first + BLOCK, boxes)
            constants = [boxes, pitch, first, last]
            phases.append(Phase(kernels.block_kernel(kind), 1, 1, constants))
            if last < boxes:
                phases.append(Phase(kernels.rest_kernel(kind), -(-(boxes - last) // kernels.CHUNK), 1, constants))
        outputs = [like(dets._layout, (boxes,), int64), like(dets._layout, (1,), int64)]
        launch = plans[key] = lowered(
            Plan(
                phases,
                outputs,
                [dets._layout, order._layout],
                "f",
                kernels.scratch_of(kind, boxes),
                release=boxes * boxes >= RELEASE_FROM,
            )
        )
    threshold = float(iou_threshold)
    if kind.compute == "float":
        threshold = _below(threshold)
    kept, count = launch(None, None, dets, order, threshold)
    return kept[: count.item()]


def _below(threshold: float) -> float:
    """The largest float32 that is not above a double: what is greater as float32 is greater than the double, too."""
    nearest = np.float32(threshold)
    return float(np.nextafter(nearest, np.float32(-np.inf)) if float(nearest) > threshold else nearest)
