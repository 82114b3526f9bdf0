"""torch.utils._python_dispatch: tensors that are made of tensors; and modes below autograd, which flambeau doesn't have.

A subclass of Tensor with __tensor_flatten__ and __tensor_unflatten__ says of which tensors it is made; libraries ask whether a
tensor has them. Operators of flambeau pass no dispatcher under autograd, so a TorchDispatchMode can be defined and made, but not
entered: torch.overrides.TorchFunctionMode sees the calls above autograd.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from flambeau.core.tensor import Tensor

__all__ = [
    "BaseTorchDispatchMode", "TorchDispatchMode", "is_in_torch_dispatch_mode", "is_traceable_wrapper_subclass",
    "is_traceable_wrapper_subclass_type", "transform_subclass",
]  # fmt: skip


class TorchDispatchMode:
    """A mode whose __torch_dispatch__ would answer operators under autograd; entering it raises NotImplementedError."""

    supports_higher_order_operators = False

    def __init__(self, _dispatch_key: Any = None):
        self._dispatch_key = _dispatch_key

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise NotImplementedError

    def __enter__(self) -> Any:
        raise NotImplementedError(
            "torch.utils._python_dispatch.TorchDispatchMode is not implemented in flambeau: operators pass no dispatcher under "
            "autograd; see their calls with a torch.overrides.TorchFunctionMode"
        )

    def __exit__(self, *exception: object) -> None:
        """Never entered."""

    @classmethod
    def push(cls, *args: Any, **kwargs: Any) -> Any:
        """An instance; `with Mode.push(...)` is `with Mode(...)`."""
        return cls(*args, **kwargs)


class BaseTorchDispatchMode(TorchDispatchMode):
    """The mode that changes nothing."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


def is_in_torch_dispatch_mode(include_infra_modes: bool = True) -> bool:
    """False: none can be entered."""
    return False


def _get_current_dispatch_mode() -> None:
    """None: none can be entered."""


def _get_current_dispatch_mode_stack() -> list[Any]:
    """The modes that are on: none."""
    return []


@contextlib.contextmanager
def _disable_current_modes() -> Iterator[list[Any]]:
    """Switch off the modes that are on, of which there are none."""
    yield []


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
