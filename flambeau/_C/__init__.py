"""torch._C: the few names of PyTorch's native module that programs reach for."""

from __future__ import annotations

import importlib
from typing import Any

import flambeau as torch
from flambeau._C import _fft, _linalg, _nn, _special
from flambeau.base.errors import LinAlgError as _LinAlgError
from flambeau.core import absent as _absent
from flambeau.core.derive import NAMESPACE as _NAMESPACE
from flambeau.core.overrides import DisableTorchFunction, DisableTorchFunctionSubclass, disabled, mode_on
from flambeau.core.tensor import Tensor as TensorBase

_TensorMeta = type(TensorBase)
_WITHOUT_SCRIPTS = "there are no scripts whose execution could be chosen; leave it out"

_disabled_torch_function_impl = disabled

__all__ = [
    "DisableTorchFunction",
    "DisableTorchFunctionSubclass",
    "TensorBase",
    "_LinAlgError",
    "_TensorMeta",
    "_VariableFunctions",
    "_VariableFunctionsClass",
    "_disabled_torch_function_impl",
    "_fft",
    "_linalg",
    "_nn",
    "_special",
]


class _Functions(type):
    """Looks for attributes among the functions of the namespace."""

    def __getattr__(cls, name: str) -> Any:
        found = _NAMESPACE.get(name)
        if found is None:
            raise AttributeError(f"type object '{cls.__name__}' has no attribute '{name}'")
        return found


class _VariableFunctionsClass(metaclass=_Functions):
    """The functions of the namespace, by the name under which PyTorch's pickles refer to them."""


_VariableFunctions = _VariableFunctionsClass


def _get_tracing_state() -> None:
    """None: nothing is traced."""


def _is_torch_function_enabled() -> bool:
    """Whether classes override calls in this thread."""
    from flambeau.core.modes import local

    return local.overrides


def _is_torch_function_mode_enabled() -> bool:
    """Whether a mode sees the calls of this thread."""
    return mode_on()


def _log_api_usage_once(event: str) -> None:
    """Nothing is logged."""


def _infer_size(a: Any, b: Any) -> Any:
    """The shape that two shapes broadcast to. RuntimeError for those that don't."""
    return torch.broadcast_shapes(a, b)


def _get_accelerator(check: bool | None = None) -> Any:
    """The device that programs compute on: the CPU."""
    return torch.device("cpu")


def _get_privateuse1_backend_name() -> str:
    """The name that a device of one's own would have."""
    return "privateuseone"


def _jit_can_fuse_on_cpu() -> bool:
    """False: there are no scripts to fuse."""
    return False


_jit_can_fuse_on_gpu = _jit_can_fuse_on_cpu
globals().update(
    _absent.all_of(
        "_C.",
        _WITHOUT_SCRIPTS,
        "_jit_override_can_fuse_on_cpu _jit_override_can_fuse_on_gpu _jit_set_nvfuser_enabled _jit_set_nvfuser_guard_mode "
        "_jit_set_profiling_executor _jit_set_profiling_mode _jit_set_texpr_fuser_enabled",
    )
)


_OF_THE_DISPATCHER = frozenset(
    """_AliasInfo _AutoDispatchBelowAutograd _ExcludeDispatchKeyGuard _IncludeDispatchKeyGuard _after_autograd_keyset
    _get_operation_overload _get_schema _jit_get_all_schemas _jit_get_operation _jit_get_schemas_for_operator""".split()
)


def _get_default_device() -> str:
    """The type of the default device."""
    return str(torch.get_default_device())


def _debug_only_display_vmap_fallback_warnings(enabled: bool) -> None:
    """Whether the older vmap warns where an operator runs once per example."""
    importlib.import_module("flambeau._vmap_internals")._display_fallback_warnings(enabled)


def _debug_only_are_vmap_fallback_warnings_enabled() -> bool:
    """Whether it does."""
    return importlib.import_module("flambeau._vmap_internals")._fallback_warnings_displayed()


def __getattr__(name: str) -> Any:
    if name == "_functorch":
        return importlib.import_module("flambeau._C._functorch")
    if name in _OF_THE_DISPATCHER or name.startswith("_dispatch_"):
        dispatch = importlib.import_module("flambeau._C._dispatch")
        if hasattr(dispatch, name):
            return getattr(dispatch, name)
    # PyTorch's namespace takes most of its names from here.
    if not name.startswith("_") and name not in torch._ROOMS and hasattr(torch, name):
        return getattr(torch, name)
    raise AttributeError(
        f"module {__name__!r} has no attribute '{name}': flambeau has no native module; use the public function"
    )
