"""Layers on inputs without elements: no channels, no images, no classes; expected results and words are PyTorch's."""

from __future__ import annotations

import pytest

import flambeau as torch
from flambeau import nn
from flambeau.nn import functional as F


@pytest.mark.parametrize("dtype", [torch.float32, torch.complex64])
@pytest.mark.parametrize("bias", [True, False])
def test_a_convolution_of_no_channels_has_none(dtype: torch.dtype, bias: bool) -> None:
    x = torch.ones(2, 0, 15, dtype=dtype, requires_grad=True)
    weight = torch.ones(8, 0, 2, dtype=dtype, requires_grad=True)
    shift = torch.ones(8, dtype=dtype, requires_grad=True) if bias else None
    made = F.conv1d(x, weight, shift, stride=2)
    assert made.shape == (2, 0, 7)
    made.abs().sum().backward()
    assert x.grad.shape == x.shape and weight.grad.shape == weight.shape
    assert shift is None or shift.grad.tolist() == [0] * 8


def test_a_convolution_of_images_without_pixels_is_refused() -> None:
    with pytest.raises(RuntimeError, match=r"Only zero batch or zero channel inputs are supported.*\[2, 3, 0, 5\]"):
        F.conv2d(torch.ones(2, 3, 0, 5), torch.ones(4, 3, 2, 2), padding=1)
    assert F.conv2d(torch.ones(0, 3, 4, 5), torch.ones(4, 3, 2, 2)).shape == (0, 4, 3, 4)


def test_cross_entropy_of_no_classes_is_nan() -> None:
    none = torch.ones(5, 0)
    assert F.cross_entropy(none, none).isnan()
    assert F.cross_entropy(none, none, label_smoothing=0.1).isnan()
    assert F.cross_entropy(none, none, reduction="none").tolist() == [0] * 5


@pytest.mark.parametrize("shape", [(0, 3, 8), (3, 0, 8)])
@pytest.mark.parametrize("need_weights", [True, False])
def test_attention_of_no_sequences(shape: tuple[int, ...], need_weights: bool) -> None:
    x = torch.ones(shape, requires_grad=True)
    attention = nn.MultiheadAttention(8, 2, batch_first=True)
    made, _ = attention(x, x, x, need_weights=need_weights)
    made.sum().backward()
    assert made.shape == x.grad.shape == shape
    assert nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)(x).shape == shape
    assert nn.TransformerDecoderLayer(8, 2, 16, batch_first=True)(x, x).shape == shape


def test_convolutions_of_no_images_under_vmap() -> None:
    weights = torch.ones(3, 4, 2, 2)
    assert torch.vmap(F.conv1d)(torch.ones(3, 0, 2, 5), weights).shape == (3, 0, 4, 4)
    assert torch.vmap(F.conv1d, in_dims=(0, None))(torch.ones(3, 0, 2, 5), weights[0]).shape == (3, 0, 4, 4)


def test_windows_need_pixels() -> None:
    with pytest.raises(RuntimeError, match="Expected 3D or 4D"):
        F.unfold(torch.ones(2, 0, 5, 5), 2)
    with pytest.raises(RuntimeError, match="Expected 2D or 3D"):
        F.fold(torch.ones(1, 6, 0), (4, 5), (2, 3))
    assert F.unfold(torch.ones(0, 2, 5, 5), 2).shape == (0, 8, 16)
    assert F.fold(torch.ones(0, 6, 9), (4, 5), (2, 3)).shape == (0, 1, 4, 5)
    with pytest.raises(RuntimeError, match=r"sliding blocks as \(-4, -3\), which is too small"):
        F.fold(torch.ones(1, 12, 12), (4, 5), (2, 2), dilation=8)


@pytest.mark.parametrize("name", ["avg", "max"])
@pytest.mark.parametrize("dims", [2, 3])
def test_the_gradient_of_adaptive_pooling_to_nothing_is_refused(name: str, dims: int) -> None:
    x = torch.ones(2, 3, *(4,) * dims, requires_grad=True)
    made = getattr(F, f"adaptive_{name}_pool{dims}d")(x, (0,) + (2,) * (dims - 1))
    with pytest.raises(RuntimeError, match=f"adaptive_{name}_pool{dims}d_backward.*dimension 2 being empty"):
        made.sum().backward()


def test_statistics_of_no_values_are_refused() -> None:
    with pytest.raises(RuntimeError, match=r"must have at least one element, but got input_sizes = \[0, 1\]"):
        torch.batch_norm_update_stats(torch.ones(0, 1), torch.zeros(1), torch.ones(1), 0.5)
    mean, variance = torch.zeros(3), torch.ones(3)
    found = torch.batch_norm_update_stats(torch.arange(12.0).reshape(2, 3, 2), mean, variance, 0.3)
    assert [x.tolist() for x in found] == [[3.5, 5.5, 7.5], [9.25] * 3]
    torch.testing.assert_close(mean, torch.tensor([1.05, 1.65, 2.25]))
    torch.testing.assert_close(variance, torch.full((3,), 4.4))
