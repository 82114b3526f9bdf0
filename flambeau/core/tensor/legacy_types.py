"""The old names of types: FloatTensor, LongTensor, ... as constructors, in isinstance and as an argument of `Tensor.type`.

A `tensortype` is no class of tensors but a question about dtype and device. Stands on core.tensor.create; the namespace and
its cuda room offer them.
"""

from __future__ import annotations

import warnings
from typing import Any

from flambeau.base import dtype as dtypes
from flambeau.base.dtype import set_default_dtype
from flambeau.base.layout import strided
from flambeau.core.tensor.create import legacy_constructor
from flambeau.core.tensor.tensor import Tensor

_DTYPES = {
    "Double": dtypes.float64,
    "Float": dtypes.float32,
    "Half": dtypes.float16,
    "BFloat16": dtypes.bfloat16,
    "Long": dtypes.int64,
    "Int": dtypes.int32,
    "Short": dtypes.int16,
    "Char": dtypes.int8,
    "Byte": dtypes.uint8,
    "Bool": dtypes.bool_,
}


class tensortype(type):
    """The class of FloatTensor and its siblings. Attributes: dtype, layout, is_cuda, is_sparse."""

    element: Any
    is_cuda: bool
    layout = strided
    is_sparse = False

    @property
    def dtype(cls) -> Any:
        """The dtype it stands for. Raises TypeError for types of CUDA, so that nothing is converted to one."""
        if cls.is_cuda:
            raise unavailable(cls)
        return cls.element

    def __instancecheck__(cls, instance: Any) -> bool:
        if not isinstance(instance, Tensor) or instance._layout.dtype is not cls.element or instance.layout is not cls.layout:  # type: ignore[attr-defined]
            return False
        return instance._layout.device.shown.type == ("cuda" if cls.is_cuda else "cpu")

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        return legacy_constructor(*args, dtype=cls.dtype, **kwargs)

    def __repr__(cls) -> str:
        return f"<class '{cls.__module__}.{cls.__name__}'>"


def unavailable(cls: tensortype) -> TypeError:
    """What using a type of CUDA raises."""
    return TypeError(f"type {cls.__module__}.{cls.__name__} not available. Torch not compiled with CUDA enabled.")


def _make(module: str, cuda: bool) -> dict[str, Any]:
    return {
        f"{name}Tensor": tensortype(f"{name}Tensor", (), {"element": dtype, "is_cuda": cuda, "__module__": module})
        for name, dtype in _DTYPES.items()
    }


CPU: dict[str, Any] = _make("torch", False)
CUDA: dict[str, Any] = _make("torch.cuda", True)
NAMES: dict[str, Any] = {f"{t.__module__}.{t.__name__}": t for t in [*CPU.values(), *CUDA.values()]}


def set_default_tensor_type(t: Any) -> None:
    """Make a floating point tensor type, or the name of one, the default: its dtype is what factories use.

    Raises TypeError for types that aren't floating point or not there.
    """
    warnings.warn(
        "torch.set_default_tensor_type() is deprecated as of PyTorch 2.1, please use torch.set_default_dtype() and "
        "torch.set_default_device() as alternatives.",
        UserWarning,
        stacklevel=2,
    )
    if isinstance(t, str):
        if t not in NAMES:
            raise TypeError(f"invalid type object: {t} is not the name of a tensor type")
        t = NAMES[t]
    if not isinstance(t, tensortype):
        raise TypeError("invalid type object")
    if not t.dtype.is_floating_point:
        raise TypeError("only floating-point types are supported as the default type")
    set_default_dtype(t.dtype)


def typename(obj: Any) -> str:
    """The full name of an object's type; of a tensor, its tensor type's."""
    if isinstance(obj, Tensor):
        return obj.type()  # type: ignore[attr-defined]
    kind = obj if isinstance(obj, type) else type(obj)
    if hasattr(obj, "__qualname__") and not isinstance(obj, type):
        return f"{obj.__module__}.{obj.__qualname__}" if obj.__module__ not in ("builtins", None) else obj.__qualname__
    return kind.__qualname__ if kind.__module__ in ("builtins", "", None) else f"{kind.__module__}.{kind.__qualname__}"
