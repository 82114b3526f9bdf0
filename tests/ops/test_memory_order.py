"""The strides of results: which operators keep the order of their input's dimensions, and which answer in C order."""

from __future__ import annotations

import pytest

import flambeau as torch
import flambeau.nn.functional as F

IMAGES = (60, 1, 15, 3)  # strides of images()


def transposed():
    return torch.arange(24.0).reshape(2, 3, 4).transpose(1, 2)


def images():
    return torch.arange(120.0).reshape(2, 3, 4, 5).to(memory_format=torch.channels_last)


@pytest.mark.parametrize(
    ("operate", "of_transposed", "of_images"),
    [
        (lambda x: x.softmax(1), (12, 3, 1), (60, 20, 5, 1)),
        (lambda x: x.log_softmax(-1), (12, 3, 1), (60, 20, 5, 1)),
        (lambda x: F.layer_norm(x, x.shape[-1:]), (12, 3, 1), (60, 20, 5, 1)),
        (lambda x: F.rms_norm(x, x.shape[-1:]), (12, 3, 1), IMAGES),
        (lambda x: F.group_norm(x, 1), (12, 3, 1), IMAGES),
        (lambda x: F.batch_norm(x, None, None, training=True), (12, 3, 1), IMAGES),
        (lambda x: F.batch_norm(x, torch.zeros(x.shape[1]), torch.ones(x.shape[1])), (12, 3, 1), IMAGES),
        (lambda x: x.cumsum(1), (12, 3, 1), (60, 20, 5, 1)),
        (lambda x: x.cummax(1)[0], (12, 3, 1), (60, 20, 5, 1)),
        (lambda x: x.sort(-1)[0], (12, 1, 4), IMAGES),
        (lambda x: x.argsort(1), (12, 1, 4), IMAGES),
        (lambda x: x.roll(1, 1), (12, 3, 1), IMAGES),
        (lambda x: torch.stack([x, x]), (24, 12, 3, 1), (120, 60, 1, 15, 3)),
        (lambda x: torch.stack([x, x], 1), (24, 12, 3, 1), (120, 3, 1, 30, 6)),
        (lambda x: torch.stack([x, x], -1), (24, 6, 2, 1), (120, 40, 10, 2, 1)),
        (lambda x: (x * 0).bernoulli(), (12, 3, 1), (60, 20, 5, 1)),
        (lambda x: torch.normal(x), (12, 3, 1), (60, 20, 5, 1)),
        (lambda x: x.renorm(2, 0, 1.0), (12, 3, 1), (60, 20, 5, 1)),
        (lambda x: torch.complex(x, x).real, (24, 2, 8), (120, 2, 30, 6)),
        (lambda x: torch.permute_copy(x, tuple(range(x.dim()))[::-1]), (8, 2, 1), (24, 6, 2, 1)),
        (lambda x: torch.narrow_copy(x, 1, 0, 2), (6, 3, 1), (40, 20, 5, 1)),
        (lambda x: torch.view_copy(x, (-1,)), (1,), (1,)),
        (lambda x: x.gt(3).nonzero(), (1, 20), (1, 116)),
    ],
)
def test_order_of_results(operate, of_transposed, of_images):
    for x, strides in ((transposed(), of_transposed), (images(), of_images)):
        torch.manual_seed(1)
        made = operate(x)
        torch.manual_seed(1)
        plain = operate(x.contiguous())
        assert made.stride() == strides
        assert torch.allclose(made.float(), plain.float(), atol=1e-6)


def test_gradients_of_reordered_rows():
    x = transposed().detach().div(24).requires_grad_()
    y = x.detach().contiguous().requires_grad_()
    weights = torch.arange(24.0).reshape(2, 4, 3)
    for operate in (lambda x: x.softmax(1), lambda x: F.layer_norm(x, (3,)), lambda x: x.cumsum(1), lambda x: x.sort(1)[0]):
        x.grad = y.grad = None
        (operate(x) * weights).sum().backward()
        (operate(y) * weights).sum().backward()
        assert torch.allclose(x.grad, y.grad, atol=1e-5)


@pytest.mark.parametrize(
    ("size", "kernel", "groups"),
    [
        ((2, 8, 6, 6), (8, 8, 1, 1), 1),
        ((2, 3, 6, 6), (4, 3, 3, 3), 1),
        ((2, 8, 6, 6), (8, 1, 3, 3), 8),
        ((1, 2, 4, 4, 4), (3, 2, 2, 2, 2), 1),
    ],
)
def test_convolutions_answer_in_channels_last(size, kernel, groups):
    order = torch.channels_last if len(size) == 4 else torch.channels_last_3d
    x, weight = torch.rand(size), torch.rand(kernel)
    convolve, transposed = (F.conv2d, F.conv_transpose2d) if len(size) == 4 else (F.conv3d, F.conv_transpose3d)
    expected = convolve(x, weight, groups=groups)
    assert expected.is_contiguous()
    back = transposed(expected, weight, groups=groups)
    for a, b in ((x, weight.to(memory_format=order)), (x.to(memory_format=order), weight)):
        made = convolve(a, b, groups=groups)
        assert made.is_contiguous(memory_format=order) and not made.is_contiguous()
        assert torch.allclose(made, expected, atol=1e-5)
        again = transposed(made, b, groups=groups)
        assert again.is_contiguous(memory_format=order)
        assert torch.allclose(again, back, atol=1e-4)


def test_conversion_to_a_memory_format():
    last = torch.channels_last
    assert torch.rand(8, 8, 1, 1).to(memory_format=last).stride() == (8, 1, 8, 8)
    assert torch.rand(8, 8, 1, 1).contiguous(memory_format=last).stride() == (8, 1, 1, 1)
    assert torch.rand(2, 1, 3, 3).to(torch.float64, memory_format=last).stride() == (9, 1, 3, 1)
    x = torch.rand(2, 3).T
    assert x.to(memory_format=torch.contiguous_format) is x  # C order is what a tensor suggests that isn't channels_last
    assert x.to(torch.float64, memory_format=torch.contiguous_format).stride() == (2, 1)
    y = torch.rand(2, 3, requires_grad=True)
    made = y.to(torch.float32, copy=True)
    assert type(made.grad_fn).__name__ == "ToCopyBackward0"
    made.sum().backward()
    assert y.grad.tolist() == [[1] * 3] * 2


def test_size_of_a_storage():
    held = torch.ones(3).untyped_storage()
    assert held.nbytes() == held.size() == len(held) == 12


def test_pooling_of_volumes():
    x = torch.arange(2 * 3 * 4 * 4 * 6.0).reshape(2, 3, 4, 4, 6)
    last = x.to(memory_format=torch.channels_last_3d)
    for pool, keeps in (
        (F.max_pool3d, True),
        (F.avg_pool3d, False),
        (F.adaptive_avg_pool3d, False),
        (F.adaptive_max_pool3d, False),
    ):
        made = pool(last, 2)
        assert made.is_contiguous(memory_format=torch.channels_last_3d) is keeps
        assert torch.equal(made, pool(x, 2))


@pytest.mark.parametrize(
    ("shuffle", "of_images"),
    [
        (lambda x: F.pixel_shuffle(x, 2), (192, 1, 24, 2)),
        (lambda x: F.pixel_unshuffle(x, 2), (192, 1, 96, 32)),
        (lambda x: F.channel_shuffle(x, 2), (192, 1, 48, 8)),
    ],
)
def test_shuffles(shuffle, of_images):
    x = torch.arange(2 * 8 * 4 * 6.0).reshape(2, 8, 4, 6)
    made = shuffle(x.to(memory_format=torch.channels_last))
    assert made.stride() == of_images and torch.equal(made, shuffle(x))
    assert shuffle(x.mT.contiguous().mT).is_contiguous()


def test_factors_lie_in_columns():
    a = torch.tensor([[4.0, 1, 0], [1, 3, 1], [0, 1, 2]])
    b = torch.arange(6.0).reshape(3, 2)
    for made in (
        torch.linalg.inv(a),
        torch.linalg.cholesky(a),
        *torch.linalg.qr(a),
        torch.linalg.eigh(a)[1],
        torch.linalg.svd(a)[0],
        torch.linalg.svd(a)[2],
        torch.linalg.lu_factor(a)[0],
        torch.linalg.solve(a, b),
    ):
        assert made.stride() == (1, 3)
    assert torch.linalg.solve(a, b.T, left=False).stride() == (3, 1)
    assert torch.allclose(a @ torch.linalg.solve(a, b), b, atol=1e-5)


@pytest.mark.parametrize(
    ("operate", "shape", "strides", "expected"),
    [
        (lambda x: F.pad(x, (0, 0)), (3, 4), (1, 3), (1, 3)),
        (lambda x: F.pad(x, (-1, 0)), (3, 4), (1, 3), (1, 3)),
        (lambda x: F.pad(x, (-1, -1)), (1, 4), (4, 1), (4, 1)),
        (lambda x: F.pad(x, (-1, 1)), (3, 4), (1, 3), (4, 1)),
        (lambda x: x.isreal(), (0, 2), (3, 2), (3, 2)),
        (lambda x: x.isreal(), (3, 1), (1, 3), (1, 3)),
        (lambda x: (x + 0j).isreal(), (3, 2), (1, 3), (1, 3)),
        (lambda x: (x + 0j).angle(), (3, 2), (1, 3), (2, 1)),
        (lambda x: x.angle(), (3, 2), (1, 3), (1, 3)),
        (lambda x: x.rad2deg(), (2, 0), (1, 2), (1, 2)),
        (lambda x: x.masked_fill(x != 0, 2), (2, 1), (1, 2), (1, 1)),
        (lambda x: x.renorm(2, -1, 1.5), (0, 1), (1, 1), (1, 1)),
    ],
)
def test_strides_of_few_elements(operate, shape, strides, expected):
    x = torch.empty_strided(shape, strides).fill_(1)
    assert operate(x).stride() == expected


def test_results_lie_as_their_operators_lay_them():
    functional, at = torch.nn.functional, torch.tensor([0])
    x = torch.ones(2, 3, 4).permute(2, 0, 1)
    assert functional.rrelu(x).stride() == functional.rrelu(x, training=True).stride() == (6, 3, 1)
    assert functional.relu6(torch.ones(0, 3, 4).permute(2, 0, 1)).stride() == (1, 12, 4)
    for given in (torch.ones(1, 3, 1).permute(2, 0, 1), torch.ones(5, 3).t()[:, :1], torch.ones(0, 3, 4).permute(2, 0, 1)):
        assert given.index_fill(0, at, 2).stride() == given.clone().stride()
