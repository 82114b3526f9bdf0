"""Symbolic tracing: run a module's forward on proxies, and keep what it did as a graph.

Stands on fx.proxy, fx.patching (what is exchanged while a trace runs) and fx.graph_module; used by `fx`, and
by tracers that stand on it.
"""

# ruff: noqa: F401 - PyTorch has the names of patching in this module

from __future__ import annotations

import collections
import copy
import functools
import inspect
import logging
import math
import typing
import warnings
from collections.abc import Callable
from types import FunctionType, ModuleType
from typing import Any

import flambeau as torch
import flambeau.utils._pytree as pytree
from flambeau.core.modes import interception
from flambeau.fx._compatibility import compatibility
from flambeau.fx._lazy_graph_module import _make_graph_module
from flambeau.fx.graph import Graph, _PyTreeCodeGen, _PyTreeInfo
from flambeau.fx.graph_module import GraphModule
from flambeau.fx.node import Argument, Node, base_types
from flambeau.fx.patching import (
    _autowrap_check,
    _create_wrapped_func,
    _find_proxy,
    _patch_wrapped_functions,
    _Patcher,
    _wrapped_fns_to_patch,
    _wrapped_methods_to_patch,
    register_wrapped,
)
from flambeau.fx.proxy import ParameterProxy, Proxy, Scope, ScopeContextManager, TracerBase
from flambeau.nn import Module

__all__ = ["PH", "PHBase", "ProxyableClassMeta", "Tracer", "is_fx_tracing", "symbolic_trace", "wrap"]

log = logging.getLogger(__name__)
ScriptObject = torch.ScriptObject
_orig_module_call, _orig_module_getattr = Module.__call__, Module.__getattr__
HAS_VARSTUFF = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS
_proxyable_classes: dict[type, None] = {}
_is_fx_tracing_flag = False


def is_fx_tracing() -> bool:
    """Whether a trace is running."""
    return _is_fx_tracing_flag


is_fx_symbolic_tracing = is_fx_tracing


class ProxyableClassMeta(type):
    """Metaclass of classes that may be made of proxies while tracing: making an instance becomes a node."""

    def __init__(cls, name: str, bases: Any, attrs: Any) -> None:
        _proxyable_classes.setdefault(cls)
        super().__init__(name, bases, attrs)

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        made = cls.__new__(cls)  # type: ignore[call-overload]
        if not is_fx_tracing():
            cls.__init__(made, *args, **kwargs)  # type: ignore[misc]
            return made
        found: list[Proxy] = []

        def replace(x: Any) -> Any:
            if isinstance(x, Proxy):
                found.append(x)
            return x

        pytree.tree_map(replace, (args, kwargs))
        if found:
            return found[0].tracer.create_proxy("call_function", cls, args, kwargs)
        cls.__init__(made, *args, **kwargs)  # type: ignore[misc]
        return made


class PHBase:
    """Stands in concrete_args for an input that stays an input."""

    def __repr__(self) -> str:
        return "PH"


PH = PHBase()


class PHWithMeta(PHBase):
    """A placeholder whose attributes go to the node."""

    def __init__(self, ph_key: str | None = None) -> None:
        super().__init__()
        self.ph_key = ph_key


def _transfer_attrs(fr: Any, to: Any) -> None:
    for name in dir(fr):
        value = getattr(fr, name)
        if not callable(value) and not name.startswith("__") and not hasattr(to, name):
            setattr(to, name, value)


class Tracer(TracerBase):
    """Traces modules and functions: `Tracer().trace(module)` returns the graph. To be subclassed for other rules.

    autowrap_modules: modules whose functions become nodes when called with proxies (math); autowrap_functions: further such
    functions; param_shapes_constant: the shapes of parameters are numbers while tracing, not nodes.
    """

    def __init__(
        self,
        autowrap_modules: tuple[ModuleType, ...] = (math,),
        autowrap_functions: tuple[Callable[..., Any], ...] = (),
        param_shapes_constant: bool = False,
    ) -> None:
        super().__init__()
        self._autowrap_function_ids: set[int] = {
            id(value)
            for module in autowrap_modules
            for name, value in vars(module).items()
            if not name.startswith("_") and callable(value)
        }
        self._autowrap_function_ids.update(id(f) for f in autowrap_functions)
        self._autowrap_search: list[ModuleType] = list(autowrap_modules)
        self.param_shapes_constant = param_shapes_constant
        self.submodule_paths: dict[Module, str] | None = None
        self.root_module_name = ""
        self.scope = Scope("", None)
        self.module_stack = collections.OrderedDict()
        self.num_calls: dict[str, int] = {}
        self.node_name_to_scope = {}
        self._qualname_counter: dict[str, int] = collections.defaultdict(int)

    def get_fresh_qualname(self, prefix: str) -> str:
        """A name that the root has no attribute of: prefix0, prefix1, ..."""
        if not hasattr(self.root, f"{prefix}0") and prefix not in self._qualname_counter:
            self._qualname_counter[prefix] = 0
            return f"{prefix}0"
        number = self._qualname_counter[prefix]
        while True:
            number += 1
            if not hasattr(self.root, f"{prefix}{number}"):
                self._qualname_counter[prefix] = number
                return f"{prefix}{number}"

    # ------------------------------------------------------------ values

    def create_arg(self, a: Any) -> Argument:
        """A value as a node's argument: parameters, buffers and other tensors of the root become get_attr nodes.

        A tensor that the root doesn't have becomes an attribute `_tensor_constant<n>` of it. Raises NameError for a parameter
        of another module, NotImplementedError for types that graphs don't hold.
        """
        if isinstance(a, torch.nn.Parameter):
            for name, parameter in self.root.named_parameters():
                if a is parameter:
                    return self.create_node("get_attr", name, (), {})
            raise NameError("parameter is not a member of this module")
        if isinstance(a, torch.Tensor):
            for name, buffer in self.root.named_buffers():
                if a is buffer:
                    return self.create_node("get_attr", name, (), {})
            path = self.tensor_attrs.get(a)
            if path is None:
                path = self.get_fresh_qualname("_tensor_constant")
                self.tensor_attrs[a] = path
                setattr(self.root, path, a)
            return self.create_node("get_attr", path, (), {})
        if isinstance(a, Module):
            for name, module in self.root.named_modules():
                if a is module:
                    return self.create_node("get_attr", name, (), {})
        if isinstance(a, tuple) and hasattr(a, "_fields"):
            return self.create_node("call_function", type(a), tuple(self.create_arg(item) for item in a), {})
        if type(a) in _proxyable_classes:
            path = self.get_fresh_qualname(f"_{type(a).__name__}_constant_")
            setattr(self.root, path, a)
            return self.create_node("get_attr", path, (), {})
        return super().create_arg(a)

    def getattr(self, attr: str, attr_val: Any, parameter_proxy_cache: dict[str, Any]) -> Any:
        """What reading an attribute of a module gives while tracing: proxies of parameters.

        Buffers too with proxy_buffer_attributes; to be overridden for others.
        """
        if isinstance(attr_val, torch.nn.Parameter):
            found = self._named_proxy(attr_val, self.root.named_parameters(), parameter_proxy_cache, True)
            if found is not None:
                return found
        if self.proxy_buffer_attributes and isinstance(attr_val, torch.Tensor):
            found = self._named_proxy(attr_val, self.root.named_buffers(), parameter_proxy_cache, False)
            if found is not None:
                return found
        return attr_val

    def _named_proxy(self, value: Any, named: Any, cache: dict[str, Any], parameter: bool) -> Any:
        for name, candidate in named:
            if value is not candidate:
                continue
            if name not in cache:
                extra: dict[str, Any] = {}
                if self.param_shapes_constant and "proxy_factory_fn" in inspect.signature(self.create_proxy).parameters:
                    make = functools.partial(_parameter_proxy, self, name, value)
                    extra["proxy_factory_fn"] = make if parameter else None
                cache[name] = self.create_proxy("get_attr", name, (), {}, **extra)
            return cache[name]
        return None

    # ------------------------------------------------------------ modules

    def is_leaf_module(self, m: Module, module_qualified_name: str) -> bool:
        """Whether a call of the module becomes one node: so it is for those of torch.nn, but Sequential. To be overridden."""
        own = m.__module__.startswith((f"{torch.__name__}.nn", f"{torch.__name__}.ao.nn", "torch.nn", "torch.ao.nn"))
        return own and not isinstance(m, torch.nn.Sequential)

    def path_of_module(self, mod: Module) -> str:
        """The dotted path of a submodule of the root. Raises NameError if it is none."""
        if self.submodule_paths:
            path = self.submodule_paths.get(mod)
            if path is None:
                raise NameError("module is not installed as a submodule")
            return path
        for name, module in self.root.named_modules():
            if mod is module:
                return name
        raise NameError("module is not installed as a submodule")

    def call_module(self, m: Module, forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A call of a module met while tracing: one node for a leaf; otherwise its forward is run, forward(*args, **kwargs)."""
        path = self.path_of_module(m)
        with ScopeContextManager(self.scope, Scope(path, type(m))) as scope:
            count = self.num_calls.get(path, 0)
            key = f"{scope.module_path}@{count}" if count > 0 else scope.module_path
            self.module_stack[key] = (path, scope.module_type)
            self.num_calls[path] = count + 1
            if self.is_leaf_module(m, path):
                result = self.create_proxy("call_module", path, args, kwargs)
            else:
                result = forward(*args, **kwargs)
            popped, _ = self.module_stack.popitem(last=True)
            if popped != key:
                raise AssertionError(f"Unexpected key {popped}")
        return result

    # ------------------------------------------------------------ tracing

    def trace(self, root: Module | Callable[..., Any], concrete_args: dict[str, Any] | None = None) -> Graph:
        """The graph of what `root` does. concrete_args: inputs that are values, not proxies, or containers with PH inside."""
        global _is_fx_tracing_flag
        before, _is_fx_tracing_flag = _is_fx_tracing_flag, True
        try:
            fn = self._begin(root)
            self._collect_tensors(self.root, [])
            if not isinstance(fn, FunctionType):
                raise AssertionError(f"Expected FunctionType, got {type(fn)}")
            annotations = _annotations(fn)
            fn_globals = fn.__globals__
            fn, args = self.create_args_for_root(fn, isinstance(root, Module), concrete_args)
            cache: dict[str, Any] = {}
            with _Patcher() as patcher:
                self._intercept_modules(patcher, cache)
                _patch_wrapped_functions(patcher)
                _autowrap_check(patcher, fn_globals, self._autowrap_function_ids)
                for module in self._autowrap_search:
                    _autowrap_check(patcher, module.__dict__, self._autowrap_function_ids)
                result = self.create_arg(fn(*args))
                self.create_node("output", "output", (result,), {}, type_expr=annotations.get("return"))
            self.submodule_paths = None
        finally:
            _is_fx_tracing_flag = before
        return self.graph

    def _begin(self, root: Any) -> Any:
        if isinstance(root, Module):
            self.root = root
            if not hasattr(type(root), self.traced_func_name):
                raise AssertionError(f"traced_func_name={self.traced_func_name} doesn't exist in {type(root).__name__}")
            fn = getattr(type(root), self.traced_func_name)
            self.root_module_name = root._get_name()
            self.submodule_paths = {mod: name for name, mod in root.named_modules()}
        else:
            self.root = Module()
            fn = root
        self.graph = Graph(tracer_cls=type(self))
        if hasattr(fn, "__code__"):
            code = fn.__code__
            self.graph._co_fields = {  # type: ignore[attr-defined]
                "co_name": code.co_name,
                "co_filename": code.co_filename,
                "co_firstlineno": code.co_firstlineno,
            }
        self.tensor_attrs: dict[torch.Tensor, str] = {}
        return fn

    def _collect_tensors(self, module: Module, prefix: list[str]) -> None:
        for name, value in module.__dict__.items():
            if isinstance(value, torch.Tensor):
                self.tensor_attrs[value] = ".".join([*prefix, name])
        for name, child in module.named_children():
            self._collect_tensors(child, [*prefix, name])

    def _intercept_modules(self, patcher: _Patcher, cache: dict[str, Any]) -> None:
        read, call = _orig_module_getattr, _orig_module_call

        @functools.wraps(read)
        def module_getattr_wrapper(mod: Module, attr: str) -> Any:
            return self.getattr(attr, read(mod, attr), cache)

        @functools.wraps(call)
        def module_call_wrapper(mod: Module, *args: Any, **kwargs: Any) -> Any:
            def forward(*args: Any, **kwargs: Any) -> Any:
                return call(mod, *args, **kwargs)

            names = getattr(getattr(mod, "forward", mod), "__globals__", {})
            _autowrap_check(patcher, names, self._autowrap_function_ids)
            return self.call_module(mod, forward, args, kwargs)

        patcher.patch_method(Module, "__getattr__", module_getattr_wrapper, deduplicate=False)
        patcher.patch_method(Module, "__call__", module_call_wrapper, deduplicate=False)

    # ------------------------------------------------------------ inputs

    def create_args_for_root(
        self, root_fn: Callable[..., Any], is_module: bool, concrete_args: dict[str, Any] | tuple[Any, ...] | None = None
    ) -> tuple[Callable[..., Any], list[Any]]:
        """The function to run, and its arguments: the root module, proxies of the inputs, and concrete values."""
        signed = interception.plain(inspect.unwrap(root_fn))
        code = signed.__code__
        total = code.co_argcount + code.co_kwonlyargcount
        names = list(code.co_varnames)
        own: list[Any] = []
        if is_module:
            if total == 0:
                raise RuntimeError("``self`` argument cannot be part of *args expansion!")
            own = [self.root]
        signature = inspect.signature(signed)
        named = names[len(own) : total]
        if isinstance(concrete_args, tuple) and not named and code.co_flags & inspect.CO_VARARGS:
            given = [
                self.create_proxy("placeholder", f"input_{i}", (), {}) if x is PH else x for i, x in enumerate(concrete_args)
            ]
            return root_fn, [*own, *given]
        if isinstance(concrete_args, tuple):
            if len(named) != len(concrete_args):
                raise RuntimeError(f"Tracing expected {len(named)} arguments but got {len(concrete_args)} concrete arguments")
            concrete_args = dict(zip(named, concrete_args))
        args = [*own, *[self._proxy_placeholder(name, concrete_args, signature, signed) for name in named]]
        if code.co_kwonlyargcount > 0 or code.co_flags & HAS_VARSTUFF:
            place = total
            if code.co_flags & inspect.CO_VARARGS:
                args.append(self._proxy_placeholder("*" + names[place], concrete_args, signature, signed))
                place += 1
            if code.co_flags & inspect.CO_VARKEYWORDS:
                args.append(self._proxy_placeholder("**" + names[place], concrete_args, signature, signed))
            root_fn = _patch_function(interception.plain(root_fn), len(args))
        leaves, spec = pytree.tree_flatten(tuple(args))
        if all(child.is_leaf() for child in spec.children()):
            return root_fn, args
        self.graph._codegen = _PyTreeCodeGen(_PyTreeInfo(names[:total], spec, None))

        def flatten_fn(*args: Any) -> Any:
            result = root_fn(*pytree.tree_unflatten(list(args), spec))
            out, out_spec = pytree.tree_flatten(result)
            codegen = self.graph._codegen
            if not isinstance(codegen, _PyTreeCodeGen):
                raise AssertionError(f"Expected _PyTreeCodeGen, got {type(codegen)}")
            codegen.pytree_info = codegen.pytree_info._replace(out_spec=out_spec)
            return out

        return flatten_fn, leaves

    def _proxy_placeholder(self, name: str, concrete_args: Any, sig: inspect.Signature, fn_for_analysis: Any) -> Any:
        default: tuple[Any, ...] = ()
        if name[0] != "*":
            parameter = sig.parameters[name]
            default = () if parameter.default is inspect.Parameter.empty else (parameter.default,)
        if concrete_args is None or name not in concrete_args:
            annotation = _annotations(fn_for_analysis).get(name)
            return self.create_proxy("placeholder", name, default, {}, type_expr=annotation)
        count = 0

        def leaf(x: Any) -> Any:
            nonlocal count
            count += 1
            proxy = self.create_proxy("placeholder", f"{name}_{count}", default, {})
            if isinstance(x, PHBase):
                if x is not PH:
                    _transfer_attrs(fr=x, to=proxy.node)
                return proxy
            self._specialize(proxy, name, x)
            return x

        return pytree.tree_map(leaf, concrete_args[name])

    def _specialize(self, proxy: Proxy, name: str, value: Any) -> None:
        """Let the graph check that an input has the value that it was traced with."""
        text = f"{name} has been specialized to have value {value} but got another value"
        if type(value) in base_types and not isinstance(value, torch.Tensor):
            torch._assert(proxy == value, text)
        elif value is None:
            self.create_proxy("call_function", _assert_is_none, (proxy, text), {})
        else:
            warnings.warn(
                f"Was not able to add assertion to guarantee correct input {name} to specialized function. It is up to the "
                "user to make sure that your inputs match the inputs you specialized the function with.",
                stacklevel=2,
            )

    def __deepcopy__(self, memo: dict[int, Any]) -> Tracer:
        made = Tracer.__new__(type(self))
        for name, value in self.__dict__.items():
            made.__dict__[name] = value if name == "_autowrap_search" else copy.deepcopy(value, memo)
        return made


def _parameter_proxy(tracer: Tracer, name: str, parameter: Any, node: Node) -> ParameterProxy:
    return ParameterProxy(tracer, node, name, parameter)


def _annotations(function: Any) -> dict[str, Any]:
    """A function's annotations as they are; as types for the package's own modules, whose annotations are texts."""
    found = getattr(function, "__annotations__", {})
    if str(getattr(function, "__module__", "")).partition(".")[0] != torch.__name__:
        return found
    try:
        hints = typing.get_type_hints(interception.plain(function))
    except (NameError, TypeError):
        return {}
    return {name: hint for name, hint in hints.items() if hint is not Any}


def _patch_function(fn: FunctionType, nargs: int) -> FunctionType:
    """The function with its variadic and keyword-only parameters as positional ones."""
    code = fn.__code__.replace(
        co_argcount=nargs, co_posonlyargcount=0, co_kwonlyargcount=0, co_flags=fn.__code__.co_flags & ~HAS_VARSTUFF
    )
    return FunctionType(code, fn.__globals__, fn.__name__, fn.__defaults__, fn.__closure__)


def wrap(fn_or_name: str | Callable[..., Any]) -> Any:
    """Let calls of a function with proxies become nodes, rather than running it: `wrap("len")`, `@wrap`.

    To be called at the top level of the module whose calls are meant. Returns its argument.
    """
    frame = inspect.currentframe()
    return register_wrapped(fn_or_name, frame.f_back if frame is not None else None)


def symbolic_trace(
    root: Module | Callable[..., Any], concrete_args: dict[str, Any] | tuple[Any, ...] | None = None
) -> GraphModule:
    """A GraphModule that does what `root` does, of what it did on proxies.

    concrete_args: inputs that are fixed to values, so that conditions on them can be decided.
    """
    tracer = Tracer()
    graph = tracer.trace(root, concrete_args)  # type: ignore[arg-type]
    name = type(root).__name__ if isinstance(root, Module) else root.__name__
    return _make_graph_module(tracer.root, graph, name)


@wrap
def _assert_is_none(value: object, msg: str) -> None:
    if value is not None:
        raise AssertionError(msg)
