"""nms against its definition: of boxes that overlap, those with the highest scores."""

from __future__ import annotations

import numpy as np
import pytest

import flambeau as torch
from flambeau.vision_ops.nms import nms


def by_definition(boxes: np.ndarray, scores: np.ndarray, threshold: float) -> list[int]:
    kept: list[int] = []
    areas = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    for i in np.argsort(-scores, kind="stable"):
        others = boxes[kept]
        sides = np.minimum(boxes[i, 2:], others[:, 2:]) - np.maximum(boxes[i, :2], others[:, :2])
        common = sides.clip(min=0).prod(1)
        if not ((common / (areas[i] + areas[kept] - common)).astype("float64") > threshold).any():
            kept.append(int(i))
    return kept


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("count", [1, 40, 300])
def test_the_best_of_overlapping_boxes_are_kept_in_order_of_their_scores(dtype: str, count: int) -> None:
    rng = np.random.default_rng(count)
    boxes = np.round(rng.random((count, 4)) * 20).astype(dtype)
    boxes[:, 2:] += boxes[:, :2] + 1
    scores = np.round(rng.random(count), 1).astype(dtype)  # many are equal
    for threshold in (0.0, 1 / 3, 0.7):
        kept = nms(torch.tensor(boxes), torch.tensor(scores), threshold)
        assert kept.dtype is torch.int64 and kept.tolist() == by_definition(boxes, scores, threshold)


def test_boxes_of_several_blocks_and_threads() -> None:
    rng = np.random.default_rng(0)
    count = 2500
    boxes = (rng.random((count, 4)) * 60).astype(np.float32)
    boxes[:, 2:] = boxes[:, :2] + 1 + boxes[:, 2:] / 6
    scores = rng.permutation(count).astype(np.float32)
    assert nms(torch.tensor(boxes), torch.tensor(scores), 0.2).tolist() == by_definition(boxes, scores, 0.2)


def test_an_overlap_that_is_the_threshold_is_none() -> None:
    boxes = torch.tensor([[0.0, 0.0, 10.0, 10.0], [0.0, 0.0, 10.0, 5.0]])
    scores = torch.tensor([0.1, 0.9], requires_grad=True)
    assert nms(boxes, scores, 0.5).tolist() == [1, 0]
    assert nms(boxes, scores, 0.4999).tolist() == [1]
    third = torch.tensor([[0.0, 0.0, 3.0, 1.0], [0.0, 0.0, 1.0, 1.0]])  # 1 / 3 as float32 is above 1 / 3
    assert nms(third, scores, 1 / 3).tolist() == [1]
    assert nms(third.double(), scores.double(), 1 / 3).tolist() == [1, 0]


def test_empty_strided_and_degenerate_boxes() -> None:
    assert nms(torch.zeros(0, 4), torch.zeros(0), 0.5).shape == (0,)
    boxes = torch.tensor([[0.0, 0.0, 2.0, 2.0], [0.0, 0.0, 2.0, 2.0], [5.0, 5.0, 6.0, 6.0]])
    strided = boxes.t().contiguous().t()
    assert nms(strided, torch.tensor([3.0, 0, 2.0, 0, 1.0, 0])[::2], 0.5).tolist() == [0, 2]
    assert nms(torch.zeros(3, 4), torch.tensor([1.0, 3.0, 2.0]), 0.5).tolist() == [1, 2, 0]  # 0 / 0 is no overlap


@pytest.mark.parametrize(
    ("boxes", "scores", "error", "words"),
    [
        (torch.zeros(4), torch.zeros(1), RuntimeError, "boxes should be a 2d tensor, got 1D"),
        (torch.zeros(2, 5), torch.zeros(2), RuntimeError, "boxes should have 4 elements in dimension 1, got 5"),
        (torch.zeros(2, 4), torch.zeros(2, 1), RuntimeError, "scores should be a 1d tensor, got 2D"),
        (torch.zeros(2, 4), torch.zeros(3), RuntimeError,
         "boxes and scores should have same number of elements in dimension 0, got 2 and 3"),
        (torch.zeros(2, 4), torch.zeros(2).double(), RuntimeError, "dets should have the same type as scores"),
        (torch.zeros(2, 4).half(), torch.zeros(2).half(), NotImplementedError, "\"nms_kernel\" not implemented for 'Half'"),
        (torch.zeros(2, 4).int(), torch.zeros(2).int(), NotImplementedError, "\"nms_kernel\" not implemented for 'Int'"),
    ],
)  # fmt: skip
def test_bad_arguments(boxes: torch.Tensor, scores: torch.Tensor, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        nms(boxes, scores, 0.5)
