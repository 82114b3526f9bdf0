"""torch._C._nn: losses with their reduction as a number, padding, sizes for upsampling; a layer of a transformer in one call.
Values were recorded from PyTorch."""

import pytest

import flambeau as torch
from flambeau import _C

X, Y = torch.tensor([0.2, 0.7]), torch.tensor([0.0, 1.0])


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("mse_loss", [0.04, 0.09]),
        ("l1_loss", [0.2, 0.3]),
        ("smooth_l1_loss", [0.02, 0.045]),
        ("huber_loss", [0.02, 0.045]),
        ("soft_margin_loss", [0.6931, 0.4032]),
    ],
)
def test_losses(name, expected):
    loss, expected = getattr(_C._nn, name), torch.tensor(expected)
    for made, wanted in ((loss(X, Y), expected), (loss(X, Y, 1), expected.mean()), (loss(X, Y, 2), expected.sum())):
        torch.testing.assert_close(made, wanted, atol=1e-4, rtol=0)


def test_losses_of_the_namespace():
    torch.testing.assert_close(torch.hinge_embedding_loss(X, 2 * Y - 1), torch.tensor([0.8, 0.7]))
    torch.testing.assert_close(torch.kl_div(X, torch.ones(2), 2), torch.tensor(-0.9))
    torch.testing.assert_close(_C._nn.binary_cross_entropy(X, Y, None, 2), torch.tensor(0.5798), atol=1e-4, rtol=0)


def test_upsampling():
    x = torch.arange(4.0).reshape(1, 1, 2, 2)
    assert _C._nn.upsample_nearest2d(x, (4, 4))[0, 0, 0].tolist() == [0, 0, 1, 1]
    assert _C._nn.upsample_nearest2d(x, None, (2.0, 2.0)).shape == (1, 1, 4, 4)
    assert _C._nn.upsample_nearest1d(x[0], [4], out=torch.empty(0)).shape == (1, 2, 4)


def test_padding():
    x = torch.arange(3.0)[None]
    assert _C._nn.reflection_pad1d(x, (2, 1)).tolist() == [[2, 1, 0, 1, 2, 1]]
    assert _C._nn.replication_pad1d(x, [1, 2]).tolist() == [[0, 0, 1, 2, 2, 2]]


def _projections(size):
    torch.manual_seed(0)
    return [torch.randn(shape) for shape in ((3 * size, size), (3 * size,), (size, size), (size,))]


@pytest.mark.parametrize("shared", [True, False])
def test_attention_in_one_call(shared):
    weight, bias, out_weight, out_bias = _projections(8)
    module = torch.nn.MultiheadAttention(8, 2, batch_first=True)
    module.load_state_dict(
        {"in_proj_weight": weight, "in_proj_bias": bias, "out_proj.weight": out_weight, "out_proj.bias": out_bias}
    )
    q = torch.randn(3, 4, 8)
    k, v = (q, q) if shared else torch.randn(2, 3, 4, 8)
    pads = torch.zeros(3, 4, dtype=torch.bool)
    pads[0, -1] = True
    pairs = torch.ones(4, 4).triu(1).bool()
    call = torch._native_multi_head_attention
    for mask, kind, named in ((None, None, {}), (pads, 1, {"key_padding_mask": pads}), (pairs, 0, {"attn_mask": pairs})):
        for average in (True, False):
            found = call(q, k, v, 8, 2, weight, bias, out_weight, out_bias, mask, True, average, kind)
            torch.testing.assert_close(found, module(q, k, v, average_attn_weights=average, **named))
    assert call(q, k, v, 8, 2, weight, bias, out_weight, out_bias, need_weights=False)[1] is None
    with pytest.raises(RuntimeError, match="shapes to match"):
        call(q, k[:, :2], v[:, :2], 8, 2, weight, bias, out_weight, out_bias)
    with pytest.raises(RuntimeError, match="must divide evenly"):
        call(q, k, v, 8, 3, weight, bias, out_weight, out_bias)


def test_masked_softmax():
    scores = torch.zeros(2, 1, 3, 3)
    keys = torch.tensor([[False, False, True], [True, True, True]])
    assert torch._masked_softmax(scores, keys, None, 1)[0, 0, 0].tolist() == [0.5, 0.5, 0]
    assert torch._masked_softmax(scores, keys, None, 1)[1].isnan().all()
    for mask, kind, words in (
        (keys, None, "Mask Type should be defined"),
        (keys, 0, r"should be \(L, L\)"),
        (keys[:, :2], 1, r"should be \(B, L\)"),
        (keys.float(), 1, "boolean"),
    ):
        with pytest.raises(RuntimeError, match=words):
            torch._masked_softmax(scores, mask, -1, kind)


def test_queries_keys_and_values_side_by_side():
    x, bias = torch.arange(12.0).reshape(1, 2, 6), torch.ones(6)
    q, k, v = torch._transform_bias_rescale_qkv(x, bias, 1)
    torch.testing.assert_close(q, (x[..., :2] + 1)[None] / 2**0.5)
    assert torch.equal(k, (x[..., 2:4] + 1)[None]) and torch.equal(v, (x[..., 4:] + 1)[None])
    with pytest.raises(RuntimeError, match="num_head"):
        torch._transform_bias_rescale_qkv(x, bias, 3)
    with pytest.raises(RuntimeError, match="6 elements"):
        torch._transform_bias_rescale_qkv(x, bias[:2], 1)


@pytest.mark.parametrize("norm_first", [True, False])
def test_a_layer_of_an_encoder_in_one_call(norm_first):
    layer = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, norm_first=norm_first).eval()
    attention, x = layer.self_attn, torch.randn(3, 4, 8)
    pads = torch.zeros(3, 4, dtype=torch.bool)
    pads[0, -1] = True
    with torch.no_grad():
        made = torch._transformer_encoder_layer_fwd(
            x,
            8,
            2,
            attention.in_proj_weight,
            attention.in_proj_bias,
            attention.out_proj.weight,
            attention.out_proj.bias,
            False,
            norm_first,
            layer.norm1.eps,
            layer.norm1.weight,
            layer.norm1.bias,
            layer.norm2.weight,
            layer.norm2.bias,
            layer.linear1.weight,
            layer.linear1.bias,
            layer.linear2.weight,
            layer.linear2.bias,
            pads,
            1,
        )
        torch.testing.assert_close(made, layer(x, src_key_padding_mask=pads))
