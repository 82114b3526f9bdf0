"""Classes of Python as classes of programs, and interfaces: what a class must have to stand in a place.

Stands on python_source and the emitter; used by annotations and python_values.
"""

from __future__ import annotations

import inspect
import sys
from types import FunctionType
from typing import Any
from weakref import WeakKeyDictionary

from flambeau.base.naming import PACKAGE
from flambeau.dispatcher.schema import FunctionSchema
from flambeau.jit.frontend import functions
from flambeau.jit.frontend.dataclass_methods import definition_of_generated, is_generated
from flambeau.jit.frontend.emitter import Emitter
from flambeau.jit.frontend.python_resolver import PythonResolver
from flambeau.jit.frontend.python_source import definition_of
from flambeau.jit.frontend.text import MethodSelf
from flambeau.jit.ir.function import Function, argument
from flambeau.jit.ir.names import mangled, qualified_name_of
from flambeau.jit.ir.source import SourceRange, compiling
from flambeau.jit.ir.types import NONE, ClassType, InterfaceType

__all__ = ["class_of_object", "class_type", "interface_type"]

_made: WeakKeyDictionary[Any, ClassType] = WeakKeyDictionary()


def _shadow(cls: Any) -> Any:
    from flambeau.jit.shadows import contexts

    if getattr(cls, "__module__", "").partition(".")[0] == PACKAGE:
        return getattr(contexts, cls.__name__, None)
    return cls


def class_type(cls: Any, where: SourceRange | None = None) -> ClassType | None:
    """The type of a Python class, compiled if it hasn't been; None for one of Python's or of this package's that can't be."""
    found = _made.get(cls)
    if found is not None:
        return found
    source = _shadow(cls)
    if source is None or cls.__module__ == "builtins":
        return None
    kind = ClassType(mangled(qualified_name_of(source)))
    kind.python_class = cls
    _made[cls] = kind
    try:
        _compile(kind, source)
    except BaseException:
        _made.pop(cls, None)
        raise
    return kind


def class_of_object(value: Any) -> ClassType | None:
    """The type of an object's class, if all that the class has is Python and can be compiled."""
    from flambeau.nn import Module

    cls = type(value)
    if cls in _made:
        return _made[cls]
    if isinstance(value, (Module, tuple, list, dict, Exception, type)) or functions.is_ignored(cls):
        return None
    items = [getattr(cls, name, None) for name in vars(cls)]
    if not all(hasattr(item, "__code__") for item in items if inspect.isroutine(item)):
        return None
    try:
        return class_type(cls)
    except Exception:  # it isn't a class of programs; whether that matters is said where the value is used
        return None


def forget() -> None:
    """Compile classes again that were compiled before."""
    _made.clear()


def _compile(kind: ClassType, cls: Any) -> None:
    own = vars(cls)
    for name, item in own.items():
        if isinstance(item, staticmethod):
            kind.static_methods[name] = functions.compile_function(item.__func__)
    plain = {name: item.__func__ if isinstance(item, classmethod) else item for name, item in own.items()}
    methods = {name: item for name, item in plain.items() if isinstance(item, FunctionType) and not functions.is_ignored(item)}
    ordered = [name for name in ("__init__",) if name in methods] + [name for name in methods if name != "__init__"]
    for name, item in own.items():
        if isinstance(item, property) and name not in getattr(cls, "__jit_unused_properties__", ()):
            getter = _method(kind, cls, f"__{name}_getter", item.fget)
            setter = _method(kind, cls, f"__{name}_setter", item.fset) if item.fset is not None else None
            kind.properties[name] = getter, setter
    for name in ordered:
        if is_generated(cls, methods[name]):
            _generated_method(kind, cls, name, methods[name])
        else:
            _method(kind, cls, name, methods[name], isinstance(own[name], classmethod))
    for function in list(kind.methods.values()):
        if function.name == "__init__":
            function.ensure_defined()
    for function in list(kind.methods.values()):
        if not function.is_busy:
            function.ensure_defined()


def _method(kind: ClassType, cls: Any, name: str, item: Any, is_classmethod: bool = False) -> Function:
    """A method; a class's own is one too, in which the name of its first parameter stands for the class."""
    made = Function(f"{kind.qualified_name}.{name}")
    made.python, made.doc, made.owner = item, item.__doc__, kind
    look_up = functions.look_up_of(item)

    def define(method: Function) -> None:
        with compiling(f"{kind.name()}.{name}"):
            definition = definition_of(item, name, cls.__name__, is_classmethod)
            resolver = PythonResolver(look_up, kind, cls.__name__)
            defaults = functions.defaults_of(item)
            Emitter(method, resolver).define(definition, MethodSelf(kind), defaults)  # type: ignore[arg-type]

    made._define = define
    kind.methods[name] = made
    return made


def _generated_method(kind: ClassType, cls: Any, name: str, item: Any) -> None:
    """A method that `dataclasses` wrote, unless programs have nothing of the kind."""
    found = definition_of_generated(cls, name)
    if found is None:
        return
    definition, names = found
    made = Function(f"{kind.qualified_name}.{name}")
    made.python, made.doc, made.owner = item, item.__doc__, kind
    outer = functions.look_up_of(inspect.unwrap(item))
    scope = vars(sys.modules[cls.__module__])

    def look_up(word: str) -> Any:
        return names[word] if word in names else scope[word] if word in scope else outer(word)

    def define(method: Function) -> None:
        with compiling(f"{kind.name()}.{name}"):
            resolver = PythonResolver(look_up, kind, cls.__name__)
            defaults = functions.defaults_of(item) if name == "__init__" else {}
            Emitter(method, resolver).define(definition, MethodSelf(kind), defaults)  # type: ignore[arg-type]

    made._define = define
    kind.methods[name] = made


class _Declared(Function):
    """A method that only has a schema."""

    is_declaration = True


def interface_type(cls: Any, is_module: bool) -> InterfaceType:
    """The interface that a Python class declares by its methods, all of which must be annotated."""
    kind = InterfaceType(mangled(qualified_name_of(cls)), is_module)
    for name, item in vars(cls).items():
        if not isinstance(item, FunctionType) or name == "__init__":
            continue
        definition = definition_of(item, name, cls.__name__)
        resolver = PythonResolver(functions.look_up_of(item), kind, cls.__name__)
        arguments = [argument("self", kind)]
        for param in definition.params[1:]:
            arguments.append(argument(param.name, resolver.parameter_type(param)))
        result = NONE if definition.returns is None else resolver.type_of(definition.returns)
        made = _Declared(f"{kind.qualified_name}.{name}")
        made.declare(FunctionSchema(name, "", arguments, [argument("", result)]))
        kind.methods[name] = made
    return kind
