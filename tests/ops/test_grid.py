"""grid_sample against a loop over its definition, in every mode; gradients of both orders; which gradients are asked for."""

import itertools
import math

import numpy as np
import pytest

import flambeau as torch
from flambeau.autograd import gradcheck, gradgradcheck
from flambeau.nn import functional as F

PADDINGS = ("zeros", "border", "reflection")


def position(x, size, align):
    return (x + 1) / 2 * (size - 1) if align else ((x + 1) * size - 1) / 2


def padded(x, size, padding, align):
    if padding == "reflection":
        low, span = (0, size - 1) if align else (-0.5, size)
        if span == 0:
            return 0.0
        distance = abs(x - low) % (2 * span)
        x = low + min(distance, 2 * span - distance)
    return x if padding == "zeros" else min(max(x, 0), size - 1)


def cubic(d, a=-0.75):
    d = abs(d)
    return ((a + 2) * d - (a + 3)) * d * d + 1 if d < 1 else (((d - 5) * d + 8) * d - 4) * a if d < 2 else 0.0


def taps(x, size, mode, padding, align):
    """(pixel, weight) along one axis."""
    x = position(x, size, align)
    if mode == "bicubic":
        first = math.floor(x)
        return [(padded(first + k, size, padding, align), cubic(x - first - k)) for k in range(-1, 3)]
    x = padded(x, size, padding, align)
    if mode == "nearest":
        return [(round(x), 1.0)]
    first = math.floor(x)
    return [(first, 1 - (x - first)), (first + 1, x - first)]


def sampled(image, grid, mode, padding, align):
    made = np.zeros((*image.shape[:2], *grid.shape[1:-1]))
    sizes = image.shape[2:]
    for n, *place in np.ndindex(grid.shape[:-1]):
        along = [taps(x, size, mode, padding, align) for x, size in zip(grid[n, *place][::-1], sizes)]
        for chosen in itertools.product(*along):
            pixel = [int(p) for p, _ in chosen]
            if all(0 <= p < size for p, size in zip(pixel, sizes)):
                made[n, :, *place] += math.prod(w for _, w in chosen) * image[n, :, *pixel]
    return made


@pytest.mark.parametrize("align", [True, False])
@pytest.mark.parametrize("padding", PADDINGS)
@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
def test_values(mode, padding, align):
    random = np.random.default_rng(0)
    cases = [((2, 3, 5, 7), (4, 9)), ((1, 1, 1, 1), (1, 2)), ((1, 2, 6, 3), (3, 6))]
    if mode != "bicubic":
        cases.append(((2, 2, 3, 4, 5), (2, 3, 4)))
    for shape, target in cases:
        image, grid = random.standard_normal(shape), random.uniform(-1.7, 1.7, (shape[0], *target, len(target)))
        made = F.grid_sample(torch.tensor(image), torch.tensor(grid), mode, padding, align)
        np.testing.assert_allclose(made.numpy(), sampled(image, grid, mode, padding, align), rtol=1e-9, atol=1e-12)
        channels_last = torch.tensor(np.moveaxis(image, 1, -1).copy()).movedim(-1, 1)
        single = F.grid_sample(channels_last.float(), torch.tensor(grid).float(), mode, padding, align)
        if mode != "nearest":  # where a place in float32 may be another pixel's
            np.testing.assert_allclose(single.numpy(), made.numpy(), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("padding", PADDINGS)
@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
def test_gradients(mode, padding):
    torch.manual_seed(1)
    for shape, target in (((2, 2, 4, 3), (3, 5)), ((1, 2, 3, 2, 3), (2, 2, 3))):
        if mode == "bicubic" and len(target) == 3:
            continue
        image = torch.randn(shape, dtype=torch.float64, requires_grad=True)
        grid = (torch.rand(shape[0], *target, len(target), dtype=torch.float64) * 2.6 - 1.3).requires_grad_()
        both = (image, grid)
        assert gradcheck(lambda x, g: F.grid_sample(x, g, mode, padding, False), both)
        assert gradgradcheck(lambda x, g: F.grid_sample(x, g, mode, padding, True), both)
        made = F.grid_sample(image, grid, mode, padding, False)
        assert made.grad_fn.name() == f"GridSampler{len(target)}DBackward0"
        upstream = torch.randn(made.shape, dtype=torch.float64)
        wanted = torch.autograd.grad(made, both, upstream, retain_graph=True)
        for x, gradient in zip(both, wanted):
            assert torch.autograd.grad(made, x, upstream, retain_graph=True)[0].equal(gradient)
        other = [x.detach().requires_grad_(x is image) for x in both]
        F.grid_sample(*other, mode, padding, False).backward(upstream)
        assert other[0].grad.equal(wanted[0]) and other[1].grad is None
