"""Transforms: inverses, Jacobians, shapes, caches, compositions, and the registries of constraints."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from distribution_cases import t

import flambeau as torch
from flambeau import distributions as D
from flambeau.distributions import constraints as C

# a transform and a point of its domain; of events, one event
BIJECTIONS = [
    (D.ExpTransform(), t([-1.0, 0.5])),
    (D.SigmoidTransform(), t([-1.0, 0.5])),
    (D.TanhTransform(), t([-1.0, 0.5])),
    (D.SoftplusTransform(), t([-1.0, 0.5])),
    (D.PowerTransform(t(2.5)), t([0.3, 1.5])),
    (D.PowerTransform(-1.0), t([0.3, 1.5])),
    (D.AffineTransform(1.0, -2.0), t([0.3, 1.5])),
    (D.AffineTransform(t([1.0, 2.0]), t([0.5, -3.0])), t([0.3, 1.5])),
    (D.AffineTransform(1.0, t([0.5, -3.0]), event_dim=1), t([0.3, 1.5])),
    (D.CumulativeDistributionTransform(D.Normal(t(0.5), t(2.0))), t([0.3, 1.5])),
    (D.StickBreakingTransform(), t([0.3, -1.5, 0.7])),
    (D.CorrCholeskyTransform(), t([0.3, -1.5, 0.7])),
    (D.ReshapeTransform((4,), (2, 2)), t([0.3, -1.5, 0.7, 2.0])),
    (D.ComposeTransform([D.AffineTransform(1.0, 2.0), D.ExpTransform()]), t([0.3, 1.5])),
    (D.ComposeTransform([D.ExpTransform(), D.StickBreakingTransform()]), t([0.3, -1.5])),
    (D.IndependentTransform(D.ExpTransform(), 1), t([0.3, 1.5])),
    (D.StackTransform([D.ExpTransform(), D.AffineTransform(0.0, 2.0)], dim=0), t([0.3, 1.5])),
    (D.CatTransform([D.ExpTransform(), D.AffineTransform(0.0, 2.0)], dim=0, lengths=[2, 1]), t([0.3, 1.5, 0.4])),
    (D.ExpTransform().inv, t([0.3, 1.5])),
    (D.ComposeTransform([D.SigmoidTransform(), D.ExpTransform()]).inv, t([1.3, 1.5])),
]


@pytest.mark.parametrize("transform, x", BIJECTIONS, ids=[str(case[0]).replace("\n", "") for case in BIJECTIONS])
def test_bijections(transform: Any, x: torch.Tensor) -> None:
    y = transform(x)
    assert transform.bijective and transform.inv.inv is transform
    assert transform.domain.check(x).all() and transform.codomain.check(y).all()
    torch.testing.assert_close(transform.inv(y), x)
    assert tuple(transform.forward_shape(x.shape)) == tuple(y.shape)
    assert tuple(transform.inverse_shape(y.shape)) == tuple(x.shape)
    slope = transform.log_abs_det_jacobian(x, y)
    torch.testing.assert_close(transform.inv.log_abs_det_jacobian(y, x), -slope)
    jacobian = torch.autograd.functional.jacobian(lambda x: independent(transform(x), transform), x).reshape(-1, x.numel())
    torch.testing.assert_close(slope.sum(), torch.linalg.slogdet(jacobian).logabsdet)
    assert slope.dim() == x.dim() - transform.domain.event_dim


def independent(y: torch.Tensor, transform: Any) -> torch.Tensor:
    """As many of y's elements as the transform has dimensions: the others follow from them."""
    kind = type(transform.parts[-1] if isinstance(transform, D.ComposeTransform) else transform)
    if kind is D.StickBreakingTransform:
        return y[..., :-1]
    return D.utils.tril_matrix_to_vec(y, -1) if kind is D.CorrCholeskyTransform else y.reshape(-1)


def test_transforms_onto_sets() -> None:
    x = t([[0.3, -1.5], [0.7, 0.2]])
    torch.testing.assert_close(D.SoftmaxTransform()(x), x.softmax(-1))
    lower = D.LowerCholeskyTransform()(x)
    torch.testing.assert_close(lower, t([[1.3498588075760032, 0.0], [0.7, 1.2214027581601699]]))
    torch.testing.assert_close(D.PositiveDefiniteTransform()(x), lower @ lower.mT)
    torch.testing.assert_close(D.PositiveDefiniteTransform().inv(lower @ lower.mT), x.tril())
    assert D.AbsTransform()(x).min() == 0.2 and D.AbsTransform().inv(t(2.0)).item() == 2
    torch.testing.assert_close(D.StickBreakingTransform()(t([0.0, 0.0])), t([1 / 3, 1 / 3, 1 / 3]))


def test_extremes_stay_inside() -> None:
    x = torch.tensor([-1000.0, 1000.0])
    for transform in (D.SigmoidTransform(), D.StickBreakingTransform()):
        y = transform(x)
        assert (y >= 0).all() and (y <= 1).all() and torch.isfinite(transform.inv(y)).all()
    factor = D.CorrCholeskyTransform()(torch.tensor([50.0, -50.0, 50.0]))
    assert (factor.diagonal() > 0).all()


def test_signs_and_shapes() -> None:
    assert D.ExpTransform().sign == 1 and D.AffineTransform(0, -2).sign == -1
    assert D.AffineTransform(0, torch.tensor([1.0, -1.0])).sign.tolist() == [1, -1]
    assert D.ComposeTransform([D.AffineTransform(0, -2), D.ExpTransform()]).sign == -1
    assert D.PowerTransform(-2.0).sign == -1
    assert D.PowerTransform(torch.ones(2)).forward_shape((3, 1)) == (3, 2)
    composed = D.ComposeTransform([D.ExpTransform(), D.StickBreakingTransform(), D.ExpTransform()])
    assert composed.domain.event_dim == 1 and composed.codomain.event_dim == 1 and composed.forward_shape((2, 3)) == (2, 4)
    assert D.CorrCholeskyTransform().inverse_shape((2, 4, 4)) == (2, 6)
    for call, words in (
        (lambda: D.CorrCholeskyTransform().forward_shape((4,)), "Input is not a flattened lower-diagonal number"),
        (lambda: D.CorrCholeskyTransform().inverse_shape((4, 3)), "Input is not square"),
        (lambda: D.SoftmaxTransform().forward_shape(()), "Too few dimensions on input"),
        (lambda: D.ReshapeTransform((2,), (3,)), "in_shape, out_shape have different numbers of elements"),
        (lambda: D.CorrCholeskyTransform().event_dim, "Please use either .domain.event_dim or .codomain.event_dim"),
        (lambda: D.ExpTransform(cache_size=2), "cache_size must be 0 or 1"),
    ):
        with pytest.raises(ValueError, match=words):
            call()
    with pytest.raises(NotImplementedError):
        D.AbsTransform().log_abs_det_jacobian(torch.ones(1), torch.ones(1))
    with pytest.raises(AssertionError, match=r"x.size\(0\) = 4 must equal length 3"):
        D.CatTransform([D.ExpTransform()], lengths=[3])(torch.ones(4))


def test_caches_give_back_the_very_tensor() -> None:
    x = torch.tensor([20.0])
    plain, cached = D.SigmoidTransform(), D.SigmoidTransform().with_cache()
    assert plain.inv(plain(x)) is not x and cached.inv(cached(x)) is x and cached.with_cache(1) is cached
    composed = D.ComposeTransform([D.ExpTransform(), D.AffineTransform(0, 2)]).with_cache()
    assert composed.inv(composed(x)) is x
    kept = composed.inv
    assert kept.inv is composed


def test_equality_and_printing() -> None:
    assert D.ExpTransform() == D.ExpTransform() and D.ExpTransform().inv == D.ExpTransform().inv
    assert D.AffineTransform(1, 2) == D.AffineTransform(1, 2.0) != D.AffineTransform(1, 3)
    assert D.AffineTransform(torch.ones(2), 2) == D.AffineTransform(torch.ones(2), 2)
    assert D.PowerTransform(torch.tensor(2)) == D.PowerTransform(torch.tensor(2.0)) and D.ExpTransform() != D.TanhTransform()
    assert repr(D.ComposeTransform([D.ExpTransform(), D.AffineTransform(1, 2).inv])) == (
        "ComposeTransform(\n    ExpTransform(),\n    _InverseTransform(AffineTransform())\n)"
    )
    assert repr(D.IndependentTransform(D.ExpTransform(), 1)) == "IndependentTransform(ExpTransform(), 1)"
    transform = D.AffineTransform(1, 2)
    keep = transform.inv
    assert pickle.loads(pickle.dumps(transform)) == transform == keep.inv


SETS = [
    C.real,
    C.positive,
    C.nonnegative,
    C.greater_than(2.0),
    C.greater_than_eq(t([1.0, 2.0])),
    C.less_than(-1.0),
    C.unit_interval,
    C.interval(-1.0, 3.0),
    C.half_open_interval(t(2.0), t(3.0)),
    C.simplex,
    C.corr_cholesky,
    C.real_vector,
    C.independent(C.positive, 1),
    C.stack([C.real, C.positive], -1),
    C.cat([C.positive, C.unit_interval], -1, [1, 1]),
]


@pytest.mark.parametrize("constraint", SETS, ids=str)
@pytest.mark.parametrize("registry", [D.biject_to, D.transform_to], ids=["biject_to", "transform_to"])
def test_registered_transforms_reach_the_set(registry: Any, constraint: Any) -> None:
    transform = registry(constraint)
    x = t([[0.3], [-40.0], [2.0]]) if constraint is C.corr_cholesky else t([[0.3, -1.0], [-4.0, 4.0]])
    y = transform(x)
    assert constraint.check(y).all()
    if registry is D.biject_to:
        assert transform.bijective
        torch.testing.assert_close(transform.inv(y)[0], x[0])


@pytest.mark.parametrize("constraint", [C.lower_cholesky, C.positive_definite, C.positive_semidefinite], ids=str)
def test_matrices_are_reached_by_transform_to_only(constraint: Any) -> None:
    assert constraint.check(D.transform_to(constraint)(t([[0.3, -1.0], [0.5, 0.2]])))
    with pytest.raises(NotImplementedError, match=f"Cannot transform {type(constraint).__name__} constraints"):
        D.biject_to(constraint)


def test_registering_a_constraint() -> None:
    class Even(C.Constraint):
        pass

    @D.biject_to.register(Even)
    def double(constraint: Any) -> Any:
        return D.AffineTransform(0, 2)

    assert D.biject_to(Even()) == D.AffineTransform(0, 2)
    with pytest.raises(NotImplementedError, match="Cannot transform Even constraints"):
        D.transform_to(Even())
    with pytest.raises(TypeError, match="Expected constraint to be either a Constraint subclass or instance, but got 3"):
        D.biject_to.register(3, double)
    del D.biject_to._registry[Even]
