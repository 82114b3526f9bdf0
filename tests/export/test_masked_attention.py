"""Attention with masks in exported and traced programs, also where PyTorch's layers take a fused kernel."""

from __future__ import annotations

import pytest

import flambeau as torch
import flambeau.nn.functional as F
from flambeau import nn
from flambeau.export import Dim, export

OPEN = {0: Dim.AUTO, 1: Dim.AUTO}


def padding(batch: int, length: int) -> torch.Tensor:
    """True for the last place of the first row, and for the whole second row."""
    mask = torch.zeros(batch, length, dtype=torch.bool)
    mask[0, -1] = True
    mask[1] = True
    return mask


class Masked(nn.Module):
    def __init__(self, norm_first: bool) -> None:
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, norm_first=norm_first, batch_first=True)
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, x, mask):
        x = self.layer(x, src_key_padding_mask=mask)
        return self.attention(x, x, x, key_padding_mask=mask, need_weights=False)[0]


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::flambeau.jit.TracerWarning")
@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("how", ["export", "trace"])
def test_layers_without_gradients(norm_first, how):
    torch.manual_seed(0)
    model = Masked(norm_first).eval().requires_grad_(False)
    x, mask = torch.randn(2, 4, 8), torch.zeros(2, 4, dtype=torch.bool)
    if how == "export":
        run = export(model, (x, mask), dynamic_shapes=(OPEN, OPEN)).module()
    else:
        run = torch.jit.trace(model, (x, mask), check_trace=False)
    x, mask = torch.randn(3, 6, 8), padding(3, 6)
    found = run(x, mask)
    assert found[1].isnan().all() and not found[0].isnan().any()
    torch.testing.assert_close(found, model(x, mask), equal_nan=True)


@pytest.mark.parametrize(("causal", "masked"), [(False, False), (True, False), (False, True)])
def test_heads_in_groups(causal, masked):
    class Grouped(nn.Module):
        def forward(self, query, key, mask=None):
            return F.scaled_dot_product_attention(query, key, key, mask, is_causal=causal, enable_gqa=True)

    def inputs(batch, rows, columns):
        found = torch.randn(batch, 4, rows, 8), torch.randn(batch, 2, columns, 8)
        return (*found, torch.randn(batch, 1, rows, columns) > -1) if masked else found

    shapes = [{0: Dim.AUTO, 2: Dim.AUTO}] * 2 + [{0: Dim.AUTO, 2: Dim.AUTO, 3: Dim.AUTO}] * masked
    program = export(Grouped(), inputs(2, 5, 6), dynamic_shapes=tuple(shapes))
    given = inputs(3, 4, 7)
    for run in (program.module(), program.run_decompositions().module()):
        torch.testing.assert_close(run(*given), Grouped()(*given), equal_nan=True)
