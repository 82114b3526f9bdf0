"""Floats where integers are wanted are refused, in PyTorch's words, never rounded."""

import pytest

import flambeau as torch
from flambeau.nn import functional as F

X = torch.arange(120.0).reshape(2, 3, 4, 5)
Y = torch.arange(138.0).reshape(1, 2, 3, 23)


@pytest.mark.parametrize(
    "call",
    [
        lambda d: X.sum(d),
        lambda d: X.mean(d),
        lambda d: X.unsqueeze(d),
        lambda d: X.flatten(d),
        lambda d: X.sort(d),
        lambda d: X.cumsum(d),
        lambda d: X.unbind(d),
        lambda d: torch.cat([X, X], d),
        lambda d: torch.stack([X, X], d),
        lambda d: X.index_select(d, torch.tensor([0])),
        lambda d: X.transpose(0, d),
        lambda d: X.select(d, 0),
        lambda d: X.chunk(2, d),
        lambda d: X.amax(d),
        lambda d: X.narrow(d, 0, 1),
        lambda d: X.std(d),
        lambda d: X.topk(1, d),
        lambda d: X.softmax(d),
    ],
)
def test_dimensions(call):
    with pytest.raises(TypeError):
        call(1.0)
    call(1)
    call(-1)
    with pytest.raises(IndexError, match="Dimension out of range"):
        call(9)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: Y.unsqueeze(1.0), "unsqueeze(): argument 'dim' (position 1) must be int, not float"),
        (lambda: Y.flatten(1.0), "flatten(): argument 'start_dim' (position 1) must be int, not float"),
        (lambda: torch.cat([Y, Y], 1.0), "cat(): argument 'dim' (position 2) must be int, not float"),
        (
            lambda: F.pad(Y, (1.0, 1)),
            "pad(): argument 'pad' (position 2) must be tuple of ints, but found element of type float at pos 0",
        ),
        (
            lambda: F.pad(Y, (1, 1.0)),
            "pad(): argument 'pad' failed to unpack the object at pos 2 with error \"type must be tuple of ints,but got float\"",
        ),
        (lambda: F.max_pool2d(Y, 2.0), "max_pool2d(): argument 'kernel_size' (position 2) must be tuple of ints, not float"),
        (lambda: F.max_pool2d(Y, True), "max_pool2d(): argument 'kernel_size' (position 2) must be tuple of ints, not bool"),
        (lambda: F.max_pool1d(Y[0], 2.0), "max_pool1d(): argument 'kernel_size' (position 2) must be tuple of ints, not float"),
        (lambda: F.avg_pool1d(Y[0], 2, 2.0), "avg_pool1d(): argument 'stride' (position 3) must be tuple of ints, not float"),
    ],
)
def test_words(call, words):
    with pytest.raises(TypeError) as caught:
        call()
    assert str(caught.value) == words


def test_what_64_bits_do_not_hold():
    for call in (lambda: F.adaptive_avg_pool1d(Y[0], 10**20), lambda: Y.mvlgamma(10**20)):
        with pytest.raises(ValueError, match="Overflow when unpacking long long"):
            call()


def test_powers_of_an_integer_dtype_have_integer_exponents_at_their_ends():
    assert torch.logspace(4.3, 9.9, 2, dtype=torch.int64).tolist() == [10_000, 1_000_000_000]
    assert torch.logspace(0.3, 4.7, 5, base=2, dtype=torch.int32).tolist() == [1, 2, 4, 8, 16]
    assert torch.logspace(0, 1, 3, dtype=torch.float64).tolist() == pytest.approx([1.0, 10**0.5, 10.0], rel=1e-15)


def test_numbers_beyond_63_bits_are_unsigned():
    top, half = (1 << 64) - 1, 1 << 63
    for _ in range(2):  # the second call finds a plan for ints
        u = torch.tensor([top, 1, half], dtype=torch.uint64)
        assert (u == top).tolist() == [True, False, False]
        assert u.ne(half).tolist() == [True, True, False]
        assert torch.where(u == 1, u, top).tolist() == [top, 1, top]
        assert (torch.ones(2) + top).tolist() == [2.0**64] * 2
        assert (torch.ones(2, dtype=torch.float64) * half).tolist() == [2.0**63] * 2
        x = torch.ones(2, requires_grad=True)
        (x * half).sum().backward()
        assert x.grad.tolist() == [2.0**63] * 2
        i = torch.tensor([3, -1])
        assert (i + top).tolist() == [2, -2]  # the same 64 bits, as in PyTorch
        assert (i / half).tolist() == [3 / 2.0**63, -1 / 2.0**63]
        assert i.clone().mul_(top).tolist() == [-3, 1]
        assert i.clone().mul_(2).tolist() == [6, -2]
        with pytest.raises(RuntimeError, match="without overflow"):
            i.clamp(max=top)
        with pytest.raises(RuntimeError, match="attempted to promote Bool and UInt64"):
            torch.tensor([True]) + top
        with pytest.raises(OverflowError):
            torch.ones(2) + (top + 1)
        torch.ones(2) + 1, u == 1, i + 1, i / 1, x * 2
