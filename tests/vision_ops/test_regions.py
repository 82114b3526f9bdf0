"""roi_align, roi_pool and their position-sensitive relatives against their definitions, bin by bin."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import product

import numpy as np
import pytest

import flambeau as torch
from flambeau.vision_ops.ps_roi import ps_roi_align, ps_roi_align_backward, ps_roi_pool, ps_roi_pool_backward
from flambeau.vision_ops.roi_align import roi_align, roi_align_backward
from flambeau.vision_ops.roi_pool import roi_pool, roi_pool_backward

BINS = (2, 3)
REGIONS = np.array([
    [0, 0, 0, 8, 6], [1, 1.5, 2.25, 6.5, 5.75], [0, -3.3, -2.1, 4.2, 3.9], [1, 5.2, 4.4, 14.6, 11.1], [0, 3, 3, 3.1, 3.2],
    [1, 20, 20, 25, 25]])  # fmt: skip


def images(channels: int, dtype: str = "float64") -> np.ndarray:
    return np.random.default_rng(channels).standard_normal((2, channels, 7, 9)).astype(dtype)


def between(plane: np.ndarray, y: float, x: float) -> float:
    """Bilinear; less than a pixel outside as on the edge, further out zero."""
    height, width = plane.shape
    if not (-1 <= y <= height and -1 <= x <= width):
        return 0.0
    y, x = min(max(y, 0), height - 1), min(max(x, 0), width - 1)
    top, left = min(int(y), max(height - 2, 0)), min(int(x), max(width - 2, 0))
    total = 0.0
    for row, column in product((top, min(top + 1, height - 1)), (left, min(left + 1, width - 1))):
        weight = (1 - abs(y - row)) * (1 - abs(x - column))
        total += weight * plane[row, column]
    return total


def samples(region: np.ndarray, scale: float, ratio: int, aligned: bool) -> Iterator[tuple[int, int, list]]:
    """(row and column of a bin, its samples)"""
    x1, y1, x2, y2 = region[1:] * scale - (0.5 if aligned else 0)
    sizes = [n if aligned else max(n, 1) for n in (y2 - y1, x2 - x1)]
    steps = [n / b for n, b in zip(sizes, BINS)]
    counts = [ratio if ratio > 0 else max(math.ceil(n), 0) for n in steps]
    for i, j in product(range(BINS[0]), range(BINS[1])):
        yield (
            i,
            j,
            [
                (y1 + (i + (k + 0.5) / counts[0]) * steps[0], x1 + (j + (m + 0.5) / counts[1]) * steps[1])
                for k, m in product(range(counts[0]), range(counts[1]))
            ],
        )


def align(planes: np.ndarray, scale: float, ratio: int, aligned: bool, sensitive: bool = False) -> np.ndarray:
    channels = planes.shape[1] // (BINS[0] * BINS[1] if sensitive else 1)
    out = np.zeros((len(REGIONS), channels, *BINS))
    for k, region in enumerate(REGIONS):
        for (i, j, places), c in product(samples(region, scale, ratio, aligned), range(channels)):
            plane = planes[int(region[0]), (c * BINS[0] + i) * BINS[1] + j if sensitive else c]
            out[k, c, i, j] = sum(between(plane, y, x) for y, x in places) / max(len(places), 1)
    return out


def edges(region: np.ndarray, scale: float, through: int) -> Callable[[int, int], tuple[int, int, int, int]]:
    x1, y1, x2, y2 = (math.floor(n * scale + 0.5) for n in region[1:])
    sizes = max(y2 - y1 + through, 1) / BINS[0], max(x2 - x1 + through, 1) / BINS[1]

    def of_bin(i: int, j: int) -> tuple[int, int, int, int]:
        return (
            y1 + math.floor(i * sizes[0]),
            y1 + math.ceil((i + 1) * sizes[0]),
            x1 + math.floor(j * sizes[1]),
            x1 + math.ceil((j + 1) * sizes[1]),
        )

    return of_bin


def pool(planes: np.ndarray, scale: float, sensitive: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """(maxima, places), or (means, channels) if position-sensitive."""
    channels = planes.shape[1] // (BINS[0] * BINS[1] if sensitive else 1)
    out = np.zeros((len(REGIONS), channels, *BINS))
    other = np.full(out.shape, -1)
    height, width = (n - sensitive for n in planes.shape[2:])
    for k, region in enumerate(REGIONS):
        of_bin = edges(region, scale, int(not sensitive))
        for c, i, j in product(range(channels), range(BINS[0]), range(BINS[1])):
            channel = (c * BINS[0] + i) * BINS[1] + j if sensitive else c
            top, bottom, left, right = of_bin(i, j)
            top, bottom, left, right = *np.clip((top, bottom), 0, height), *np.clip((left, right), 0, width)
            part = planes[int(region[0]), channel, top:bottom, left:right]
            if part.size and sensitive:
                out[k, c, i, j] = part.mean()
            elif part.size:
                y, x = np.unravel_index(part.argmax(), part.shape)
                out[k, c, i, j], other[k, c, i, j] = part.max(), (top + y) * planes.shape[3] + left + x
            if sensitive:
                other[k, c, i, j] = channel
    return out, other


@pytest.mark.parametrize("aligned", [False, True])
@pytest.mark.parametrize(("scale", "ratio"), [(1.0, 2), (0.5, 0), (1.0, -1), (0.25, 3)])
def test_roi_align(scale: float, ratio: int, aligned: bool) -> None:
    planes = images(3)
    made = roi_align(torch.tensor(planes), torch.tensor(REGIONS), scale, *BINS, ratio, aligned)
    np.testing.assert_allclose(made.numpy(), align(planes, scale, ratio, aligned), atol=1e-12)


def test_roi_align_of_many_channels_and_wide_bins_in_float32_and_float16() -> None:
    planes = images(70, "float32")
    expected = align(planes, 1.0, 2, True)
    for dtype, tolerance in ((torch.float32, 1e-5), (torch.float16, 0.03)):
        made = roi_align(torch.tensor(planes).to(dtype), torch.tensor(REGIONS).to(dtype), 1.0, *BINS, 2, True)
        assert made.dtype is dtype
        np.testing.assert_allclose(made.float().numpy(), expected, atol=tolerance)


@pytest.mark.parametrize("ratio", [2, -1])
def test_ps_roi_align(ratio: int) -> None:
    planes = images(12)
    regions = REGIONS
    made, channels = ps_roi_align(torch.tensor(planes), torch.tensor(regions), 1.0, *BINS, ratio)
    np.testing.assert_allclose(made.numpy(), align(planes, 1.0, ratio, True, True), atol=1e-12)
    assert channels.dtype is torch.int32 and channels[3].flatten().tolist() == list(range(12))


@pytest.mark.parametrize("scale", [1.0, 0.5])
def test_roi_pool(scale: float) -> None:
    planes = np.round(images(3))  # some are equal: the first is the maximum
    planes[0, 1, 2:4] = np.nan
    made, places = roi_pool(torch.tensor(planes), torch.tensor(REGIONS), scale, *BINS)
    expected, at = pool(np.where(np.isnan(planes), -1e300, planes), scale)
    at = np.where(expected == -1e300, -1, at)  # what is not a number is no maximum
    assert places.dtype is torch.int32
    np.testing.assert_array_equal(np.where(places.numpy() == -1, 0, made.numpy()), np.where(at == -1, 0, expected))
    np.testing.assert_array_equal(places.numpy(), at)


def test_ps_roi_pool_leaves_the_last_row_and_column_out() -> None:
    planes = images(12)
    made, channels = ps_roi_pool(torch.tensor(planes), torch.tensor(REGIONS), 1.0, *BINS)
    expected, of = pool(planes, 1.0, True)
    np.testing.assert_allclose(made.numpy(), expected, atol=1e-12)
    np.testing.assert_array_equal(channels.numpy(), of)


CASES: dict[str, Callable] = {
    "roi_align": lambda x, rois: roi_align(x, rois, 0.5, *BINS, 2, True),
    "roi_align by size": lambda x, rois: roi_align(x, rois, 1.0, *BINS, 0, False),
    "roi_pool": lambda x, rois: roi_pool(x, rois, 1.0, *BINS)[0],
    "ps_roi_align": lambda x, rois: ps_roi_align(x, rois, 1.0, *BINS, 2)[0],
    "ps_roi_pool": lambda x, rois: ps_roi_pool(x, rois, 1.0, *BINS)[0],
}


@pytest.mark.parametrize("name", CASES)
def test_gradients(name: str) -> None:
    x = torch.tensor(images(6)).requires_grad_()
    rois = torch.tensor(REGIONS)
    if name == "ps_roi_pool":  # whose gradient reaches the last row and column, which the result leaves out
        rois[:, 1:] = rois[:, 1:].clamp(max=5)
    assert torch.autograd.gradcheck(lambda x: CASES[name](x, rois), (x,))


@pytest.mark.parametrize("name", CASES)
def test_a_second_gradient_is_refused(name: str) -> None:
    x = torch.tensor(images(6)).requires_grad_()
    weight = torch.ones(1, dtype=torch.float64, requires_grad=True)
    out = CASES[name](x, torch.tensor(REGIONS)) * weight
    (slope,) = torch.autograd.grad(out.sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match=f"double backwards on {name.split()[0]} not supported"):
        slope.sum().backward()


def test_regions_need_no_gradient_and_whole_numbers_are_not_in_the_graph() -> None:
    x, rois = torch.tensor(images(6)), torch.tensor(REGIONS, requires_grad=True)
    (slope,) = torch.autograd.grad(roi_align(x, rois, 1.0, *BINS, 2, True).sum(), rois, allow_unused=True)
    assert slope is None
    made, channels = ps_roi_pool(x.requires_grad_(), rois, 1.0, *BINS)
    assert made.requires_grad and not channels.requires_grad


def test_backward_operators_give_what_the_graph_gives() -> None:
    x, rois = torch.tensor(images(6)).requires_grad_(), torch.tensor(REGIONS)
    g = torch.tensor(np.random.default_rng(1).standard_normal((6, 6, *BINS)))
    sizes = 2, 6, 7, 9
    roi_align(x, rois, 0.5, *BINS, -1, True).backward(g)
    assert torch.equal(x.grad, roi_align_backward(g, rois, 0.5, *BINS, *sizes, -1, True))
    x.grad = None
    made, places = roi_pool(x, rois, 0.5, *BINS)
    made.backward(g)
    assert torch.equal(x.grad, roi_pool_backward(g, rois, places, 0.5, *BINS, *sizes))
    for forward, backward, more in ((ps_roi_align, ps_roi_align_backward, (2,)), (ps_roi_pool, ps_roi_pool_backward, ())):
        x.grad = None
        made, channels = forward(x, rois, 0.5, *BINS, *more)
        made.backward(g[:, :1])
        assert torch.equal(x.grad, backward(g[:, :1], rois, channels, 0.5, *BINS, *more, *sizes))


def test_gradients_of_half_precision_are_added_up_in_float32() -> None:
    rois = torch.tensor([[0.0, 0.0, 0.0, 0.0, 0.0]] * 3000).half()
    g = torch.ones(3000, 1, 1, 1).half()
    assert roi_align_backward(g, rois, 1.0, 1, 1, 1, 1, 1, 1, 1, False).item() == 3000


def test_threads_and_strides_make_no_difference() -> None:
    x, rois = torch.tensor(images(40)).transpose(2, 3), torch.tensor(np.repeat(REGIONS, 4, 0))
    expected = [f(x.contiguous(), rois) for f in list(CASES.values())[:3]]
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(3)
        again = [f(x, rois.t().contiguous().t()) for f in list(CASES.values())[:3]]
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(a, b) for a, b in zip(expected, again))


def test_nothing_to_pool() -> None:
    x, rois = torch.zeros(2, 6, 7, 9), torch.tensor(REGIONS).float()
    assert roi_align(x, rois[:0], 1.0, *BINS, 2, True).shape == (0, 6, *BINS)
    assert roi_align(x[:, :0], rois, 1.0, *BINS, 2, True).shape == (6, 0, *BINS)
    assert [tuple(y.shape) for y in roi_pool(x[:0], rois[:0], 1.0, *BINS)] == [(0, 6, *BINS)] * 2
    assert [y.dtype for y in ps_roi_pool(x, rois[:0], 1.0, *BINS)] == [torch.float32, torch.int32]
    assert roi_align_backward(torch.zeros(0, 6, *BINS), rois[:0], 1.0, *BINS, 2, 6, 7, 9, 2, True).shape == x.shape
    x.requires_grad_()
    roi_align(x, rois[:0], 1.0, *BINS, 2, True).sum().backward()
    assert not x.grad.any()


def test_bad_arguments() -> None:
    x, rois = torch.zeros(2, 6, 7, 9), torch.tensor(REGIONS).float()
    with pytest.raises(RuntimeError, match=r"rois must have shape as Tensor\[K, 5\]"):
        roi_align(x, rois[:, :4], 1.0, *BINS, 2, True)
    with pytest.raises(RuntimeError, match=r"Tensor rois should have shape as Tensor\[K, 5\]"):
        ps_roi_pool(x, rois[:, :4], 1.0, *BINS)
    with pytest.raises(IndexError, match=r"Dimension out of range \(expected to be in range of \[-3, 2\], but got 3\)"):
        roi_pool(x[0], rois, 1.0, *BINS)
    words = (
        r"Expected tensor for argument #1 'input' to have the same type as tensor for argument #2 'rois'; but type "
        r"torch.DoubleTensor does not equal torch.FloatTensor \(while checking arguments for roi_align_forward_kernel\)"
    )
    with pytest.raises(RuntimeError, match=words):
        roi_align(x.double(), rois, 1.0, *BINS, 2, True)
    with pytest.raises(NotImplementedError, match="\"ps_roi_align_forward_kernel\" not implemented for 'BFloat16'"):
        ps_roi_align(x.bfloat16(), rois.bfloat16(), 1.0, *BINS, 2)
    with pytest.raises(RuntimeError, match=r"input channels must be a multiple of pooling height \* pooling width"):
        ps_roi_align(x, rois, 1.0, 4, 4, 2)
    with pytest.raises(RuntimeError, match="zeros: Dimension size must be non-negative"):
        roi_align(x, rois, 1.0, -1, 2, 2, True)
    for call in (lambda r: roi_align(x, r, 1.0, *BINS, 2, True), lambda r: ps_roi_pool(x, r, 1.0, *BINS)):
        with pytest.raises(IndexError, match="not the index of an image of the batch"):
            call(rois + 2)
