"""torch._C: the few names of PyTorch's native module that programs reach for."""

from __future__ import annotations

import importlib
import weakref as _weakref
from typing import Any

import flambeau as torch
from flambeau._C import _autograd, _functions, _nn
from flambeau._C._jit_settings import SETTINGS
from flambeau.base.errors import LinAlgError as _LinAlgError
from flambeau.base.layout import CONJUGATE as _CONJUGATE
from flambeau.base.layout import NEGATIVE as _NEGATIVE
from flambeau.base.lazy_import import submodules as _submodules
from flambeau.core.autograd.node import Node as _Node
from flambeau.core.autograd.node import running as _running
from flambeau.core.modes.dispatching import not_below as _disabled_torch_dispatch_impl
from flambeau.core.modes.modes import switch_grad as _set_grad_enabled
from flambeau.core.modes.overrides import DisableTorchDispatch as _DisableTorchDispatch
from flambeau.core.modes.overrides import DisableTorchFunction, DisableTorchFunctionSubclass, disabled, mode_on
from flambeau.core.operator import unsupported as _unsupported
from flambeau.core.operator.publishing import NAMESPACE as _NAMESPACE
from flambeau.core.tensor.storage import COPY_ON_WRITE as _COPY_ON_WRITE
from flambeau.core.tensor.tensor import Tensor as TensorBase
from flambeau.transform.levels import stack as _transforms

_TensorMeta = type(TensorBase)

_disabled_torch_function_impl = disabled

__all__ = [
    "DisableTorchFunction",
    "DisableTorchFunctionSubclass",
    "TensorBase",
    "_DisableTorchDispatch",
    "_LinAlgError",
    "_TensorMeta",
    "_VariableFunctions",
    "_VariableFunctionsClass",
    "_WeakTensorRef",
    "_autograd",
    "_disabled_torch_dispatch_impl",
    "_disabled_torch_function_impl",
    "_functions",
    "_nn",
    "_set_grad_enabled",
]


class _Functions(type):
    """Looks for attributes among the functions of the namespace."""

    def __getattr__(cls, name: str) -> Any:
        found = _NAMESPACE.get(name) or (not name.startswith("__") and getattr(torch, name, None))
        if not callable(found):
            found = _operator(name)
        if found is None:
            raise AttributeError(f"type object '{cls.__name__}' has no attribute '{name}'")
        return found


def _operator(name: str) -> Any:
    """The operator of PyTorch of that name as a function; None where there is none."""
    return getattr(torch.ops.aten, name, None)


class _VariableFunctionsClass(metaclass=_Functions):
    """The functions of the namespace, by the name under which PyTorch's pickles refer to them."""


_VariableFunctions = _VariableFunctionsClass


class _WeakTensorRef:
    """A reference to a tensor that doesn't keep it; only the tensor's own disappearance is asked for."""

    def __init__(self, tensor: Any) -> None:
        self._reference = _weakref.ref(tensor)

    def expired(self) -> bool:
        """Whether the tensor is gone."""
        return self._reference() is None


def _is_cow_tensor(tensor: TensorBase) -> bool:
    """Whether a tensor's memory is copied before it is written to; see torch._lazy_clone."""
    return bool(tensor._storage.size_class == _COPY_ON_WRITE)


def _storage_address(tensor: TensorBase) -> int:
    """The address of the object that holds a tensor's memory."""
    return id(tensor._storage)


_storage_id = _storage_address


def _data_address(tensor: TensorBase) -> int:
    """Where a tensor's first element lies, for who won't write there: `data_ptr` copies what is copied on write."""
    return int(tensor._storage.ptr) + tensor._offset * tensor._layout.dtype.itemsize


def _current_graph_task_id() -> int:
    """The number of the backward pass under way in this thread, -1 without one."""
    return -1 if _running.run is None else _running.run.number


def _current_autograd_node() -> Any:
    """The node whose saved tensors are being unpacked, or None."""
    return _running.node


def _will_engine_execute_node(node: Any) -> bool:
    """Whether the backward pass under way gets to a node. RuntimeError outside of one, and for what is no node."""
    run = _running.run
    if not isinstance(node, _Node):
        raise RuntimeError(f"_will_engine_execute_node expects an grad_fn, but got {type(node).__name__}")
    if run is None:
        raise RuntimeError("_will_engine_execute_node should only be called during the backward pass")
    if run.needed is None:
        return run.reached is not None and node in run.reached
    if not node.edges and not run.accumulate:
        raise RuntimeError(
            "A leaf node was passed to _will_engine_execute_node but we are currently running autograd.grad(). This is "
            "currently not supported."
        )
    return node in run.needed


def _is_fwd_grad_enabled() -> bool:
    """Whether tangents are computed in this thread."""
    return torch.autograd.forward_ad._is_fwd_grad_enabled()


def _set_fwd_grad_enabled(mode: bool) -> None:
    """Whether tangents are computed in this thread."""
    torch.autograd.forward_ad._set_fwd_grad_enabled(mode)


def _get_tracing_state() -> Any:
    """The trace that this thread is in; None outside of torch.jit.trace."""
    from flambeau.jit.tracing.current import current

    return current()


def _is_tracing() -> bool:
    """Whether this is called while torch.jit.trace records a program."""
    return _get_tracing_state() is not None


def _is_torch_function_enabled() -> bool:
    """Whether classes override calls in this thread."""
    from flambeau.core.modes.modes import local

    return local.overrides


def _is_torch_function_mode_enabled() -> bool:
    """Whether a mode sees the calls of this thread."""
    return mode_on()


def _are_functorch_transforms_active() -> bool:
    """Whether a transform (vmap, grad, jvp, functionalize) is in progress in this thread."""
    return bool(_transforms.levels)


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


def _jit_get_emit_hooks() -> tuple[Any, Any]:
    """What is called with each module and each function that is compiled; None for nothing."""
    from flambeau.jit import emit_hooks

    return emit_hooks.hooks()


def _jit_set_emit_hooks(module: Any, function: Any) -> None:
    """Have these called with each module (torch._C.ScriptModule) and function (ScriptFunction) that is compiled."""
    from flambeau.jit import emit_hooks

    emit_hooks.set_hooks(module, function)


def _jit_try_infer_type(obj: Any) -> Any:
    """The type that TorchScript gives a value, or why it gives none."""
    from flambeau.jit.ir.inference import inferred_type

    return inferred_type(obj)


def _jit_clear_class_registry() -> None:
    """Forget the classes of Python that were compiled: one of the same name is compiled again."""
    from flambeau.jit.frontend import python_classes

    python_classes.forget()


def _set_conj(tensor: Any, conj: bool) -> None:
    """Have a tensor stand for the conjugates of what is in its memory, or not."""
    _set_pending(tensor, _CONJUGATE, conj)


def _set_neg(tensor: Any, neg: bool) -> None:
    """Have a tensor stand for the negatives of what is in its memory, or not."""
    _set_pending(tensor, _NEGATIVE, neg)


def _set_pending(tensor: Any, bit: int, on: bool) -> None:
    pending = tensor._layout.pending
    tensor._layout = tensor._layout.with_pending(pending | bit if on else pending & ~bit)


globals().update(SETTINGS)
globals().update(_unsupported.all_of("_C.", "export the module, whose values have shapes; see torch.export", "_propagate_shapes"))


_OF_THE_DISPATCHER = frozenset(
    """_AliasInfo _AutoDispatchBelowAutograd _ExcludeDispatchKeyGuard _IncludeDispatchKeyGuard _after_autograd_keyset
    _get_autograd_fallback_mode _set_autograd_fallback_mode
    _TorchDispatchModeKey _get_dispatch_mode _set_dispatch_mode _unset_dispatch_mode _len_torch_dispatch_stack
    _get_operation_overload _get_schema _jit_get_all_schemas _jit_get_operation _jit_get_schemas_for_operator""".split()
)


def _get_default_device() -> str:
    """The type of the default device."""
    return str(torch.get_default_device())


def _debug_only_display_vmap_fallback_warnings(enabled: bool) -> None:
    """Whether the older vmap warns where an operator runs once per example."""
    importlib.import_module("flambeau.func.older_vmap")._display_fallback_warnings(enabled)


def _debug_only_are_vmap_fallback_warnings_enabled() -> bool:
    """Whether it does."""
    return importlib.import_module("flambeau.func.older_vmap")._fallback_warnings_displayed()


_LATER = frozenset("_cpu _distributed_c10d _fft _functorch _linalg _profiler _special".split())
_OF_SCHEMAS = {"_is_alias_of": "is_alias_of", "_overlaps": "overlaps"}
_OF_JIT = ("_jit_", "_ivalue_", "_freeze_", "_create_function", "_new_symbolic", "parse_ir", "ScriptModule", "_Await")


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return _submodules("flambeau._C")(name)
    if name in ("_ConvBackend", "_select_conv_backend"):
        return getattr(importlib.import_module("flambeau._C._convolution"), name)
    if name in ("_SchemaArgType", "_SchemaArgument", "_SchemaInfo", "_is_alias_of", "_overlaps"):
        return getattr(importlib.import_module("flambeau.dispatcher.schema_info"), _OF_SCHEMAS.get(name, name[1:]))
    if name in _OF_THE_DISPATCHER or name.startswith("_dispatch_"):
        dispatch = importlib.import_module("flambeau._C._dispatch")
        if hasattr(dispatch, name):
            return getattr(dispatch, name)
    if name.startswith(_OF_JIT):
        jit = importlib.import_module("flambeau._C._jit")
        if hasattr(jit, name):
            return getattr(jit, name)
    # PyTorch's namespace takes most of its names from here.
    if not name.startswith("_") and name not in torch._ROOMS and hasattr(torch, name):
        return getattr(torch, name)
    raise AttributeError(f"module {__name__!r} has no attribute '{name}': flambeau has no native module; use the public function")
