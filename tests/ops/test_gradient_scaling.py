"""The two steps of a gradient scaler as functions."""

import math

import pytest

import flambeau as torch


def test_gradients_are_unscaled():
    found, gradients = torch.zeros(1), [torch.tensor([2.0, 4.0]), torch.tensor([[6.0]], dtype=torch.float16)]
    torch._amp_foreach_non_finite_check_and_unscale_(gradients, found, torch.tensor(0.5))
    assert [x.tolist() for x in gradients] == [[1, 2], [[3]]] and found.item() == 0
    torch._amp_foreach_non_finite_check_and_unscale_([torch.tensor([1.0, math.nan])], found, torch.tensor(0.5))
    assert found.item() == 1
    with pytest.raises(RuntimeError, match=r"^inv_scale must be a 1-element tensor.$"):
        torch._amp_foreach_non_finite_check_and_unscale_(gradients, found, torch.ones(2))


@pytest.mark.parametrize(
    ("scale", "steps", "found", "expected"),
    [(4.0, 0, 0.0, (4, 1)), (4.0, 1, 0.0, (8, 0)), (4.0, 1, 1.0, (2, 0)), (3e38, 1, 0.0, (3e38, 0))],
)
def test_the_scale_adapts(scale, steps, found, expected):
    current, tracker = torch.tensor([scale]), torch.tensor([steps], dtype=torch.int32)
    made = torch._amp_update_scale_(current, tracker, torch.tensor([found]), 2.0, 0.5, 2)
    assert made is current and (current.item(), tracker.item()) == (pytest.approx(expected[0]), expected[1])
