"""Convolutions against NumPy in float64: every option in one to three dimensions, gradients, layouts, empty batches, errors."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from implementation import torch
from numpy.testing import assert_allclose

F = torch.nn.functional
RNG = np.random.default_rng(11)
FORWARD = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
TRANSPOSED = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}


def tensor(*shape: int, dtype: object = torch.float64, grad: bool = False) -> object:
    made = torch.tensor(RNG.standard_normal(shape)).to(dtype)
    return made.requires_grad_() if grad else made


def each(value: object, n: int) -> tuple[int, ...]:
    return (value,) * n if isinstance(value, int) else tuple(value)


def reference(x, w, b=None, stride=1, padding=0, dilation=1, groups=1):
    """The convolution by its definition: a sum over the kernel's taps of strided slices times weights."""
    n = x.ndim - 2
    stride, padding, dilation = each(stride, n), each(padding, n), each(dilation, n)
    x = np.pad(x, [(0, 0), (0, 0), *((p, p) for p in padding)])
    size = [(e - d * (k - 1) - 1) // s + 1 for e, k, s, d in zip(x.shape[2:], w.shape[2:], stride, dilation, strict=True)]
    out = np.zeros((x.shape[0], w.shape[0], *size), np.result_type(x, w))
    inputs, outputs = w.shape[1], w.shape[0] // groups
    for tap in product(*map(range, w.shape[2:])):
        window = tuple(slice(t * d, t * d + s * (e - 1) + 1, s) for t, d, s, e in zip(tap, dilation, stride, size, strict=True))
        for g in range(groups):
            part = x[(slice(None), slice(g * inputs, (g + 1) * inputs), *window)]
            weights = w[(slice(g * outputs, (g + 1) * outputs), slice(None), *tap)]
            out[:, g * outputs : (g + 1) * outputs] += np.einsum("nc...,oc->no...", part, weights)
    return out if b is None else out + b.reshape(-1, *(1,) * n)


def transposed_reference(x, w, b=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1):
    """The transposed convolution by its definition: each input is spread over the outputs its taps reach."""
    n = x.ndim - 2
    stride, padding, dilation, extra = (each(v, n) for v in (stride, padding, dilation, output_padding))
    full = [(e - 1) * s + d * (k - 1) + 1 for e, k, s, d in zip(x.shape[2:], w.shape[2:], stride, dilation, strict=True)]
    out = np.zeros((x.shape[0], w.shape[1] * groups, *(f + e for f, e in zip(full, extra, strict=True))))
    inputs, outputs = w.shape[0] // groups, w.shape[1]
    for tap in product(*map(range, w.shape[2:])):
        window = tuple(
            slice(t * d, t * d + s * (e - 1) + 1, s) for t, d, s, e in zip(tap, dilation, stride, x.shape[2:], strict=True)
        )
        for g in range(groups):
            own = slice(g * inputs, (g + 1) * inputs)
            part = np.einsum("nc...,co->no...", x[:, own], w[(own, slice(None), *tap)])
            out[(slice(None), slice(g * outputs, (g + 1) * outputs), *window)] += part
    out = out[(slice(None), slice(None), *(slice(p, e - p) for p, e in zip(padding, out.shape[2:], strict=True)))]
    return out if b is None else out + b.reshape(-1, *(1,) * n)


def close(actual: object, expected: np.ndarray, tolerance: float = 1e-12) -> None:
    actual = actual.detach()
    actual = actual.to(torch.complex128 if actual.is_complex() else torch.float64).numpy()
    assert actual.shape == expected.shape
    assert_allclose(actual, expected, rtol=tolerance, atol=tolerance * 10)


EXTENTS = {1: (11,), 2: (9, 7), 3: (5, 6, 7)}
KERNELS = {1: (3,), 2: (3, 2), 3: (2, 3, 3)}
OPTIONS = [
    {},
    {"stride": 2},
    {"padding": 1},
    {"dilation": 2},
    {"stride": 3, "padding": 2},
    {"stride": 2, "padding": 1, "dilation": 2},
    {"groups": 2, "padding": 1},
    {"groups": 4, "stride": 2},
]


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("bias", [False, True])
def test_forward(n, options, bias):
    groups = options.get("groups", 1)
    x, w = tensor(2, 4, *EXTENTS[n]), tensor(8, 4 // groups, *KERNELS[n])
    b = tensor(8) if bias else None
    close(FORWARD[n](x, w, b, **options), reference(x.numpy(), w.numpy(), b.numpy() if bias else None, **options))
    close(FORWARD[n](x[0], w, b, **options), reference(x.numpy(), w.numpy(), b.numpy() if bias else None, **options)[0])


TRANSPOSED_OPTIONS = [*OPTIONS, {"stride": 2, "output_padding": 1}, {"stride": 3, "padding": 1, "output_padding": 2, "groups": 2}]


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("options", TRANSPOSED_OPTIONS)
def test_transposed(n, options):
    groups = options.get("groups", 1)
    x, w, b = tensor(2, 4, *EXTENTS[n]), tensor(4, 6 // min(groups, 2), *KERNELS[n]), tensor(6 // min(groups, 2) * groups)
    close(TRANSPOSED[n](x, w, b, **options), transposed_reference(x.numpy(), w.numpy(), b.numpy(), **options))


@pytest.mark.parametrize(
    ("x", "w", "options"),
    [
        ((2, 3, 32, 33), (5, 3, 7, 7), {"stride": 2, "padding": 3}),
        ((1, 40, 14, 14), (37, 40, 3, 3), {"padding": 1}),
        ((3, 17, 9, 9), (33, 17, 1, 1), {}),
        ((2, 20, 30, 40), (20, 1, 3, 3), {"padding": 1, "groups": 20}),
        ((2, 6, 40, 70), (6, 1, 5, 5), {"padding": 2, "groups": 6, "stride": (1, 2)}),
        ((2, 3, 32, 32), (10, 3, 8, 8), {"stride": 8}),
        ((1, 300, 5, 5), (4, 300, 3, 3), {"padding": (0, 1)}),
        ((1, 2, 3, 200), (3, 2, 3, 9), {"dilation": (1, 7)}),
    ],
)
@pytest.mark.parametrize("order", ["contiguous", "channels last", "sliced"])
def test_sizes_and_layouts(x, w, options, order):
    w = tensor(*w)
    if order == "sliced":
        x = tensor(x[0], x[1], x[2] + 1, 2 * x[3])[:, :, 1:, ::2]
    elif order == "channels last":
        x = tensor(x[0], x[2], x[3], x[1]).permute(0, 3, 1, 2)
    else:
        x = tensor(*x)
    close(F.conv2d(x, w, **options), reference(x.numpy(), w.numpy(), **options))


@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 3e-6), ("float16", 3e-3), ("bfloat16", 3e-2)])
def test_dtypes(dtype, tolerance):
    x, w = tensor(2, 5, 12, 13).to(getattr(torch, dtype)), tensor(7, 5, 3, 3).to(getattr(torch, dtype))
    expected = reference(x.double().numpy(), w.double().numpy(), padding=1)
    close(F.conv2d(x, w, padding=1), expected, tolerance * 8)


def test_complex():
    x, w, b = (torch.complex(tensor(*s), tensor(*s)).requires_grad_() for s in ((2, 3, 6), (4, 3, 3), (4,)))
    close(F.conv1d(x, w, b, padding=1), reference(x.detach().numpy(), w.detach().numpy(), b.detach().numpy(), padding=1))
    assert torch.autograd.gradcheck(lambda x, w, b: F.conv1d(x[:1], w[:1], b[:1], stride=2), (x, w, b))


def test_padding_by_name():
    x, w = tensor(2, 3, 8, 9), tensor(4, 3, 3, 5)
    close(F.conv2d(x, w, padding="same", dilation=(2, 1)), reference(x.numpy(), w.numpy(), padding=(2, 2), dilation=(2, 1)))
    close(F.conv2d(x, w, padding="valid"), reference(x.numpy(), w.numpy()))
    even = tensor(2, 3, 4)
    wider = np.pad(x[:, :, 0].numpy(), [(0, 0), (0, 0), (1, 2)])
    close(F.conv1d(x[:, :, 0], even, padding="same"), reference(wider, even.numpy()))


def test_empty_batches():
    x = torch.zeros(0, 3, 5, 5, dtype=torch.float64, requires_grad=True)
    w = tensor(4, 3, 3, 3, grad=True)
    made = F.conv2d(x, w)
    assert made.shape == (0, 4, 3, 3)
    made.sum().backward()
    assert x.grad.shape == x.shape
    assert not w.grad.any()
    assert F.conv_transpose2d(x.detach(), tensor(3, 2, 3, 3)).shape == (0, 2, 7, 7)


GRADIENTS = [
    (1, (2, 2, 6), (3, 2, 3), {"padding": 1}, False),
    (1, (1, 4, 7), (4, 1, 3), {"stride": 2, "groups": 4}, False),
    (2, (1, 2, 5, 4), (2, 2, 3, 2), {"stride": 2, "padding": 1}, False),
    (2, (2, 2, 4, 4), (2, 1, 3, 3), {"padding": 1, "groups": 2}, False),
    (2, (1, 2, 5, 5), (3, 2, 2, 2), {"dilation": 2}, False),
    (2, (2, 3, 3, 4), (4, 3, 1, 1), {}, False),
    (3, (1, 1, 3, 3, 4), (2, 1, 2, 2, 2), {"stride": (1, 1, 2)}, False),
    (1, (1, 2, 5), (2, 3, 3), {"stride": 2, "output_padding": 1}, True),
    (2, (1, 2, 3, 3), (2, 2, 3, 3), {"stride": 2, "padding": 1}, True),
    (2, (1, 4, 3, 3), (4, 1, 2, 2), {"groups": 2, "dilation": 2}, True),
    (3, (1, 1, 2, 2, 3), (1, 2, 2, 2, 2), {"padding": 1}, True),
]


@pytest.mark.parametrize(("n", "x", "w", "options", "transposed"), GRADIENTS)
def test_gradients(n, x, w, options, transposed):
    outputs = w[1] * options.get("groups", 1) if transposed else w[0]
    operands = tensor(*x, grad=True), tensor(*w, grad=True), tensor(outputs, grad=True)
    function = (TRANSPOSED if transposed else FORWARD)[n]

    def call(x, w, b):
        return function(x, w, b, **options)

    assert torch.autograd.gradcheck(call, operands)
    assert torch.autograd.gradgradcheck(call, operands)


@pytest.mark.parametrize(
    ("x", "w", "options"),
    [
        ((2, 24, 20, 20), (40, 24, 3, 3), {"padding": 1}),
        ((2, 24, 21, 20), (40, 24, 3, 3), {"padding": 1, "stride": 2}),
        ((2, 36, 40, 17), (36, 1, 3, 3), {"padding": 1, "groups": 36}),
        ((2, 3, 32, 32), (20, 3, 8, 8), {"stride": 8}),
    ],
)
def test_gradients_of_larger_ones(x, w, options):
    """All convolutions are linear in both operands, so inner products tell whether gradients are adjoint to the forward."""
    x, w = tensor(*x, grad=True), tensor(*w, grad=True)
    y = F.conv2d(x, w, **options)
    g = tensor(*y.shape)
    gx, gw = torch.autograd.grad(y, (x, w), g)
    expected = float((y.detach() * g).sum())
    for gradient, operand in ((gx, x), (gw, w)):
        assert float((gradient * operand.detach()).sum()) == pytest.approx(expected, rel=1e-9, abs=1e-9)
    moved = tensor(*x.shape)
    assert float((gx * moved).sum()) == pytest.approx(float((F.conv2d(moved, w.detach(), **options) * g).sum()), abs=1e-8)
    moved = tensor(*w.shape)
    assert float((gw * moved).sum()) == pytest.approx(float((F.conv2d(x.detach(), moved, **options) * g).sum()), abs=1e-8)


def test_plans_follow_the_number_of_threads():
    before = torch.get_num_threads()
    x, w = tensor(3, 16, 40, 40), tensor(20, 16, 3, 3)
    depthwise = tensor(16, 1, 3, 3)
    expected = reference(x.numpy(), w.numpy(), padding=1)
    alone = reference(x.numpy(), depthwise.numpy(), padding=1, groups=16)
    try:
        for count in (1, 8, 2):
            torch.set_num_threads(count)
            for _ in range(5):
                close(F.conv2d(x, w, padding=1), expected)
                close(F.conv2d(x, depthwise, padding=1, groups=16), alone)
    finally:
        torch.set_num_threads(before)


def ones(*shape: int) -> object:
    return torch.ones(shape)


ERRORS = [
    (
        lambda: F.conv2d(ones(1, 3, 5, 5), ones(4, 2, 3, 3)),
        "Given groups=1, weight of size [4, 2, 3, 3], expected input[1, 3, 5, 5] to have 2 channels, but got 3 channels instead",
    ),
    (
        lambda: F.conv2d(ones(3, 5), ones(4, 3, 3, 3)),
        "Expected 3D (unbatched) or 4D (batched) input to conv2d, but got input of size: [3, 5]",
    ),
    (
        lambda: F.conv2d(ones(1, 3, 2, 2), ones(4, 3, 3, 3)),
        "Calculated padded input size per channel: (2 x 2). Kernel size: (3 x 3). Kernel size can't be greater than actual "
        "input size",
    ),
    (
        lambda: F.conv2d(ones(1, 4, 5, 5), ones(3, 2, 3, 3), groups=2),
        "Given groups=2, expected weight to be divisible by 2 at dimension 0, but got weight of size [[3, 2, 3, 3]] instead",
    ),
    (
        lambda: F.conv2d(ones(1, 3, 5, 5), ones(4, 3, 3, 3), ones(3)),
        "Given weight of size [4, 3, 3, 3], expected bias to be 1-dimensional with 4 elements, but got bias of size [3] instead",
    ),
    (lambda: F.conv2d(ones(1, 3, 5, 5), ones(4, 3, 3, 3), stride=0), "non-positive stride is not supported"),
    (lambda: F.conv2d(ones(1, 3, 5, 5), ones(4, 3, 3, 3), padding=-1), "negative padding is not supported"),
    (
        lambda: F.conv2d(ones(1, 3, 5, 5), ones(4, 3, 3, 3), padding="same", stride=2),
        "padding='same' is not supported for strided convolutions",
    ),
    (
        lambda: F.conv2d(ones(1, 3, 5, 5), ones(4, 3, 3, 3), stride=(1, 2, 3)),
        "expected stride to be a single integer value or a list of 2 values to match the convolution dimensions, but got "
        "stride=[1, 2, 3]",
    ),
    (lambda: F.conv2d(ones(1, 3, 5, 5), ones(4, 3, 3, 3).double()), "expected scalar type Float but found Double"),
    (
        lambda: F.conv2d(ones(1, 3, 5, 5), ones(4, 3, 3, 3), ones(4).double()),
        "Input type (float) and bias type (double) should be the same",
    ),
    (
        lambda: F.conv2d(ones(1, 3, 5, 5), ones(4, 3, 0, 3)),
        "kernel size should be greater than zero, but got kernel_height: 0 kernel_width: 3",
    ),
    (
        lambda: F.conv_transpose1d(ones(1, 3, 5), ones(3, 2, 3), output_padding=1),
        "output padding must be smaller than either stride or dilation, but got output_padding_height: 0 output_padding_width: 1 "
        "stride_height: 1 stride_width: 1 dilation_height: 1 dilation_width: 1",
    ),
    (
        lambda: F.conv_transpose2d(ones(1, 3, 5, 5), ones(3, 2, 3, 3), padding=5),
        "Given input size per channel: (5 x 5). Calculated output size per channel: (-3 x -3). Output size is too small",
    ),
]


@pytest.mark.parametrize("case", range(len(ERRORS)))
def test_errors(case):
    call, words = ERRORS[case]
    with pytest.raises(RuntimeError) as caught:
        call()
    assert str(caught.value).split("\n")[0] == words


def test_second_derivative_of_a_transposed_convolution_with_output_padding():
    def leaf(*shape):
        return torch.arange(torch.Size(shape).numel(), dtype=torch.float64).mul(0.7).sin().reshape(shape).requires_grad_()

    given = (leaf(1, 2, 3, 3), leaf(2, 2, 2, 2), leaf(2))
    assert torch.autograd.gradgradcheck(
        lambda x, w, b: torch.nn.functional.conv_transpose2d(x, w, b, stride=2, padding=1, output_padding=(0, 1)), given
    )


def test_winograd_s_form_can_be_refused():
    x, w = torch.randn(2, 32, 20, 20), torch.randn(32, 32, 3, 3)
    found = {}
    before = torch.get_winograd()
    try:
        for when in ("always", "never", "always"):
            torch.set_winograd(when)
            assert torch.get_winograd() == when
            found.setdefault(when, []).append(F.conv2d(x, w, padding=1))
        with pytest.raises(ValueError, match="expected one of auto, always, never, got 'sometimes'"):
            torch.set_winograd("sometimes")
    finally:
        torch.set_winograd(before)
    assert torch.equal(*found["always"]) and not torch.equal(found["always"][0], found["never"][0])
    torch.testing.assert_close(found["always"][0], found["never"][0], rtol=1e-4, atol=1e-4)
