"""Distributions and transforms of a program's own: what they may override, and what they inherit."""

from __future__ import annotations

import math
from typing import Any

import pytest

import flambeau as torch
from flambeau import Size, tensor
from flambeau import distributions as D


class Triangle(D.Distribution):
    """2 x for 0 <= x <= 1: only a density and a sampler."""

    arg_constraints: dict = {}
    support = D.constraints.unit_interval

    def log_prob(self, value: torch.Tensor) -> torch.Tensor:
        return math.log(2) + value.log()

    def rsample(self, sample_shape: Any = ()) -> torch.Tensor:
        return torch.rand(self._extended_shape(sample_shape)).sqrt()


def test_a_density_and_a_sampler_are_enough() -> None:
    d = Triangle()
    assert d.log_prob(tensor(0.5)).item() == pytest.approx(0.0, abs=1e-6)
    assert d.sample((2, 3)).shape == (2, 3)
    for missing in (d.cdf, d.icdf):
        with pytest.raises(NotImplementedError):
            missing(tensor(7.0))  # isn't defined at all, so that no value is refused
    for missing in (d.entropy, d.enumerate_support, lambda: d.mean, lambda: d.variance, lambda: d.stddev):
        with pytest.raises(NotImplementedError):
            missing()


@pytest.mark.parametrize(
    "base, arguments",
    [
        (D.Normal, (0.0, 1.0)),
        (D.Laplace, (0.0, 1.0)),
        (D.Gamma, (2.0, 1.0)),
        (D.LogNormal, (0.0, 1.0)),
        (D.Gumbel, (0.0, 1.0)),
        (D.HalfNormal, (1.0,)),
        (D.Beta, (2.0, 1.0)),
        (D.Uniform, (0.0, 2.0)),
    ],
    ids=lambda case: getattr(case, "__name__", ""),
)
def test_public_methods_and_properties_may_be_overridden(base: Any, arguments: tuple) -> None:
    class Shifted(base):
        @property
        def mean(self) -> torch.Tensor:
            return super().mean + 10

        @property
        def variance(self) -> torch.Tensor:
            return super().variance * 0 + 9

        def log_prob(self, value: torch.Tensor) -> torch.Tensor:
            return super().log_prob(value - 10)

        def rsample(self, sample_shape: Any = ()) -> torch.Tensor:
            return super().rsample(sample_shape) + 10

    d, plain = Shifted(*arguments), base(*arguments)
    x = plain.mean
    assert d.mean == plain.mean + 10 and d.variance == 9
    assert d.log_prob(x + 10).item() == pytest.approx(plain.log_prob(x).item(), rel=1e-5)
    wide = d.expand((3,))
    assert type(wide) is Shifted and wide.batch_shape == (3,) and (wide.rsample((2,)) > 0).all()


def test_the_names_of_formulas_leave_attributes_of_a_program_alone() -> None:
    class Kept(D.Normal):
        def __init__(self, loc: Any, scale: Any) -> None:
            super().__init__(loc, scale)
            self._mean, self._variance, self._entropy = 3.0, 4.0, 5.0

    d = Kept(0.0, 2.0)
    assert (d.mean, d.variance, d.stddev) == (0, 4, 2) and d.entropy() == D.Normal(0.0, 2.0).entropy()


def test_values_are_validated_once_for_every_method() -> None:
    d = D.Exponential(torch.ones(2))
    for method in (d.log_prob, d.cdf):
        with pytest.raises(ValueError, match="to be within the support"):
            method(tensor([-1.0, 1.0]))
        with pytest.raises(ValueError, match="not broadcastable"):
            method(torch.ones(3))
        with pytest.raises(ValueError, match="must be a Tensor"):
            method(1.0)
    free = D.Exponential(torch.ones(2), validate_args=False)
    assert free.log_prob(1.0).tolist() == [-1, -1]


def test_numbers_of_python_as_values() -> None:
    assert D.Gamma(1.0, 2.0).log_prob(0.5).item() == pytest.approx(math.log(2) - 1)
    assert D.Poisson(2.0, validate_args=False).log_prob(0).item() == pytest.approx(-2)
    assert D.Bernoulli(0.25, validate_args=False).log_prob(1).item() == pytest.approx(math.log(0.25))
    assert D.HalfCauchy(1.0, validate_args=False).log_prob(-1.0).item() == -math.inf


def test_probabilities_of_transformed_values_are_validated_as_the_base_s() -> None:
    assert D.LogNormal(0.0, 1.0).cdf(tensor(0)).item() == 0
    with pytest.raises(ValueError, match=r"distribution Exponential\(rate: 3.0\)"):
        D.Pareto(tensor(1.0), tensor(3.0)).cdf(tensor(0.5))
    with pytest.raises(ValueError, match="distribution HalfNormal"):
        D.HalfNormal(1.0).cdf(tensor(-1.0))


def test_caches_of_transforms_and_of_a_program_s_own() -> None:
    class Doubling(D.AffineTransform):
        def __init__(self) -> None:
            super().__init__(0.0, 2.0)

    class Plain(D.Transform):
        bijective, domain, codomain = True, D.constraints.real, D.constraints.real

        def _call(self, x: torch.Tensor) -> torch.Tensor:
            return 3 * x

        def _inverse(self, y: torch.Tensor) -> torch.Tensor:
            return y / 3

    class Own(Plain):
        def __init__(self, factor: float) -> None:
            super().__init__()

    x = torch.ones(3)
    for transform, kind in (
        (Doubling(), D.AffineTransform),
        (Plain(), Plain),
        (D.PowerTransform(2.0), D.PowerTransform),
        (D.CatTransform([D.ExpTransform()], 0, [3]), D.CatTransform),
    ):
        cached = transform.with_cache()
        assert type(cached) is kind and cached.with_cache(1) is cached and transform.with_cache(0) is transform
        y = cached(x)
        assert cached(x) is y and cached.inv(y) is x and cached.inv.inv is cached
        assert transform(x) is not transform(x)
    with pytest.raises(NotImplementedError, match="with_cache is not implemented"):
        Own(1.0).with_cache()


def test_parts_along_a_dimension_that_isn_t_there() -> None:
    for constraint in (D.constraints.cat([D.constraints.real], -1), D.constraints.stack([D.constraints.real], -1)):
        with pytest.raises(AssertionError, match="dim -1 out of range for value with 0 dimensions"):
            constraint.check(tensor(0.5))
    with pytest.raises(AssertionError, match=r"lengths \(2\) must match cseq \(1\)"):
        D.constraints.cat([D.constraints.real], lengths=[1, 2])


def test_dependent_constraints_say_what_is_static() -> None:
    dependent = D.constraints.dependent
    assert dependent(event_dim=1).event_dim == 1 and dependent(is_discrete=True)(event_dim=2).is_discrete
    with pytest.raises(NotImplementedError, match=r"\.is_discrete cannot be determined statically"):
        dependent(event_dim=1).is_discrete
    assert D.Uniform.support.event_dim == 0 and D.constraints.is_dependent(D.Uniform.support)
    assert D.Independent(D.Normal(torch.zeros(2), 1.0), 1).expand(Size((3,))).event_shape == (2,)
