"""The operator of attention on the CPU, beside whose result stand the logarithms of the rows' sums."""

from __future__ import annotations

import pytest

import flambeau as torch

aten = torch.ops.aten
attend, gradients = aten._scaled_dot_product_flash_attention_for_cpu, aten._scaled_dot_product_flash_attention_for_cpu_backward


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("width", [8, 5])  # values as wide as keys, as the kernel takes them, or not
def test_gradients_of_parts_of_the_keys_add_up(dtype: torch.dtype, width: int) -> None:
    torch.manual_seed(0)
    q, k = torch.randn(2, 3, 6, 8, dtype=dtype), torch.randn(2, 3, 10, 8, dtype=dtype)
    v = torch.randn(2, 3, 10, width, dtype=dtype)
    out, logsumexp = attend(q, k, v, scale=0.5)
    scores = q.double() @ k.double().transpose(-2, -1) * 0.5
    near = {torch.bfloat16: {"atol": 0.05, "rtol": 0.05}}.get(dtype, {"atol": 1e-5, "rtol": 1e-5})
    torch.testing.assert_close(logsumexp.double(), scores.logsumexp(-1), **near)
    grad = torch.randn_like(out)
    leaves = [x.double().requires_grad_() for x in (q, k, v)]
    expected = torch.autograd.grad((leaves[0] @ leaves[1].transpose(-2, -1) * 0.5).softmax(-1) @ leaves[2], leaves, grad.double())
    halves = [
        gradients(grad, q, k[:, :, half], v[:, :, half], out, logsumexp, 0.0, False, scale=0.5)
        for half in (slice(0, 4), slice(4, 10))
    ]
    made = halves[0][0] + halves[1][0], *(torch.cat(pair, 2) for pair in list(zip(*halves))[1:])
    for one, other in zip(made, expected):
        assert one.dtype is dtype
        torch.testing.assert_close(one.double(), other, **near)


def test_what_was_kept_may_lie_as_it_likes_but_must_fit() -> None:
    torch.manual_seed(0)
    q, k, v = torch.randn(3, 1, 2, 6, 8).unbind()
    out, logsumexp = attend(q, k, v)
    expected = gradients(out, q, k, v, out, logsumexp, 0.0, False)
    made = gradients(out, q, k, v, out.transpose(1, 2).contiguous().transpose(1, 2), logsumexp.repeat(2, 1, 1)[::2], 0.0, False)
    assert all(torch.equal(*pair) for pair in zip(made, expected))
    with pytest.raises(RuntimeError, match="has no gradient, result and logsumexp"):
        gradients(out, q, k, v, out[:, :, :5], logsumexp, 0.0, False)
    with pytest.raises(NotImplementedError, match="dropout"):
        gradients(out, q, k, v, out, logsumexp, 0.5, False)


def test_rows_that_attend_to_nothing_have_no_gradient() -> None:
    q, k, v = torch.randn(3, 1, 1, 4, 8).unbind()
    mask = torch.ones(4, 4).bool().tril(-1)
    out, logsumexp = attend(q, k, v, attn_mask=mask)
    for x in (v, v[..., :5]):
        out = attend(q, k, x, attn_mask=mask)[0].nan_to_num()
        of_query, *_ = gradients(out, q, k, x, out, logsumexp, 0.0, False, attn_mask=mask)
        assert of_query[0, 0, 0].tolist() == [0.0] * 8 and of_query.isfinite().all()
