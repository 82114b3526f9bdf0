"""Calls of random functions that come again: the same stream as the first call's, and the same refusals."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import flambeau as torch
from flambeau.base.layout import clear_caches

FACTORIES = {
    "rand": lambda **how: torch.rand(5, **how), "rand_tuple": lambda **how: torch.rand((3, 7), **how),
    "randn_few": lambda **how: torch.randn(5, **how), "randn": lambda **how: torch.randn(3, 7, **how),
    "normal": lambda **how: torch.normal(1.0, 2.0, (5,), **how),
    "standard_normal": lambda **how: torch.normal(0, 1, (20,), **how),
    "rand_like": lambda **how: torch.rand_like(torch.empty(4), **how),
    "randn_like": lambda **how: torch.randn_like(torch.empty(4, 5), **how),
}  # fmt: skip
WHOLE = {
    "randint": lambda **how: torch.randint(-3, 9, (6,), **how),
    "randint_wide": lambda **how: torch.randint(1 << 40, (6,), **how),
    "randint_int32": lambda **how: torch.randint(9, (6,), dtype=torch.int32, **how),
    "randint_like": lambda **how: torch.randint_like(torch.empty(6), 9, **how),
    "randperm": lambda **how: torch.randperm(9, **how),
    "randperm_int32": lambda **how: torch.randperm(9, dtype=torch.int32, **how),
}  # fmt: skip
IN_PLACE = {
    "normal_": (), "uniform_": (-1, 2), "bernoulli_": (0.3,), "exponential_": (2,), "cauchy_": (), "log_normal_": (),
    "geometric_": (0.3,), "random_": (), "random_ below": (7,), "random_ between": (-3, 7),
}  # fmt: skip
METHODS = {
    name: (lambda x, name=name, given=given, **how: getattr(x, name.split()[0])(*given, **how))
    for name, given in IN_PLACE.items()
}


def _stream(draw: Callable, cleared: bool) -> list[torch.Tensor]:
    """Four results in a row and the state behind them, with the plans kept or made each time."""
    generator = torch.Generator().manual_seed(3)
    made = []
    for _ in range(4):
        if cleared:
            clear_caches()
        made.append(draw(generator=generator).clone())
    return [*made, generator.get_state()]


@pytest.mark.parametrize("name", [*FACTORIES, *WHOLE])
def test_a_factory_goes_on_with_its_stream(name: str) -> None:
    draw = {**FACTORIES, **WHOLE}[name]
    for kept, fresh in zip(_stream(draw, False), _stream(draw, True), strict=True):
        assert torch.equal(kept, fresh) and kept.dtype is fresh.dtype


@pytest.mark.parametrize("n", [5, 20])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("name", METHODS)
def test_a_sampler_goes_on_with_its_stream(name: str, dtype: torch.dtype, n: int) -> None:
    draw = lambda **how: METHODS[name](torch.empty(n, dtype=dtype), **how)
    for kept, fresh in zip(_stream(draw, False), _stream(draw, True), strict=True):
        assert torch.equal(kept, fresh)


@pytest.mark.parametrize("name", FACTORIES)
def test_leaves_that_require_grad(name: str) -> None:
    for _ in range(3):
        made = FACTORIES[name](requires_grad=True)
        assert made.is_leaf and made.requires_grad and not FACTORIES[name]().requires_grad


@pytest.mark.parametrize("name", WHOLE)
def test_whole_numbers_can_not_require_grad(name: str) -> None:
    if name == "randint_like":
        return
    for _ in range(2):
        with pytest.raises(RuntimeError, match="floating point"):
            WHOLE[name](requires_grad=True)


def test_defaults_that_change() -> None:
    made = lambda: [
        torch.rand(3),
        torch.randn(3),
        torch.normal(0, 1, (3,)),
        torch.ones(3),
        torch.zeros(3),
        torch.linspace(0, 1, 4),
    ]
    assert {x.dtype for x in made() + made()} == {torch.float32}
    torch.set_default_dtype(torch.float64)
    try:
        assert {x.dtype for x in made() + made()} == {torch.float64}
    finally:
        torch.set_default_dtype(torch.float32)
    with torch.device("meta"):
        assert all(x.is_meta for x in made())
    assert not any(x.is_meta for x in made())


def test_parameters_of_a_kept_sampler_are_looked_at() -> None:
    x = torch.empty(4)
    for good, bad, words in (
        (lambda: x.normal_(0, 1), lambda: x.normal_(0, -1), "std >= 0.0"),
        (lambda: x.uniform_(0, 1), lambda: x.uniform_(2, 1), r"return a \[from, to\) range"),
        (lambda: x.bernoulli_(0.5), lambda: x.bernoulli_(1.5), r"p to be in \[0, 1\]"),
        (lambda: x.exponential_(1), lambda: x.exponential_(0), "lambda > 0.0"),
        (lambda: x.random_(3), lambda: x.random_(0), "'from' to be less than 'to'"),
        (lambda: torch.randint(3, (2,), dtype=torch.int8), lambda: torch.randint(300, (2,), dtype=torch.int8), "out of bounds"),
    ):
        good()
        good()
        with pytest.raises(RuntimeError, match=words):
            bad()
    with pytest.raises(TypeError, match="argument 'mean'"):
        x.normal_("a")


def test_parameters_that_require_grad_are_overwritten_without_a_graph() -> None:
    weight = torch.nn.Parameter(torch.zeros(8))
    with torch.no_grad():
        for _ in range(3):
            weight.normal_()
    assert weight.is_leaf and weight._version == 3
    for _ in range(2):
        with pytest.raises(RuntimeError, match="a leaf Variable that requires grad is being used in an in-place operation"):
            weight.normal_()
    scaled = weight * 2
    scaled.uniform_()
    assert scaled.grad_fn is not None and torch.autograd.grad(scaled.sum(), weight)[0].tolist() == [0.0] * 8


def test_chances_in_a_tensor_are_looked_at() -> None:
    with pytest.raises(RuntimeError, match="p_in >= 0"):
        torch.bernoulli(torch.tensor([0.5, 1.5]))
    with pytest.raises(RuntimeError, match="p_in >= 0"):
        torch.empty(2).bernoulli_(torch.tensor([0.5, float("nan")]))
    with pytest.raises(RuntimeError, match="invalid Poisson rate"):
        torch.poisson(torch.tensor([1.0, -1.0]))
    own = torch.tensor([0.0, 1.0, 0.0, 1.0])
    assert own.bernoulli_(own).tolist() == [0, 1, 0, 1] == own.flip(0).bernoulli_(own).tolist()


def test_the_default_generator_is_one_of_the_namespace() -> None:
    assert isinstance(torch.default_generator, torch.Generator) and torch.default_generator.device == torch.device("cpu")
    assert torch.equal(torch.default_generator.get_state(), torch.get_rng_state())
