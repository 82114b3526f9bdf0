"""`flambeau.autograd.forward_ad`: forward-mode differentiation with dual tensors. A face over flambeau.transform.dual."""

from __future__ import annotations

import collections
from typing import Any

from flambeau.core.modes.modes import local
from flambeau.core.tensor.tensor import Tensor
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


class _set_fwd_grad_enabled:
    """Switch forward mode on or off at once; as a context, only there. What is off computes with values alone."""

    def __init__(self, mode: bool) -> None:
        self.prev, local.forward_grad = local.forward_grad, mode

    def __enter__(self) -> None:
        """Nothing: the constructor has switched."""

    def __exit__(self, *exception: object) -> None:
        local.forward_grad = self.prev


def _is_fwd_grad_enabled() -> bool:
    """Whether dual tensors move what is computed from them."""
    return local.forward_grad


def __getattr__(name: str) -> Any:
    """_current_level: the number of the level in progress, -1 outside of one."""
    if name == "_current_level":
        return -1 if _current() is None else 0
    raise AttributeError(f"module {__name__!r} has no attribute '{name}'")


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
        raise RuntimeError("Trying to exit a forward AD level that was not the last one that was created. This is not supported.")
    current.__exit__()


def make_dual(tensor: Any, tangent: Any, *, level: int | None = None) -> Any:
    """A tensor that moves along `tangent`, of its shape, in what is computed from it inside a dual_level.

    Raises RuntimeError outside of one, or if the shapes differ, and ValueError for tensors of integers.
    """
    current = _current()
    if current is None or (level is not None and level < 0):
        raise RuntimeError(
            "Trying to create a dual Tensor for forward AD but no level exists, make sure to enter_dual_level() first."
        )
    if level not in (None, 0):
        raise RuntimeError("Invalid level given to _make_dual")
    if current.has(tensor):
        raise RuntimeError(
            "Making a dual Tensor based on a Tensor that already has a forward gradient at the same level 0 is not supported."
        )
    return current.dual(tensor.view_as(tensor), tangent)


def unpack_dual(tensor: Any, *, level: int | None = None) -> Any:
    """(value, tangent or None) of a tensor."""
    current = _current()
    if isinstance(tensor, Dual) and not tensor.level.depth:
        return UnpackedDualTensor(tensor.primal, None)
    if current is None:
        return UnpackedDualTensor(tensor, None)
    if not isinstance(tensor, Tensor):
        raise TypeError(f"_unpack_dual(): argument 'dual' (position 1) must be Tensor, not {type(tensor).__name__}")
    if not current.has(tensor):
        return UnpackedDualTensor(tensor, None)
    primal = tensor.primal
    return UnpackedDualTensor(primal.view_as(primal), tensor.tangent if local.forward_grad else None)


class dual_level:
    """Context: forward-mode differentiation is in progress."""

    def __enter__(self) -> int:
        return enter_dual_level()

    def __exit__(self, *exception: Any) -> None:
        exit_dual_level()
