"""Where the results of layers lie in memory: strides recorded from PyTorch."""

from __future__ import annotations

import pytest

import flambeau as torch
from flambeau import nn
from flambeau.nn import functional as F


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize(
    ("shape", "order", "strides"),
    [
        ((1, 3, 2, 1), (0, 2, 1, 3), (6, 1, 2, 2)),
        ((1, 3, 2, 1), (0, 2, 3, 1), (6, 1, 6, 2)),
        ((1, 3, 2, 1), (0, 3, 1, 2), (6, 6, 2, 1)),
        ((2, 3, 4, 5), (0, 2, 1, 3), (60, 15, 5, 1)),
        ((2, 3, 4, 1), (0, 2, 1, 3), (12, 1, 4, 4)),
        ((2, 3, 4, 1), (0, 3, 1, 2), (12, 12, 4, 1)),
    ],
)
def test_batch_norm_answers_in_the_format_of_its_input(shape, order, strides, training: bool) -> None:
    x = torch.arange(float(torch.Size(shape).numel())).reshape(shape).permute(order)
    norm = nn.BatchNorm2d(x.shape[1]).train(training)
    for _ in range(2):  # the second time by the plan that is kept
        made = norm(x)
        assert made.stride() == strides
    torch.testing.assert_close(made, nn.BatchNorm2d(x.shape[1]).train(training)(x.contiguous()))


def test_global_pooling_of_channels_last_images() -> None:
    x = torch.randn(2, 3, 4, 4).contiguous(memory_format=torch.channels_last).requires_grad_()
    made = F.adaptive_avg_pool2d(x, 1)
    assert made.stride() == (3, 1, 3, 3)
    made.sum().backward()
    torch.testing.assert_close(x.grad, torch.full_like(x, 1 / 16))
    volumes = torch.randn(2, 3, 4, 4, 4).contiguous(memory_format=torch.channels_last_3d)
    assert F.adaptive_avg_pool3d(volumes, 1).stride() == (3, 1, 3, 3, 3)
    assert F.adaptive_avg_pool2d(torch.randn(2, 3, 4, 4), 1).stride() == (3, 1, 1, 1)


def test_maxima_of_a_volume_with_channels_last() -> None:
    x = torch.randn(2, 3, 4, 4, 4).contiguous(memory_format=torch.channels_last_3d)[0].requires_grad_()
    made = F.max_pool3d(x, 2)
    assert made.stride() == (1, 12, 6, 3)
    expected = F.max_pool3d(x.contiguous(), 2)
    assert expected.stride() == (8, 4, 2, 1) and made.equal(expected)
    assert torch.autograd.grad(made.sum(), x)[0].equal(torch.autograd.grad(expected.sum(), x)[0])
