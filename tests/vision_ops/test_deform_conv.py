"""deform_conv2d against its definition, and its gradients against differences."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest

import flambeau as torch
from flambeau.vision_ops import deform_conv
from flambeau.vision_ops.deform_conv import deform_conv2d, deform_conv2d_backward


def between(plane: np.ndarray, y: float, x: float) -> float:
    """Bilinear, with zeros around."""
    top, left = math.floor(y), math.floor(x)
    total = 0.0
    for row, column in product((top, top + 1), (left, left + 1)):
        if 0 <= row < plane.shape[0] and 0 <= column < plane.shape[1]:
            total += (1 - abs(y - row)) * (1 - abs(x - column)) * plane[row, column]
    return total


def by_definition(x, weight, offset, mask, bias, stride, padding, dilation, groups, offset_groups) -> np.ndarray:
    made, share, height, width = weight.shape
    out = np.zeros((x.shape[0], made, *offset.shape[2:]))
    for n, o, i, j in np.ndindex(out.shape):
        first = o // (made // groups) * share
        for c, k, m in np.ndindex(share, height, width):
            group = (first + c) // (x.shape[1] // offset_groups)
            tap = (group * height + k) * width + m
            y = i * stride[0] - padding[0] + k * dilation[0] + offset[n, 2 * tap, i, j]
            z = j * stride[1] - padding[1] + m * dilation[1] + offset[n, 2 * tap + 1, i, j]
            scale = 1 if mask is None else mask[n, tap, i, j]
            out[n, o, i, j] += weight[o, c, k, m] * scale * between(x[n, first + c], y, z)
    return out + bias[:, None, None]


def operands(masked: bool, offset_groups: int, groups: int, spread: float, stride=(1, 1), padding=(0, 0), dilation=(1, 1),
             size=(2, 4, 6, 7), kernel=(3, 2), made: int = 4) -> tuple[list[np.ndarray], tuple]:  # fmt: skip
    rng = np.random.default_rng(7)
    out = [(n + 2 * p - d * (k - 1) - 1) // s + 1 for n, p, d, k, s in zip(size[2:], padding, dilation, kernel, stride)]
    taps = offset_groups * kernel[0] * kernel[1]
    arrays = [
        rng.standard_normal(size),
        rng.standard_normal((made, size[1] // groups, *kernel)),
        rng.standard_normal((size[0], 2 * taps, *out)) * spread,
        rng.random((size[0], taps, *out)) if masked else np.zeros((size[0], 1)),
        rng.standard_normal(made),
    ]
    return arrays, (*stride, *padding, *dilation, groups, offset_groups, masked)


FORMS = [
    {"masked": True, "offset_groups": 1, "groups": 2, "spread": 1.0},
    {"masked": False, "offset_groups": 2, "groups": 1, "spread": 3.0, "stride": (2, 1), "padding": (1, 2), "dilation": (1, 2)},
    {"masked": True, "offset_groups": 4, "groups": 4, "spread": 2.0, "padding": (1, 1)},
]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
def test_values(form: dict, dtype: str) -> None:
    arrays, numbers = operands(**form)
    arrays = [a.astype(dtype) for a in arrays]
    made = deform_conv2d(*map(torch.tensor, arrays), *numbers)
    x, weight, offset, mask, bias = (a.astype("float64") for a in arrays)
    stride, padding, dilation = numbers[0:2], numbers[2:4], numbers[4:6]
    expected = by_definition(x, weight, offset, mask if numbers[-1] else None, bias, stride, padding, dilation, *numbers[6:8])
    assert made.dtype is getattr(torch, dtype)
    np.testing.assert_allclose(made.double().numpy(), expected, atol={"float64": 1e-12, "float32": 1e-4, "float16": 0.1}[dtype])


@pytest.mark.parametrize("form", FORMS)
def test_gradients(form: dict) -> None:
    arrays, numbers = operands(**form)
    tensors = [torch.tensor(a).requires_grad_(i != 3 or form["masked"]) for i, a in enumerate(arrays)]
    assert torch.autograd.gradcheck(lambda *x: deform_conv2d(*x, *numbers), tensors, fast_mode=True)


def test_without_offsets_it_is_a_convolution() -> None:
    arrays, numbers = operands(True, 1, 2, 0.0, (2, 1), (1, 1), (1, 2))
    x, weight, offset, mask, bias = map(torch.tensor, arrays)
    expected = torch.nn.functional.conv2d(x, weight, bias, (2, 1), (1, 1), (1, 2), 2)
    torch.testing.assert_close(deform_conv2d(x, weight, offset, torch.ones_like(mask), bias, *numbers), expected)


def test_more_images_than_are_made_columns_of_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    arrays, numbers = operands(True, 1, 2, 1.0, size=(5, 4, 6, 7))
    tensors = [torch.tensor(a).requires_grad_() for a in arrays]
    whole = deform_conv2d(*tensors, *numbers)
    slopes = torch.autograd.grad(whole.square().sum(), tensors)
    monkeypatch.setattr(deform_conv, "CHUNK_BYTES", 12000)
    parts = deform_conv2d(*tensors, *numbers)
    torch.testing.assert_close(parts, whole)
    for a, b in zip(torch.autograd.grad(parts.square().sum(), tensors), slopes):
        torch.testing.assert_close(a, b)


def test_the_backward_operator_and_its_refusal_of_a_second_gradient() -> None:
    arrays, numbers = operands(True, 1, 1, 1.0)
    tensors = [torch.tensor(a).requires_grad_() for a in arrays]
    out = deform_conv2d(*tensors, *numbers)
    g = torch.ones_like(out)
    slopes = torch.autograd.grad(out, tensors, g, create_graph=True)
    assert all(torch.equal(a, b) for a, b in zip(slopes, deform_conv2d_backward(g, *tensors, *numbers)))
    with pytest.raises(RuntimeError, match="double backwards on deform_conv2d not supported"):
        slopes[0].sum().backward()


def test_offsets_far_away_read_zeros_and_those_that_are_no_numbers_give_none() -> None:
    x, weight, mask, bias = torch.ones(1, 1, 3, 3), torch.ones(1, 1, 1, 1), torch.zeros(1, 1), torch.zeros(1)
    offset = torch.tensor([1e30, -1e30, float("inf"), float("nan"), -1.0, 0.5, 2.5, 0, 0]).view(1, 1, 3, 3)
    offset = torch.cat([offset, torch.zeros_like(offset)], 1)
    made = deform_conv2d(x, weight, offset, mask, bias, 1, 1, 0, 0, 1, 1, 1, 1, False).flatten()
    assert made[:3].tolist() == [0, 0, 0] and made[3].isnan()
    assert made[4:].tolist() == [1, 1, 0, 1, 1]


def test_no_images() -> None:
    arrays, numbers = operands(True, 1, 1, 1.0)
    x, weight, offset, mask, bias = (torch.tensor(a).requires_grad_() for a in arrays)
    made = deform_conv2d(x[:0], weight, offset[:0], mask[:0], bias, *numbers)
    assert made.shape == (0, 4, 4, 6)
    made.sum().backward()
    assert weight.grad.shape == weight.shape and not weight.grad.any() and not bias.grad.any()


BAD = {
    "x3": (0, lambda t: t[0], r"Expected input_c.ndimension\(\) == 4 to be true"),
    "offset3": (2, lambda t: t[0], r"Expected offset_c.ndimension\(\) == 4 to be true"),
    "mask3": (3, lambda t: t[0], r"Expected !use_mask \|\| mask_c.ndimension\(\) == 4 to be true"),
    "weight3": (1, lambda t: t[0], r"Expected weight_c.ndimension\(\) == 4 to be true"),
    "channels": (0, lambda t: t[:, :3], r"Expected weight_c.size\(1\) \* n_weight_grps == input_c.size\(1\) to be true"),
    "kernel": (1, lambda t: t[:, :, :0], "weight_h: 0 weight_w: 2"),
    "offset rows": (2, lambda t: t[:, :11], r"offset.shape\[1\] is not valid: got: 11 expected: 12"),
    "offset batch": (2, lambda t: t[:1], "invalid batch size of offset"),
    "offset size": (2, lambda t: t[:, :, :3], r"offset output dims: \(3, 6\) - computed output dims: \(4, 6\)"),
    "mask rows": (3, lambda t: t[:, :5], r"mask.shape\[1\] is not valid: got: 5 expected: 6"),
    "mask batch": (3, lambda t: t[:1], "invalid batch size of mask"),
    "mask size": (3, lambda t: t[..., :4], r"mask output dims: \(4, 4\) - computed output dims: \(4, 6\)"),
    "bias": (4, lambda t: t[:3], r"shape '\[1, 4, 1, 1\]' is invalid for input of size 3"),
    "offset dtype": (2, lambda t: t.float(), "expected scalar type Double but found Float"),
    "weight dtype": (1, lambda t: t.float(), "mat1 and mat2 must have the same dtype, but got Float and Double"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_operands(name: str) -> None:
    arrays, numbers = operands(True, 1, 1, 1.0)
    at, change, words = BAD[name]
    tensors = [change(torch.tensor(a)) if i == at else torch.tensor(a) for i, a in enumerate(arrays)]
    with pytest.raises(RuntimeError, match=words):
        deform_conv2d(*tensors, *numbers)


@pytest.mark.parametrize(
    ("at", "value", "words"),
    [(0, 0, "stride_h: 0 stride_w: 1"), (3, -1, "pad_h: 0 pad_w: -1"), (4, 0, "dilation_h: 0 dilation_w: 1")],
)
def test_bad_numbers(at: int, value: int, words: str) -> None:
    arrays, numbers = operands(True, 1, 1, 1.0)
    changed = (*numbers[:at], value, *numbers[at + 1 :])
    with pytest.raises(RuntimeError, match=words):
        deform_conv2d(*map(torch.tensor, arrays), *changed)
    with pytest.raises(NotImplementedError, match="\"deformable_im2col\" not implemented for 'BFloat16'"):
        deform_conv2d(*(torch.tensor(a).bfloat16() for a in arrays), *numbers)
