"""Samplers refuse bounds that their dtype doesn't hold, and factories take sizes in every form that PyTorch takes."""

import numpy as np
import pytest

import flambeau as torch


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: torch.empty(3).uniform_(1e39, 1), "from is out of bounds for float"),
        (lambda: torch.empty(3).uniform_(0, float("inf")), "to is out of bounds for float"),
        (
            lambda: torch.empty(3, dtype=torch.half).uniform_(-65000, 65000),
            "uniform_ expects to-from <= "
            "std::numeric_limits<Half>::max(), but found to=65000 and from=-65000 which result in to-from to exceed the limit",
        ),
        (lambda: torch.randperm(300, dtype=torch.uint8), "value cannot be converted to type uint8_t without overflow"),
        (lambda: torch.randperm(2050, dtype=torch.half), "n cannot be greater than 2049 for Half type."),
        (
            lambda: torch.randint(3, (2,), dtype=torch.complex64),
            "check_random_bounds handles only integral, floating-point and boolean types",
        ),
        (lambda: torch.empty(2, dtype=torch.uint16).random_(-1, 5), "from is out of bounds for short unsigned int"),
    ],
)
def test_bounds_that_are_refused(call, words):
    with pytest.raises(RuntimeError) as caught:
        call()
    assert str(caught.value) == words


def test_samples_of_rare_dtypes():
    assert torch.empty(50, dtype=torch.uint16).random_(65530, None).tolist() <= [65535] * 50
    assert torch.randperm(256, dtype=torch.uint8).sort()[0].tolist() == list(range(256))
    made = torch.bernoulli(torch.tensor([0.0, 1.0, 1.0]), out=torch.empty(0, dtype=torch.int32))
    assert made.dtype is torch.int32 and made.tolist() == [0, 1, 1]
    assert torch.testing.make_tensor((3,), dtype=torch.float8_e5m2, device="cpu").dtype is torch.float8_e5m2


@pytest.mark.parametrize("make", [torch.zeros, torch.ones, torch.empty, torch.rand, torch.randn])
def test_sizes(make):
    assert make((np.array(3), np.int64(4))).shape == make(np.array(3), 4).shape == make(torch.tensor(3), 4).shape == (3, 4)


def test_old_constructors():
    x = torch.ones(2)
    assert x.new(size=(3, 4)).shape == (3, 4) and x.new(data=[1, 2]).tolist() == [1, 2]
    assert torch.Tensor(torch.tensor([True])).dtype is torch.bool
    with pytest.raises(RuntimeError, match=r"^Legacy tensor constructor of the form torch.Tensor\(tensor, device=device\)"):
        torch.Tensor(x, device="cpu")


def test_elements_by_functions():
    assert torch.ones(2).map_(torch.ones(2), lambda a, b: a + 2 * b).tolist() == [3, 3]
    with pytest.raises(TypeError, match="must be real number, not str"):
        x = torch.ones(2)
        x.apply_(lambda a: "text")
    with pytest.raises(TypeError, match=r"^map_: expected torch.FloatTensor for 'other' \(got torch.LongTensor\)"):
        torch.ones(2).map_(torch.ones(2, dtype=torch.int64), lambda a, b: a)
    with pytest.raises(RuntimeError, match=r"^Can't call apply_\(\) on Variable that requires grad"):
        torch.ones(2, requires_grad=True).apply_(lambda a: a)


def test_orders_of_dimensions():
    assert torch.ones(2, 3, 4, 5).to(memory_format=torch.channels_last).dim_order(ambiguity_check=True) == (0, 2, 3, 1)
    with pytest.raises(RuntimeError, match=r"^The tensor does not have unique dim order"):
        torch.ones(2, 1, 4, 1).dim_order(ambiguity_check=True)
    with pytest.raises(TypeError, match="ambiguity_check argument must be a bool or a list"):
        torch.ones(2).dim_order(ambiguity_check="x")


def test_joins_and_differences():
    nothing = torch.empty(0)
    assert torch.cat([nothing, nothing], dim=3).shape == (0,)
    with pytest.raises(RuntimeError, match=r"^diff expects the shape of tensor to prepend or append to match"):
        torch.diff(torch.ones(2, 3), prepend=torch.ones(3, 3))
