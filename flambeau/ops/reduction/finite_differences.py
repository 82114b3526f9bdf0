"""gradient: estimates of partial derivatives of samples on a grid by finite differences.

Composed of slices and sums. Stands on core.operator.define; used by programs.
"""

from __future__ import annotations

from typing import Any

from flambeau.base.dtype import uint8
from flambeau.core.operator.define import composite
from flambeau.core.operator.publishing import NAMESPACE
from flambeau.core.tensor.tensor import Tensor


def _dims_of(ndim: int, dim: Any) -> list[int]:
    """The dimensions named, not negative. Raises RuntimeError where one comes twice, IndexError out of range."""
    given = range(ndim) if dim is None else dim if isinstance(dim, (tuple, list)) else (dim,)
    dims: list[int] = []
    for d in given:
        if not -ndim <= d < ndim:
            raise IndexError(f"Dimension out of range (expected to be in range of [{-ndim}, {ndim - 1}], but got {d})")
        if d % ndim in dims:
            raise RuntimeError(f"dim {d % ndim} appears multiple times in the list of dims")
        dims.append(d % ndim)
    return dims


def _number(x: Any) -> Any:
    return x.item() if isinstance(x, Tensor) else x


def _spacings(spacing: Any, dims: list[int], dim: Any, ndim: int) -> list[Any]:
    """One number, or one tensor of coordinates, to a dimension."""
    if not isinstance(spacing, (tuple, list)):
        if isinstance(spacing, Tensor) and spacing.dim():
            raise TypeError(
                "gradient() received an invalid combination of arguments - got (Tensor, spacing=Tensor), but "
                "spacing must be a number, a list of numbers or a list of tensors"
            )
        return [1 if spacing is None else _number(spacing)] * len(dims)
    if len(spacing) != len(dims):
        if dim is None:
            raise RuntimeError(
                "torch.gradient expected spacing to be unspecified, a scalar, or a list of length equal to "
                f"'self.dim() = {ndim}', since dim argument was not given, but got a list of length "
                f"{len(spacing)}"
            )
        raise RuntimeError(
            "torch.gradient expected spacing to be unspecified, a scalar or it's spacing and dim "
            "arguments to have "
            f"the same length, but got a spacing argument of length {len(spacing)} and a dim argument of length "
            f"{len(dims)}."
        )
    for x in spacing:
        if isinstance(x, Tensor) and x.dim() != 1:
            raise RuntimeError(
                "torch.gradient expected each element of spacing to have one dimension, but got an element with "
                f"{x.dim()} dimensions!"
            )
    return list(spacing)


def _even(x: Tensor, d: int, step: Any, order: int) -> Tensor:
    """The derivative along one dimension with equal steps."""
    size = x.size(d)

    def at(i: int) -> Tensor:
        return x.narrow(d, i % size, 1)

    centre = (x.narrow(d, 2, size - 2) - x.narrow(d, 0, size - 2)) / (2 * step)
    if order == 1:
        first, last = (at(1) - at(0)) / step, (at(-1) - at(-2)) / step
    else:
        first = (at(0) * -1.5 + at(1) * 2 - at(2) * 0.5) / step
        last = (at(-1) * 1.5 - at(-2) * 2 + at(-3) * 0.5) / step
    return NAMESPACE["cat"]([first, centre, last], d)


def _uneven(x: Tensor, d: int, coordinates: Tensor, order: int) -> Tensor:
    """The derivative along one dimension whose samples stand at `coordinates`."""
    size = x.size(d)
    shape = [1] * x.dim()
    shape[d] = -1
    steps = coordinates.diff().view(shape)

    def at(i: int) -> Tensor:
        return x.narrow(d, i % size, 1)

    def step(i: int) -> Tensor:
        return steps.narrow(d, i % steps.size(d), 1)

    def weights(before: Tensor, after: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        both = before + after
        return -after / (before * both), (after - before) / (before * after), before / (after * both)

    before, after = steps.narrow(d, 0, steps.size(d) - 1), steps.narrow(d, 1, steps.size(d) - 1)
    a, b, c = weights(before, after)
    centre = x.narrow(d, 0, size - 2) * a + x.narrow(d, 1, size - 2) * b + x.narrow(d, 2, size - 2) * c
    if order == 1:
        first, last = (at(1) - at(0)) / step(0), (at(-1) - at(-2)) / step(-1)
    else:
        u, v = step(0), step(1)
        first = at(0) * (-(2 * u + v) / (u * (u + v))) + at(1) * ((u + v) / (u * v)) - at(2) * (u / (v * (u + v)))
        u, v = step(-2), step(-1)
        last = at(-3) * (v / (u * (u + v))) - at(-2) * ((u + v) / (u * v)) + at(-1) * ((2 * v + u) / (v * (u + v)))
    return NAMESPACE["cat"]([first, centre, last], d)


@composite(method=False)
def gradient(input: Tensor, *, spacing=None, dim=None, edge_order=1):
    """Estimates of the partial derivatives of a sampled function, a tuple with one tensor to a dimension.

    spacing: the step (a number, or one to a dimension) or the coordinates (1-D tensors) of the samples; dim: which
    dimensions (all by default); edge_order: 1 or 2, the order of the estimate at the ends. Inner ones are central
    differences. Raises RuntimeError for dimensions too short, repeated, or not as many as spacings.
    """
    if edge_order not in (1, 2):
        raise RuntimeError("torch.gradient only supports edge_order=1 and edge_order=2.")
    if input.dtype is uint8:
        raise RuntimeError("torch.gradient does not support uint8 input.")
    dims = _dims_of(input.dim(), dim)
    steps = _spacings(spacing, dims, dim, input.dim())
    for d in dims:
        if input.size(d) < edge_order + 1:
            raise RuntimeError("torch.gradient expected each dimension size to be at least edge_order+1")
    return tuple(
        _uneven(input, d, step, edge_order)
        if isinstance(step, Tensor) and step.dim()
        else _even(input, d, _number(step), edge_order)
        for d, step in zip(dims, steps)
    )
