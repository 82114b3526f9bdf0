"""Queries that may look at no key: nan where PyTorch takes its fused kernels, 0 or what a softmax of -inf gives elsewhere."""

from __future__ import annotations

import pytest

import flambeau as torch
from flambeau import nn

NOBODY = torch.tensor([[False, False, True], [True, True, True]])


@pytest.mark.parametrize("norm_first", [False, True])
def test_an_encoder_layer_in_evaluation(norm_first: bool) -> None:
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, norm_first=norm_first).eval()
    x = torch.randn(2, 3, 8)
    recorded = layer(x, src_key_padding_mask=NOBODY)
    with torch.no_grad():
        made = layer(x, src_key_padding_mask=NOBODY)
    assert made[1].isnan().all() and not recorded.isnan().any()
    torch.testing.assert_close(made[0], recorded[0])


def test_the_fused_layer_hides_by_every_number_but_zero() -> None:
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()
    x, mask = torch.randn(2, 3, 8), torch.tensor([[0.0, 1.0, 0.0], [0.5, 0.0, 2.0], [0.0, 0.0, 0.0]])
    with torch.no_grad():
        assert layer(x, src_mask=mask).equal(layer(x, src_mask=mask != 0))
    assert not layer(x, src_mask=mask).allclose(layer(x, src_mask=mask != 0))


def test_an_encoder_clears_padded_positions() -> None:
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    with torch.no_grad():
        made = nn.TransformerEncoder(layer, 2).eval()(torch.randn(2, 3, 8), src_key_padding_mask=NOBODY)
    assert not made.isnan().any() and made[1].eq(0).all() and made[0, 2].eq(0).all() and made[0, 0].ne(0).any()


@pytest.mark.parametrize("mask", ["padding", "mask", "both"])
def test_attention_without_weights(mask: str) -> None:
    torch.manual_seed(0)
    attention = nn.MultiheadAttention(8, 2, batch_first=True).eval()
    x = torch.randn(2, 3, 8)
    masks = {"attn_mask": torch.tensor([[True] * 3, [False] * 3, [False] * 3]), "key_padding_mask": NOBODY}
    masks = {name: value for name, value in masks.items() if mask in (name.split("_")[1], "both")}
    expected = attention(x, x, x, need_weights=False, **masks)[0]
    with torch.no_grad():
        made = attention(x, x, x, need_weights=False, **masks)[0]
        assert not attention(x, x.clone(), x, need_weights=False, **masks)[0].isnan().any()
    hidden = torch.zeros(2, 3, dtype=torch.bool)
    hidden[:, 0] |= mask != "padding"
    hidden[1] |= mask != "mask"
    assert made.isnan().all(-1).equal(hidden) and not expected.isnan().any()
    torch.testing.assert_close(made[~hidden], expected[~hidden])
