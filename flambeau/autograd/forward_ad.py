"""`flambeau.autograd.forward_ad`: forward-mode differentiation, which flambeau does not have as dual numbers."""

from __future__ import annotations

from typing import Any

__all__ = ["dual_level", "enter_dual_level", "exit_dual_level", "make_dual", "unpack_dual"]

_INSTEAD = ("forward-mode differentiation with dual tensors is not supported: use autograd.functional.jvp or func.jvp, "
            "which give the same numbers")


def make_dual(tensor: Any, tangent: Any, *, level: int | None = None) -> Any:
    """Not supported; raises NotImplementedError that names the replacement."""
    raise NotImplementedError(_INSTEAD)


def unpack_dual(tensor: Any, *, level: int | None = None) -> Any:
    """Not supported; raises NotImplementedError that names the replacement."""
    raise NotImplementedError(_INSTEAD)


def enter_dual_level() -> int:
    """Not supported; raises NotImplementedError that names the replacement."""
    raise NotImplementedError(_INSTEAD)


def exit_dual_level(*, level: int | None = None) -> None:
    """Not supported; raises NotImplementedError that names the replacement."""
    raise NotImplementedError(_INSTEAD)


class dual_level:
    """Not supported; entering it raises NotImplementedError that names the replacement."""

    def __enter__(self) -> int:
        return enter_dual_level()

    def __exit__(self, *exception: Any) -> None:
        return None
