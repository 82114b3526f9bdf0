"""Samples made by kernels are those of base.rng (which tests/base/test_rng.py compares with PyTorch's) and leave its state."""

import numpy as np
import pytest

import flambeau as torch
from flambeau.base.rng import Generator


def same(make, reference, number=7):
    mine, base = Generator(number), Generator(number)
    got, expected = make(mine), reference(base)
    np.testing.assert_array_equal(got.numpy(), expected)
    np.testing.assert_array_equal(mine.get_state(), base.get_state())


@pytest.mark.parametrize("n", [1, 15, 16, 17, 40, 1000])
def test_uniforms(n):
    def u24(g):
        return (g.draw32(n) & np.uint32((1 << 24) - 1)).astype(np.float32) * np.float32(2.0**-24)

    def u53(g):
        return (g.draw64(n) & np.uint64((1 << 53) - 1)).astype(np.float64) * 2.0**-53

    same(lambda g: torch.rand(n, generator=g), u24)
    same(lambda g: torch.rand(n, dtype=torch.float64, generator=g), u53)
    same(
        lambda g: torch.empty(n, dtype=torch.float16).uniform_(generator=g),
        lambda g: np.where(u24(g.clone_state()).astype(np.float16) == 1, 0, u24(g).astype(np.float16)),
    )
    same(lambda g: torch.empty(n).bernoulli_(0.3, generator=g), lambda g: u53(g) < 0.3)
    same(lambda g: torch.empty(n).exponential_(2, generator=g), lambda g: (-0.5 * np.log1p(-u53(g))).astype(np.float32))


@pytest.mark.parametrize("dtype", [torch.int64, torch.uint8, torch.int16, torch.float32, torch.float64])
@pytest.mark.parametrize(
    "low, high",
    [
        (0, 1),
        (0, 10),
        (-5, 7),
        (0, (1 << 28) - 1),
        (0, 1 << 28),
        (-(1 << 40), 999 - (1 << 40)),
        ((1 << 52) + 1, (1 << 52) + 9),
        (-(1 << 62), 1 << 62),
    ],
)
def test_integers(low, high, dtype):
    if dtype.is_floating_point or not (torch.iinfo(dtype).min <= low and high <= torch.iinfo(dtype).max):
        low, high = max(low, 0), min(high, 100) if low < 100 else 100
    if low >= high:
        return

    def integers(g, n):
        words = g.draw64(n) if high - low >= 1 << 28 else g.draw32(n)
        return np.array([low + int(word) % (high - low) for word in words], dtype.numpy)

    same(lambda g: torch.randint(low, high, (700,), dtype=dtype, generator=g), lambda g: integers(g, 700))
    same(lambda g: torch.empty(9, dtype=dtype).random_(low, high, generator=g), lambda g: integers(g, 9))


@pytest.mark.parametrize("n", [0, 1, 2, 3, 100, 5000])
def test_permutations(n):
    def fisher_yates(g):
        order = list(range(n))
        for i, word in enumerate(g.draw32(max(n - 1, 0)).tolist()):
            j = i + word % (n - i)
            order[i], order[j] = order[j], order[i]
        return order

    same(lambda g: torch.randperm(n, generator=g), fisher_yates)
    assert torch.randperm(n, dtype=torch.int32).sort().values.tolist() == list(range(n))


def test_the_data_loaders_shuffle():
    """A RandomSampler takes one seed from the default generator and orders the indices with a generator of its own."""
    default = Generator(0)
    assert default.random_seed() == 900450186894289455
    assert torch.randperm(8, generator=Generator(900450186894289455)).tolist() == [2, 5, 4, 6, 1, 7, 0, 3]
    # A DataLoader first takes a base seed for its workers, then the sampler takes its own.
    assert torch.randperm(8, generator=Generator(default.random_seed())).tolist() == [2, 0, 5, 3, 1, 4, 7, 6]


@pytest.mark.parametrize("make", [torch.rand, torch.randn, torch.randperm, lambda n, **k: torch.randint(0, 5, (n,), **k)])
def test_nothing_is_drawn_for_a_tensor_without_memory(make):
    torch.manual_seed(3)
    expected = torch.rand(2).tolist()
    torch.manual_seed(3)
    assert make(1 << 40, device="meta").shape == (1 << 40,)
    assert torch.rand(2).tolist() == expected


def test_multinomial_draws_in_the_order_of_memory():
    weights = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 0.5]]).repeat(1, 3)
    expected = {False: [[0, 3, 1, 5], [4, 0, 1, 2], [4, 0, 3, 2]], True: [[0, 5, 1, 2], [5, 3, 0, 4], [2, 0, 4, 5]]}
    for turned, chosen in expected.items():
        given = weights.T.contiguous().T if turned else weights
        torch.manual_seed(3)
        assert torch.multinomial(given, 4).tolist() == chosen
        torch.manual_seed(3)
        assert torch.multinomial(given, 1).tolist() == [row[:1] for row in chosen]


@pytest.mark.parametrize("replacement", [False, True])
def test_multinomial_follows_the_weights(replacement):
    weights = torch.tensor([0.0, 1.0, 0.0, 3.0]).repeat(2000, 1)
    drawn = torch.multinomial(weights, 2, replacement)
    assert drawn.shape == (2000, 2) and not (drawn % 2 == 0).any()
    assert 0.7 < (drawn[:, 0] == 3).float().mean() < 0.8
    assert (drawn.sum(1) == 4).all() != replacement


def test_without_a_seed_every_process_draws_other_numbers(run_python):
    program = "import flambeau as torch; print(torch.initial_seed(), torch.rand(3).tolist())"
    drawn = [run_python("-c", program).stdout for _ in range(2)]
    assert drawn[0] and drawn[0] != drawn[1]
    assert torch.Generator().initial_seed() == 67280421310721


def test_samples_depend_on_mean_and_deviation_with_no_derivative():
    mean, deviation = torch.zeros(3, requires_grad=True), torch.ones(2, 3, requires_grad=True)
    for given, shapes, name in (
        ((mean, deviation), [(3,), (2, 3)], "NormalBackward3"),
        ((0.0, deviation), [(2, 3)], "NormalBackward2"),
        ((mean, 1.0), [(3,)], "NormalBackward1"),
    ):
        samples = torch.normal(*given)
        assert samples.requires_grad and type(samples.grad_fn).__name__ == name
        gradients = torch.autograd.grad(samples.sum(), [x for x in given if isinstance(x, torch.Tensor)])
        assert [tuple(g.shape) for g in gradients] == shapes and not any(g.any() for g in gradients)
    with torch.no_grad():
        assert not torch.normal(mean, deviation).requires_grad
    with pytest.raises(RuntimeError, match="don't support automatic differentiation"):
        torch.normal(mean, 1.0, out=torch.empty(3))
