"""Tensors that a Module registers: Parameter, Buffer, and their uninitialised (lazy) forms.

Stands on the Tensor class only. A Parameter is a re-classed Tensor (`Tensor._make_subclass`), so every operator
treats it as a plain tensor. Used by `nn.Module.__setattr__`, the optimisers and serialisation.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import flambeau
from flambeau.base.naming import called, findable
from flambeau.core.modes import observing
from flambeau.core.modes.overrides import PLAIN, disabled
from flambeau.core.tensor.rebuild import attributes_of, set_attributes
from flambeau.core.tensor.tensor import Tensor


class _ParameterMeta(type(Tensor)):
    """Lets a Tensor subclass instance marked `_is_param` count as a Parameter."""

    def __instancecheck__(cls, instance: Any) -> bool:
        if type.__instancecheck__(cls, instance):
            return True
        return cls is Parameter and isinstance(instance, Tensor) and getattr(instance, "_is_param", False)


class Parameter(Tensor, metaclass=_ParameterMeta):
    """A tensor that a Module lists in `parameters()` when it is assigned as an attribute.

    Args:
        data: the values, of any shape; the storage is shared with the parameter. None gives an empty tensor.
        requires_grad: whether gradients accumulate in `.grad` (True also inside `no_grad`).
    """

    __torch_function__ = disabled

    def __new__(cls, data: Tensor | None = None, requires_grad: bool = True) -> Parameter:
        observing.settle()
        if data is None:
            data = flambeau.empty(0)
        if requires_grad and isinstance(data, Tensor) and not (data.dtype.is_floating_point or data.dtype.is_complex):
            raise RuntimeError("Only Tensors of floating point and complex dtype can require gradients")
        if type(data) is Tensor or type(data) is Parameter:
            return Tensor._make_subclass(cls, data, requires_grad)
        # A custom Tensor subclass keeps its own type and is only marked.
        parameter = data.detach().requires_grad_(requires_grad)
        if type(parameter) is not type(data):
            raise RuntimeError(
                f"Creating a Parameter from an instance of type {type(data).__name__} "
                "requires that detach() returns an instance of the same type, but return "
                f"type {type(parameter).__name__} was found instead. To use the type as a "
                "Parameter, please correct the detach() semantics defined by "
                "its __torch_dispatch__() implementation."
            )
        parameter._is_param = True
        return parameter

    def __deepcopy__(self, memo: dict[int, Any]) -> Parameter:
        if id(self) not in memo:
            values = self.data.clone(memory_format=flambeau.preserve_format)
            memo[id(self)] = type(self)(values, self.requires_grad)
        return memo[id(self)]

    def __repr__(self) -> str:
        return "Parameter containing:\n" + super().__repr__()

    def __reduce_ex__(self, protocol: int):
        attributes = attributes_of(self)
        if not attributes:
            return findable(_rebuild_parameter), (self.data, self.requires_grad, OrderedDict())
        return findable(_rebuild_parameter_with_state), (self.data, self.requires_grad, OrderedDict(), attributes)


PLAIN.add(Parameter)  # operators need not look for overrides


@called("_utils", "_rebuild_parameter")
def _rebuild_parameter(data: Tensor, requires_grad: bool, backward_hooks: dict) -> Parameter:
    """What a pickled Parameter calls; hooks are not pickled, the argument keeps PyTorch's file format."""
    return Parameter(data, requires_grad)


@called("_utils", "_rebuild_parameter_with_state")
def _rebuild_parameter_with_state(data: Tensor, requires_grad: bool, backward_hooks: dict, state: dict) -> Parameter:
    return set_attributes(Parameter(data, requires_grad), state)


class _BufferMeta(type(Tensor)):
    """A Buffer is a plain tensor marked `_is_buffer`; only `isinstance` knows it."""

    def __instancecheck__(cls, instance: Any) -> bool:
        if type.__instancecheck__(cls, instance):
            return True
        return cls is Buffer and isinstance(instance, Tensor) and getattr(instance, "_is_buffer", False)


class Buffer(Tensor, metaclass=_BufferMeta):
    """A tensor that a Module lists in `buffers()` when it is assigned as an attribute.

    Args:
        data: the values, of any shape. None gives an empty tensor.
        persistent: whether it is part of the module's `state_dict`.
    """

    __torch_function__ = disabled

    def __new__(cls, data: Tensor | None = None, *, persistent: bool = True) -> Tensor:
        if data is None:
            data = flambeau.empty(0)
        buffer = data.detach()
        buffer.requires_grad = data.requires_grad
        buffer.persistent = persistent
        buffer._is_buffer = True
        return buffer


class UninitializedTensorMixin:
    """A tensor whose shape is not known yet; `materialize` turns it into an ordinary one in place."""

    # What may be done to a tensor without shape: questions and conversions.
    _allowed_methods = frozenset((
        "__hash__", "size", "copy_", "is_complex", "is_floating_point", "half", "float", "double", "char",
        "short", "int", "long", "cuda", "cpu", "to", "get_device", "detach", "bfloat16", "type", "requires_grad_",
    ))  # fmt: skip

    def materialize(self, shape, device=None, dtype=None) -> None:
        """Become a tensor of this shape with undefined values; device and dtype default to the present ones."""
        device = self.data.device if device is None else device
        dtype = self.data.dtype if dtype is None else dtype
        self.data = flambeau.empty(shape, device=device, dtype=dtype)
        self.__class__ = self.cls_to_become

    @property
    def shape(self):
        raise RuntimeError(
            "Can't access the shape of an uninitialized parameter or buffer. "
            "This error usually happens in `load_state_dict` when trying to load "
            "an uninitialized parameter into an initialized one. "
            "Call `forward` to initialize the parameters before accessing their attributes."
        )

    def share_memory_(self):
        raise RuntimeError(
            "Can't share memory on an uninitialized parameter or buffer. "
            "Call `forward` to initialize the parameters before calling "
            "`module.share_memory()`."
        )

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    def __reduce_ex__(self, protocol: int):
        return type(self), (self.requires_grad,)

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        # Getters and setters of properties are method wrappers.
        if type(func).__name__ == "method-wrapper" or getattr(func, "__name__", "") in cls._allowed_methods:
            return disabled(func, types, args, kwargs)
        raise ValueError(
            f"Attempted to use an uninitialized parameter in {func}. "
            "This error happens when you are using a `LazyModule` or "
            f"explicitly manipulating `torch.nn.parameter.{cls.__name__}` "
            "objects. When using LazyModules Call `forward` with a dummy batch "
            "to initialize the parameters before calling torch functions"
        )


def is_lazy(tensor: Any) -> bool:
    """Whether this parameter or buffer waits for its shape."""
    return isinstance(tensor, UninitializedTensorMixin)


class UninitializedParameter(UninitializedTensorMixin, Parameter):
    """A Parameter whose shape the first forward decides (see the Lazy modules)."""

    cls_to_become = Parameter

    def __new__(cls, requires_grad: bool = True, device=None, dtype=None) -> UninitializedParameter:
        data = flambeau.empty(0, device=device, dtype=dtype)
        return Tensor._make_subclass(cls, data, requires_grad)

    def __deepcopy__(self, memo: dict[int, Any]) -> UninitializedParameter:
        if id(self) not in memo:
            memo[id(self)] = type(self)(self.requires_grad, self.data.device, self.data.dtype)
        return memo[id(self)]


class UninitializedBuffer(UninitializedTensorMixin, Tensor):
    """A buffer whose shape the first forward decides."""

    cls_to_become = Tensor

    def __new__(cls, requires_grad: bool = False, device=None, dtype=None, persistent: bool = True):
        data = flambeau.empty(0, device=device, dtype=dtype)
        buffer = Tensor._make_subclass(cls, data, requires_grad)
        buffer.persistent = persistent
        buffer._is_buffer = True
        return buffer
