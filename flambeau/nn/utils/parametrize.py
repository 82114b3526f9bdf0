"""Parametrizations: a parameter computed by a module from other parameters, each time it is read.

`register_parametrization(layer, "weight", P())` moves `layer.weight` to `layer.parametrizations.weight.original` and
gives the object a class of its own, in which `weight` is a property that returns `P()(original)`.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import flambeau
from flambeau.core.modes.dispatching import dispatching
from flambeau.core.tensor.tensor import Tensor
from flambeau.nn.modules.container import Module, ModuleDict, ModuleList
from flambeau.nn.modules.conversion import replacement, swap_parameter
from flambeau.nn.parameter import Parameter

# Inside `cached()` every parametrized tensor is computed once, per (module, name).
_cache_enabled = 0
_cache: dict[tuple[int, str], Tensor | None] = {}


@contextmanager
def cached() -> Iterator[None]:
    """Within the block a parametrized tensor is computed on first use only."""
    global _cache_enabled
    _cache_enabled += 1
    try:
        yield
    finally:
        _cache_enabled -= 1
        if not _cache_enabled:
            _cache.clear()


def _register_parameter_or_buffer(module: Module, name: str, tensor: Tensor) -> None:
    if isinstance(tensor, Parameter):
        module.register_parameter(name, tensor)
    else:
        module.register_buffer(name, tensor)


def _assign(destination: Tensor, source: Tensor) -> None:
    """Let destination hold source's values, sharing its memory; a class that dispatches comes with them, and where parameters
    are swapped (`__future__.set_swap_module_params_on_conversion`) any class does.
    """
    if source is destination:
        return
    if replacement.swaps or dispatching(type(destination)):
        swap_parameter(destination, source)
    else:
        destination.data = source.detach()


class ParametrizationList(ModuleList):
    """The parametrizations of one tensor, applied in order, and the tensors they start from.

    `original` (or `original0`, `original1`, ... where a right_inverse returns several) hold what is trained.
    """

    original: Tensor
    unsafe: bool

    def __init__(self, modules: Sequence[Module], original: Tensor | Parameter, unsafe: bool = False) -> None:
        if len(modules) == 0:
            raise ValueError("ParametrizationList requires one or more modules.")
        super().__init__(modules)
        self.unsafe = unsafe
        shape, dtype = original.shape, original.dtype
        with flambeau.no_grad():
            new: Any = original
            for module in reversed(self):
                if hasattr(module, "right_inverse"):
                    with contextlib.suppress(NotImplementedError):
                        new = module.right_inverse(new)
        if not isinstance(new, Tensor) and not isinstance(new, Sequence):
            raise ValueError(
                f"'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). Got {type(new).__name__}"
            )
        self.is_tensor = isinstance(new, Tensor)
        self.ntensors = 1 if self.is_tensor else len(new)
        if self.is_tensor:
            if original.dtype != new.dtype:
                raise ValueError(
                    "When `right_inverse` outputs one tensor, it may not change the dtype.\n"
                    f"original.dtype: {original.dtype}\n"
                    f"right_inverse(original).dtype: {new.dtype}"
                )
            if original.device != new.device:
                raise ValueError(
                    "When `right_inverse` outputs one tensor, it may not change the device.\n"
                    f"original.device: {original.device}\n"
                    f"right_inverse(original).device: {new.device}"
                )
            # The very same Parameter object stays, so that an optimiser made before still holds it.
            _assign(original, new)
            _register_parameter_or_buffer(self, "original", original)
        else:
            for position, tensor in enumerate(new):
                if not isinstance(tensor, Tensor):
                    raise ValueError(
                        "'right_inverse' must return a Tensor or a Sequence of tensors "
                        "(list, tuple...). "
                        f"Got element {position} of the sequence with type {type(tensor).__name__}."
                    )
                if isinstance(original, Parameter):
                    tensor = Parameter(tensor, original.requires_grad)
                tensor.requires_grad_(original.requires_grad)
                _register_parameter_or_buffer(self, f"original{position}", tensor)
        if not self.unsafe:
            result = self()
            if not isinstance(result, Tensor):
                raise ValueError(f"A parametrization must return a tensor. Got {type(result).__name__}.")
            if result.dtype != dtype:
                raise ValueError(
                    "Registering a parametrization may not change the dtype of the tensor, unless `unsafe` flag is "
                    f"enabled.\nunparametrized dtype: {dtype}\nparametrized dtype: {result.dtype}"
                )
            if result.shape != shape:
                raise ValueError(
                    "Registering a parametrization may not change the shape of the tensor, unless `unsafe` flag is "
                    f"enabled.\nunparametrized shape: {shape}\nparametrized shape: {result.shape}"
                )

    def _originals(self) -> tuple[Tensor, ...]:
        if self.is_tensor:
            return (self.original,)
        return tuple(getattr(self, f"original{position}") for position in range(self.ntensors))

    def right_inverse(self, value: Tensor) -> None:
        """Set the original tensors so that forward returns value: called when the attribute is assigned to."""
        with flambeau.no_grad():
            for module in reversed(self):
                if not hasattr(module, "right_inverse"):
                    raise RuntimeError(f"parametrization {type(module).__name__} does not implement right_inverse.")
                value = module.right_inverse(value)
            if self.is_tensor:
                if not isinstance(value, Tensor):
                    raise ValueError(f"`right_inverse` should return a tensor. Got {type(value).__name__}")
                if value.dtype != self.original.dtype:
                    raise ValueError(
                        f"The tensor returned by `right_inverse` has dtype {value.dtype} "
                        f"while `original` has dtype {self.original.dtype}"
                    )
                _assign(self.original, value)
                return
            if not isinstance(value, Sequence):
                raise ValueError(f"'right_inverse' must return a sequence of tensors. Got {type(value).__name__}.")
            if len(value) != self.ntensors:
                raise ValueError(
                    "'right_inverse' must return a sequence of tensors of length "
                    f"{self.ntensors}. Got a sequence of length {len(value)}."
                )
            for position, (tensor, original) in enumerate(zip(value, self._originals())):
                if not isinstance(tensor, Tensor):
                    raise ValueError(
                        f"`right_inverse` must return a sequence of tensors. Got element {position} of type "
                        f"{type(tensor).__name__}"
                    )
                if original.dtype != tensor.dtype:
                    raise ValueError(
                        f"Tensor {position} returned by `right_inverse` has dtype {tensor.dtype} "
                        f"while `original{position}` has dtype {original.dtype}"
                    )
                _assign(original, tensor)

    def forward(self) -> Tensor:
        first, *rest = self
        value = first(*self._originals())
        for module in rest:
            value = module(value)
        return value


def _parametrized_getstate(self: Module) -> None:
    raise RuntimeError(
        "Serialization of parametrized modules is only "
        "supported through state_dict(). See:\n"
        "https://pytorch.org/tutorials/beginner/saving_loading_models.html"
        "#saving-loading-a-general-checkpoint-for-inference-and-or-resuming-training"
    )


def _parametrized_deepcopy(self: Module, memo: dict[int, Any]) -> Module:
    # __getstate__ refuses, so that the default protocol can't be used; the copy shares the class.
    replica = memo.get(id(self))
    if replica is None:
        replica = self.__new__(type(self))
        memo[id(self)] = replica
        replica.__dict__ = copy.deepcopy(self.__dict__, memo)
    return replica


def _inject_new_class(module: Module) -> None:
    """Give the object a class of its own, in which properties can be put."""
    cls = type(module)
    members: dict[str, Any] = {"__getstate__": _parametrized_getstate}
    if not hasattr(cls, "__deepcopy__"):
        members["__deepcopy__"] = _parametrized_deepcopy
    module.__class__ = type(f"Parametrized{cls.__name__}", (cls,), members)


def _inject_property(module: Module, tensor_name: str) -> None:
    """Read `tensor_name` through its parametrizations; assignment goes through right_inverse."""
    if hasattr(module, tensor_name):
        raise AssertionError(f"'{tensor_name}' is still an attribute of the module")

    def get(self: Module) -> Tensor:
        if not _cache_enabled:
            return self.parametrizations[tensor_name]()
        key = (id(self), tensor_name)
        if key not in _cache:
            _cache[key] = self.parametrizations[tensor_name]()
        return _cache[key]

    def put(self: Module, value: Tensor) -> None:
        self.parametrizations[tensor_name].right_inverse(value)

    setattr(type(module), tensor_name, property(get, put))


def register_parametrization(module: Module, tensor_name: str, parametrization: Module, *, unsafe: bool = False) -> Module:
    """Compute module.<tensor_name> by `parametrization(original)` from now on; returns module.

    A method `right_inverse(value)` of the parametrization gives the initial original and makes assignment possible.
    unsafe skips the checks that shape and dtype stay the same.
    """
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        if not unsafe:
            value = getattr(module, tensor_name)
            result = parametrization(value)
            if not isinstance(result, Tensor):
                raise ValueError(f"A parametrization must return a tensor. Got {type(result).__name__}.")
            if result.dtype != value.dtype:
                raise ValueError(
                    "Registering a parametrization may not change the dtype of the tensor, unless the `unsafe` flag is "
                    f"enabled.\nmodule.{tensor_name}.dtype: {value.dtype}\n"
                    f"parametrization(module.{tensor_name}).dtype: {result.dtype}"
                )
            if result.shape != value.shape:
                raise ValueError(
                    "Registering a parametrization may not change the shape of the tensor, unless the `unsafe` flag is "
                    f"enabled.\nmodule.{tensor_name}.shape: {value.shape}\n"
                    f"parametrization(module.{tensor_name}).shape: {result.shape}"
                )
            if hasattr(parametrization, "right_inverse"):
                try:
                    inverse = parametrization.right_inverse(result)
                except NotImplementedError:
                    inverse = None
                if inverse is not None:
                    if not isinstance(inverse, Tensor):
                        raise ValueError(f"parametrization.right_inverse must return a tensor. Got: {type(inverse).__name__}")
                    for quality in ("dtype", "shape"):
                        present, returned = getattr(value, quality), getattr(inverse, quality)
                        if present != returned:
                            raise ValueError(
                                f"The tensor returned by parametrization.right_inverse must have the same {quality} as "
                                f"module.{tensor_name}, unless the `unsafe` flag is enabled.\n"
                                f"module.{tensor_name}.{quality}: {present}\nreturned {quality}: {returned}"
                            )
        module.parametrizations[tensor_name].append(parametrization)
        module.parametrizations[tensor_name].unsafe |= unsafe
    elif tensor_name in module._buffers or tensor_name in module._parameters:
        original = getattr(module, tensor_name)
        # Built before the module is touched, so that a complaint leaves it as it was.
        parametrizations = ParametrizationList([parametrization], original, unsafe=unsafe)
        delattr(module, tensor_name)
        if not is_parametrized(module):
            _inject_new_class(module)
            module.parametrizations = ModuleDict()
        _inject_property(module, tensor_name)
        module.parametrizations[tensor_name] = parametrizations
    else:
        raise ValueError(
            f"Module '{module}' does not have a parameter, a buffer, or a parametrized element with name '{tensor_name}'"
        )
    return module


def is_parametrized(module: Module, tensor_name: str | None = None) -> bool:
    """Whether the module (or one tensor of it) has parametrizations."""
    parametrizations = getattr(module, "parametrizations", None)
    if parametrizations is None or not isinstance(parametrizations, ModuleDict):
        return False
    if tensor_name is None:
        return len(parametrizations) > 0
    return tensor_name in parametrizations


def remove_parametrizations(module: Module, tensor_name: str, leave_parametrized: bool = True) -> Module:
    """Make module.<tensor_name> an ordinary parameter again: with its computed value, or with the original one."""
    if not is_parametrized(module, tensor_name):
        raise ValueError(f"Module {module} does not have a parametrization on {tensor_name}")
    parametrizations = module.parametrizations[tensor_name]
    if parametrizations.is_tensor:
        original = parametrizations.original
        if leave_parametrized:
            with flambeau.no_grad():
                value = getattr(module, tensor_name)
            with flambeau.no_grad():
                _assign(original, value)
    elif leave_parametrized:
        value = getattr(module, tensor_name)
        original = Parameter(value) if value.requires_grad else value
    else:
        raise ValueError(
            "Cannot leave unparametrized (`leave_parametrized=False`) a tensor "
            "that is parametrized in terms of a sequence of tensors."
        )
    delattr(type(module), tensor_name)
    del module.parametrizations[tensor_name]
    _register_parameter_or_buffer(module, tensor_name, original)
    if not is_parametrized(module):
        delattr(module, "parametrizations")
        module.__class__ = type(module).__bases__[0]
    return module


def type_before_parametrizations(module: Module) -> type:
    """The class the module had before parametrizations were registered."""
    return type(module).__bases__[0] if is_parametrized(module) else type(module)


def transfer_parametrizations_and_params(from_module: Module, to_module: Module, tensor_name: str | None = None) -> Module:
    """Put copies of one module's parametrizations and original tensors on another; returns it."""
    if not is_parametrized(from_module):
        return to_module
    names = [tensor_name] if tensor_name is not None else list(from_module.parametrizations)
    for name in names:
        if not hasattr(to_module, name):
            setattr(to_module, name, Parameter(getattr(from_module, name).detach().clone()))
        source = from_module.parametrizations[name]
        for parametrization in source:
            register_parametrization(to_module, name, copy.deepcopy(parametrization), unsafe=True)
        target = to_module.parametrizations[name]
        for key, tensor in (*source._parameters.items(), *source._buffers.items()):
            if tensor is not None:
                setattr(target, key, copy.deepcopy(tensor))
    return to_module
