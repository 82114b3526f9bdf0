"""Module, the base class of every layer and model: attributes, hooks, calls, printing and copying.

Stands on `traversal` (walking the tree), `conversion` (dtype and device), `state` (state_dict) and `hooks`; those are
its base classes, split off so that each reads on its own.
"""

from __future__ import annotations

import inspect
import warnings
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import flambeau
from flambeau.base.tracebacks import filter_traceback
from flambeau.core.tensor.tensor import Tensor
from flambeau.nn.modules import hooks as _hooks
from flambeau.nn.modules.conversion import Conversion
from flambeau.nn.modules.hooks import RemovableHandle, add_hook, global_call_hooks
from flambeau.nn.modules.hooks import register_module_backward_hook as register_module_backward_hook
from flambeau.nn.modules.hooks import register_module_buffer_registration_hook as register_module_buffer_registration_hook
from flambeau.nn.modules.hooks import register_module_forward_hook as register_module_forward_hook
from flambeau.nn.modules.hooks import register_module_forward_pre_hook as register_module_forward_pre_hook
from flambeau.nn.modules.hooks import register_module_full_backward_hook as register_module_full_backward_hook
from flambeau.nn.modules.hooks import register_module_full_backward_pre_hook as register_module_full_backward_pre_hook
from flambeau.nn.modules.hooks import register_module_module_registration_hook as register_module_module_registration_hook
from flambeau.nn.modules.hooks import register_module_parameter_registration_hook as register_module_parameter_registration_hook
from flambeau.nn.modules.state import _EXTRA_STATE_KEY_SUFFIX as _EXTRA_STATE_KEY_SUFFIX
from flambeau.nn.modules.state import StateDict
from flambeau.nn.modules.state import _IncompatibleKeys as _IncompatibleKeys
from flambeau.nn.modules.state import _WrappedHook as _WrappedHook
from flambeau.nn.modules.traversal import Traversal
from flambeau.nn.parameter import Buffer, Parameter

# The tables an instance holds, in the order in which PyTorch's __dict__ lists them.
_HOOK_TABLES_BEFORE_KIND = ("_backward_pre_hooks", "_backward_hooks")
_HOOK_TABLES = (
    "_forward_hooks",
    "_forward_hooks_with_kwargs",
    "_forward_hooks_always_called",
    "_forward_pre_hooks",
    "_forward_pre_hooks_with_kwargs",
    "_state_dict_hooks",
    "_state_dict_pre_hooks",
    "_load_state_dict_pre_hooks",
    "_load_state_dict_post_hooks",
)

# The hooks of all modules, under names that programs replace.
_global_backward_pre_hooks: OrderedDict[int, Callable] = OrderedDict()
_global_backward_hooks: OrderedDict[int, Callable] = OrderedDict()
_global_is_full_backward_hook: bool | None = None
_global_forward_pre_hooks: OrderedDict[int, Callable] = OrderedDict()
_global_forward_hooks: OrderedDict[int, Callable] = OrderedDict()
_global_forward_hooks_with_kwargs: OrderedDict[int, bool] = OrderedDict()
_global_forward_hooks_always_called: OrderedDict[int, bool] = OrderedDict()
_global_buffer_registration_hooks: OrderedDict[int, Callable] = OrderedDict()
_global_module_registration_hooks: OrderedDict[int, Callable] = OrderedDict()
_global_parameter_registration_hooks: OrderedDict[int, Callable] = OrderedDict()


def _forward_unimplemented(self, *input: Any) -> None:
    """What a call computes; every subclass overrides it."""
    raise NotImplementedError(f'Module [{type(self).__name__}] is missing the required "forward" function')


class Module(Traversal, Conversion, StateDict):
    """Base class of all layers and models.

    Assigning a Parameter, Buffer or Module as an attribute registers it; calling the module runs `forward` between
    its hooks.
    """

    dump_patches: bool = False
    _version: int = 1
    training: bool
    call_super_init: bool = False
    _compiled_call_impl: Callable | None = None

    forward: Callable[..., Any] = _forward_unimplemented

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if self.call_super_init is False:
            if kwargs:
                raise TypeError(f"{type(self).__name__}.__init__() got an unexpected keyword argument '{next(iter(kwargs))}'")
            if args:
                raise TypeError(f"{type(self).__name__}.__init__() takes 1 positional argument but {len(args) + 1} were given")
        # Straight into __dict__: __setattr__ would ask of each value whether it is to be registered.
        attributes = self.__dict__
        attributes["training"] = True
        attributes["_parameters"] = {}
        attributes["_buffers"] = {}
        attributes["_non_persistent_buffers_set"] = set()
        for table in _HOOK_TABLES_BEFORE_KIND:
            attributes[table] = OrderedDict()
        attributes["_is_full_backward_hook"] = None
        for table in _HOOK_TABLES:
            attributes[table] = OrderedDict()
        attributes["_modules"] = {}
        if self.call_super_init:
            super().__init__(*args, **kwargs)

    # ------------------------------------------------------------- registration
    def _check_name(self, kind: str, name: Any, registry: dict) -> None:
        if not isinstance(name, str):
            raise TypeError(f"{kind} name should be a string. Got {flambeau.typename(name)}")
        if "." in name:
            raise KeyError(f'{kind} name can\'t contain "."' + (f", got: {name}" if kind == "module" else ""))
        if name == "":
            raise KeyError(f'{kind} name can\'t be empty string ""')
        if hasattr(self, name) and name not in registry:
            raise KeyError(f"attribute '{name}' already exists")

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Add a tensor that is state but not trained; part of the state_dict if persistent."""
        if "_buffers" not in self.__dict__:
            raise AttributeError("cannot assign buffer before Module.__init__() call")
        self._check_name("buffer", name, self._buffers)
        if tensor is not None and not isinstance(tensor, Tensor) and not hasattr(tensor, "__torch_function__"):
            raise TypeError(
                f"cannot assign '{flambeau.typename(tensor)}' object to buffer '{name}' (torch Tensor or None required)"
            )
        for hook in _global_buffer_registration_hooks.values():
            output = hook(self, name, tensor)
            if output is not None:
                tensor = output
        self._buffers[name] = tensor
        if persistent:
            self._non_persistent_buffers_set.discard(name)
        else:
            self._non_persistent_buffers_set.add(name)

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Add a parameter; None reserves the name."""
        if "_parameters" not in self.__dict__:
            raise AttributeError("cannot assign parameter before Module.__init__() call")
        self._check_name("parameter", name, self._parameters)
        if param is None:
            self._parameters[name] = None
            return
        if not isinstance(param, Parameter):
            raise TypeError(
                f"cannot assign '{flambeau.typename(param)}' object to parameter '{name}' (torch.nn.Parameter or None required)"
            )
        if param.grad_fn is not None:
            raise ValueError(
                f"Cannot assign non-leaf Tensor to parameter '{name}'. Model "
                f"parameters must be created explicitly. To express '{name}' "
                "as a function of another Tensor, compute the value in "
                "the forward() method."
            )
        for hook in _global_parameter_registration_hooks.values():
            output = hook(self, name, param)
            if output is not None:
                param = output
        self._parameters[name] = param

    def add_module(self, name: str, module: Module | None) -> None:
        """Add a submodule; None reserves the name."""
        if not isinstance(module, Module) and module is not None:
            raise TypeError(f"{flambeau.typename(module)} is not a Module subclass")
        self._check_name("module", name, self._modules)
        self._modules[name] = self._after_module_hooks(name, module)

    def register_module(self, name: str, module: Module | None) -> None:
        """Alias of `add_module`."""
        self.add_module(name, module)

    def _after_module_hooks(self, name: str, module: Module | None) -> Module | None:
        for hook in _global_module_registration_hooks.values():
            output = hook(self, name, module)
            if output is not None:
                module = output
        return module

    # --------------------------------------------------------------- attributes
    def __getattr__(self, name: str) -> Any:
        # Runs only for names that ordinary lookup does not find.
        attributes = self.__dict__
        registry = attributes.get("_parameters")
        if registry is not None and name in registry:
            return registry[name]
        registry = attributes.get("_buffers")
        if registry is not None and name in registry:
            return registry[name]
        registry = attributes.get("_modules")
        if registry is not None and name in registry:
            return registry[name]
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def __setattr__(self, name: str, value: Any) -> None:
        attributes = self.__dict__
        parameters = attributes.get("_parameters")
        if isinstance(value, Parameter):
            if parameters is None:
                raise AttributeError("cannot assign parameters before Module.__init__() call")
            self._forget(name, attributes, self._buffers, self._modules)
            self.register_parameter(name, value)
            return
        if parameters is not None and name in parameters:
            if value is not None:
                raise TypeError(
                    f"cannot assign '{flambeau.typename(value)}' as parameter '{name}' (torch.nn.Parameter or None expected)"
                )
            self.register_parameter(name, value)
            return
        modules = attributes.get("_modules")
        if isinstance(value, Module):
            if modules is None:
                raise AttributeError("cannot assign module before Module.__init__() call")
            self._forget(name, attributes, parameters, self._buffers)
            modules[name] = self._after_module_hooks(name, value)
            return
        if modules is not None and name in modules:
            if value is not None:
                raise TypeError(
                    f"cannot assign '{flambeau.typename(value)}' as child module '{name}' (torch.nn.Module or None expected)"
                )
            modules[name] = self._after_module_hooks(name, value)
            return
        buffers = attributes.get("_buffers")
        known = buffers is not None and name in buffers
        if known or (isinstance(value, Tensor) and isinstance(value, Buffer)):
            if value is not None and not isinstance(value, Tensor) and not hasattr(value, "__torch_function__"):
                raise TypeError(
                    f"cannot assign '{flambeau.typename(value)}' as buffer '{name}' "
                    "(torch.nn.Buffer, torch.Tensor or None expected)"
                )
            self._set_buffer(name, value, buffers, known)
            return
        object.__setattr__(self, name, value)

    def _set_buffer(self, name: str, value: Tensor | None, buffers: dict | None, known: bool) -> None:
        if buffers is None:
            raise AttributeError("cannot assign buffer before Module.__init__() call")
        if isinstance(value, Buffer):
            self._register_assigned(name, value, value.persistent)
            return
        for hook in _global_buffer_registration_hooks.values():
            output = hook(self, name, value)
            if output is not None:
                value = output
        buffers[name] = value

    def _register_assigned(self, name: str, value: Tensor, persistent: bool) -> None:
        """register_buffer, whose form in a subclass may lack the last argument."""
        own = self.register_buffer
        if getattr(own, "__func__", None) is Module.register_buffer or "persistent" in inspect.signature(own).parameters:
            own(name, value, persistent)
        elif persistent:
            own(name, value)
        else:
            raise RuntimeError(
                "Registering a non-persistent buffer on a Module subclass that implements register_buffer() "
                "without the persistent argument is not allowed."
            )

    def _forget(self, name: str, *registries: dict) -> None:
        """Take a name out of the other places before it is registered in a new one."""
        for registry in registries:
            registry.pop(name, None)
        self._non_persistent_buffers_set.discard(name)

    def __delattr__(self, name: str) -> None:
        if name in self._parameters:
            del self._parameters[name]
        elif name in self._buffers:
            del self._buffers[name]
            self._non_persistent_buffers_set.discard(name)
        elif name in self._modules:
            del self._modules[name]
        else:
            object.__delattr__(self, name)

    def __dir__(self) -> list[str]:
        names = {*dir(type(self)), *self.__dict__, *self._parameters, *self._modules, *self._buffers}
        return sorted(name for name in names if not name[0].isdigit())

    # -------------------------------------------------------------------- hooks
    def register_forward_pre_hook(self, hook: Callable, *, prepend: bool = False, with_kwargs: bool = False) -> RemovableHandle:
        """hook(module, args) -> None or new args, before forward; with kwargs hook(module, args, kwargs) -> None or
        (args, kwargs)."""
        marks = (self._forward_pre_hooks_with_kwargs,) if with_kwargs else ()
        return add_hook(self._forward_pre_hooks, hook, marks, prepend)

    def register_forward_hook(
        self, hook: Callable, *, prepend: bool = False, with_kwargs: bool = False, always_call: bool = False
    ) -> RemovableHandle:
        """hook(module, args[, kwargs], output) -> None or a new output, after forward; with always_call also when
        forward raised."""
        marks = []
        if with_kwargs:
            marks.append(self._forward_hooks_with_kwargs)
        if always_call:
            marks.append(self._forward_hooks_always_called)
        return add_hook(self._forward_hooks, hook, tuple(marks), prepend)

    def register_full_backward_pre_hook(self, hook: Callable, prepend: bool = False) -> RemovableHandle:
        """hook(module, grad_output) -> None or new grad_output, when gradients of the outputs are known."""
        return add_hook(self._backward_pre_hooks, hook, (), prepend)

    def register_full_backward_hook(self, hook: Callable, prepend: bool = False) -> RemovableHandle:
        """hook(module, grad_input, grad_output) -> None or new grad_input, when gradients of the inputs are known."""
        if self._is_full_backward_hook is False:
            raise RuntimeError(
                "Cannot use both regular backward hooks and full backward hooks on a single Module. Please use only one of them."
            )
        self._is_full_backward_hook = True
        return add_hook(self._backward_hooks, hook, (), prepend)

    def register_backward_hook(self, hook: Callable) -> RemovableHandle:
        """Deprecated: sees the gradients of the module's last node only. Use `register_full_backward_hook`."""
        if self._is_full_backward_hook is True:
            raise RuntimeError(
                "Cannot use both regular backward hooks and full backward hooks on a single Module. Please use only one of them."
            )
        self._is_full_backward_hook = False
        return add_hook(self._backward_hooks, hook)

    def _get_backward_hooks(self) -> tuple[list[Callable], list[Callable]]:
        """(full hooks, deprecated hooks), global ones first."""
        full: list[Callable] = []
        legacy: list[Callable] = []
        if _global_backward_hooks:
            target = full if _global_is_full_backward_hook else legacy
            target.extend(_global_backward_hooks.values())
        if self._backward_hooks:
            target = full if self._is_full_backward_hook else legacy
            target.extend(self._backward_hooks.values())
        return full, legacy

    def _get_backward_pre_hooks(self) -> list[Callable]:
        return [*_global_backward_pre_hooks.values(), *self._backward_pre_hooks.values()]

    # -------------------------------------------------------------------- calls
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        # The hot path of every model: one look at each table that could change a call, then forward.
        attributes = self.__dict__
        try:
            extras = (
                attributes["_backward_hooks"]
                or attributes["_forward_hooks"]
                or attributes["_forward_pre_hooks"]
                or attributes["_backward_pre_hooks"]
                or global_call_hooks
                or "_compiled_call_impl" in attributes
            )
        except KeyError as error:  # Module.__init__ did not run
            raise AttributeError(f"'{type(self).__name__}' object has no attribute {error}") from None
        try:
            if extras:
                return self._call_with_extras(args, kwargs)
            return self.forward(*args, **kwargs)
        except Exception as error:
            filter_traceback(error)
            raise

    def _call_with_extras(self, args: tuple, kwargs: dict) -> Any:
        compiled = self._compiled_call_impl
        if compiled is not None:
            return compiled(*args, **kwargs)
        return self._call_impl(*args, **kwargs)

    def _call_impl(self, *args: Any, **kwargs: Any) -> Any:
        """Forward with every hook that applies."""
        called: set[int] = set()
        state: dict[str, Any] = {"args": args, "kwargs": kwargs, "result": None}
        try:
            return self._forward_with_hooks(state, called)
        except Exception:
            self._run_always_called(state, called)
            raise

    def _slow_forward(self, *args: Any, **kwargs: Any) -> Any:
        """Forward itself, between the hooks; whoever follows modules while they run stands here."""
        return self.forward(*args, **kwargs)

    def _forward_with_hooks(self, state: dict[str, Any], called: set[int]) -> Any:
        """Steps of a hooked call; `state` keeps what hooks see, for those that run after an exception."""
        full_hooks, legacy_hooks = self._get_backward_hooks()
        backward_pre_hooks = self._get_backward_pre_hooks()
        args, kwargs = state["args"], state["kwargs"]

        for identity, hook in (*_global_forward_pre_hooks.items(), *self._forward_pre_hooks.items()):
            if identity in self._forward_pre_hooks_with_kwargs:
                changed = hook(self, args, kwargs)
                if changed is not None:
                    if not (isinstance(changed, tuple) and len(changed) == 2):
                        raise RuntimeError(
                            f"forward pre-hook must return None or a tuple of (new_args, new_kwargs), but got {changed}."
                        )
                    args, kwargs = changed
            else:
                changed = hook(self, args)
                if changed is not None:
                    args = changed if isinstance(changed, tuple) else (changed,)
            state["args"], state["kwargs"] = args, kwargs

        boundary = None
        if full_hooks or backward_pre_hooks:
            boundary = _hooks.BackwardHook(self, full_hooks, backward_pre_hooks)
            state["args"] = args = boundary.setup_input(args)

        state["result"] = result = self._slow_forward(*args, **kwargs)
        for identity, hook in (*_global_forward_hooks.items(), *self._forward_hooks.items()):
            if identity in self._forward_hooks_always_called or identity in _global_forward_hooks_always_called:
                called.add(identity)
            if identity in self._forward_hooks_with_kwargs or identity in _global_forward_hooks_with_kwargs:
                changed = hook(self, args, kwargs, result)
            else:
                changed = hook(self, args, result)
            if changed is not None:
                state["result"] = result = changed

        if boundary is not None:
            if not isinstance(result, (Tensor, tuple)):
                warnings.warn(
                    "For backward hooks to be called, module output should be a Tensor or a tuple of Tensors "
                    f"but received {type(result)}",
                    stacklevel=4,
                )
            else:
                result = boundary.setup_output(result)
        if legacy_hooks:
            _hooks.attach_legacy_backward_hooks(self, legacy_hooks, args, result)
        return result

    def _run_always_called(self, state: dict[str, Any], called: set[int]) -> None:
        """After an exception: the always_call hooks that did not run yet; their own errors become warnings."""
        tables = (
            ("global module forward hook", _global_forward_hooks, _global_forward_hooks_always_called,
             _global_forward_hooks_with_kwargs),
            ("module forward hook", self._forward_hooks, self._forward_hooks_always_called,
             self._forward_hooks_with_kwargs),
        )  # fmt: skip
        for kind, hooks, always_called, with_kwargs in tables:
            for identity, hook in hooks.items():
                if identity not in always_called or identity in called:
                    continue
                extra = (state["kwargs"],) if identity in with_kwargs else ()
                try:
                    changed = hook(self, state["args"], *extra, state["result"])
                    if changed is not None:
                        state["result"] = changed
                except Exception as error:
                    warnings.warn(
                        f"{kind} with ``always_call=True`` raised an exception "
                        f"that was silenced as another error was raised in forward: {error!s}",
                        stacklevel=4,
                    )

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Compile this module's calls in place; the arguments are those of `flambeau.compile`."""
        self._compiled_call_impl = flambeau.compile(self._call_impl, *args, **kwargs)

    # --------------------------------------------------------- copying, printing
    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        state.pop("_compiled_call_impl", None)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        # Files of older versions lack the later tables.
        for table in (*_HOOK_TABLES_BEFORE_KIND, *_HOOK_TABLES):
            self.__dict__.setdefault(table, OrderedDict())
        self.__dict__.setdefault("_non_persistent_buffers_set", set())
        self.__dict__.setdefault("_is_full_backward_hook", None)

    def _replicate_for_data_parallel(self) -> Module:
        """A shallow copy with its own registries, whose parameters are set by the caller."""
        replica = self.__new__(type(self))
        replica.__dict__ = self.__dict__.copy()
        replica._parameters = {}
        replica._buffers = replica._buffers.copy()
        replica._modules = replica._modules.copy()
        replica._is_replica = True
        return replica

    def _get_name(self) -> str:
        return type(self).__name__

    def extra_repr(self) -> str:
        """What the repr shows between the parentheses; subclasses override it."""
        return ""

    def __repr__(self) -> str:
        extra = self.extra_repr()
        extra_lines = extra.split("\n") if extra else []
        child_lines = [f"({name}): {indented(repr(child), 2)}" for name, child in self._modules.items()]
        if not child_lines and len(extra_lines) <= 1:
            return f"{self._get_name()}({extra})"
        lines = "\n  ".join(extra_lines + child_lines)
        return f"{self._get_name()}(\n  {lines}\n)"


def indented(text: str, spaces: int) -> str:
    """The text with every line but the first moved right."""
    return text.replace("\n", "\n" + " " * spaces)
