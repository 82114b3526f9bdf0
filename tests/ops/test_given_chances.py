"""Samples by given chances, drawn by kernels from the default generator's stream; the values are PyTorch 2.13's."""

from __future__ import annotations

import pytest

import flambeau as torch

WEIGHTS = [[1.0, 2.0, 3.0, 4.0], [5.0, 0.0, 1.0, 0.0]]
SINGLE = [[0.0, 0.0, 1.0, 1.0], [1.0, 0.0, 0.0, 0.0]], 0.441367506980896
DOUBLE = [[0.0, 0.0, 1.0, 0.0], [1.0, 0.0, 0.0, 0.0]], 0.6679388284683228


@pytest.mark.parametrize(("dtype", "trials", "after"), [("float32", *SINGLE), ("float64", *DOUBLE), ("bfloat16", *SINGLE)])
def test_values(dtype, trials, after):
    weights = torch.tensor(WEIGHTS, dtype=getattr(torch, dtype))
    torch.manual_seed(7)
    assert torch.multinomial(weights, 5, True).tolist() == [[1, 1, 3, 3, 3], [2, 0, 0, 0, 0]]
    assert torch.multinomial(weights, 2).tolist() == [[3, 1], [2, 0]]
    assert torch.multinomial(weights, 1).tolist() == [[0], [0]]
    assert torch.bernoulli(weights / 5).tolist() == trials
    assert torch.rand(1).item() == after


@pytest.mark.parametrize(
    ("weights", "words"),
    [
        ([1.0, -1.0], "encountering probability entry < 0"),
        ([float("nan"), 1.0], "encountering probability entry < 0"),
        ([float("inf"), 1.0], "encountering probability entry = infinity or NaN"),
        ([0.0, 0.0], "sum of probabilities <= 0"),
    ],
)
def test_refused_weights(weights, words):
    state = torch.get_rng_state()
    with pytest.raises(RuntimeError, match=f"invalid multinomial distribution \\({words}\\)"):
        torch.multinomial(torch.tensor(weights), 2, True)
    assert torch.equal(torch.get_rng_state(), state)
