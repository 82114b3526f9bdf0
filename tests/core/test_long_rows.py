"""Rows so long, and so few, that threads share them: the results of one thread."""

import numpy as np
import pytest

import flambeau as torch
from flambeau.nn import functional as F


@pytest.fixture(params=[1, 2, 5])
def threads(request):
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


def numbers(*shape, dtype=np.float64):
    return (np.random.default_rng(len(shape)).standard_normal(shape) * 2 + 1).astype(dtype)


def close(made, wanted, tolerance=1e-9):
    np.testing.assert_allclose(made.detach().numpy(), wanted, rtol=tolerance, atol=tolerance)


def test_softmax_of_one_row(threads):
    x = numbers(200_003)
    leaf = torch.tensor(x, requires_grad=True)
    shares = np.exp(x - x.max()) / np.exp(x - x.max()).sum()
    made, log = leaf.softmax(0), leaf.log_softmax(0)
    close(made, shares, 1e-11)
    close(log, np.log(shares))
    upstream = numbers(200_003)[::-1].copy()
    made.backward(torch.tensor(upstream))
    close(leaf.grad, shares * (upstream - (shares * upstream).sum()), 1e-11)


@pytest.mark.parametrize("order", ["channels last", "channels first"])
def test_batch_norm_of_few_channels(threads, order):
    x = numbers(20_011, 5)
    weight, bias = np.arange(1.0, 6), np.arange(5.0)
    leaf = torch.tensor(x).requires_grad_() if order == "channels last" else torch.tensor(x.T.copy()).t().requires_grad_()
    mean, variance = torch.zeros(5, dtype=torch.float64), torch.ones(5, dtype=torch.float64)
    made = F.batch_norm(leaf, mean, variance, torch.tensor(weight), torch.tensor(bias), True, 0.5)
    normal = (x - x.mean(0)) / np.sqrt(x.var(0) + 1e-5)
    close(made, normal * weight + bias)
    close(mean, 0.5 * x.mean(0))
    close(variance, 0.5 + 0.5 * x.var(0, ddof=1))
    upstream = numbers(20_011, 5)[::-1].copy()
    made.backward(torch.tensor(upstream))
    g = upstream * weight
    close(leaf.grad, (g - g.mean(0) - normal * (g * normal).mean(0)) / np.sqrt(x.var(0) + 1e-5))


def test_layer_norm_of_two_planes(threads):
    x, weight = numbers(2, 301, 302), numbers(301, 302)
    leaf = torch.tensor(x, requires_grad=True)
    made = F.layer_norm(leaf, (301, 302), torch.tensor(weight))
    mean, deviation = x.mean((1, 2), keepdims=True), np.sqrt(x.var((1, 2), keepdims=True) + 1e-5)
    close(made, (x - mean) / deviation * weight)
    made.sum().backward()
    normal = (x - mean) / deviation
    close(leaf.grad, (weight - weight.mean() - normal * (normal * weight).mean((1, 2), keepdims=True)) / deviation)


def test_half_precision_and_empty_chunks(threads):
    x = numbers(70_001, dtype=np.float32)
    made = F.layer_norm(torch.tensor(x).bfloat16(), (70_001,)).float()
    rounded = torch.tensor(x).bfloat16().float().numpy().astype(np.float64)
    close(made, (rounded - rounded.mean()) / rounded.std(), 1e-2)
    x = numbers(3, 70_001)
    close(torch.tensor(x).t().softmax(0), np.exp(x.T) / np.exp(x.T).sum(0))


@pytest.mark.parametrize("offset", [0.0, 100.0, 1e5])
def test_norms_of_distant_numbers(offset):
    x = (numbers(64, 300) + offset).astype(np.float32)
    known = x.astype(np.float64)
    made = F.layer_norm(torch.tensor(x), (300,))
    wanted = (known - known.mean(1, keepdims=True)) / np.sqrt(known.var(1, keepdims=True) + 1e-5)
    close(made, wanted, 1e-5 + offset * 1e-7)
    columns = F.batch_norm(torch.tensor(x), None, None, training=True)
    close(columns, (known - known.mean(0)) / np.sqrt(known.var(0) + 1e-5), 1e-5 + offset * 1e-7)
    same = torch.full((3, 77), offset + 0.1, requires_grad=True)
    out, mean, scale = torch.native_layer_norm(same, (77,), None, None, 1e-5)
    assert not out.any() and mean.eq(same[:, :1]).all()
    close(scale, np.full((3, 1), 1e5**0.5), 1e-6)


def test_rows_side_by_side_prepare_what_they_share():
    x = numbers(3, 70, 40)
    leaf = torch.tensor(x, requires_grad=True)
    shares = np.exp(x) / np.exp(x).sum(1, keepdims=True)
    close(leaf.softmax(1), shares)
    made = leaf.log_softmax(1)
    close(made, np.log(shares))
    made[:, 3].sum().backward()
    wanted = -shares
    wanted[:, 3] += 1
    close(leaf.grad, wanted)
