"""torch.jit._recursive: from modules of Python to compiled ones, with all that is in them.

Stands on the front end and script_module; used by scripts.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import MethodType
from typing import Any

from flambeau.base.naming import PACKAGE
from flambeau.jit.emit_hooks import emitted_module
from flambeau.jit.frontend import functions, library
from flambeau.jit.frontend.module_types import ConcreteType, concrete_type_of, define_hooks, define_method, methods_to_compile
from flambeau.jit.frontend.python_values import taken
from flambeau.jit.script_module import RecursiveScriptModule, ScriptModule, install_hooks
from flambeau.nn.modules.module import Module
from flambeau.nn.parameter import is_lazy

__all__ = ["script_module_of"]


def _check(module: Module) -> None:
    import flambeau as torch

    name = torch.typename(module)
    if "_parameters" not in module.__dict__:
        raise RuntimeError(f"'{name}' has not been initialized, did you forget to call 'super()'?")
    for what, table in (("parameters", module._parameters), ("buffers", module._buffers)):
        for own, value in table.items():
            if value is not None and is_lazy(value):
                raise RuntimeError(f"'{name}' has uninitialized {what} {own}. Did you forget to run a forward pass?")


def script_module_of(module: Module, methods: Sequence[tuple[str, Any]] | None = None, cls: Any = None) -> RecursiveScriptModule:
    """A compiled module that shares parameters and buffers with a module of Python."""
    _check(module)
    concrete = concrete_type_of(module)
    made = _filled(module, concrete)
    _compile(module, made, methods_to_compile(module) if methods is None else methods)
    return made


def _filled(module: Module, concrete: ConcreteType) -> RecursiveScriptModule:
    """The compiled module with the attributes of Python's, none of whose own methods is compiled yet; submodules' are."""
    kind = concrete.script_type
    made = RecursiveScriptModule(kind)
    own = made.__dict__
    own["_concrete_type"] = concrete
    for name, attribute in kind.attributes.items():
        if name in concrete.modules:
            child = module._modules[name]
            if isinstance(child, RecursiveScriptModule):
                own["_modules"][name] = child
                continue
            assert child is not None
            inner = concrete.modules[name]
            if inner is None:  # known by an interface
                methods = [(each, getattr(type(child), each)) for each in attribute.type.methods]  # type: ignore[attr-defined]
                own["_modules"][name] = script_module_of(child, methods)
            else:
                _check(child)
                own["_modules"][name] = filled = _filled(child, inner)
                _compile(child, filled, methods_to_compile(child))
        elif attribute.is_parameter:
            own["_parameters"][name] = module._parameters[name]
        elif attribute.is_buffer:
            own["_buffers"][name] = module._buffers[name]
        else:
            value = getattr(module, name)
            value = value.value if type(value).__name__ == "Attribute" else value
            own["script_attributes"][name] = taken(value, attribute.type)
    own["_non_persistent_buffers_set"] = set(module._non_persistent_buffers_set)
    _keep_python(module, made)
    return made


def _keep_python(module: Module, made: RecursiveScriptModule) -> None:
    """The methods that stay Python, bound to the compiled module."""
    for name in dir(type(module)):
        item = getattr(type(module), name, None)
        if functions.is_ignored(item) or functions.is_unused(item):
            made.__dict__[name] = MethodType(item, made)  # type: ignore[arg-type]
    for name in made.__dict__["_concrete_type"].ignored:
        if hasattr(module, name):
            made.__dict__[name] = getattr(module, name)


def _compile(module: Module, made: RecursiveScriptModule, methods: Sequence[tuple[str, Any]]) -> None:
    concrete: ConcreteType = made.__dict__["_concrete_type"]
    kind = concrete.script_type
    for name, item in ((n, getattr(type(module), n, None)) for n in dir(type(module))):
        if isinstance(item, property) and _is_compiled(type(module), name, item):
            from flambeau.jit.frontend.module_types import define_property

            define_property(concrete, name, item)
    for name, function in methods:
        noted = functions.noted_overloads(function)
        if noted:
            from flambeau.jit.frontend.module_types import define_overloads

            define_overloads(concrete, function, noted)
            for each in concrete.overloads[name]:
                kind.methods[each].ensure_defined()
        else:
            define_method(concrete, function, name)
    define_hooks(concrete)
    install_hooks(made)
    if concrete.container:
        for name in library.CONTAINER_METHODS[: 2 if concrete.container == "dict" else 1]:
            library.define_container_method(kind, name, list(concrete.modules))
    if not concrete.emitted:
        concrete.emitted = True
        emitted_module(made)


def _owner(cls: Any, name: str) -> Any:
    """The class that defines a name."""
    return next((each for each in cls.__mro__ if name in vars(each)), cls)


def _is_compiled(cls: Any, name: str, item: property) -> bool:
    unused = getattr(cls, "__jit_unused_properties__", ())
    return (
        name not in unused
        and not _owner(cls, name).__module__.startswith(f"{PACKAGE}.")
        and not functions.is_unused(item.fget)
        and not (functions.is_ignored(item.fget))
    )


ScriptModule.compile_marked = script_module_of
