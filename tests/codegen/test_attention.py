"""The attention kernel's two forms, which the number of heads to a thread decides between, against the plain formula."""

import math

import pytest

import flambeau as torch
from flambeau.codegen.attention import forward

F = torch.nn.functional


@pytest.mark.parametrize(("heads", "rows"), [(0, 115), (1 << 20, 116)], ids=["a task is a head", "a task is a block of rows"])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("laid_out", ["by head", "by position"])
def test_both_forms(heads, rows, causal, laid_out, monkeypatch):
    monkeypatch.setattr(forward, "HEADS", heads)

    def make(n):
        if laid_out == "by head":
            return torch.randn(2, 3, n, 20, dtype=torch.float64)
        return torch.randn(2, n, 3, 20, dtype=torch.float64).transpose(1, 2)

    q, k, v = make(rows), make(130), make(130)
    scores = q @ k.transpose(-2, -1) / math.sqrt(20)
    if causal:
        scores = scores.masked_fill(~torch.ones(rows, 130).tril().bool(), -math.inf)
    assert torch.allclose(F.scaled_dot_product_attention(q, k, v, is_causal=causal), scores.softmax(-1) @ v)
