"""torch._check and its kin: conditions that library code states in Python, and the errors where they don't hold.

Stands on core.tensor.tensor; offered by the namespace.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau.base.warn import warn
from flambeau.core.tensor.tensor import Tensor

_NO_WORDS = (
    "Expected cond to be True, but got False. (Could this error message be improved? If so, please report an enhancement "
    "request to PyTorch.)"
)


def _check_with(error_type: type[Exception], cond: Any, message: Callable[[], Any] | None = None) -> None:
    """Raise `error_type` with the text that `message` gives unless `cond` is True. TypeError if it is no bool.

    Of sizes with symbols: a guard of the trace, or a check of its graph.
    """
    if getattr(cond, "is_symbolic_truth", False) is True:
        cond = cond.node.expect_true()
    if not isinstance(cond, bool):
        if isinstance(cond, Tensor):
            raise TypeError(
                "cond must be a bool, but got a Tensor. For tensor conditions, use torch._check_tensor_all() to "
                "assert that all elements are true."
            )
        raise TypeError(f"cond must be a bool, but got {type(cond)}")
    if cond:
        return
    if message is None:
        raise error_type(_NO_WORDS)
    if not callable(message):
        raise TypeError("message must be a callable")
    raise error_type(str(message()))


def _check(cond: Any, message: Callable[[], Any] | None = None) -> None:
    """RuntimeError unless `cond` is True."""
    _check_with(RuntimeError, cond, message)


def _check_index(cond: Any, message: Callable[[], Any] | None = None) -> None:
    """IndexError unless `cond` is True."""
    _check_with(IndexError, cond, message)


def _check_value(cond: Any, message: Callable[[], Any] | None = None) -> None:
    """ValueError unless `cond` is True."""
    _check_with(ValueError, cond, message)


def _check_type(cond: Any, message: Callable[[], Any] | None = None) -> None:
    """TypeError unless `cond` is True."""
    _check_with(TypeError, cond, message)


def _check_not_implemented(cond: Any, message: Callable[[], Any] | None = None) -> None:
    """NotImplementedError unless `cond` is True."""
    _check_with(NotImplementedError, cond, message)


def _check_is_size(i: Any, message: Callable[[], Any] | None = None, *, max: Any = None) -> None:
    """RuntimeError unless a number can be a size, of at most `max`."""
    warn(
        "_check_is_size will be removed in a future PyTorch release along with guard_size_oblivious.     Use "
        "_check(i >= 0) instead.",
        FutureWarning,
    )
    _check(i >= 0, message)
    if max is not None:
        _check(i <= max, message)


def _check_tensor_all_with(error_type: type[Exception], cond: Any, message: Callable[[], Any] | None = None) -> None:
    """Raise `error_type` unless all elements of a bool tensor are true."""
    if not isinstance(cond, Tensor):
        raise TypeError(f"cond must be a tensor, but got {type(cond)}")
    if cond.dtype.name != "bool":
        raise TypeError(f"cond tensor must have dtype torch.bool, but got {cond.dtype}")
    _check_with(error_type, bool(cond.all()), message)


def _check_tensor_all(cond: Any, message: Callable[[], Any] | None = None) -> None:
    """RuntimeError unless all elements of a bool tensor are true."""
    _check_tensor_all_with(RuntimeError, cond, message)
