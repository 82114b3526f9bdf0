"""Jacobians of functions of tensors: by central differences, by backward passes and by forward mode.

A Jacobian has a row per element of the input and a column per element of the output. An input's complex elements count as pairs:
an entry is d/dx + i d/dy, as gradients are. Sparse inputs move by their values. Used by autograd.gradcheck.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import flambeau as torch
from flambeau.core.tensor.tensor import Tensor

__all__ = [
    "Analytical",
    "Case",
    "Moving",
    "as_tuple",
    "by_backward",
    "dense",
    "differentiable",
    "entries",
    "is_sparse",
    "requires_grad",
    "tensors_of",
]


def as_tuple(given: Any) -> tuple[Any, ...]:
    """Several things, or one, as a tuple."""
    return tuple(given) if isinstance(given, (tuple, list)) else (given,)


def requires_grad(x: Any) -> bool:
    """Whether it is a tensor that requires grad."""
    return isinstance(x, Tensor) and x.requires_grad


def tensors_of(result: Any) -> list[Any]:
    """The tensors of floating point or complex numbers among the outputs of a function."""
    return [y for y in as_tuple(result) if isinstance(y, Tensor) and (y.is_floating_point() or y.is_complex())]


def differentiable(result: Any) -> tuple[Any, ...]:
    """The outputs that require grad."""
    return tuple(y for y in as_tuple(result) if y.requires_grad)


def is_sparse(x: Any) -> bool:
    """Whether a tensor is sparse, of any layout."""
    return x.layout is not torch.strided


def dense(x: Any) -> Any:
    """A tensor as a dense one, outside the graph."""
    x = x.detach()
    return x.to_dense() if is_sparse(x) else x


@dataclass
class Analytical:
    """Jacobians of one output, per input, by backward passes; whether the gradients had the inputs' sizes and dtypes."""

    columns: list[Any]
    sizes_fit: bool
    dtypes_fit: bool


def by_backward(output: Any, inputs: Sequence[Any], masked: bool = False) -> Analytical:
    """The Jacobians of a real output by one backward pass for each of its elements.

    masked: zero where a sparse input specifies no element.
    """
    made = Analytical([torch.zeros(x.numel(), output.numel(), dtype=x.dtype) for x in inputs], True, True)
    weight = torch.zeros(output.shape, dtype=output.dtype)
    flat = weight.view(-1)
    for column in range(output.numel()):
        flat[column] = 1
        gradients = torch.autograd.grad(output, inputs, weight.clone(), retain_graph=True, allow_unused=True)
        flat[column] = 0
        for number, (gradient, x) in enumerate(zip(gradients, inputs, strict=True)):
            if gradient is None:
                continue
            made.dtypes_fit &= gradient.dtype is x.dtype
            if gradient.shape != x.shape:
                made.sizes_fit = False
            else:
                made.columns[number][:, column] = entries(gradient, x, masked)
    return made


def entries(gradient: Any, x: Any, masked: bool) -> Any:
    """A gradient's elements in one row."""
    whole = dense(gradient)
    if masked and is_sparse(x):
        whole = whole * places(x).ne(0)
    return whole.reshape(-1)


def places(x: Any) -> Any:
    """A dense tensor of integers of a sparse tensor's shape: which of its values an element is, counted from 1; 0: none."""
    if x.layout is torch.sparse_coo:
        x = x.detach().coalesce()
        values = x.values()
        count = torch.arange(1, values.numel() + 1, dtype=torch.float64).reshape(values.shape)
        return torch.sparse_coo_tensor(x.indices(), count, x.shape).to_dense().long()
    values = x.detach().values()
    count = torch.arange(1, values.numel() + 1, dtype=torch.float64).reshape(values.shape)
    return _with_values(x, count).to_dense().long()


def _with_values(x: Any, values: Any) -> Any:
    """A sparse tensor with the places of another and other values."""
    if x.layout is torch.sparse_coo:
        return torch.sparse_coo_tensor(x.indices(), values, x.shape, is_coalesced=True)
    if x.layout in (torch.sparse_csr, torch.sparse_bsr):
        return torch.sparse_compressed_tensor(x.crow_indices(), x.col_indices(), values, x.shape, layout=x.layout)
    return torch.sparse_compressed_tensor(x.ccol_indices(), x.row_indices(), values, x.shape, layout=x.layout)


def _specified(x: Any) -> Any:
    """A sparse tensor of the same elements and layout that specifies all of them."""
    values = x.detach().to_dense()
    ones = torch.ones_like(values)
    if x.layout is torch.sparse_coo:
        full = ones.to_sparse(x.sparse_dim()).coalesce()
    elif x.layout in (torch.sparse_bsr, torch.sparse_bsc):
        blocks = x.values().shape
        full = ones.to_sparse(layout=x.layout, blocksize=tuple(blocks[-2:]))
    else:
        full = ones.to_sparse(layout=x.layout)
    where = places(full)
    order = torch.empty(values.numel(), dtype=torch.int64)
    order[where.reshape(-1) - 1] = torch.arange(values.numel())
    return _with_values(full, values.reshape(-1)[order].reshape(full.values().shape).clone())


class Moving:
    """The elements of one of a function's inputs as a row of numbers that can be set.

    values: the row; elements: which element of the input each of them is. A dense input is written to where it lies, as what
    the function looks at may be the tensor itself (a module's parameter); a sparse one is made anew, with all elements unless
    masked.
    """

    def __init__(self, inputs: tuple[Any, ...], position: int, masked: bool) -> None:
        self.inputs, self.position = inputs, position
        x = inputs[position]
        if not is_sparse(x):
            self.sparse = None
            self.values = x.detach().reshape(-1).clone()
            self.elements = torch.arange(x.numel())
            return
        self.sparse = x.detach() if masked else _specified(x)
        if self.sparse.layout is torch.sparse_coo:
            self.sparse = self.sparse.coalesce()
        self.values = self.sparse.values().reshape(-1).clone()
        where = places(self.sparse).reshape(-1)
        self.elements = torch.empty(self.values.numel(), dtype=torch.int64)
        self.elements[where[where > 0] - 1] = where.nonzero().reshape(-1)

    def placed(self, values: Any) -> tuple[Any, ...]:
        """The inputs with these values."""
        x = self.inputs[self.position]
        if self.sparse is None:
            x.data.copy_(values.reshape(x.shape))
            return self.inputs
        given = list(self.inputs)
        moved = _with_values(self.sparse, values.reshape(self.sparse.values().shape).clone())
        given[self.position] = moved.requires_grad_(x.requires_grad)
        return tuple(given)


class Case:
    """A function at a point: its derivatives by central differences of step eps.

    chosen: which of its outputs are looked at, default those of floating point or complex numbers; transform: what is looked
    at of each. masked: what a sparse input doesn't specify is constant.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        inputs: tuple[Any, ...],
        eps: float,
        masked: bool,
        chosen: Sequence[int] | None = None,
        transform: Callable[[Any], Any] = lambda y: y,
    ) -> None:
        self.function, self.inputs, self.eps, self.masked = function, inputs, eps, masked
        self.chosen, self.transform = chosen, transform
        self.known = [(y.shape, y.dtype) for y in self.outputs(inputs)]

    def outputs(self, inputs: Sequence[Any]) -> list[Any]:
        """Copies of what is looked at."""
        result = as_tuple(self.function(*inputs))
        chosen = tensors_of(result) if self.chosen is None else [result[n] for n in self.chosen]
        return [self.transform(y.detach()).clone() for y in chosen]

    def derivative(self, moving: Moving, direction: Any, step: str = "") -> list[Any]:
        """Per output how it changes when the values of an input move along a direction, in one row.

        AssertionError if outputs change shape or dtype.
        """
        try:
            high = self.outputs(moving.placed(moving.values + self.eps * direction))
            low = self.outputs(moving.placed(moving.values - self.eps * direction))
        finally:
            moving.placed(moving.values)
        for first, second in zip(low, high, strict=True):
            for what, before, now in (("shape", first.shape, second.shape), ("dtype", first.dtype, second.dtype)):
                if before != now:
                    raise AssertionError(
                        f"Expected `func` to return outputs with the same {what} when inputs are perturbed{step} by "
                        f"{self.eps}, but got: {what}s {before} and {now}."
                    )
        return [(a - b).reshape(-1) / (2 * self.eps) for a, b in zip(high, low, strict=True)]

    def numerical(self, position: int, units: Sequence[Any] | None = None) -> list[Any]:
        """Per output its Jacobian with respect to an input.

        units: the directions in which each element moves, by default 1, for a complex one 1 and 1j; an entry is the sum of
        direction times derivative.
        """
        x = self.inputs[position]
        moving = Moving(self.inputs, position, self.masked)
        if units is None:
            units = (1, 1j) if x.is_complex() else (1,)
        made = [torch.zeros(x.numel(), shape.numel(), dtype=torch.promote_types(x.dtype, dtype)) for shape, dtype in self.known]
        for number, element in enumerate(moving.elements.tolist()):
            index = _index(element, x.shape)
            for unit in units:
                direction = torch.zeros_like(moving.values)
                direction[number] = unit
                for jacobian, row in zip(made, self.derivative(moving, direction, f" on index {index}"), strict=True):
                    jacobian[element] += unit * row
        return made


def _index(element: int, shape: Sequence[int]) -> tuple[int, ...]:
    index: list[int] = []
    for size in reversed(shape):
        element, at = divmod(element, size)
        index.append(at)
    return tuple(reversed(index))
