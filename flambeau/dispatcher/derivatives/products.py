"""Derivatives of products of matrices and vectors.

Stands on graphs; part of the room derivatives.
"""

from __future__ import annotations

from typing import Any

from flambeau.dispatcher.graphs import derivative
from flambeau.dispatcher.namespaces import ops

__all__: list[str] = []

aten: Any = ops.aten


def _columns(x: Any) -> bool:
    """Whether a matrix lies column by column."""
    steps, shape = x._layout.strides, x._layout.shape
    return steps[0] == 1 and steps[1] == shape[0]


def _first(g: Any, other: Any, own: Any) -> Any:
    """The gradient of the first factor, in its order of memory."""
    if _columns(own):
        return aten.t.default(aten.mm.default(conjugate(other), aten.t.default(g)))
    return aten.mm.default(g, conjugate(aten.t.default(other)))


def _second(g: Any, other: Any, own: Any) -> Any:
    if _columns(own):
        return aten.t.default(aten.mm.default(aten.t.default(g), conjugate(other)))
    return aten.mm.default(conjugate(aten.t.default(other)), g)


def conjugate(x: Any) -> Any:
    return x.conj() if x._layout.dtype.is_complex else x


def _scaled(x: Any, by: Any) -> Any:
    return x if by == 1 else aten.mul.Scalar(x, by)


@derivative("mm", node="MmBackward0")
def _(g: Any, self: Any, mat2: Any, need: Any) -> Any:
    return _first(g, mat2, self) if need["self"] else None, _second(g, self, mat2) if need["mat2"] else None


@derivative("addmm", node="AddmmBackward0")
def _(g: Any, mat1: Any, mat2: Any, beta: Any, alpha: Any, need: Any) -> Any:
    return (
        _scaled(g, beta) if need["self"] else None,
        _scaled(_first(g, mat2, mat1), alpha) if need["mat1"] else None,
        _scaled(_second(g, mat1, mat2), alpha) if need["mat2"] else None,
    )


@derivative("bmm", node="BmmBackward0")
def _(g: Any, self: Any, mat2: Any, need: Any) -> Any:
    return (
        aten.bmm.default(g, conjugate(aten.transpose.int(mat2, 1, 2))) if need["self"] else None,
        aten.bmm.default(conjugate(aten.transpose.int(self, 1, 2)), g) if need["mat2"] else None,
    )


@derivative("baddbmm", node="BaddbmmBackward0")
def _(g: Any, batch1: Any, batch2: Any, beta: Any, alpha: Any, need: Any) -> Any:
    return (
        _scaled(g, beta) if need["self"] else None,
        _scaled(aten.bmm.default(g, conjugate(aten.transpose.int(batch2, 1, 2))), alpha) if need["batch1"] else None,
        _scaled(aten.bmm.default(conjugate(aten.transpose.int(batch1, 1, 2)), g), alpha) if need["batch2"] else None,
    )


@derivative("mv", node="MvBackward0")
def _(g: Any, self: Any, vec: Any, need: Any) -> Any:
    return (
        aten.ger.default(g, conjugate(vec)) if need["self"] else None,
        aten.mv.default(conjugate(aten.t.default(self)), g) if need["vec"] else None,
    )


@derivative("dot", node="DotBackward0")
def _(g: Any, self: Any, tensor: Any, need: Any) -> Any:
    return g * conjugate(tensor) if need["self"] else None, g * conjugate(self) if need["tensor"] else None
