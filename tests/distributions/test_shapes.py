"""Shapes, expansion, printing, copies by pickle, and distributions of a program's own."""

from __future__ import annotations

import pickle
import warnings
from typing import Any

import pytest

import flambeau as torch
from flambeau import Size, tensor
from flambeau import distributions as D

EYE = torch.eye(2)
# distribution, shape of the batch, of an event, how it prints
SHAPES: list[tuple[Any, tuple, tuple, str]] = [
    (D.Normal(0.0, torch.ones(3)), (3,), (), "Normal(loc: torch.Size([3]), scale: torch.Size([3]))"),
    (D.Normal(torch.zeros(2, 1), torch.ones(3)), (2, 3), (), "Normal(loc: torch.Size([2, 3]), scale: torch.Size([2, 3]))"),
    (D.Laplace(0, 1), (), (), "Laplace(loc: 0.0, scale: 1.0)"),
    (D.Chi2(tensor([3.0])), (1,), (), "Chi2()"),
    (D.StudentT(torch.ones(2)), (2,), (), "StudentT(df: torch.Size([2]), loc: torch.Size([2]), scale: torch.Size([2]))"),
    (D.FisherSnedecor(1.0, torch.ones(2)), (2,), (), "FisherSnedecor(df1: torch.Size([2]), df2: torch.Size([2]))"),
    (D.Beta(1.0, 2.0), (), (), "Beta()"),
    (D.Dirichlet(torch.ones(2, 3)), (2,), (3,), "Dirichlet(concentration: torch.Size([2, 3]))"),
    (D.Gumbel(0.0, torch.ones(2)), (2,), (), "Gumbel(loc: torch.Size([2]), scale: torch.Size([2]))"),
    (D.LogNormal(0.0, 1.0), (), (), "LogNormal()"),
    (D.Pareto(1.0, torch.ones(2)), (2,), (), "Pareto(alpha: torch.Size([2]), scale: torch.Size([2]))"),
    (D.Weibull(1.0, torch.ones(2)), (2,), (), "Weibull(scale: torch.Size([2]), concentration: torch.Size([2]))"),
    (
        D.Kumaraswamy(1.0, torch.ones(2)),
        (2,),
        (),
        "Kumaraswamy(concentration1: torch.Size([2]), concentration0: torch.Size([2]))",
    ),
    (D.InverseGamma(torch.ones(2), 3.0), (2,), (), "InverseGamma()"),
    (D.HalfCauchy(torch.ones(2)), (2,), (), "HalfCauchy()"),
    (D.LogisticNormal(torch.zeros(2, 3), torch.ones(2, 3)), (2,), (4,), "LogisticNormal()"),
    (D.Bernoulli(logits=torch.zeros(2)), (2,), (), "Bernoulli(logits: torch.Size([2]))"),
    (D.ContinuousBernoulli(0.25), (), (), "ContinuousBernoulli(probs: 0.25)"),
    (D.Binomial(3, torch.full((2,), 0.5)), (2,), (), "Binomial(total_count: torch.Size([2]), probs: torch.Size([2]))"),
    (D.NegativeBinomial(torch.ones(2), 0.5), (2,), (), "NegativeBinomial(total_count: torch.Size([2]), probs: torch.Size([2]))"),
    (D.Categorical(torch.ones(2, 3)), (2,), (), "Categorical(probs: torch.Size([2, 3]))"),
    (D.OneHotCategorical(torch.ones(2, 3)), (2,), (3,), "OneHotCategorical()"),
    (D.Multinomial(4, torch.ones(2, 3)), (2,), (3,), "Multinomial()"),
    (D.RelaxedBernoulli(tensor(0.5), torch.full((2,), 0.5)), (2,), (), "RelaxedBernoulli()"),
    (D.RelaxedOneHotCategorical(tensor(0.5), torch.ones(2, 3)), (2,), (3,), "RelaxedOneHotCategorical()"),
    (
        D.MultivariateNormal(torch.zeros(3, 2), EYE),
        (3,),
        (2,),
        "MultivariateNormal(loc: torch.Size([3, 2]), covariance_matrix: torch.Size([3, 2, 2]))",
    ),
    (
        D.MultivariateNormal(torch.zeros(2), scale_tril=EYE.expand(3, 2, 2)),
        (3,),
        (2,),
        "MultivariateNormal(loc: torch.Size([3, 2]), scale_tril: torch.Size([3, 2, 2]))",
    ),
    (
        D.LowRankMultivariateNormal(torch.zeros(3, 2), torch.ones(2, 1), torch.ones(2)),
        (3,),
        (2,),
        "LowRankMultivariateNormal(loc: torch.Size([3, 2]), cov_factor: torch.Size([3, 2, 1]), cov_diag: torch.Size([3, 2]))",
    ),
    (D.LKJCholesky(3, torch.ones(2)), (2,), (3, 3), "LKJCholesky(concentration: torch.Size([2]))"),
    (D.Wishart(tensor([3.0, 4.0]), EYE), (2,), (2, 2), "Wishart(covariance_matrix: torch.Size([2, 2, 2]), df: torch.Size([2]))"),
    (D.VonMises(0.0, 1.0), (), (), "VonMises(loc: 0.0, concentration: 1.0)"),
    (D.Independent(D.Poisson(torch.ones(2, 3)), 1), (2,), (3,), "Independent(Poisson(rate: torch.Size([2, 3])), 1)"),
    (
        D.MixtureSameFamily(D.Categorical(torch.ones(3)), D.Normal(torch.zeros(2, 3), 1.0)),
        (2,),
        (),
        "MixtureSameFamily(\n  Categorical(probs: torch.Size([3]), logits: torch.Size([3])),\n"
        "  Normal(loc: torch.Size([2, 3]), scale: torch.Size([2, 3])))",
    ),
    (D.TransformedDistribution(D.Normal(torch.zeros(2), 1.0), D.StickBreakingTransform()), (), (3,), "TransformedDistribution()"),
    (
        D.TransformedDistribution(D.Normal(0.0, 1.0), D.AffineTransform(torch.zeros(3), 2.0)),
        (3,),
        (),
        "TransformedDistribution()",
    ),
]


@pytest.mark.parametrize("d, batch, event, printed", SHAPES, ids=[type(case[0]).__name__ for case in SHAPES])
def test_shapes_expansion_and_copies(d: Any, batch: tuple, event: tuple, printed: str) -> None:
    assert repr(d) == printed
    assert d.batch_shape == batch and d.event_shape == event and type(d.batch_shape) is Size
    assert d.sample((5, 2)).shape == (5, 2, *batch, *event)
    wide = d.expand((4, *batch))
    assert type(wide) is type(d) and wide.batch_shape == (4, *batch) and wide.event_shape == event
    assert wide._validate_args == d._validate_args
    value = wide.sample()
    assert value.shape == (4, *batch, *event) and wide.log_prob(value).shape == (4, *batch)
    torch.testing.assert_close(wide.log_prob(value), d.log_prob(value))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = pickle.loads(pickle.dumps(d))
    torch.testing.assert_close(again.log_prob(value), d.log_prob(value))
    for name in ("mean", "variance", "mode"):
        try:
            moment = getattr(d, name)
        except NotImplementedError:
            continue
        if moment.shape == (*batch, *event):
            torch.testing.assert_close(getattr(wide, name), moment.expand((4, *batch, *event)), equal_nan=True)
    try:
        torch.testing.assert_close(wide.entropy(), d.entropy().expand((4, *batch)))
    except NotImplementedError:
        pass


def test_expansion_does_not_copy() -> None:
    loc = torch.zeros(3)
    assert D.Normal(loc, 1.0).expand((4, 3)).loc.data_ptr() == loc.data_ptr()


def test_subclasses_with_an_own_constructor() -> None:
    class Unit(D.Normal):
        def __init__(self, validate_args: bool | None = None) -> None:
            super().__init__(0.0, 1.0, validate_args=validate_args)

    with pytest.raises(NotImplementedError) as caught:
        Unit().expand((2,))
    assert str(caught.value) == (
        "Subclass Unit of Normal that defines a custom __init__ method must also define a custom .expand() method."
    )

    class Expandable(Unit):
        def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
            return super().expand(batch_shape, self._get_checked_instance(Expandable, _instance))

    wide = Expandable().expand((2,))
    assert type(wide) is Expandable and wide.loc.shape == (2,)


def test_a_program_s_own_distribution() -> None:
    class Coin(D.Distribution):
        arg_constraints = {"odds": D.constraints.positive}
        support = D.constraints.boolean

        def __init__(self, odds: torch.Tensor, validate_args: bool | None = None) -> None:
            self.odds = odds
            super().__init__(odds.shape, validate_args=validate_args)

        def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
            new = self._get_checked_instance(Coin, _instance)
            new.odds = self.odds.expand(batch_shape)
            super(Coin, new).__init__(Size(batch_shape), validate_args=False)
            new._validate_args = self._validate_args
            return new

        def log_prob(self, value: torch.Tensor) -> torch.Tensor:
            if self._validate_args:
                self._validate_sample(value)
            return torch.where(value == 1, self.odds, 1).log() - (1 + self.odds).log()

    coin = Coin(tensor([1.0, 3.0]))
    assert repr(coin) == "Coin(odds: torch.Size([2]))" and coin.expand((4, 2)).batch_shape == (4, 2)
    assert coin.log_prob(tensor(1.0)).exp().tolist() == pytest.approx([0.5, 0.75])
    independent = D.Independent(coin, 1)
    assert independent.log_prob(tensor([1.0, 0.0])).exp().item() == pytest.approx(0.125)
    with pytest.raises(ValueError, match="Expected parameter odds"):
        Coin(tensor([-1.0]))
    with pytest.raises(NotImplementedError, match="does not implement mode"):
        coin.mode

    class Bare(D.Distribution):
        pass

    with pytest.warns(UserWarning, match="does not define `arg_constraints`"):
        bare = Bare(Size((2,)))
    with pytest.raises(NotImplementedError):
        bare.expand((3, 2))


def test_enumerating_the_support() -> None:
    d = D.Categorical(torch.ones(2, 3))
    assert d.enumerate_support().tolist() == [[0, 0], [1, 1], [2, 2]] and d.enumerate_support(False).shape == (3, 1)
    assert D.Bernoulli(torch.full((2,), 0.5)).enumerate_support().tolist() == [[0, 0], [1, 1]]
    assert D.OneHotCategorical(torch.ones(2)).enumerate_support().tolist() == [[1, 0], [0, 1]]
    assert D.Binomial(2, tensor(0.5)).enumerate_support().tolist() == [0, 1, 2]
    with pytest.raises(NotImplementedError, match="Enumeration over cartesian product is not implemented"):
        D.Independent(D.Bernoulli(torch.full((2,), 0.5)), 1).enumerate_support()
    with pytest.raises(NotImplementedError):
        D.Normal(0.0, 1.0).enumerate_support()


def test_triangles_as_vectors() -> None:
    vector = torch.arange(1.0, 7)
    matrix = D.utils.vec_to_tril_matrix(vector)
    assert matrix.tolist() == [[1, 0, 0], [2, 3, 0], [4, 5, 6]] and torch.equal(D.utils.tril_matrix_to_vec(matrix), vector)
    assert D.utils.vec_to_tril_matrix(vector[:3], -1).tolist() == [[0, 0, 0], [1, 0, 0], [2, 3, 0]]
    assert D.utils.vec_to_tril_matrix(torch.arange(1.0, 9), 1).tolist() == [[1, 2, 0], [3, 4, 5], [6, 7, 8]]
    with pytest.raises(ValueError, match=r"diag \(3\) provided is outside \[-3, 2\]"):
        D.utils.tril_matrix_to_vec(matrix, 3)


def test_sample_n_is_deprecated() -> None:
    with pytest.warns(FutureWarning, match="will be deprecated"):
        assert D.Normal(0.0, 1.0).sample_n(3).shape == (3,)


def test_the_package_is_loaded_when_it_is_used(run_python: Any) -> None:
    result = run_python(
        "-c",
        "import sys, flambeau as torch; a = 'flambeau.distributions' in sys.modules; "
        "torch.distributions.Normal; print(a, 'flambeau.distributions' in sys.modules)",
    )
    assert result.stdout.split() == ["False", "True"]
