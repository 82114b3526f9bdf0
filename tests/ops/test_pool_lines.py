"""Maxima along rows: small windows of every step, padding and spread, and windows wider than a vector."""

import numpy as np
import pytest

import flambeau as torch
from flambeau.nn import functional as F

DTYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16]


def numbers(*shape, special):
    x = np.random.default_rng(3).standard_normal(shape).round(1)  # with equal ones
    if special == "nan":
        x.reshape(-1)[::17] = np.nan
    if special == "least":
        x[:] = -np.inf
    return x


def maximum(values):
    """(the maximum, its place): the first of equal ones, the last NaN."""
    best, place = -np.inf, 0
    for i, v in enumerate(values):
        if v > best or np.isnan(v):
            best, place = v, i
    return best, place


@pytest.mark.parametrize("special", ["", "nan", "least"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", [1, 7, 40, 133])
def test_wide_windows(size, dtype, special):
    x = torch.tensor(numbers(2, 3, size, special=special), dtype=dtype)
    known = x.double().numpy()
    for count in (1, 2, 3):
        cuts = [(o * size // count, -(-(o + 1) * size // count)) for o in range(count)]
        wanted = np.array([[[maximum(row[a:b]) for a, b in cuts] for row in plane] for plane in known])
        places = wanted[..., 1].astype(int) + [a for a, _ in cuts]
        value, index = F.adaptive_max_pool1d(x, count, return_indices=True)
        np.testing.assert_array_equal(value.double().numpy(), wanted[..., 0])
        np.testing.assert_array_equal(index.numpy(), places)
        np.testing.assert_array_equal(F.adaptive_max_pool1d(x, count).double().numpy(), wanted[..., 0])
        leaf = x.clone().requires_grad_()
        F.adaptive_max_pool1d(leaf, count).sum().backward()
        gradient = np.zeros(known.shape)
        np.add.at(gradient, (*np.indices(places.shape)[:2], places), 1)
        np.testing.assert_array_equal(leaf.grad.double().numpy(), gradient)


def test_whole_planes():
    x = torch.tensor(numbers(2, 3, 5, 9, special=""))
    for image in (x, x.transpose(2, 3), x.contiguous(memory_format=torch.channels_last)):
        value, index = F.adaptive_max_pool2d(image, 1, return_indices=True)
        flat = image.numpy().reshape(2, 3, -1)
        np.testing.assert_array_equal(value.numpy()[..., 0, 0], flat.max(-1))
        np.testing.assert_array_equal(index.numpy()[..., 0, 0], flat.argmax(-1))


@pytest.mark.parametrize("special", ["", "nan", "least"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("kernel", "step", "pad", "spread", "ceil"),
    [
        (2, 2, 0, 1, False),
        (3, 2, 1, 1, False),
        (3, 1, 1, 1, False),
        (5, 3, 2, 1, True),
        (2, 2, 1, 2, False),
        (9, 4, 4, 1, True),
        (1, 1, 0, 1, False),
        (3, 4, 0, 2, True),
        (11, 5, 0, 1, False),
    ],
)
def test_small_windows(kernel, step, pad, spread, ceil, dtype, special):
    for size in (11, 40, 133):
        x = torch.tensor(numbers(3, size, special=special), dtype=dtype)
        made, places = F.max_pool1d(x, kernel, step, pad, spread, ceil, return_indices=True)
        row = x.double().numpy()
        for o in range(made.shape[1]):
            window = [p for p in range(o * step - pad, o * step - pad + kernel * spread, spread) if 0 <= p < size]
            wanted = [maximum(line[window]) for line in row]
            np.testing.assert_array_equal(made[:, o].double().numpy(), [v for v, _ in wanted])
            assert places[:, o].tolist() == [window[i] for _, i in wanted]
        np.testing.assert_array_equal(F.max_pool1d(x, kernel, step, pad, spread, ceil).double().numpy(), made.double().numpy())


def test_long_axes():
    """A plan of a few hundred thousand windows is made at once, not window by window."""
    x = torch.arange(400_001.0).reshape(1, 1, -1) % 1000
    y = x.numpy()[0, 0]
    largest = F.max_pool1d(x, 3, stride=2, padding=1)[0, 0].numpy()
    assert np.array_equal(largest[1:-1], np.maximum(np.maximum(y[1:-3:2], y[2:-2:2]), y[3:-1:2]))
    means = F.avg_pool2d(x[..., None], (3, 1), stride=(2, 1), padding=(1, 0))[0, 0, :, 0].numpy()
    assert np.allclose(means[1:-1], (y[1:-3:2] + y[2:-2:2] + y[3:-1:2]) / 3)
    assert np.isclose(means[0], (y[0] + y[1]) / 3)
    halves = F.adaptive_avg_pool1d(x[..., :-1], 200_000)[0, 0].numpy()
    assert np.allclose(halves, (y[:-1:2] + y[1:-1:2]) / 2)
