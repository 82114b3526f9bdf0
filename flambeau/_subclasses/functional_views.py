"""What a write through a view makes of the tensor behind it: each view's inverse, in aten's operators that write nothing.

Stands on torch.ops; used by functional_tensor.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import flambeau as torch

__all__ = ["View", "written_back"]

_aten = torch.ops.aten
Inverse = Callable[[torch.Tensor, torch.Tensor, list[Any], int], torch.Tensor]
INVERSES: dict[Any, Inverse] = {}


class View(NamedTuple):
    """A view: the operator, its arguments behind the tensor, and which of its results (None for an operator with one)."""

    operator: Any
    rest: tuple[Any, ...]
    named: dict[str, Any]
    at: int | None

    def of(self, base: torch.Tensor) -> torch.Tensor:
        """The view of another tensor."""
        made = self.operator(base, *self.rest, **self.named)
        return made if self.at is None else made[self.at]  # type: ignore[no-any-return]


def written_back(view: View, base: torch.Tensor, written: torch.Tensor) -> torch.Tensor:
    """`base` with `written` in the place that the view shows of it. NotImplementedError for a view without an inverse."""
    inverse = INVERSES.get(view.operator)
    if inverse is None and view.operator.namespace != "aten" and view.operator.declaration is not None:
        return _by_places(view, base, written)
    if inverse is None:
        raise NotImplementedError(
            f"a write through {view.operator} is not implemented in flambeau without writes in place: write to the tensor itself"
        )
    names = [a.name for a in view.operator._schema.arguments][1:]
    given = dict(zip(names, view.rest)) | view.named
    values = [given.get(a.name, a.default_value) for a in view.operator._schema.arguments[1:]]
    return inverse(base, written, values, view.at or 0)


def _by_places(view: View, base: torch.Tensor, written: torch.Tensor) -> torch.Tensor:
    """The same for a declared view, which has no inverse: it shows the places of the elements as it shows the elements."""
    places = _aten.arange.default(base.numel(), device=base.device, pin_memory=False)
    shown = view.of(_aten.view.default(places, list(base.shape)))
    return _aten.put.default(base, shown, written)  # type: ignore[no-any-return]


def _inverse(*operators: Any) -> Callable[[Inverse], Inverse]:
    def register(function: Inverse) -> Inverse:
        for operator in operators:
            INVERSES[operator] = function
        return function

    return register


@_inverse(_aten.view.default, _aten._unsafe_view.default, _aten._reshape_alias.default)
def _of_view(base: torch.Tensor, written: torch.Tensor, given: list[Any], at: int) -> Any:
    return _aten.view.default(written, list(base.shape))


@_inverse(_aten.view.dtype)
def _of_reinterpretation(base: torch.Tensor, written: torch.Tensor, given: list[Any], at: int) -> Any:
    return _aten.view.dtype(written, base.dtype)


@_inverse(_aten.permute.default)
def _of_permute(base: torch.Tensor, written: torch.Tensor, given: list[Any], at: int) -> Any:
    order = [d % base.dim() for d in given[0]]
    return _aten.permute.default(written, [order.index(d) for d in range(base.dim())])


@_inverse(_aten.transpose.int)
def _of_transpose(base: torch.Tensor, written: torch.Tensor, given: list[Any], at: int) -> Any:
    return _aten.transpose.int(written, *given)


@_inverse(_aten.t.default)
def _of_t(base: torch.Tensor, written: torch.Tensor, given: list[Any], at: int) -> Any:
    return _aten.t.default(written)


@_inverse(_aten.unsqueeze.default)
def _of_unsqueeze(base: torch.Tensor, written: torch.Tensor, given: list[Any], at: int) -> Any:
    return _aten.squeeze.dim(written, given[0])


def _unsqueezed(base: torch.Tensor, written: torch.Tensor, dims: list[int]) -> Any:
    for d in sorted(d % max(base.dim(), 1) for d in dims):
        if base.dim() and base.shape[d] == 1:
            written = _aten.unsqueeze.default(written, d)
    return written


@_inverse(_aten.squeeze.default)
def _of_squeeze(base: torch.Tensor, written: torch.Tensor, given: list[Any], at: int) -> Any:
    return _unsqueezed(base, written, list(range(base.dim())))


@_inverse(_aten.squeeze.dim)
def _of_squeeze_dim(base: torch.Tensor, written: torch.Tensor, given: list[Any], at: int) -> Any:
    return _unsqueezed(base, written, [given[0]])


@_inverse(_aten.squeeze.dims)
def _of_squeeze_dims(base: torch.Tensor, written: torch.Tensor, given: list[Any], at: int) -> Any:
    return _unsqueezed(base, written, list(given[0]))


@_inverse(_aten.expand.default)
def _of_expand(base: torch.Tensor, written: torch.Tensor, given: list[Any], at: int) -> Any:
    lead = written.dim() - base.dim()
    dims = [*range(lead), *(d + lead for d, n in enumerate(base.shape) if n == 1 and written.shape[d + lead] != 1)]
    if not dims:
        return _aten.view.default(written, list(base.shape)) if lead else written
    own = _aten.expand.default(base, list(written.shape))
    both_nan = _aten.logical_and.default(_aten.isnan.default(written), _aten.isnan.default(own))
    changed = _aten.logical_and.default(_aten.ne.Tensor(written, own), _aten.logical_not.default(both_nan))
    # of the places that share memory a write changes one: no operator writes to several
    some = _aten.any.dims(changed, dims, True)
    made = _aten.sum.dim_IntList(
        _aten.where.self(changed, written, _aten.zeros_like.default(written)), dims, True, dtype=base.dtype
    )
    shape = list(base.shape)
    return _aten.where.self(_aten.view.default(some, shape), _aten.view.default(made, shape), base)


@_inverse(_aten.detach.default)
def _of_detach(base: torch.Tensor, written: torch.Tensor, given: list[Any], at: int) -> Any:
    return written


@_inverse(_aten.alias.default)
def _of_alias(base: torch.Tensor, written: torch.Tensor, given: list[Any], at: int) -> Any:
    return _aten.alias.default(written)


# ---------------------------------------------------------------- views of a part


@_inverse(_aten.select.int)
def _of_select(base: torch.Tensor, written: torch.Tensor, given: list[Any], at: int) -> Any:
    return _aten.select_scatter.default(base, written, *given)


@_inverse(_aten.slice.Tensor)
def _of_slice(base: torch.Tensor, written: torch.Tensor, given: list[Any], at: int) -> Any:
    return _aten.slice_scatter.default(base, written, *given)


@_inverse(_aten.diagonal.default)
def _of_diagonal(base: torch.Tensor, written: torch.Tensor, given: list[Any], at: int) -> Any:
    return _aten.diagonal_scatter.default(base, written, *given)


@_inverse(_aten.as_strided.default)
def _of_as_strided(base: torch.Tensor, written: torch.Tensor, given: list[Any], at: int) -> Any:
    return _aten.as_strided_scatter.default(base, written, *given)


@_inverse(_aten.split.Tensor)
def _of_split(base: torch.Tensor, written: torch.Tensor, given: list[Any], at: int) -> Any:
    size, dim = given
    end = min((at + 1) * size, base.shape[dim])
    return _aten.slice_scatter.default(base, written, dim, at * size, end)


@_inverse(_aten.split_with_sizes.default)
def _of_split_with_sizes(base: torch.Tensor, written: torch.Tensor, given: list[Any], at: int) -> Any:
    sizes, dim = given
    start = sum(sizes[:at])
    return _aten.slice_scatter.default(base, written, dim, start, start + sizes[at])


@_inverse(_aten.unbind.int)
def _of_unbind(base: torch.Tensor, written: torch.Tensor, given: list[Any], at: int) -> Any:
    return _aten.select_scatter.default(base, written, given[0], at)


@_inverse(_aten.unfold.default)
def _of_unfold(base: torch.Tensor, written: torch.Tensor, given: list[Any], at: int) -> Any:
    return _aten.unfold_backward.default(written, list(base.shape), *given)


# ---------------------------------------------------------------- views of complex numbers


@_inverse(_aten.view_as_real.default)
def _of_view_as_real(base: torch.Tensor, written: torch.Tensor, given: list[Any], at: int) -> Any:
    return _aten.view_as_complex.default(written)


@_inverse(_aten.view_as_complex.default)
def _of_view_as_complex(base: torch.Tensor, written: torch.Tensor, given: list[Any], at: int) -> Any:
    return _aten.view_as_real.default(written)
