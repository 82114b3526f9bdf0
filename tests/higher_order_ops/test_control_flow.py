"""torch._higher_order_ops: scans, maps, loops and branches give what the loop written out gives, with gradients."""

from __future__ import annotations

import pytest

import flambeau as torch
from flambeau._higher_order_ops import associative_scan, cond, map, out_dtype, scan, while_loop


@pytest.mark.parametrize("length", [2, 5, 8])
@pytest.mark.parametrize("reverse", [False, True])
def test_associative_scan_is_the_loop(length: int, reverse: bool) -> None:
    torch.manual_seed(0)
    decay, add = (torch.rand(3, length, dtype=torch.float64, requires_grad=True) for _ in range(2))

    def combine(left, right):
        return {"a": left["a"] * right["a"], "b": right["a"] * left["b"] + right["b"]}

    out = associative_scan(combine, {"a": decay, "b": add}, dim=1, reverse=reverse, combine_mode="generic")["b"]
    state, states = torch.zeros(3, dtype=torch.float64), []
    order = range(length)[::-1] if reverse else range(length)
    for i in order:
        state = state * decay[:, i] + add[:, i]
        states.append(state)
    expected = torch.stack(states[::-1] if reverse else states, 1)
    torch.testing.assert_close(out, expected)
    torch.testing.assert_close(*(torch.autograd.grad(y.square().sum(), (decay, add)) for y in (out, expected)))


def test_associative_scan_refuses() -> None:
    x = torch.ones(2, 3)
    assert torch.equal(associative_scan(lambda a, b: a + b, x[:1], 0, combine_mode="generic"), x[:1])
    for arguments, error, words in (
        ((lambda a, b: a, x, 0), ValueError, "all input tensors need to be on CUDA"),
        ((3, x, 0), ValueError, "Combine_fn must be a callable"),
        ((lambda a, b: a, x, 0, False, "foo"), ValueError, "Combine_mode must either"),
        ((lambda a, b: a, x, 5, False, "generic"), IndexError, "Dimension out of range"),
    ):
        with pytest.raises(error, match=words):
            associative_scan(*arguments)


def test_scan_map_loop_and_branch() -> None:
    x = torch.arange(1.0, 7).view(2, 3)
    last, all_of = scan(lambda c, y: (c + y, c * 2), torch.zeros(2), x, dim=1, reverse=True)
    assert last.tolist() == [6, 15] and all_of.tolist() == [[10, 6, 0], [22, 12, 0]]
    assert map(lambda y, z: {"s": y[0] * 2 + z}, (x, x), torch.ones(3))["s"].tolist() == [[3, 5, 7], [9, 11, 13]]
    count, grown = while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y * 2), (torch.tensor(0), x))
    assert count == 3 and torch.equal(grown, x * 8)
    assert torch.equal(cond(x.sum() > 0, torch.exp, torch.sin, (x,)), x.exp())
    ones = torch.full((2, 2), 100, dtype=torch.int8)
    assert out_dtype(torch.mm, torch.int32, ones, ones).tolist() == [[20000] * 2] * 2
    with pytest.raises(RuntimeError, match="same number of elements"):
        while_loop(lambda i: i < 3, lambda i: (i, i), (torch.tensor(0),))
