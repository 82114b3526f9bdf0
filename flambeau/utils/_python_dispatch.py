"""torch.utils._python_dispatch: modes below autograd, and tensors that are made of tensors.

A TorchDispatchMode sees every operator as PyTorch's dispatcher names it. A subclass of Tensor with __tensor_flatten__ and
__tensor_unflatten__ says of which tensors it is made; libraries ask whether a tensor has them. Stands on
dispatcher.dispatch_modes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from flambeau.core.modes import modes
from flambeau.core.tensor.tensor import Tensor
from flambeau.dispatcher.dispatch_modes import DispatchMode

__all__ = [
    "BaseTorchDispatchMode", "TorchDispatchMode", "is_in_torch_dispatch_mode", "is_traceable_wrapper_subclass",
    "is_traceable_wrapper_subclass_type", "transform_subclass",
]  # fmt: skip


class TorchDispatchMode(DispatchMode):
    """A mode whose `__torch_dispatch__(func, types, args, kwargs)` answers every operator while it is on (`with mode:`).

    func: an overload, `torch.ops.aten.add.Tensor`, to be called with the arguments of its schema; the call goes to the mode
    outside of this one, and at last to the operator.
    """

    supports_higher_order_operators = False

    def __init__(self, _dispatch_key: Any = None):
        self._dispatch_key = _dispatch_key

    @classmethod
    def push(cls, *args: Any, **kwargs: Any) -> Any:
        """An instance; `with Mode.push(...)` is `with Mode(...)`."""
        return cls(*args, **kwargs)

    @classmethod
    def is_infra_mode(cls) -> bool:
        """Whether it belongs to PyTorch's own machinery."""
        return False


class BaseTorchDispatchMode(TorchDispatchMode):
    """The mode that changes nothing."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


def is_in_torch_dispatch_mode(include_infra_modes: bool = True) -> bool:
    """Whether a mode is on in this thread; include_infra_modes: also one whose `is_infra_mode()` is True."""
    return any(include_infra_modes or not mode.is_infra_mode() for mode in modes.local.dispatch_modes)


def _get_current_dispatch_mode() -> Any:
    """The innermost mode; None if none is on."""
    return modes.local.dispatch_modes[-1] if modes.local.dispatch_modes else None


def _get_current_dispatch_mode_stack() -> list[Any]:
    """The modes that are on, innermost last."""
    return list(modes.local.dispatch_modes)


@contextlib.contextmanager
def _disable_current_modes() -> Iterator[list[Any]]:
    """Switch off the modes of this thread."""
    stack = modes.local.dispatch_modes
    before = stack[:]
    stack.clear()
    try:
        yield before
    finally:
        stack[:] = before


def is_traceable_wrapper_subclass_type(t: type) -> bool:
    """Whether a class is a subclass of Tensor with __tensor_flatten__ and __tensor_unflatten__."""
    return (
        issubclass(t, Tensor) and t is not Tensor and hasattr(t, "__tensor_flatten__") and hasattr(t, "__tensor_unflatten__")
    )


def is_traceable_wrapper_subclass(t: object) -> bool:
    """Whether it is a tensor of a class that says of which tensors it is made."""
    return is_traceable_wrapper_subclass_type(type(t))


def transform_subclass(
    t: Any, callback: Callable[[str, Tensor], Tensor], outer_size: Any = None, outer_stride: Any = None
) -> Any:
    """The tensor made again of callback(name, tensor) for each of its tensors. Raises AssertionError if its shape changes."""
    size = t.size() if outer_size is None else outer_size
    stride = t.stride() if outer_stride is None else outer_stride
    names, context = t.__tensor_flatten__()
    made = type(t).__tensor_unflatten__({name: callback(name, getattr(t, name)) for name in names}, context, size, stride)
    for what, wanted, found in (("shape", size, made.shape), ("strides", stride, made.stride())):
        if tuple(wanted) != tuple(found):
            raise AssertionError(
                f"Expected return value from {type(t)}__tensor_unflatten__() to have {what} equal to {wanted}, but got: {found}"
            )
    return made
