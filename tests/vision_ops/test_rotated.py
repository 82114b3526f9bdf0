"""box_iou_rotated: overlaps that are known, and torchvision's own numbers."""

from __future__ import annotations

import pytest

import flambeau as torch
from flambeau.vision_ops.rotated import box_iou_rotated


def test_overlaps_that_are_known() -> None:
    boxes = torch.tensor([
        [0.0, 0, 2, 2, 0], [0, 0, 2, 2, 45], [0, 0, 2, 2, 90], [1, 0, 2, 2, 0], [9, 9, 1, 1, 3], [0, 0, 0, 2, 0],
        [0, 0, 1, 1, 30]])  # fmt: skip
    octagon = 8 * (2**0.5 - 1)
    expected = [1, octagon / (8 - octagon), 1, 1 / 3, 0, 0, 1 / 4]
    torch.testing.assert_close(box_iou_rotated(boxes[:1], boxes)[0], torch.tensor(expected))
    torch.testing.assert_close(box_iou_rotated(boxes, boxes), box_iou_rotated(boxes, boxes).T)


def test_torchvision_s_numbers() -> None:
    """The angle turns counterclockwise: long boxes that meet or don't, by the sense they are turned in."""
    one = torch.tensor([[0.0, 0, 10, 1, 30], [3, 4, 5, 6, -70]], dtype=torch.float64)
    other = torch.tensor([[4.0, -2.3, 10, 1, 30], [4, 2.3, 10, 1, 30], [2, 3, 8, 2, 200]], dtype=torch.float64)
    expected = torch.tensor([[0.36444714665412903, 0.0, 0.0], [0.0, 0.17968209087848663, 0.3529411852359772]])
    made = box_iou_rotated(one, other)
    assert made.dtype is torch.float32
    torch.testing.assert_close(made, expected)
    assert box_iou_rotated(one[:0], other).shape == (0, 3)


def test_bad_arguments() -> None:
    boxes = torch.zeros(3, 5)
    with pytest.raises(RuntimeError, match=r"boxes1 should have shape \(N, 5\), got \[3, 4\]"):
        box_iou_rotated(boxes[:, :4], boxes)
    with pytest.raises(RuntimeError, match="boxes1 and boxes2 must have the same dtype"):
        box_iou_rotated(boxes, boxes.double())
    with pytest.raises(NotImplementedError, match="\"box_iou_rotated_cpu\" not implemented for 'Half'"):
        box_iou_rotated(boxes.half(), boxes.half())
