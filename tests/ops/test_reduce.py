"""Reductions, extrema, variances, norms and order statistics: values against NumPy, gradients of both orders, dtypes, errors."""

from __future__ import annotations

import math

import numpy as np
import pytest

import flambeau as torch
from flambeau.autograd import gradcheck, gradgradcheck

RANDOM = np.random.default_rng(0)
SHAPES = [(5,), (3, 4), (2, 3, 4), ()]


def sample(*shape, dtype=torch.float64, grad=False):
    """Normally distributed numbers."""
    made = torch.tensor(RANDOM.standard_normal(shape).tolist(), dtype=dtype).reshape(shape)
    return made.requires_grad_() if grad else made


def close(result, expected, rtol=1e-6, atol=1e-7):
    """Assert that a tensor holds the expected values, in their shape."""
    expected = np.asarray(expected)
    assert tuple(result.shape) == expected.shape
    np.testing.assert_allclose(result.detach().numpy(), expected, rtol=rtol, atol=atol)


@pytest.mark.parametrize("name", ["sum", "mean", "prod", "amax", "amin", "all", "any", "var", "std"])
@pytest.mark.parametrize("shape", SHAPES)
def test_values(name, shape):
    x = sample(*shape)
    array = x.numpy()
    reference = {
        "amax": np.max,
        "amin": np.min,
        "var": lambda a, **k: np.var(a, ddof=1, **k),
        "std": lambda a, **k: np.std(a, ddof=1, **k),
    }.get(name) or getattr(np, name)
    function = getattr(torch, name)
    if shape or name not in ("var", "std"):
        close(function(x), reference(array))
    for dim in range(-len(shape), len(shape)):
        close(function(x, dim), reference(array, axis=dim))
        close(getattr(x, name)(dim=dim, keepdim=True), reference(array, axis=dim, keepdims=True))
        close(function(x, axis=dim), reference(array, axis=dim))
    if len(shape) == 3 and name not in ("prod",):
        close(function(x, (0, 2)), reference(array, axis=(0, 2)))
        close(function(x.transpose(0, 2), (0, 1)), reference(array.transpose(2, 1, 0), axis=(0, 1)))


@pytest.mark.parametrize("shape", [(100_000,), (3, 70_000), (70_000, 3), (5000, 40), (300, 300)])
def test_long_sums_are_accurate(shape):
    array = RANDOM.standard_normal(shape).astype(np.float32)
    x = torch.from_numpy(array)
    exact = array.astype(np.float64)
    for dim in (None, *range(len(shape))):
        close(x.sum(dim), exact.sum(dim).astype(np.float32), rtol=2e-7, atol=1e-6)
        close(x.var(dim), exact.var(dim, ddof=1), rtol=1e-5)
        assert np.array_equal(x.argmax(dim).numpy(), array.argmax(dim))
    close(x.norm(), np.sqrt((exact**2).sum()), rtol=1e-6)
    assert x.amax().item() == array.max() and x.min().item() == array.min()


def test_dtypes():
    assert torch.tensor([1, 2], dtype=torch.int32).sum().dtype is torch.int64
    assert torch.tensor([True, True]).sum().item() == 2
    assert torch.tensor([1, 2]).sum(dtype=torch.float32).dtype is torch.float32
    assert torch.tensor([200, 100], dtype=torch.uint8).amax().dtype is torch.uint8
    assert torch.tensor([1, 0], dtype=torch.uint8).all().dtype is torch.uint8
    assert torch.tensor([1, 0]).all().dtype is torch.bool
    close(torch.tensor([1 + 2j, 3 - 1j]).sum(), 4 + 1j)
    half = torch.ones(3000, dtype=torch.float16)
    assert half.sum().item() == 3000 and half.mean().dtype is torch.float16


def test_extremes_with_places():
    x = torch.tensor([[1.0, 3, 3, 2], [5, 5, 0, 1]])
    result = x.max(1)
    assert type(result).__name__ == "max" and repr(result).startswith("torch.return_types.max(\nvalues=tensor([3., 5.])")
    assert result.values.tolist() == [3, 5] and result.indices.tolist() == [1, 0]
    assert x.min(dim=0, keepdim=True)[1].tolist() == [[0, 0, 1, 1]]
    assert torch.max(x, x * 0 + 2).tolist() == [[2, 3, 3, 2], [5, 5, 2, 2]]
    nan = torch.tensor([1.0, math.nan, 7, math.nan])
    assert nan.argmax().item() == 1 and math.isnan(nan.amax().item()) and nan.min(0)[1].item() == 1
    low, high = torch.aminmax(x, dim=0)
    assert low.tolist() == [1, 3, 0, 1] and high.tolist() == [5, 5, 3, 2]
    x.requires_grad_()
    x.amax(1).sum().backward()
    assert x.grad.tolist() == [[0, 0.5, 0.5, 0], [0.5, 0.5, 0, 0]]
    x.grad = None
    x.max(1)[0].sum().backward()
    assert x.grad.tolist() == [[0, 1, 0, 0], [1, 0, 0, 0]]
    x.grad = None
    x.max().backward()
    assert x.grad.tolist() == [[0, 0, 0, 0], [0.5, 0.5, 0, 0]]


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.sum(0),
        lambda x: x.mean((0, 1)),
        lambda x: x.prod(),
        lambda x: x.prod(1),
        lambda x: x.var(1),
        lambda x: x.std(),
        lambda x: x.norm(),
        lambda x: x.norm(3, dim=0),
        lambda x: x.norm(1),
        lambda x: x.logsumexp(1),
        lambda x: x.amax(0),
        lambda x: x.max(1)[0],
        lambda x: torch.var_mean(x, 0)[0],
        lambda x: x.nansum(0),
        lambda x: x.median(1)[0],
        lambda x: x.quantile(0.3),
        lambda x: x.trace(),
        lambda x: x.cumsum(1),
        lambda x: x.cumprod(0),
        lambda x: x.logcumsumexp(1),
        lambda x: x.cummax(0)[0],
        lambda x: x.diff(),
        lambda x: x.renorm(2, 0, 1.0),
    ],
)
def test_gradients(function):
    assert gradcheck(function, sample(3, 4, grad=True))
    assert gradgradcheck(function, sample(3, 4, grad=True))


def test_product_gradient_with_zeros():
    for zeros in ((0,), (0, 2)):
        x = sample(4).detach()
        for i in zeros:
            x[i] = 0
        assert gradcheck(lambda x: x.prod(), x.requires_grad_())
        assert gradcheck(lambda x: x.cumprod(0), x)


def test_node_names():
    x = sample(2, 3, grad=True)
    names = {
        x.sum(): "SumBackward0",
        x.sum(0): "SumBackward1",
        x.mean(): "MeanBackward0",
        x.mean(1): "MeanBackward1",
        x.max(): "MaxBackward1",
        x.max(0)[0]: "MaxBackward0",
        x.amax(): "AmaxBackward0",
        x.prod(0): "ProdBackward1",
        x.var(): "VarBackward0",
        x.norm(): "LinalgVectorNormBackward0",
        x.cumsum(0): "CumsumBackward0",
    }
    for result, name in names.items():
        assert result.grad_fn.name() == name


def test_sum_gradient_is_a_view():
    x = sample(3, 4, grad=True)
    (grad,) = torch.autograd.grad(x.sum(), x)
    assert grad.stride() == (0, 0)


def test_scans():
    x = sample(3, 50)
    close(x.cumsum(1), x.numpy().cumsum(1))
    close(x.cumsum(0), x.numpy().cumsum(0))
    close(x.cumprod(1), x.numpy().cumprod(1))
    close(x.logcumsumexp(1), np.logaddexp.accumulate(x.numpy(), 1))
    assert torch.tensor([1.0, 3, 3, 2]).cummax(0)[1].tolist() == [0, 1, 2, 2]
    assert torch.tensor([True, True]).cumsum(0).dtype is torch.int64
    assert torch.tensor([1, 4, 9, 16]).diff(n=2).tolist() == [2, 2]


def test_order_statistics():
    x = torch.tensor([[3.0, 1, 2, 2], [math.nan, 5, 5, 4]])
    assert x[0].median().item() == 2 and math.isnan(x.median().item()) and x.nanmedian().item() == 3
    values, places = x.mode(1)
    assert values.tolist() == [2, 5] and places.tolist() == [3, 2]
    close(x[0].quantile(torch.tensor([0.25, 0.5])), np.quantile(x[0].numpy(), [0.25, 0.5]))
    close(x.nanquantile(0.5, dim=1), [2, 5])


def test_out_and_empty():
    x = sample(3, 4, dtype=torch.float32)
    out = torch.empty(4)
    assert torch.sum(x, 0, out=out) is out
    close(out, x.numpy().sum(0))
    assert (
        torch.zeros(0).sum().item() == 0 and math.isnan(torch.zeros(0).mean().item()) and torch.zeros(0, 3).amax(1).shape == (0,)
    )
    assert torch.zeros(0, 3).sum(0).tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    ("call", "kind", "words"),
    [
        (
            lambda: torch.zeros(0).max(),
            RuntimeError,
            "max(): Expected reduction dim to be specified for input.numel() == "
            "0. Specify the "
            "reduction dim with the 'dim' argument.",
        ),
        (lambda: torch.zeros(0, 2).argmax(0), IndexError, "argmax(): Expected reduction dim 0 to have non-zero size."),
        (lambda: torch.zeros(2, 3).sum((0, -2)), RuntimeError, "dim 0 appears multiple times in the list of dims"),
        (lambda: torch.zeros(2).sum(1), IndexError, "Dimension out of range (expected to be in range of [-1, 0], but got 1)"),
        (
            lambda: torch.tensor([1]).mean(),
            RuntimeError,
            "mean(): could not infer output dtype. Input dtype must be either a floating point or complex dtype. Got: Long",
        ),
        (lambda: torch.tensor([1]).var(), RuntimeError, "std and var only support floating point and complex dtypes"),
        (lambda: torch.tensor([True]).argmax(), RuntimeError, "argmax(): does not support bool input"),
    ],
)
def test_errors(call, kind, words):
    with pytest.raises(kind) as caught:
        call()
    assert str(caught.value) == words


@pytest.mark.parametrize("name", ["var", "std", "var_mean", "std_mean"])
@pytest.mark.parametrize("keepdim", [False, True])
def test_gradients_of_variances_of_nothing(name, keepdim):
    x = torch.zeros(2, 0, requires_grad=True)
    made = getattr(torch, name)(x, 1, keepdim=keepdim)
    made = made[0] if isinstance(made, tuple) else made
    assert torch.autograd.grad(made.sum(), x)[0].shape == (2, 0)
