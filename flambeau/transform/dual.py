"""Dual tensors: forward-mode differentiation.

A `Dual` is a value (`primal`) and the direction in which it moves (`tangent`). An operator's result moves by the
operator's derivative applied to the tangents of its operands. Where the operator is linear in an operand, or a view of
it, that is the operator itself; else it follows from the operator's gradient, which is linear in what it is given: the
gradient of the gradient with respect to that is the derivative (the double-vjp trick), so every rule serves both
directions. Stands on levels and tangents; used by flambeau.autograd.forward_ad and flambeau.func.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from flambeau.base import memory_order
from flambeau.core.modes import modes
from flambeau.core.tensor import printing
from flambeau.core.tensor.tensor import Tensor, tensor_from
from flambeau.transform.levels import Level, Wrapped, blank, invoke, mapped

__all__ = ["Dual", "DualLevel"]


class Dual(Wrapped):
    """A tensor with a tangent of its shape (None: it doesn't move)."""

    primal: Any
    tangent: Any
    is_view = False  # of another dual tensor, whose tangent its tangent is a view of

    @property
    def held(self) -> Any:
        return self.primal

    def remains(self) -> Any:
        return self.primal

    def __repr__(self, *, tensor_contents: Any = None) -> str:  # type: ignore[override]
        if self.level.of_function and (text := printing.inside_transforms(self)):
            return text
        shown = repr(self.primal)
        return shown[:-1] + f", tangent={self.tangent!r})" if self.level.depth else shown

    __str__ = __repr__  # type: ignore[assignment]

    def __format__(self, specification: str) -> str:
        return format(self.primal, specification)


class DualLevel(Level):
    """A forward-mode differentiation in progress; of_function: it is that of a function transform, as `func.jvp` is."""

    def __init__(self, of_function: bool = False) -> None:
        self.of_function = of_function

    def wrap(self, primal: Any, tangent: Any) -> Any:
        """A dual tensor; without a tangent the primal itself."""
        if tangent is None:
            return primal
        made = blank(Dual, primal._layout)
        made.level, made.primal, made.tangent = self, primal, tangent
        return made

    def dual(self, primal: Any, tangent: Any) -> Any:
        """`wrap`, after the checks of its parts: ValueError for tensors of integers, RuntimeError for different shapes."""
        for name, x in (("primal", primal), ("tangent", tangent)):
            if not (x.is_floating_point() or x.is_complex()):
                raise ValueError(f"Expected {name} to be floating point or complex, but got: {x.dtype}")
        if primal._layout.shape != tangent._layout.shape:
            raise RuntimeError(
                "Trying to set a forward gradient that has a different size than that of the original Tensor, this is not "
                f"supported. Tensor is of size {list(primal._layout.shape)} while the given forward gradient is of size "
                f"{list(tangent._layout.shape)}."
            )
        if isinstance(tangent, Dual) and tangent.level is self:
            raise RuntimeError("Setting a forward grad that itself has a forward gradient at the same level 0 is not supported.")
        if not modes.local.forward_grad:
            return primal
        if primal._layout.answering is None and tangent._layout.answering is None:
            tangent = lying_as(primal, tangent)
        if not levels_of(primal) <= levels_of(tangent):  # a write may give each example of the value a tangent of its own
            tangent = tangent + primal.new_zeros(())
        return self.wrap(primal, tangent)

    def has(self, x: Any) -> bool:
        """Whether a tensor moves at this level."""
        return isinstance(x, Dual) and x.level is self

    def primal(self, x: Any) -> Any:
        """The value of a tensor."""
        return x.primal if isinstance(x, Dual) and x.level is self else x

    def tangent(self, x: Any) -> Any:
        """The tangent of a tensor, or None."""
        return x.tangent if isinstance(x, Dual) and x.level is self else None

    def answer(self, function: Callable, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        if not modes.local.forward_grad:
            return invoke(function, mapped(self.primal, tuple(args)), mapped(self.primal, kwargs))
        return answering(self, function, args, kwargs)


def lying_as(primal: Any, tangent: Any) -> Any:
    """The tangent itself if it lies in its memory as the value does, else a copy that does: views of the value are to be views of
    the tangent too.
    """
    own, layout = primal._layout, tangent._layout
    size = primal._storage.capacity // own.dtype.itemsize
    alike = own.strides == layout.strides and own.pending == layout.pending
    if not own.numel or own.device.type == "meta" or (alike and tangent._storage.capacity // layout.dtype.itemsize == size):
        return tangent
    whole = tangent.new_zeros((size,))
    copy = whole.as_strided(own.shape, own.strides, primal._offset)
    if memory_order.overlaps_itself(own.shape, own.strides):
        return tangent
    copy = tensor_from(copy._storage, copy._offset, copy._layout.with_pending(own.pending))
    copy.copy_(tangent)
    return copy


def levels_of(x: Any) -> set[Level]:
    """The vmaps whose examples differ in a tensor."""
    found = set()
    while isinstance(x, Wrapped):
        if not isinstance(x, Dual):
            found.add(x.level)
        x = x.held
    return found


def answering(level: DualLevel, function: Callable, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Replaced by transform.tangents, which knows the rules."""
    raise NotImplementedError


def is_tensor(x: Any) -> bool:
    """Whether it can move."""
    return isinstance(x, Tensor) and (x._layout.dtype.is_floating_point or x._layout.dtype.is_complex)
