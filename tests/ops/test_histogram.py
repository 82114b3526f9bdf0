"""histc, histogram, histogramdd and bincount: against NumPy, on edges of bins, and refusals."""

from __future__ import annotations

import math

import numpy as np
import pytest

import flambeau as torch
from flambeau.codegen.ordering import compact


def test_histograms():
    rng = np.random.default_rng(0)
    x, weight = rng.standard_normal(200), rng.uniform(0, 1, 200)
    for options in ({"bins": 10}, {"bins": 3, "range": (-1.0, 1.0)}, {"bins": np.array([-1.0, 0, 0.5, 2])}):
        for extra in ({}, {"density": True}, {"weights": weight}):
            want, edges = np.histogram(x, **options, **extra)
            given = {"weight" if k == "weights" else k: v for k, v in (options | extra).items()}
            given = {k: torch.from_numpy(v) if isinstance(v, np.ndarray) else v for k, v in given.items()}
            got = torch.histogram(torch.from_numpy(x), **given)
            np.testing.assert_allclose(got.hist.numpy(), want, rtol=1e-13)
            np.testing.assert_allclose(got.bin_edges.numpy(), edges, rtol=1e-13, atol=1e-15)
    got = torch.histogram(torch.tensor([0.0, 1.0, math.nan, 0.5]), 4, range=(0.0, 1.0))
    assert got.hist.tolist() == [1.0, 0.0, 1.0, 1.0]
    points = rng.standard_normal((50, 2))
    for extra in ({}, {"density": True}):
        want, _ = np.histogramdd(points, [3, 4], **extra)
        np.testing.assert_allclose(torch.histogramdd(torch.from_numpy(points), [3, 4], **extra).hist.numpy(), want, rtol=1e-13)


def test_bincount_in_one_and_in_several_parts():
    rng = np.random.default_rng(0)
    for n in (1, 100, 50_000):
        x, weight = rng.integers(0, 40, n), rng.uniform(0, 1, n)
        t = torch.from_numpy(x)
        assert torch.bincount(t, minlength=50).tolist() == np.bincount(x, minlength=50).tolist()
        assert torch.bincount(t.to(torch.uint8)).dtype is torch.int64
        got = torch.bincount(t, torch.from_numpy(weight))
        assert got.dtype is torch.float64 and np.array_equal(got.numpy(), np.bincount(x, weight))  # added in order
        assert torch.bincount(t, torch.from_numpy(weight).float()).dtype is torch.float32
    assert torch.bincount(torch.empty(0, dtype=torch.int64), minlength=2).tolist() == [0, 0]


# bins, low, high, and what PyTorch counts of the bins' own edges
HISTC = [
    (7, 0.0, 1.0, [1.0, 1.0, 1.0, 2.0, 0.0, 1.0, 2.0]),
    (5, 0.3, 0.9, [1.0, 2.0, 1.0, 0.0, 2.0]),
    (6, 0.1, 1.4, [1.0, 1.0, 1.0, 1.0, 1.0, 2.0]),
    (10, -1.0, 1.0, [2.0, 1.0, 0.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 2.0]),
]


def test_histc_rounds_as_pytorch_does_on_edges():
    """Edges of float32 bins lie a rounding error beside the true ones: which bin they fall into is the formula's business."""
    for bins, low, high, want in HISTC:
        assert torch.histc(torch.linspace(low, high, bins + 1), bins, low, high).tolist() == want


def test_histogram_holds_every_edge_in_the_bin_above_it():
    for bins, low, high, _ in HISTC:
        x = torch.linspace(low, high, bins + 1)
        assert torch.histogram(x, bins, range=(low, high)).hist.tolist() == [1.0] * (bins - 1) + [2.0]
        assert torch.histogram(x, x).hist.tolist() == [1.0] * (bins - 1) + [2.0]


def test_histogramdd_by_edges_and_weights():
    rng = np.random.default_rng(0)
    points, weight = rng.standard_normal((30, 2, 3)), rng.uniform(0, 1, (30, 2))
    edges = [np.sort(rng.standard_normal(n)) for n in (4, 2, 6)]
    want, _ = np.histogramdd(points.reshape(-1, 3), edges, weights=weight.reshape(-1))
    got = torch.histogramdd(torch.from_numpy(points), [torch.from_numpy(e) for e in edges], weight=torch.from_numpy(weight))
    np.testing.assert_allclose(got.hist.numpy(), want, rtol=1e-13)
    assert torch.histogramdd(torch.rand(0, 2), 2).hist.tolist() == [[0.0, 0.0], [0.0, 0.0]]


REFUSALS = [
    (lambda x: torch.histc(x, 0), RuntimeError, "bins must be > 0, but got 0"),
    (lambda x: torch.histc(x, 4, min=2, max=1), RuntimeError, "max must be larger than min"),
    (lambda x: torch.histc(x, 4, min=math.inf, max=1), RuntimeError, r"torch.histc: range of \[inf, 1\] is not finite"),
    (lambda x: torch.histc(x.long()), NotImplementedError, "\"histogram_cpu\" not implemented for 'Long'"),
    (lambda x: torch.histogram(x.long(), 2), NotImplementedError, "\"histogramdd\" not implemented for 'Long'"),
    (lambda x: torch.histogram(x, 2, range=(0.0,)), RuntimeError, "range should have 2 elements, but got 1"),
    (lambda x: torch.histogram(x, 2, range=(3, 1)), RuntimeError, "min should not exceed max, but got min 3 max 1"),
    (lambda x: torch.histogram(x * math.nan, 2), RuntimeError, r"dimension 0's range \[nan, nan\] is not finite"),
    (lambda x: torch.histogram(x, x.double()), RuntimeError, "with dtype float and bins for dimension 0 with dtype double"),
    (lambda x: torch.histogram(x, x.reshape(3, 1)), RuntimeError, "should have one dimension, but got 2"),
    (lambda x: torch.histogram(x, 2, weight=x.double()), RuntimeError, r"got input\(float\), and weight\(double\)"),
    (lambda x: torch.histogram(x, 2, weight=x[:2]), RuntimeError, r"input with shape \[3, 1\] and weight with shape \[2\]"),
    (lambda x: torch.histogram(x, 1.5), TypeError, r"histogram\(\) received an invalid combination of arguments"),
    (lambda x: torch.histogramdd(x, 2), RuntimeError, "input tensor should have at least 2 dimensions"),
    (lambda x: torch.histogramdd(x.reshape(1, 3), [2]), RuntimeError, "size of bins must be equal to the innermost"),
    (lambda x: torch.bincount(-x.long()), RuntimeError, "only supports 1-d non-negative"),
    (lambda x: torch.bincount(x.long(), x[:2]), RuntimeError, "weights should be 1-d and have the same length"),
]


@pytest.mark.parametrize(("call", "error", "words"), REFUSALS)
def test_refusals(call, error, words):
    with pytest.raises(error, match=words):
        call(torch.tensor([1.0, 2.0, 3.0]))


def test_positions_are_within_bounds_if_the_elements_changed_since_they_were_counted():
    """What another thread may do between the two kernels, done by hand: 3 counted, 1000 found."""
    few, many = torch.zeros(1000, dtype=torch.bool), torch.ones(1000, dtype=torch.bool)
    few[:3] = True
    counts = torch.empty(2, dtype=torch.int64)._layout
    starts = compact.counting_plan(few._layout, counts, False)(None, few)
    assert starts.tolist() == [0, 3]
    room = torch.full((2000,), -7)
    write = compact.writing_plan(few._layout, counts, room[:3]._layout, 1, False)
    assert write(room[:3], many, starts).tolist() == [0, 1, 2]
    assert (room[3:] == -7).all()
