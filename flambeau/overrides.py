"""torch.overrides: tools for classes that implement `__torch_function__`. A face over core.modes.overrides."""

from __future__ import annotations

import contextlib
import functools
import inspect
import types
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import flambeau as torch
from flambeau.base.naming import public_module
from flambeau.core.modes.overrides import (
    BaseTorchFunctionMode,
    TorchFunctionMode,
    any_override,
    dispatch,
    dispatch_to_mode,
    in_order,
    local,
    mode_on,
    nowrap_functions,
    redispatch,
)
from flambeau.core.tensor.delegate import HeldTensor
from flambeau.core.tensor.tensor import Tensor

__all__ = [
    "BaseTorchFunctionMode",
    "TorchFunctionMode",
    "enable_reentrant_dispatch",
    "get_default_nowrap_functions",
    "get_ignored_functions",
    "get_overridable_functions",
    "get_testing_overrides",
    "handle_torch_function",
    "has_torch_function",
    "is_tensor_like",
    "is_tensor_method_or_property",
    "redispatch_function",
    "resolve_name",
    "wrap_torch_function",
]


@contextlib.contextmanager
def enable_reentrant_dispatch() -> Iterator[None]:
    """Inside a `__torch_dispatch__`, where nothing is recorded: record what is called in this block."""
    with torch.enable_grad():
        yield


_IGNORED = """
    typename is_tensor is_storage set_default_tensor_type set_default_device get_default_device set_rng_state
    get_rng_state manual_seed initial_seed seed save load set_printoptions fork get_default_dtype
    get_num_interop_threads get_num_threads init_num_threads is_anomaly_enabled is_anomaly_check_nan_enabled
    is_grad_enabled promote_types set_default_dtype set_num_interop_threads set_num_threads wait no_grad enable_grad
    inference_mode is_inference_mode_enabled as_tensor from_numpy tensor arange as_strided bartlett_window
    blackman_window can_cast compile empty empty_strided eye full get_device_module hamming_window hann_window
    kaiser_window linspace logspace ones rand randn randint randperm range scalar_tensor tril_indices triu_indices
    vander zeros set_float32_matmul_precision get_float32_matmul_precision use_deterministic_algorithms
    are_deterministic_algorithms_enabled is_deterministic_algorithms_warn_only_enabled set_deterministic_debug_mode
    get_deterministic_debug_mode set_warn_always is_warn_always_enabled set_flush_denormal sym_int sym_float sym_max
    sym_min sym_not sym_ite sym_sum autocast asarray frombuffer from_file from_dlpack result_type is_autocast_enabled
    set_autocast_enabled get_autocast_dtype set_autocast_dtype
""".split()
_IGNORED_METHODS = (
    "__delattr__",
    "__setattr__",
    "__init_subclass__",
    "__new__",
    "__init__",
    "__torch_function__",
    "__getattribute__",
    "__subclasshook__",
    "_make_subclass",
    "as_subclass",
    "new_tensor",
    "reinforce",
    "new",
    "stride",
)


@functools.cache
def get_ignored_functions() -> frozenset[Callable[..., Any]]:
    """The public functions that `__torch_function__` can't override: factories, switches, and what makes instances."""
    found = [getattr(torch, name) for name in _IGNORED if name in vars(torch)]
    found += [vars(Tensor)[name] for name in _IGNORED_METHODS if name in vars(Tensor)]
    return frozenset(f for f in found if callable(f))


def get_default_nowrap_functions() -> frozenset[Callable[..., Any]]:
    """The getters whose results the default `__torch_function__` doesn't turn into the subclass: grad, _base."""
    return nowrap_functions()


@functools.cache
def _overridable() -> dict[Any, list[Callable[..., Any]]]:
    ignored = get_ignored_functions()
    found: dict[Any, list[Callable[..., Any]]] = {}
    for room in (torch, torch.nn.functional, torch.linalg, torch.fft, torch.special, Tensor):
        for name, thing in vars(room).items():
            if name.startswith("_") and not (name.startswith("__") and room is Tensor):
                continue
            if isinstance(thing, property):
                found.setdefault(thing, []).append(thing.__get__)
            elif (
                inspect.isfunction(thing)
                and thing not in ignored
                and (room is Tensor or hasattr(thing, "operator") or hasattr(thing, "__wrapped__"))
            ):
                found.setdefault(room, []).append(thing)
    return found


def get_overridable_functions() -> dict[Any, list[Callable[..., Any]]]:
    """The functions that `__torch_function__` can override, by the room they are in."""
    return {room: list(functions) for room, functions in _overridable().items()}


@functools.cache
def get_testing_overrides() -> dict[Callable[..., Any], Callable[..., Any]]:
    """For each overridable function a stand-in with its signature that returns -1."""
    made: dict[Callable[..., Any], Callable[..., Any]] = {}
    for functions in _overridable().values():
        for function in functions:
            made[function] = _stand_in(function)
    return made


def _stand_in(function: Callable[..., Any]) -> Callable[..., Any]:
    def stand_in(*args: Any, **kwargs: Any) -> int:
        return -1

    with contextlib.suppress(TypeError, ValueError):
        stand_in.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]
    return stand_in


@functools.cache
def _names() -> dict[Any, str]:
    names: dict[Any, str] = {}
    for room, prefix in (
        (torch, "torch."),
        (torch.nn.functional, "torch.nn.functional."),
        (torch.linalg, "torch.linalg."),
        (torch.fft, "torch.fft."),
        (torch.special, "torch.special."),
        (Tensor, "torch.Tensor."),
    ):
        for name, thing in vars(room).items():
            if isinstance(thing, property):
                names.setdefault(thing.__get__, f"{prefix}{name}.__get__")
            elif inspect.isfunction(thing) and not (name.startswith("_") and room is not Tensor):
                names.setdefault(thing, prefix + name)
    return names


def resolve_name(f: Any) -> str | None:
    """The public name of an overridable function, such as torch.add; None for others."""
    if type(f).__module__ == public_module("_ops"):
        return str(f)
    try:
        return _names().get(f)
    except TypeError:
        return None


def has_torch_function(relevant_args: Iterable[Any]) -> bool:
    """Whether one of the arguments overrides calls, or a TorchFunctionMode is on. Sparse tensors and nested ones in the strided
    layout don't: their classes, which answer calls here, are none of the program's."""
    if local.unasked:
        local.unasked = False
        return False
    return mode_on() or any_override(x for x in relevant_args if not isinstance(x, HeldTensor) or x.layout is torch.jagged)


def redispatch_function(func: Callable[..., Any], types: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None) -> Any:
    """func(*args, **kwargs) from within a __torch_function__: it isn't asked again, but the calls that func makes are."""
    return redispatch(func, types, args, kwargs)


def has_torch_function_unary(arg: Any) -> bool:
    """has_torch_function of one argument."""
    return has_torch_function((arg,))


def has_torch_function_variadic(*args: Any) -> bool:
    """has_torch_function of arguments given one by one."""
    return has_torch_function(args)


def handle_torch_function(public_api: Callable[..., Any], relevant_args: Iterable[Any], *args: Any, **kwargs: Any) -> Any:
    """Let the modes, then the overriding classes among `relevant_args` answer the call public_api(*args, **kwargs).

    Raises TypeError if all of them return NotImplemented.
    """
    if mode_on():
        return dispatch_to_mode(public_api, args, kwargs)
    return dispatch(public_api, args, kwargs, in_order(list(relevant_args)))


def wrap_torch_function(dispatcher: Callable[..., Iterable[Any]]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorator that makes a function overridable; dispatcher(*args, **kwargs) gives the arguments that may override it."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            relevant = dispatcher(*args, **kwargs)
            if has_torch_function(relevant):
                return handle_torch_function(wrapped, relevant, *args, **kwargs)
            return function(*args, **kwargs)

        return wrapped

    return decorate


def is_tensor_method_or_property(func: Callable[..., Any]) -> bool:
    """Whether `func` is a method of Tensor, or the getter of a property."""
    if getattr(func, "__name__", "") == "__get__" or isinstance(func, types.MethodWrapperType):
        return True
    return any(thing is func for thing in vars(Tensor).values())


def is_tensor_like(inp: Any) -> bool:
    """Whether it is a tensor, or of a class that implements `__torch_function__`."""
    return type(inp) is Tensor or hasattr(inp, "__torch_function__")
