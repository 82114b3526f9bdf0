"""cov and corrcoef: covariances and correlations of variables (rows) over observations (columns).

Composed of reductions and one matrix product. Stands on core.operator.define and the namespace; used by programs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flambeau.base.dtype import bool_
from flambeau.base.warn import warn
from flambeau.core.operator.define import composite
from flambeau.core.operator.publishing import NAMESPACE
from flambeau.core.operator.variants import pointwise
from flambeau.core.tensor.tensor import Tensor
from flambeau.core.tensor.without_data import found
from flambeau.ir import scalar as s


def _check_weights(name: str, weights: Tensor, kind: str, fitting: bool, observations: int) -> None:
    """Raises RuntimeError unless weights are one number >= 0 of the right kind to an observation."""
    if weights.dim() > 1:
        raise RuntimeError(
            f"cov(): expected {name} to have one or fewer dimensions but got {name} with {weights.dim()} dimensions"
        )
    if not fitting:
        raise RuntimeError(f"cov(): expected {name} to have {kind} dtype but got {name} with {weights.dtype.scalar_name} dtype")
    if weights.numel() != observations:
        raise RuntimeError(
            f"cov(): expected {name} to have the same numel as there are observations in the input but got "
            f"{weights.numel()} != {observations}"
        )
    if found(weights.detach() < 0):
        raise RuntimeError(f"cov(): {name} cannot be negative")


@composite(method=True)
def cov(input: Tensor, *, correction=1, fweights: Tensor | None = None, aweights: Tensor | None = None) -> Tensor:
    """The covariances of the rows of input over its columns: (rows, rows), or a number for fewer than two dimensions.

    correction: subtracted from the number of observations; fweights: how often each observation was made (integers);
    aweights: how much it counts. Raises RuntimeError for more than two dimensions, bool and unfitting weights.
    """
    if input.dim() > 2:
        raise RuntimeError(
            f"cov(): expected input to have two or fewer dimensions but got an input with {input.dim()} dimensions"
        )
    if input.dtype is bool_:
        raise RuntimeError("cov(): bool dtype is not supported for input")
    rows = input if input.dim() == 2 else input.reshape(1, -1)
    observations = rows.size(1)
    weights = None
    if fweights is not None:
        dtype = fweights.dtype
        _check_weights(
            "fweights", fweights, "integral", not (dtype.is_floating_point or dtype.is_complex or dtype is bool_), observations
        )
        weights = fweights
    if aweights is not None:
        _check_weights("aweights", aweights, "floating point", aweights.dtype.is_floating_point, observations)
        weights = aweights if weights is None else weights * aweights
    total = observations if weights is None else weights.sum()
    if weights is not None and found(total.detach() == 0):
        raise RuntimeError("cov(): weights sum to zero, can't be normalized")
    if weights is None and (rows.is_floating_point() or rows.is_complex()):
        mean = rows.mean(1, True)
    else:
        mean = ((rows if weights is None else rows * weights).sum(1) / total).unsqueeze(1)
    if weights is None or correction == 0 or aweights is None:
        freedom = total - correction
    else:
        freedom = total - correction * (weights * aweights).sum() / total
    if weights is None:
        free = freedom > 0
    else:
        free = not found(freedom.detach() <= 0)
    if not free:
        warn("cov(): degrees of freedom is <= 0. Correction should be strictly less than the number of observations.")
        freedom = 0 if weights is None else NAMESPACE["zeros_like"](freedom)
    centred = rows - mean
    other = (centred if weights is None else centred * weights).t().conj()
    return (NAMESPACE["mm"](centred, other) / freedom).squeeze()


def _node(operands: Sequence[Any], statics: Sequence[Any]) -> str:
    return "ComplexBackward0" if operands and operands[0].is_complex() else "ClampBackward1"


@pointwise(method=False, function=False, inplace=False, node=_node, name="correlation")
def _correlation(covariance: Tensor, deviation: Tensor, other: Tensor):
    """A covariance over two standard deviations, its parts within [-1, 1]."""

    def within(x: Any) -> Any:
        return s.where(x > 1, 1, s.where(x < -1, -1, x))  # NaN stays

    result = covariance / deviation / other
    return s.complex_(within(s.real(result)), within(s.imag(result))) if result.dtype.is_complex else within(result)


@composite(method=True)
def corrcoef(input: Tensor) -> Tensor:
    """Pearson's correlation coefficients of the rows of input over its columns, clamped to [-1, 1].

    input: (rows, columns) or fewer dimensions; returns (rows, rows) or a number. Raises RuntimeError for more dimensions.
    """
    if input.dim() > 2:
        raise RuntimeError(
            f"corrcoef(): expected input to have two or fewer dimensions but got an input with {input.dim()} dimensions"
        )
    covariance = NAMESPACE["cov"](input)
    if covariance.dim() == 0:
        return covariance / covariance
    diagonal = covariance.diagonal()
    deviation = (diagonal.real if covariance.is_complex() else diagonal).sqrt()
    return _correlation(covariance, deviation.unsqueeze(1), deviation.unsqueeze(0))
