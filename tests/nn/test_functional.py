"""torch.nn.functional: pooling, interpolation, dropout and attention against plain formulas, gradients against differences."""

import math
import warnings

import numpy as np
import pytest
from implementation import torch

F = torch.nn.functional


def windows(size, kernel, stride, pad, dilation=1):
    """Positions of each window of a one-dimensional pooling, those in the padding left out."""
    count = (size + 2 * pad - dilation * (kernel - 1) - 1) // stride + 1
    return [[p for k in range(kernel) if 0 <= (p := o * stride - pad + k * dilation) < size] for o in range(count)]


def pooled(x, kernel, stride, pad, reduce, dilation=1):
    rows, columns = (windows(x.shape[-2], kernel, stride, pad, dilation), windows(x.shape[-1], kernel, stride, pad, dilation))
    return np.stack([np.stack([reduce(x[..., r, :][..., c]) for c in columns], -1) for r in rows], -2)


def maximum(block):
    return block.max((-2, -1))


CASES = [(2, 2, 0, 1), (3, 2, 1, 1), (3, 1, 1, 1), (2, 2, 1, 1), (3, 2, 1, 2), (2, 3, 0, 1), (1, 1, 0, 1)]


@pytest.mark.parametrize(("kernel", "stride", "pad", "dilation"), CASES)
@pytest.mark.parametrize("size", [(8, 8), (7, 33), (9, 5)])
def test_max_pool2d(kernel, stride, pad, dilation, size):
    x = np.random.default_rng(0).standard_normal((2, 3, *size)).astype(np.float32)
    expected = pooled(x, kernel, stride, pad, maximum, dilation)
    given = torch.tensor(x)
    assert np.array_equal(F.max_pool2d(given, kernel, stride, pad, dilation).numpy(), expected)
    value, places = F.max_pool2d(given.requires_grad_(), kernel, stride, pad, dilation, return_indices=True)
    assert np.array_equal(value.detach().numpy(), expected)
    assert np.array_equal(
        np.take_along_axis(x.reshape(2, 3, -1), places.numpy().reshape(2, 3, -1), 2).reshape(expected.shape), expected
    )
    recorded = F.max_pool2d(given, kernel, stride, pad, dilation)
    assert type(recorded.grad_fn).__name__ == "MaxPool2DWithIndicesBackward0"
    g = torch.randn(*recorded.shape)
    (from_codes,), (from_places,) = torch.autograd.grad(recorded, given, g), torch.autograd.grad(value, given, g)
    assert np.allclose(from_codes.numpy(), from_places.numpy())
    expected_gradient = np.zeros((6, x.shape[2] * x.shape[3]), np.float32)
    np.add.at(expected_gradient, (np.arange(6)[:, None], places.numpy().reshape(6, -1)), g.numpy().reshape(6, -1))
    assert np.allclose(from_places.numpy().reshape(6, -1), expected_gradient, atol=1e-6)


def test_max_pool_keeps_nan_and_takes_the_first_of_equals():
    x = torch.tensor([[[1.0, 1.0, math.nan, 2.0], [1.0, 0.0, 5.0, math.nan]]])
    value, places = F.max_pool2d(x, 2, return_indices=True)
    assert value[0, 0, 0] == 1 and torch.isnan(value[0, 0, 1])
    assert places.tolist() == [[[0, 7]]]


@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16", "int32", "uint8", "int64"])
def test_max_pool2d_of_other_dtypes(dtype):
    x = torch.arange(2 * 6 * 10).reshape(1, 2, 6, 10).remainder(97).to(getattr(torch, dtype))
    assert F.max_pool2d(x, 2).dtype == x.dtype
    assert F.max_pool2d(x, 2).tolist() == F.max_pool2d(x.float(), 2).tolist()
    assert F.max_pool2d(x, 3, 2, 1).tolist() == F.max_pool2d(x.float(), 3, 2, 1).tolist()


@pytest.mark.parametrize(("kernel", "stride", "pad", "dilation"), [c for c in CASES if c[3] == 1])
def test_avg_pool2d(kernel, stride, pad, dilation):
    x = np.random.default_rng(1).standard_normal((2, 3, 7, 10))
    counted = pooled(x, kernel, stride, pad, lambda block: block.sum((-2, -1)) / kernel**2)
    inside = pooled(x, kernel, stride, pad, lambda block: block.mean((-2, -1)))
    given = torch.tensor(x)
    assert np.allclose(F.avg_pool2d(given, kernel, stride, pad).numpy(), counted)
    assert np.allclose(F.avg_pool2d(given, kernel, stride, pad, count_include_pad=False).numpy(), inside)
    assert np.allclose(F.avg_pool2d(given, kernel, stride, pad, divisor_override=1).numpy(), counted * kernel**2)


def test_channels_last_stays():
    x = torch.randn(2, 3, 8, 8)
    last = x.contiguous(memory_format=torch.channels_last)
    for function in (
        lambda t: F.max_pool2d(t, 2),
        lambda t: F.avg_pool2d(t, 3, 2),
        lambda t: F.adaptive_avg_pool2d(t, 3),
        lambda t: F.interpolate(t, scale_factor=2),
        lambda t: F.interpolate(t, 5, mode="bilinear"),
    ):
        made = function(last)
        assert made.is_contiguous(memory_format=torch.channels_last)
        assert torch.allclose(made, function(x))


def test_adaptive_pools():
    x = torch.randn(2, 3, 7, 10, dtype=torch.float64)
    parts = [[range(o * n // k, -(-(o + 1) * n // k)) for o in range(k)] for n, k in ((7, 3), (10, 4))]
    blocks = [[x[:, :, list(r)][..., list(c)] for c in parts[1]] for r in parts[0]]
    mean = torch.stack([torch.stack([b.mean((-2, -1)) for b in row], -1) for row in blocks], -2)
    largest = torch.stack([torch.stack([b.amax((-2, -1)) for b in row], -1) for row in blocks], -2)
    assert torch.allclose(F.adaptive_avg_pool2d(x, (3, 4)), mean)
    assert torch.allclose(F.adaptive_max_pool2d(x, (3, 4)), largest)
    assert torch.allclose(F.adaptive_avg_pool2d(x, 1), x.mean((-2, -1), keepdim=True))


FUNCTIONS = {
    "max_pool1d": (lambda x: F.max_pool1d(x, 3, 2, 1), (2, 2, 9)),
    "max_pool2d": (lambda x: F.max_pool2d(x, 2), (1, 2, 4, 6)),
    "max_pool2d 3x3": (lambda x: F.max_pool2d(x, 3, 2, 1), (1, 2, 5, 6)),
    "max_pool3d": (lambda x: F.max_pool3d(x, 2), (1, 1, 4, 4, 4)),
    "avg_pool2d": (lambda x: F.avg_pool2d(x, 3, 2, 1), (1, 2, 5, 6)),
    "avg_pool3d": (lambda x: F.avg_pool3d(x, 2), (1, 1, 4, 4, 4)),
    "adaptive_avg_pool2d": (lambda x: F.adaptive_avg_pool2d(x, (2, 3)), (1, 2, 5, 4)),
    "adaptive_max_pool2d": (lambda x: F.adaptive_max_pool2d(x, (2, 3)), (1, 2, 5, 4)),
    "lp_pool2d": (lambda x: F.lp_pool2d(x.abs() + 1, 2.0, 2), (1, 1, 4, 4)),
    "nearest": (lambda x: F.interpolate(x, scale_factor=2), (1, 1, 3, 3)),
    "bilinear": (lambda x: F.interpolate(x, (5, 4), mode="bilinear", align_corners=True), (1, 1, 3, 3)),
    "bicubic": (lambda x: F.interpolate(x, (5, 4), mode="bicubic"), (1, 1, 3, 3)),
    "antialias": (lambda x: F.interpolate(x, (3, 2), mode="bilinear", antialias=True), (1, 1, 6, 5)),
    "trilinear": (lambda x: F.interpolate(x, scale_factor=1.5, mode="trilinear"), (1, 1, 2, 3, 2)),
    "affine_grid": (lambda x: F.affine_grid(x, (2, 1, 3, 2), align_corners=False), (2, 2, 3)),
    "normalize": (lambda x: F.normalize(x), (3, 4)),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients(name):
    function, shape = FUNCTIONS[name]
    # distinct values far apart: the maximum does not change under gradcheck's steps
    x = torch.randperm(math.prod(shape)).reshape(shape).to(torch.float64).div(7).sub(1.3).requires_grad_()
    assert torch.autograd.gradcheck(function, (x,))
    assert torch.autograd.gradgradcheck(function, (x,))


@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
def test_grid_sample_gradients(mode, padding):
    x = torch.randn(1, 2, 4, 3, dtype=torch.float64, requires_grad=True)
    grid = (torch.rand(1, 2, 3, 2, dtype=torch.float64) * 2.4 - 1.2).requires_grad_()

    def look(a, b):
        return F.grid_sample(a, b, mode, padding, align_corners=False)

    assert torch.autograd.gradcheck(look, (x, grid))
    assert type(look(x, grid).grad_fn).__name__ == "GridSampler2DBackward0"


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_grid_sample_of_many_places(dtype):
    generator = np.random.default_rng(0)
    image, places = generator.standard_normal((2, 3, 6, 9)), generator.uniform(-1.3, 1.3, (2, 5, 8, 2)).round(3)
    places[0, 0, 0] = np.nan
    x, grid = (torch.tensor(a, dtype=getattr(torch, dtype)) for a in (image, places))
    found = F.grid_sample(x, grid, align_corners=True)
    image, places = x.double().numpy(), grid.double().numpy()
    expected = np.zeros((2, 3, 5, 8))
    for n, i, j in np.ndindex(2, 5, 8):
        if (n, i, j) == (0, 0, 0):
            expected[n, :, i, j] = np.nan
            continue
        across, down = (places[n, i, j] + 1) * (4, 2.5)
        for row, column in np.ndindex(6, 9):
            share = max(0, 1 - abs(down - row)) * max(0, 1 - abs(across - column))
            expected[n, :, i, j] += share * image[n, :, row, column]
    within = 2e-2 if dtype == "float16" else 1e-5
    assert found.dtype is x.dtype and np.allclose(found.double().numpy(), expected, atol=within, equal_nan=True)


def test_grid_sample_of_the_nearest_pixel_has_no_gradient_of_the_place():
    x, grid = torch.rand(1, 2, 4, 4, requires_grad=True), (torch.rand(1, 3, 3, 2) - 0.5).requires_grad_()
    F.grid_sample(x, grid, mode="nearest", align_corners=False).sum().backward()
    assert x.grad.sum() == 18 and not grid.grad.any()


def test_grid_sample_of_the_identity_is_the_image():
    x = torch.randn(2, 3, 5, 4)
    grid = F.affine_grid(torch.eye(2, 3).expand(2, 2, 3), (2, 3, 5, 4), align_corners=False)
    assert torch.allclose(F.grid_sample(x, grid, align_corners=False), x, atol=1e-5)


def test_unpool_inverts_pool():
    x = torch.randn(2, 3, 6, 8)
    value, places = F.max_pool2d(x, 2, return_indices=True)
    back = F.max_unpool2d(value, places, 2)
    assert torch.equal(back[back != 0].sort()[0], value.flatten().sort()[0])
    assert torch.equal(F.max_pool2d(back.abs(), 2), value.abs())
    with pytest.raises(RuntimeError, match="Found an invalid max index: 1000 "):
        F.max_unpool2d(value, places * 0 + 1000, 2)


def test_interpolate_values():
    x = torch.tensor([[[0.0, 1.0, 2.0, 3.0]]])
    assert F.interpolate(x, 8).tolist() == [[[0, 0, 1, 1, 2, 2, 3, 3]]]
    assert F.interpolate(x, 8, mode="linear").tolist() == [[[0, 0.25, 0.75, 1.25, 1.75, 2.25, 2.75, 3]]]
    assert F.interpolate(x, 7, mode="linear", align_corners=True).tolist() == [[[0, 0.5, 1, 1.5, 2, 2.5, 3]]]
    assert F.interpolate(x, 2, mode="area").tolist() == [[[0.5, 2.5]]]
    flat = torch.full((1, 1, 9, 70), 3.0)
    for mode in ("bilinear", "bicubic"):
        assert torch.allclose(F.interpolate(flat, (4, 33), mode=mode, antialias=True), torch.tensor(3.0))
        assert torch.allclose(F.interpolate(flat, (40, 133), mode=mode), torch.tensor(3.0))


def test_dropout():
    x = torch.randn(1000, requires_grad=True)
    assert F.dropout(x, 0.5, training=False) is x
    made = F.dropout(x, 0.25)
    kept = made != 0
    assert torch.allclose(made[kept], x[kept] / 0.75)
    assert 600 < kept.sum() < 900
    made.sum().backward()
    assert torch.allclose(x.grad, kept / 0.75)
    assert type(made.grad_fn).__name__ == "MulBackward0"
    again = x.detach().clone()
    assert F.dropout(again, 0.25, inplace=True) is again
    channels = F.dropout2d(torch.ones(4, 50, 3, 3), 0.5)
    assert set(channels.sum((2, 3)).unique().tolist()) == {0.0, 18.0}
    torch.manual_seed(5)
    first = F.dropout(torch.ones(64), 0.3)
    torch.manual_seed(5)
    assert torch.equal(first != 0, torch.empty(64).bernoulli_(0.7) != 0)


def test_alpha_dropout_keeps_mean_and_variance():
    made = F.alpha_dropout(torch.randn(200_000), 0.3, training=True)
    assert abs(float(made.mean())) < 0.02 and abs(float(made.var()) - 1) < 0.03


def plain_attention(q, k, v, mask, causal, scale):
    scores = q @ k.transpose(-2, -1) * scale
    if causal:
        scores = scores.masked_fill(~torch.ones(scores.shape[-2:]).tril().bool(), -math.inf)
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf) if mask.dtype == torch.bool else scores + mask
    return scores.softmax(-1).nan_to_num(0.0) @ v


ATTENTIONS = [(1, 1, 4), (1, 300, 64), (3, 70, 33), (5, 7, 8), (40, 40, 16), (17, 70, 33), (70, 17, 8), (115, 130, 70)]


@pytest.mark.parametrize(("rows", "columns", "width"), ATTENTIONS)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("masked", [None, "bool", "number"])
def test_attention(rows, columns, width, causal, masked):
    def make(n):
        return torch.randn(2, n, 3, width, dtype=torch.float64).transpose(1, 2).requires_grad_()

    q, k, v = make(rows), make(columns), make(columns)
    mask = {None: None, "bool": torch.rand(rows, columns) > 0.3, "number": torch.randn(2, 1, rows, columns, dtype=torch.float64)}[
        masked
    ]
    if masked == "bool":
        mask[0] = False  # a row in which nothing counts is zero
    made = F.scaled_dot_product_attention(q, k, v, mask, is_causal=causal)
    expected = plain_attention(q, k, v, mask, causal, width**-0.5)
    assert torch.allclose(made, expected)
    if masked != "bool":
        g = torch.randn(*made.shape, dtype=torch.float64)
        for ours, plain in zip(torch.autograd.grad(made, (q, k, v), g), torch.autograd.grad(expected, (q, k, v), g), strict=True):
            assert torch.allclose(ours, plain)


def test_attention_in_other_forms():
    q, k = torch.randn(2, 4, 6, 8), torch.randn(2, 2, 5, 8)
    shared = F.scaled_dot_product_attention(q, k, k, enable_gqa=True)
    spread = k.repeat_interleave(2, 1)
    assert torch.allclose(shared, plain_attention(q, spread, spread, None, False, 8**-0.5), atol=1e-5)
    assert torch.allclose(F.scaled_dot_product_attention(q[0, 0], spread[0, 0], spread[0, 0]), shared[0, 0], atol=1e-5)
    assert torch.allclose(
        F.scaled_dot_product_attention(q, spread, spread, scale=0.1),
        plain_attention(q, spread, spread, None, False, 0.1),
        atol=1e-5,
    )
    assert torch.equal(
        F.scaled_dot_product_attention(q, spread, spread, torch.zeros(6, 5, dtype=torch.bool)), torch.zeros(2, 4, 6, 8)
    )
    assert F.scaled_dot_product_attention(q, spread, spread, dropout_p=1.0).abs().max() == 0


@pytest.mark.parametrize("rows, heads, own", [(1, 16, 4), (3, 6, 2), (2, 4, 1), (2, 3, 3)])
@pytest.mark.parametrize("mask", [None, (1, 7), (2, 1, 1, 7), (2, 1, 3, 7), (1, 6, 1, 7)])
@pytest.mark.parametrize("number", [torch.float32, torch.bfloat16])
def test_heads_that_share_keys(rows, heads, own, mask, number):
    """As if each had its own; whatever the masks, the strides and whether gradients are wanted."""
    if mask is not None and (mask[-3:-2] not in ((), (1,), (heads,)) or mask[-2] not in (1, rows)):
        return
    q = torch.randn(2, rows, heads, 8).transpose(1, 2).to(number)
    k, v = (torch.randn(2, own, 9, 8).to(number)[:, :, :7] for _ in range(2))
    whole = [x.repeat_interleave(heads // own, 1) for x in (k, v)]
    for causal in (False, True):
        given = None if mask is None else torch.rand(mask) > 0.4
        given = given if given is None or rows == 1 else torch.zeros(mask).masked_fill(given, -3.0).to(number)
        wanted = F.scaled_dot_product_attention(q, *whole, given, is_causal=causal)
        with torch.no_grad():
            made = F.scaled_dot_product_attention(q, k, v, given, is_causal=causal, enable_gqa=True)
        recorded = F.scaled_dot_product_attention(q, k.detach().requires_grad_(), v, given, is_causal=causal, enable_gqa=True)
        for found in (made, recorded.detach()):
            assert found.stride() == wanted.stride()
            torch.testing.assert_close(found, wanted, atol=2e-2 if number is torch.bfloat16 else 1e-5, rtol=1e-2)


def test_gumbel_softmax():
    logits = torch.randn(5, 7, requires_grad=True)
    assert torch.allclose(F.gumbel_softmax(logits).sum(-1), torch.ones(5))
    hard = F.gumbel_softmax(logits, hard=True)
    assert torch.equal(hard.detach().round(), hard.detach().round().clamp(0, 1)) and torch.allclose(hard.sum(-1), torch.ones(5))
    hard[:, 0].sum().backward()
    assert logits.grad.abs().sum() > 0


X, Y, Z = "torch.randn(2, 4, 8, 8)", "torch.randn(2, 4, 8)", "torch.randn(2, 4, 8, 8, 8)"
ERRORS = [
    (f"F.max_pool2d({X}, 0)", RuntimeError, "stride should not be zero"),
    (
        f"F.max_pool2d({X}, 2, padding=2)",
        RuntimeError,
        "pad should be at most half of effective kernel size, but got pad=2, kernel_size=2 and dilation=1",
    ),
    (
        f"F.max_pool2d({X}, 20)",
        RuntimeError,
        "Given input size: (4x8x8). Calculated output size: (4x0x0). Output size is too small",
    ),
    (
        f"F.max_pool2d({X}, (1, 2, 3))",
        RuntimeError,
        "max_pool2d: kernel_size must either be a single int, or a tuple of two ints",
    ),
    (f"F.max_pool2d({X}, -1)", RuntimeError, "kernel size should be greater than zero, but got kH: -1 kW: -1"),
    (f"F.max_pool2d({X}.bool(), 2)", NotImplementedError, "\"max_pool2d\" not implemented for 'Bool'"),
    (f"F.max_pool1d({Y}, 20)", RuntimeError, "max_pool1d() Invalid computed output size: 0"),
    (f"F.avg_pool2d({X}.int(), 2)", NotImplementedError, "\"avg_pool2d\" not implemented for 'Int'"),
    (f"F.avg_pool2d({X}, 2, divisor_override=0)", RuntimeError, "divisor must be not zero"),
    (f"F.avg_pool3d({Z}, 20)", RuntimeError, "input image (T: 8 H: 8 W: 8) smaller than kernel size (kT: 20 kH: 20 kW: 20)"),
    (
        f"F.adaptive_avg_pool2d({X}, -1)",
        RuntimeError,
        "adaptive_avg_pool2d: elements of output_size must be greater than or equal to 0 but received {-1, -1}",
    ),
    (f"F.dropout({X}, 1.5)", ValueError, "dropout probability has to be between 0 and 1, but got 1.5"),
    (f"F.dropout({X}.long())", RuntimeError, "result type Float can't be cast to the desired output type Long"),
    (f"F.interpolate({X}, 4, 2.0)", ValueError, "only one of size or scale_factor should be defined"),
    (f"F.interpolate({X}, 4, mode='linear')", NotImplementedError, "Got 4D input, but linear mode needs 3D input"),
    (
        f"F.interpolate({X}, 0)",
        RuntimeError,
        "Input and output sizes should be greater than 0, but got input (H: 8, W: 8) output (H: 0, W: 0)",
    ),
    (
        f"F.grid_sample({X}, torch.rand(2, 3, 3, 3), align_corners=True)",
        RuntimeError,
        "grid_sampler(): expected grid to have size 2 in last dimension, but got grid with sizes [2, 3, 3, 3]",
    ),
    (
        "F.affine_grid(torch.rand(2, 3, 4), (2, 1, 3, 3), align_corners=True)",
        ValueError,
        "Expected a batch of 2D affine matrices of shape Nx2x3 for size (2, 1, 3, 3). Got torch.Size([2, 3, 4]).",
    ),
    (
        f"F.scaled_dot_product_attention({X}, {X}.double(), {X})",
        RuntimeError,
        "Expected query, key, and value to have the same dtype, but got query.dtype: float key.dtype: "
        "double and value.dtype: float instead.",
    ),
]


@pytest.mark.parametrize(("call", "kind", "words"), ERRORS, ids=[call[:50] for call, _, _ in ERRORS])
def test_errors(call, kind, words):
    with pytest.raises(kind) as caught:
        eval(call)
    assert str(caught.value).split("\n")[0] == words


def test_warnings():
    with pytest.warns(UserWarning, match="Received a 3D input to dropout2d"):
        F.dropout2d(torch.randn(2, 3, 4))
    with pytest.warns(UserWarning, match="Default grid_sample and affine_grid behavior"):
        F.affine_grid(torch.rand(1, 2, 3), (1, 1, 2, 2))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        F.dropout2d(torch.randn(2, 3, 4, 4))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_attention_of_narrow_numbers_is_computed_in_float32(dtype):
    """Without heads there is no fused kernel: products and softmax, whose rounded scores would spoil the gradients."""
    given = [(torch.arange(2 * 5 * 8, dtype=torch.float64) * (i + 0.7)).sin().mul(3).reshape(2, 5, 8).to(dtype) for i in range(3)]

    def gradients(wide):
        leaves = [x.to(wide).requires_grad_() for x in given]
        torch.nn.functional.scaled_dot_product_attention(*leaves, is_causal=True).sum().backward()
        return [leaf.grad.double() for leaf in leaves]

    for exact, made in zip(gradients(torch.float64), gradients(dtype)):
        assert (exact - made).abs().max() <= 0.01 * exact.abs().max()


@pytest.mark.parametrize(("place", "want"), [(-0.55, 1.515625), (0.33, 5.46875), (0.9, 7.5)])
def test_grid_sample_of_half_types_rounds_every_step_of_a_place(place, want):
    image = torch.arange(9.0, dtype=torch.bfloat16).reshape(1, 1, 1, 9)
    grid = torch.tensor([[[[place, 0.0]]]], dtype=torch.bfloat16)
    assert F.grid_sample(image, grid, align_corners=False).item() == want


@pytest.mark.parametrize("p", [1.0, 2.0, 3.5, math.inf])
def test_embedding_scales_rows_down_to_the_largest_norm(p):
    torch.manual_seed(0)
    for _ in range(5):
        weight = torch.rand(22, 5)
        expected = weight.double()
        length = torch.linalg.vector_norm(weight, p, 1, keepdim=True)
        expected = torch.where(length > 1, weight * (1 / (length.double() + 1e-7)).float(), weight)
        rows = F.embedding(torch.tensor([2, 8, 8, 6]), weight, max_norm=1.0, norm_type=p)
        assert rows.equal(expected[[2, 8, 8, 6]]) and weight[0].equal(weight[0])


@pytest.mark.parametrize("mode", ["sum", "mean"])
def test_the_last_bag_may_take_in_what_follows_the_last_offset(mode):
    weight = torch.arange(20.0).view(10, 2)
    arguments = {"mode": mode, "include_last_offset": True}
    indices, offsets = torch.tensor([6, 6, 6, 3]), torch.tensor([0, 3, 3])
    for table, padding, expected in ((weight, None, [0, 0]), (weight, 6, [6, 7]), (weight.double(), None, [6, 7])):
        assert F.embedding_bag(indices, table, offsets, padding_idx=padding, **arguments)[1].tolist() == expected


@pytest.mark.parametrize(
    ("mode", "zeros", "border"), [("bilinear", math.nan, 1.0), ("nearest", 0.0, 1.0), ("bicubic", math.nan, math.nan)]
)
@pytest.mark.parametrize("place", [math.inf, -math.inf, math.nan])
def test_grid_sample_at_infinite_places(mode, zeros, border, place):
    image, grid = torch.ones(1, 1, 3, 3), torch.full((1, 1, 1, 2), place)
    for padding, expected in (("zeros", zeros), ("border", border)):
        made = F.grid_sample(image, grid, mode=mode, padding_mode=padding, align_corners=False).item()
        assert made == expected or (math.isnan(made) and math.isnan(expected))


def test_arguments_that_were_taken_for_something_else():
    with pytest.raises(RuntimeError, match="eps must be non-negative, got: -1"):
        F.cosine_similarity(torch.ones(3, 3), torch.ones(3, 3), eps=-1)
    with pytest.raises(RuntimeError, match="kernel_size must either be a single Int or tuple of Ints"):
        F.fractional_max_pool2d(torch.ones(2, 3, 5, 5), (1,), output_size=2)
    with pytest.raises(RuntimeError, match=r"0D target tensor expects 1D input tensors, but found inputs with sizes \[2\] and"):
        F.cosine_embedding_loss(torch.ones(2), torch.ones(3, 2), torch.ones(()))
    with pytest.raises(TypeError, match="expected size to be one of int or"):
        F.interpolate(torch.zeros(1, 1, 4, 4), size=(1.5, 2.0))
    with pytest.warns(UserWarning, match="unit-size grids when align_corners=True"):
        F.affine_grid(torch.ones(1, 2, 3), [1, 1, 2, 1], align_corners=True)


def test_max_unpool_with_sizes_of_other_dimensions():
    x = torch.ones(1, 3, 1, 1, 1)
    places = torch.zeros(x.shape, dtype=torch.int64)
    with pytest.raises(RuntimeError, match=r"exactly three elements .* in output_size, but got 2 elements"):
        F.max_unpool3d(x, places, [1, 1])
    with pytest.raises(RuntimeError, match=r"exactly two elements .* in output_size, but got 1 elements"):
        F.max_unpool2d(x[0], places[0], [1])
    for arguments in ({"kernel_size": [1, 1, 1, 1]}, {"kernel_size": 1, "stride": [1, 1]}, {"kernel_size": 1, "padding": [1]}):
        with pytest.raises(IndexError):
            F.max_unpool3d(x, places, **arguments)


@pytest.mark.parametrize("padding", [4, -5])
def test_a_bag_has_no_padding_outside_the_table(padding):
    with pytest.raises(RuntimeError, match=rf"within the number of embeddings, -4 through 3, but got {padding}"):
        F.embedding_bag(torch.tensor([[1, 3, 2]]), torch.rand(4, 3), padding_idx=padding)


def test_a_sparse_gradient_keeps_its_indices():
    indices = torch.tensor([7, 1, 3])
    layer = torch.nn.Embedding(10, 3, sparse=True)
    layer(indices).sum().backward()
    indices[0] = 8
    assert layer.weight.grad._indices().tolist() == [[7, 1, 3]]


def test_embedding_scales_the_value_of_a_dual_tensor():
    weight, tangent = torch.full((4, 3), 2.0), torch.randn(4, 3)
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(weight, tangent)
        made = torch.autograd.forward_ad.unpack_dual(F.embedding(torch.tensor([0, 1]), dual, max_norm=0.5))
    assert made.tangent.equal(tangent[:2]) and torch.allclose(made.primal.norm(dim=1), torch.tensor(0.5))
    assert weight[0].equal(made.primal[0]) and weight[2].tolist() == [2, 2, 2]


def test_batch_norm_has_no_derivative_for_its_statistics():
    x, mean = torch.randn(3, 2, 5), torch.randn(2)
    with torch.autograd.forward_ad.dual_level():
        x, mean = (torch.autograd.forward_ad.make_dual(t, torch.ones_like(t)) for t in (x, mean))
        with pytest.raises(RuntimeError, match="batch_norm is not differentiable wrt running_mean and running_var"):
            F.batch_norm(x, mean, torch.ones(2))
    assert torch.nn.BatchNorm2d(3)(torch.ones(0, 3, 2, 2, dtype=torch.float64)).dtype is torch.float64


def test_interpolate_without_memory_makes_no_tables():
    made = F.interpolate(torch.empty(2 * 10**8, 3, 2 * 10**8, device="meta"), scale_factor=2)
    assert made.shape == (2 * 10**8, 3, 4 * 10**8) and made.device.type == "meta"
    x = torch.empty_strided((2, 4, 5, 6), (120, 1, 24, 4), device="meta", requires_grad=True)
    made = F.interpolate(x, scale_factor=2, mode="bilinear")
    assert made.stride() == (480, 1, 48, 4)
    made.sum().backward()
    assert x.grad.shape == x.shape


@pytest.mark.parametrize("name", ["logsigmoid", "binary_cross_entropy_with_logits"])
def test_second_derivatives_of_logarithms_of_sigmoids(name):
    x = torch.tensor([-200.0, -100.0, -1.0, 0.0, 1.0, 100.0, 200.0], requires_grad=True)
    value = F.logsigmoid(x) if name == "logsigmoid" else -F.binary_cross_entropy_with_logits(x, torch.zeros(7), reduction="sum")
    (first,) = torch.autograd.grad(value.sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x)
    sigmoid = x.detach().sigmoid()
    torch.testing.assert_close(second, -sigmoid * (1 - sigmoid))


def test_pdist_of_the_zeroth_norm_does_not_move():
    x = torch.randn(4, 5, dtype=torch.float64, requires_grad=True)
    made = F.pdist(x, 0.0)
    assert torch.autograd.grad(made.sum(), x, create_graph=True)[0].tolist() == [[0.0] * 5] * 4
    with pytest.raises(TypeError, match="expected size to be one of int or"):
        F.interpolate(torch.zeros(1, 1, 4, 4), size=(torch.tensor(2.0), 2))


def test_a_bias_of_another_dtype_is_added_where_rows_do_not_fold():
    x, weight, bias = torch.ones(2, 3, 4).double(), torch.ones(5, 4).double(), torch.ones(5).half()
    made = torch.nn.functional.linear(x.transpose(0, 1), weight, bias)
    assert (made.dtype, made.shape, made.unique().tolist()) == (torch.float64, (3, 2, 5), [5])
    with pytest.raises(RuntimeError, match="self and mat2 must have the same dtype, but got Half and Double"):
        torch.nn.functional.linear(x, weight, bias)


def test_empty_sequences_are_refused_before_their_lengths():
    for lengths in (torch.ones(2, 2), torch.tensor([1])):
        with pytest.raises(RuntimeError, match="Cannot pack empty tensors"):
            torch.nn.utils.rnn.pack_padded_sequence(torch.ones(0, 1, 2), lengths)
    with pytest.raises(RuntimeError, match="Empty tensor not supported"):
        torch.ops.aten._local_scalar_dense(torch.ones(0))
