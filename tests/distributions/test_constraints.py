"""Constraints: what lies in them, how they print, and the errors of parameters and values outside."""

from __future__ import annotations

import math
from typing import Any

import pytest

import flambeau as torch
from flambeau import distributions as D
from flambeau import tensor
from flambeau.distributions import constraints as C

NAN = math.nan
# constraint, how it prints, discrete, dimensions of an event, a value, whether each event is inside
CASES = [
    (C.real, "Real()", False, 0, [0.0, NAN], [True, False]),
    (C.positive, "GreaterThan(lower_bound=0.0)", False, 0, [0.0, 1.0, NAN], [False, True, False]),
    (C.nonnegative, "GreaterThanEq(lower_bound=0.0)", False, 0, [-1.0, 0.0], [False, True]),
    (C.less_than(2.0), "LessThan(upper_bound=2.0)", False, 0, [1.0, 2.0], [True, False]),
    (C.unit_interval, "Interval(lower_bound=0.0, upper_bound=1.0)", False, 0, [0.0, 1.0, 1.5], [True, True, False]),
    (C.half_open_interval(0, 1), "HalfOpenInterval(lower_bound=0, upper_bound=1)", False, 0, [0.0, 1.0], [True, False]),
    (C.boolean, "Boolean()", True, 0, [0.0, 0.5, 1.0], [True, False, True]),
    (C.nonnegative_integer, "IntegerGreaterThan(lower_bound=0)", True, 0, [-1.0, 0.0, 0.5], [False, True, False]),
    (C.positive_integer, "IntegerGreaterThan(lower_bound=1)", True, 0, [0.0, 1.0], [False, True]),
    (C.integer_interval(0, 3), "IntegerInterval(lower_bound=0, upper_bound=3)", True, 0, [3.0, 2.5, 4.0], [True, False, False]),
    (C.simplex, "Simplex()", False, 1, [[0.5, 0.5], [0.5, 0.6], [1.5, -0.5]], [True, False, False]),
    (C.one_hot, "OneHot()", True, 1, [[0.0, 1.0], [1.0, 1.0], [0.5, 0.5]], [True, False, False]),
    (C.multinomial(3), "Multinomial()", True, 1, [[1.0, 2.0], [2.0, 2.0], [4.0, -1.0]], [True, False, False]),
    (C.real_vector, "IndependentConstraint(Real(), 1)", False, 1, [[0.0, 1.0], [0.0, NAN]], [True, False]),
    (C.lower_triangular, "LowerTriangular()", False, 2, [[[1.0, 0.0], [2.0, -1.0]], [[1.0, 1.0], [0.0, 1.0]]], [True, False]),
    (C.lower_cholesky, "LowerCholesky()", False, 2, [[[1.0, 0.0], [2.0, -1.0]], [[1.0, 0.0], [0.0, 1.0]]], [False, True]),
    (C.corr_cholesky, "CorrCholesky()", False, 2, [[[1.0, 0.0], [0.6, 0.8]], [[1.0, 0.0], [0.6, 0.7]]], [True, False]),
    (C.symmetric, "Symmetric()", False, 2, [[[1.0, 2.0], [2.0, 1.0]], [[1.0, 0.0], [1.0, 1.0]]], [True, False]),
    (C.square, "Square()", False, 2, [[1.0, 2.0, 3.0], [1.0, 2.0, 3.0]], False),
    (C.positive_definite, "PositiveDefinite()", False, 2, [[[2.0, 1.0], [1.0, 2.0]], [[1.0, 2.0], [2.0, 1.0]]], [True, False]),
    (
        C.positive_semidefinite,
        "PositiveSemidefinite()",
        False,
        2,
        [[[2.0, 0.0], [0.0, 0.0]], [[1.0, 2.0], [2.0, 1.0]]],
        [True, False],
    ),
    (C.cat([C.positive, C.real], 0, [1, 2]), "Cat()", False, 0, [-1.0, -1.0, 1.0], [False, True, True]),
    (C.stack([C.positive, C.real], 0), "Stack()", False, 0, [[-1.0, 1.0], [-1.0, 1.0]], [[False, True], [True, True]]),
    (
        C.MixtureSameFamilyConstraint(C.positive),
        "MixtureSameFamilyConstraint(GreaterThan(lower_bound=0.0))",
        False,
        0,
        [-1.0, 1.0],
        [False, True],
    ),
]


@pytest.mark.parametrize("constraint, printed, discrete, dims, value, inside", CASES, ids=[case[1] for case in CASES])
def test_constraints(constraint: Any, printed: str, discrete: bool, dims: int, value: list, inside: Any) -> None:
    assert repr(constraint) == printed and constraint.is_discrete is discrete and constraint.event_dim == dims
    assert constraint.check(tensor(value)).tolist() == inside


def test_dependent_constraints() -> None:
    assert C.is_dependent(D.Uniform.support) and not C.is_dependent(C.real) and repr(C.dependent) == "Dependent()"
    assert D.Uniform.support.event_dim == 0 and D.Uniform.support.is_discrete is False
    with pytest.raises(ValueError, match="Cannot determine validity of dependent constraint"):
        C.dependent.check(tensor(1.0))
    with pytest.raises(NotImplementedError, match=r"\.event_dim cannot be determined statically"):
        C.dependent.event_dim
    assert C.dependent(event_dim=1).event_dim == 1
    assert repr(D.GeneralizedPareto(0.0, 1.0, -0.5).support) == "Interval(lower_bound=0.0, upper_bound=2.0)"
    assert repr(D.Pareto(1.0, 2.0).support) == "GreaterThanEq(lower_bound=1.0)"
    assert D.Independent(D.Normal(torch.zeros(2), 1.0), 1).support.event_dim == 1


WRONG: list[tuple[Any, type, str]] = [
    (
        lambda: D.Normal(tensor([0.0, 1]), tensor([-1.0, 1])),
        ValueError,
        "Expected parameter scale (Tensor of shape (2,)) of distribution Normal(loc: torch.Size([2]), scale: torch.Size([2])) "
        "to satisfy the constraint GreaterThan(lower_bound=0.0), but found invalid values:\ntensor([-1.,  1.])",
    ),
    (
        lambda: D.Normal(0.0, 1.0).log_prob(tensor(NAN)),
        ValueError,
        "Expected value argument (Tensor of shape ()) to be within the support (Real()) of the distribution "
        "Normal(loc: 0.0, scale: 1.0), but found invalid values:\nnan",
    ),
    (lambda: D.Normal(0.0, 1.0).log_prob(0.0), ValueError, "The value argument to log_prob must be a Tensor"),
    (
        lambda: D.Normal(tensor([0.0, 1.0]), 1.0).log_prob(torch.zeros(3)),
        ValueError,
        "Value is not broadcastable with batch_shape+event_shape: torch.Size([3]) vs torch.Size([2]).",
    ),
    (
        lambda: D.Dirichlet(torch.ones(3)).log_prob(torch.ones(2)),
        ValueError,
        "The right-most size of value must match event_shape: torch.Size([2]) vs torch.Size([3]).",
    ),
    (
        lambda: D.Normal("a", 1.0),
        ValueError,
        "Input arguments must all be instances of Number, torch.Tensor or objects implementing __torch_function__.",
    ),
    (lambda: D.Bernoulli(), ValueError, "Either `probs` or `logits` must be specified, but not both."),
    (lambda: D.Categorical(tensor(0.3)), ValueError, "`probs` parameter must be at least one-dimensional."),
    (
        lambda: D.Geometric(tensor([0.0, 0.3])),
        ValueError,
        "Expected parameter probs (Tensor of shape (2,)) of distribution Geometric(probs: torch.Size([2])) to be positive "
        "but found invalid values:\ntensor([0.])",
    ),
    (
        lambda: D.Binomial(tensor([3, 4]), tensor([0.2, 0.3])).entropy(),
        NotImplementedError,
        "Inhomogeneous total count not supported by `entropy`.",
    ),
    (lambda: D.Multinomial(tensor(3), tensor([0.2, 0.3])), NotImplementedError, "inhomogeneous total_count is not supported"),
    (lambda: D.Dirichlet(tensor(2.0)), ValueError, "`concentration` parameter must be at least one-dimensional."),
    (
        lambda: D.MultivariateNormal(tensor([0.0])),
        ValueError,
        "Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified.",
    ),
    (
        lambda: D.MultivariateNormal(tensor([0.0]), tensor([0.0])),
        ValueError,
        "covariance_matrix must be at least two-dimensional, with optional leading batch dimensions",
    ),
    (
        lambda: D.LowRankMultivariateNormal(torch.zeros(2), torch.ones(3, 2), torch.ones(2)),
        ValueError,
        "cov_factor must be a batch of matrices with shape 2 x m",
    ),
    (lambda: D.LKJCholesky(1), ValueError, "Expected dim to be an integer greater than or equal to 2. Found dim=1."),
    (lambda: D.Wishart(tensor(0.5), torch.eye(2)), ValueError, "Value of df=0.5 expected to be greater than ndim - 1 = 1."),
    (
        lambda: D.Independent(D.Normal(0.0, 1.0), 1),
        ValueError,
        "Expected reinterpreted_batch_ndims <= len(base_distribution.batch_shape), actual 1 vs 0",
    ),
    (
        lambda: D.MixtureSameFamily(D.Categorical(torch.ones(2)), D.Normal(torch.ones(3), 1.0)),
        ValueError,
        "`mixture_distribution component` (2) does not equal `component_distribution.batch_shape[-1]` (3)",
    ),
    (lambda: D.TransformedDistribution(D.Normal(0.0, 1.0), 3), ValueError, "transforms must be a Transform or list, but was 3"),
    (
        lambda: D.TransformedDistribution(D.Normal(0.0, 1.0), D.StickBreakingTransform()),
        ValueError,
        "base_distribution needs to have shape with size at least 1, but got torch.Size([]).",
    ),
    (lambda: D.Bernoulli(0.2).rsample(), NotImplementedError, ""),
    (
        lambda: D.utils.vec_to_tril_matrix(torch.ones(2)),
        ValueError,
        "The size of last dimension is 2 which cannot be expressed as the lower triangular part of a square D x D matrix.",
    ),
]


@pytest.mark.parametrize("call, kind, words", WRONG, ids=[case[2][:40] for case in WRONG])
def test_errors_in_the_words_of_pytorch(call: Any, kind: type, words: str) -> None:
    with pytest.raises(kind) as caught:
        call()
    assert str(caught.value) == words


def test_validation_can_be_turned_off() -> None:
    assert D.Normal(0.0, -1.0, validate_args=False).scale.item() == -1
    assert D.Uniform(0.0, 1.0, validate_args=False).log_prob(tensor(2.0)).item() == -math.inf
    D.Distribution.set_default_validate_args(False)
    try:
        assert D.Normal(0.0, -1.0).scale.item() == -1
        with pytest.raises(ValueError, match="Expected parameter scale"):
            D.Normal(0.0, -1.0, validate_args=True)
    finally:
        D.Distribution.set_default_validate_args(True)
    with pytest.raises(ValueError):
        D.Distribution.set_default_validate_args(2)  # type: ignore[arg-type]
