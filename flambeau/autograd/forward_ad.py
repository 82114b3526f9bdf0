"""`flambeau.autograd.forward_ad`: forward-mode differentiation with dual tensors. A face over flambeau.transform.dual."""

from __future__ import annotations

import collections
from typing import Any

from flambeau.core.tensor import Tensor
from flambeau.transform import tangents as _rules  # noqa: F401 - what dual tensors do under operators
from flambeau.transform.dual import Dual, DualLevel
from flambeau.transform.levels import stack

__all__ = ["UnpackedDualTensor", "dual_level", "enter_dual_level", "exit_dual_level", "make_dual", "unpack_dual"]


class UnpackedDualTensor(collections.namedtuple("UnpackedDualTensor", ["primal", "tangent"])):
    """What unpack_dual returns: a tensor, and its tangent or None."""


class _Public(DualLevel):
    """The level that enter_dual_level makes; there is one at a time."""


def _current() -> _Public | None:
    return next((level for level in stack.levels if isinstance(level, _Public)), None)


def enter_dual_level() -> int:
    """Begin forward-mode differentiation; returns its number, 0. RuntimeError inside another."""
    if _current() is not None:
        raise RuntimeError("Nested forward mode AD is not supported at the moment")
    _Public().__enter__()
    return 0


def exit_dual_level(*, level: int | None = None) -> None:
    """End forward-mode differentiation; tangents are let go. RuntimeError if none is in progress."""
    current = _current()
    if current is None:
        raise RuntimeError(
            "Dual level must be a positive number."
            if level is None
            else "Trying to exit a forward AD level that was not the last one that was created. This is not supported."
        )
    if stack.levels[-1] is not current or level not in (None, 0):
        raise RuntimeError(
            "Trying to exit a forward AD level that was not the last one that was created. This is not supported."
        )
    current.__exit__()


def make_dual(tensor: Any, tangent: Any, *, level: int | None = None) -> Any:
    """A tensor that moves along `tangent`, of its shape, in what is computed from it inside a dual_level.

    Raises RuntimeError outside of one, or if the shapes differ, and ValueError for tensors of integers.
    """
    current = _current()
    if current is None:
        raise RuntimeError(
            "Trying to create a dual Tensor for forward AD but no level exists, make sure to enter_dual_level() first."
        )
    if not (tensor.is_floating_point() or tensor.is_complex()):
        raise ValueError(f"Expected primal to be floating point or complex, but got: {tensor.dtype}")
    if not (tangent.is_floating_point() or tangent.is_complex()):
        raise ValueError(f"Expected tangent to be floating point or complex, but got: {tangent.dtype}")
    if current.has(tensor):
        raise RuntimeError(
            "Making a dual Tensor based on a Tensor that already has a forward gradient at the same level 0 is not "
            "supported."
        )
    if tensor.shape != tangent.shape:
        raise RuntimeError(
            "Trying to set a forward gradient that has a different size than that of the original Tensor, this is not "
            f"supported. Tensor is of size {list(tensor.shape)} while the given forward gradient is of size "
            f"{list(tangent.shape)}."
        )
    return current.wrap(tensor.view_as(tensor), tangent if tangent.dtype is tensor.dtype else tangent.to(tensor.dtype))


def unpack_dual(tensor: Any, *, level: int | None = None) -> Any:
    """(value, tangent or None) of a tensor."""
    current = _current()
    if isinstance(tensor, Dual) and not tensor.level.depth:
        return UnpackedDualTensor(tensor.primal, None)
    if current is None or not isinstance(tensor, Tensor):
        return UnpackedDualTensor(tensor, None)
    return UnpackedDualTensor(current.primal(tensor), current.tangent(tensor))


class dual_level:
    """Context: forward-mode differentiation is in progress."""

    def __enter__(self) -> int:
        return enter_dual_level()

    def __exit__(self, *exception: Any) -> None:
        exit_dual_level()
