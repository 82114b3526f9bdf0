"""flex_attention, BlockMask and causal biases: values and gradients against dense attention, printing, PyTorch's errors."""

from __future__ import annotations

import math

import pytest

import flambeau as torch
from flambeau.nn import functional as F
from flambeau.nn.attention import flex_attention as flex
from flambeau.nn.attention.bias import CausalVariant, causal_lower_right, causal_upper_left
from flambeau.nn.attention.flex_attention import (
    AuxRequest,
    BlockMask,
    and_masks,
    create_block_mask,
    create_mask,
    flex_attention,
    noop_mask,
    or_masks,
)


def causal(b, h, q, k):
    return q >= k


def some(dtype=torch.float64, heads=4, kv_heads=4, queries=10, keys=12):
    torch.manual_seed(0)
    sizes = ((2, heads, queries, 8), (2, kv_heads, keys, 8), (2, kv_heads, keys, 6))
    return [torch.randn(size, dtype=dtype, requires_grad=True) for size in sizes]


def dense(q, k, v, change=lambda scores: scores, mask=None, scale=None):
    scores = change(q @ k.mT * (scale or 1 / math.sqrt(q.shape[-1])))
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf)
    weights = torch.softmax(scores, -1)
    return (weights if mask is None else torch.where(mask.any(-1, keepdim=True), weights, 0.0)) @ v


def gradients(out, inputs):
    return torch.autograd.grad(out.square().sum(), inputs)


def test_values_of_pytorch() -> None:
    torch.manual_seed(0)
    q, _, _ = torch.randn(2, 4, 10, 8), torch.randn(2, 2, 12, 8), torch.randn(2, 2, 12, 6)
    k, v = torch.randn(2, 4, 12, 8), torch.randn(2, 4, 12, 6)
    changed = flex_attention(q, k, v, score_mod=lambda s, b, h, i, j: s + h - i * 0.1 + j * b)
    out, aux = flex_attention(q, k, v, return_aux=AuxRequest(lse=True))
    block = create_block_mask(causal, None, None, 10, 12)
    sums = [x.double().sum().item() for x in (out, aux.lse, changed, flex_attention(q, k, v, block_mask=block))]
    assert sums == pytest.approx([-15.7719, 237.0475, -55.8153, 11.3739], abs=1e-3)
    half, lse = flex_attention(q.half(), k.half(), v.half(), return_aux=AuxRequest(lse=True))
    assert half.dtype == torch.float16 and lse.lse.dtype == torch.float32
    assert half.double().sum().item() == pytest.approx(-15.7711, abs=1e-3)


def test_gradients_reach_queries_keys_values_and_what_score_mod_captures() -> None:
    inputs = some()
    bias = torch.randn(4, 10, dtype=torch.float64, requires_grad=True)
    out = flex_attention(*inputs, score_mod=lambda s, b, h, i, j: torch.tanh(s) * bias[h][i] + b * (j % 3))
    moved = torch.arange(2).view(2, 1, 1, 1) * (torch.arange(12) % 3)
    expected = dense(*inputs, change=lambda s: torch.tanh(s) * bias[:, :, None] + moved)
    torch.testing.assert_close(out, expected)
    torch.testing.assert_close(gradients(out, [*inputs, bias]), gradients(expected, [*inputs, bias]))
    q, k, v = (x[:1, :1, :3, :2] for x in inputs)
    assert torch.autograd.gradgradcheck(lambda q: flex_attention(q, k, v, lambda s, *_: s.sin(), scale=0.3), (q,))


def test_masks_and_rows_that_see_nothing() -> None:
    inputs = some()

    def first_only(b, h, q, k):
        return (q >= k) & (b == 0)

    block = create_block_mask(first_only, 2, 4, 10, 12, BLOCK_SIZE=4)
    out, aux = flex_attention(*inputs, block_mask=block, return_aux=AuxRequest(lse=True))
    expected = dense(*inputs, mask=create_mask(first_only, 2, 4, 10, 12))
    torch.testing.assert_close(out, expected)
    assert not out[1].any() and aux.lse[1].isneginf().all()
    torch.testing.assert_close(gradients(out, inputs), gradients(expected, inputs))


def test_fewer_heads_and_one_batch_of_keys() -> None:
    q, k, v = some(heads=4, kv_heads=2)
    out = flex_attention(q, k, v, enable_gqa=True)
    torch.testing.assert_close(out, dense(q, k.repeat_interleave(2, 1), v.repeat_interleave(2, 1)))
    block = create_block_mask(causal, None, None, 10, 12)
    one = flex_attention(q, k[:1], v[:1], block_mask=block, enable_gqa=True)
    wide = flex_attention(q, k[:1].expand(2, -1, -1, -1), v[:1].expand(2, -1, -1, -1), block_mask=block, enable_gqa=True)
    torch.testing.assert_close(one, wide)


def test_blocks_that_are_left_out_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    inputs = some(torch.float32, 2, 2, 600, 640)

    def far_or_near(b, h, q, k):
        return ((q >= k) & (q - k < 100)) | ((k > 500) & (q < 100))

    block = create_block_mask(far_or_near, None, None, 600, 640, BLOCK_SIZE=64)
    calls = []
    attend = flex._attend
    monkeypatch.setattr(flex, "_attend", lambda *args: calls.append(args[1].shape[2]) or attend(*args))
    out = flex_attention(*inputs, score_mod=lambda s, b, h, i, j: s + (i - j) * 0.01, block_mask=block)
    assert len(calls) == 10 and max(calls) <= 320
    slope = (torch.arange(600)[:, None] - torch.arange(640)) * 0.01
    expected = dense(*inputs, change=lambda s: s + slope, mask=create_mask(far_or_near, 1, 1, 600, 640))
    torch.testing.assert_close(out, expected, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(gradients(out, inputs), gradients(expected, inputs), rtol=1e-4, atol=1e-4)


def test_layout_follows_the_queries() -> None:
    q, k, v = some()
    out = flex_attention(q.transpose(1, 2).contiguous().transpose(1, 2), k, v)
    assert out.stride() == (240, 6, 24, 1)


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"k": (2, 4, 12, 4)}, ValueError, "same embedding dimension but got E=8 and E=4"),
        ({"k": (2, 2, 12, 8)}, ValueError, "same number of heads but got Hq=4 and Hkv=2. Try setting enable_gqa=True"),
        ({"k": (2, 3, 12, 8), "enable_gqa": True}, ValueError, "multiple of kv heads for GQA but got Hq=4 and Hkv=3"),
        ({"q": (1, 4, 10, 8)}, ValueError, "same batch size, or non-none block_mask, but got block_mask=None, Bq=1, and Bkv=2"),
        ({"q": (4, 10, 8)}, NotImplementedError, "must be 4D tensors"),
        ({"kernel_options": {"BACKEND": "FOO"}}, ValueError, "Invalid BACKEND value 'FOO'"),
        ({"return_aux": AuxRequest(max_scores=True)}, NotImplementedError, "Returning max scores is not supported"),
        ({"return_aux": AuxRequest(), "return_lse": True}, ValueError, "Cannot specify both return_lse and return_aux"),
        ({"q": (2, 4, 5, 8), "block": True}, ValueError, r"block_mask.shape=\(1, 1, 10, 12\) but got q_len=5 and kv_len=12"),
        ({"q": (2, 4, 20, 8), "block": True}, ValueError, "smaller length than you're using it for"),
    ],
)
def test_errors(change: dict, error: type, words: str) -> None:
    shapes = [change.pop(name, default) for name, default in (("q", (2, 4, 10, 8)), ("k", (2, 4, 12, 8)))]
    block = create_block_mask(causal, None, None, 10, 12) if change.pop("block", False) else None
    with pytest.raises(error, match=words):
        flex_attention(torch.ones(shapes[0]), torch.ones(shapes[1]), torch.ones(2, 4, 12, 6), block_mask=block, **change)


def test_block_mask_of_a_function() -> None:
    block = create_block_mask(causal, 1, 1, 300, 300)
    assert str(block) == "BlockMask(shape=(1, 1, 300, 300), sparsity=-9.23%, \n(0, 0)\n██    \n████  \n██████\n)"
    assert repr(block).endswith("    sparsity=-9.23%,\n    mask_mod=causal\n)") and block.numel() == 90000
    assert block.kv_num_blocks.tolist() == [[[1, 1, 3]]] and block.full_kv_num_blocks.tolist() == [[[0, 1, 0]]]
    assert block.kv_indices.tolist() == [[[[0, 1, 2], [1, 0, 2], [0, 1, 2]]]] and block.kv_indices.dtype == torch.int32
    assert block.q_num_blocks.tolist() == [[[2, 2, 1]]] and block.q_indices[0, 0, 0].tolist() == [0, 2, 1]
    assert block.to_dense().tolist() == [[[[1, 0, 0], [1, 1, 0], [1, 1, 1]]]] and len(block.as_tuple()) == 17
    assert block.to_string(grid_size=2) == "(0, 0)\n░░  \n████\n"
    small = block._adjust(130, 140)
    assert small.shape == (1, 1, 130, 140) and small.to_dense().tolist() == [[[[1, 0], [1, 1]]]]


def test_block_mask_slices_and_lists() -> None:
    def window(b, h, q, k):
        return (q >= k) & (q - k < 64 + b * 64 + h * 32)

    block = create_block_mask(window, 2, 3, 512, 640, BLOCK_SIZE=(64, 128))
    assert block[0].shape == (1, 3, 512, 640) and block[0, 1].shape == (1, 1, 512, 640) and block[-1].shape[0] == 1
    assert block[0, 1].kv_num_blocks.tolist() == [[[1, 1, 2, 2, 2, 2, 2, 2]]]
    with pytest.raises(RuntimeError, match="Cannot use mask_mod from a sliced BlockMask"):
        flex_attention(torch.ones(1, 3, 512, 4), torch.ones(1, 3, 640, 4), torch.ones(1, 3, 640, 4), block_mask=block[0])
    lists = torch.tensor([[[1, 2]]], dtype=torch.int32), torch.tensor([[[[0, 0], [0, 1]]]], dtype=torch.int32)
    made = BlockMask.from_kv_blocks(*lists, BLOCK_SIZE=4)
    assert made.mask_mod is noop_mask and made.seq_lengths == (8, 8) and made.full_kv_num_blocks is None
    assert made.q_num_blocks.tolist() == [[[2, 1]]] and made.sparsity() == 25.0
    assert BlockMask.from_kv_blocks(*lists, compute_q_blocks=False).q_indices is None
    with pytest.raises(AssertionError, match="must be both provided or omitted"):
        BlockMask.from_kv_blocks(*lists, lists[0])


def test_masks_join_and_are_checked() -> None:
    def near(b, h, q, k):
        return (q - k).abs() < 2

    both, either = (create_mask(join(causal, near), None, None, 4, 4) for join in (and_masks, or_masks))
    rows, columns = torch.arange(4)[:, None], torch.arange(4)
    assert torch.equal(both[0, 0], (rows >= columns) & ((rows - columns).abs() < 2))
    assert torch.equal(either[0, 0], (rows >= columns) | ((rows - columns).abs() < 2))
    with pytest.raises(RuntimeError, match="All inputs should be callable mask_mods"):
        and_masks(3)
    with pytest.raises(AssertionError, match="Expected 4 or 5 positional args, got 2"):
        create_mask(lambda a, b: a, 1, 1, 2, 2)
    with pytest.raises(AssertionError, match="requires a mask_mod function"):
        create_block_mask(lambda s, b, h, q, k: s, 1, 1, 2, 2)


@pytest.mark.parametrize("make", [causal_upper_left, causal_lower_right])
def test_causal_biases(make) -> None:
    q, k, v = some(queries=3, keys=5)
    bias = make(3, 5)
    diagonal = 0 if bias.variant == CausalVariant.UPPER_LEFT else 2
    mask = torch.ones(3, 5, dtype=torch.bool).tril(diagonal)
    torch.testing.assert_close(
        F.scaled_dot_product_attention(q, k, v, attn_mask=bias, scale=0.3),
        F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=0.3),
    )
    assert repr(bias) == repr(mask)
    with pytest.raises(ValueError, match="CausalBias should not be used with causal=True"):
        F.scaled_dot_product_attention(q, k, v, attn_mask=bias, is_causal=True)


def test_backends_are_constants_and_no_integers():
    from flambeau.nn.attention import SDPBackend, sdpa_kernel

    math = SDPBackend.MATH
    assert (repr(math), str(math), math.name) == ("<SDPBackend.MATH: 0>", "SDPBackend.MATH", "MATH")
    assert (int(math), [10, 20][math]) == (0, 10)
    assert math == SDPBackend(0) and math != 0 and math not in {0} and {math: 1}[SDPBackend(0)] == 1
    assert not isinstance(math, int) and list(SDPBackend.__members__)[:2] == ["ERROR", "MATH"] and SDPBackend(77).name == "???"
    flash = SDPBackend.FLASH_ATTENTION
    for wrong in (lambda: math < flash, lambda: SDPBackend("MATH"), lambda: math | 1, lambda: list(SDPBackend)):
        with pytest.raises(TypeError):
            wrong()
    with sdpa_kernel([math, flash]):
        pass
