"""From a module of Python to its type: attributes, constants, submodules; methods are compiled when they are called.

Modules of one class that are alike share a type. Stands on modules and functions; used by script_module.
"""

from __future__ import annotations

import inspect
import typing
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from flambeau.base.naming import PACKAGE
from flambeau.dispatcher.schema_types import OptionalType, Type
from flambeau.jit.frontend import functions, library
from flambeau.jit.frontend.annotations import type_of_annotation
from flambeau.jit.frontend.builtins import operator_of
from flambeau.jit.frontend.callables import FunctionValue, IgnoredFunction, MethodValue
from flambeau.jit.frontend.emitter import Emitter
from flambeau.jit.frontend.modules import ModuleSelf, ModuleValue
from flambeau.jit.frontend.python_resolver import PythonResolver
from flambeau.jit.frontend.python_source import UNUSED, definition_of
from flambeau.jit.frontend.python_values import type_of_python_value
from flambeau.jit.frontend.values import SimpleValue, SugaredValue
from flambeau.jit.ir.function import Function
from flambeau.jit.ir.inference import inferred_type
from flambeau.jit.ir.names import mangled, qualified_name_of
from flambeau.jit.ir.source import SourceRange, compiling
from flambeau.jit.ir.types import BOOL, NONE, TENSOR, ClassType
from flambeau.nn import ModuleDict, ModuleList, Sequential
from flambeau.nn.modules.module import Module

if TYPE_CHECKING:
    from flambeau.jit.frontend.emitter import Emitter as EmitterType

__all__ = [
    "ConcreteType",
    "concrete_type_of",
    "define_method",
    "define_overloads",
    "define_property",
    "is_exported",
    "methods_to_compile",
]

_EXPORT = "export"
_OWN = frozenset(vars(Module()))
_CONSTANTS = (bool, float, int, str, type(None))


class ConcreteType:
    """What the compiler knows of a module."""

    def __init__(self, python_class: type, container: str) -> None:
        self.python_class, self.container = python_class, container
        self.script_type = ClassType("", is_module=True)
        self.constants: dict[str, Any] = {}
        self.modules: dict[str, ConcreteType | None] = {}
        self.functions: dict[str, Function] = {}
        self.operators: dict[str, str] = {}
        self.overloads: dict[str, list[str]] = {}
        self.failed: dict[str, str] = {}
        self.ignored: frozenset[str] = frozenset()
        self.hooked: tuple[Any, ...] = ()
        self.emitted = False  # whether emit_hooks was told of it

    def key(self) -> Any:
        """What must be equal for two modules to share a type."""
        attributes = tuple(
            (a.name, repr(a.type), a.is_parameter, a.is_buffer)
            for a in self.script_type.attributes.values()
            if a.name not in self.modules
        )
        return (
            attributes,
            repr(self.constants),
            tuple((name, id(kind)) for name, kind in self.modules.items()),
            tuple((name, id(f)) for name, f in self.functions.items()),
            repr(self.operators),
            self.hooked,
            self.container,
        )

    def bound_to(self, module: ModuleValue, where: SourceRange, e: EmitterType, name: str) -> SugaredValue | None:
        """What the class of such a module has under a name: a property or a method, compiled now, or one that stays Python."""
        item = inspect.getattr_static(self.python_class, name, None)
        if isinstance(item, property):
            getter = define_property(self, name, item)
            return MethodValue(module.value, [getter]).call(where, e, [], [], 1)
        if isinstance(item, staticmethod):
            compiled = functions.compiled(item.__func__, where)
            return None if compiled is None else FunctionValue(compiled)
        if not isinstance(item, FunctionType):
            return None
        modifier = getattr(item, "_torchscript_modifier", None)
        if modifier == UNUSED:
            return _Unused(functions.ignored(item), module.value)
        if functions.is_ignored(item):
            return _IgnoredMethod(functions.ignored(item), module.value)
        noted = functions.noted_overloads(item)
        if noted:
            define_overloads(self, item, noted)
            return MethodValue(module.value, self.overloads[name])
        if name in library.CONTAINER_METHODS and self.container:
            library.define_container_method(self.script_type, name, list(self.modules))
        else:
            define_method(self, item, name)
        return MethodValue(module.value, [name]) if name in self.script_type.methods else None


_known: WeakKeyDictionary[type, list[tuple[Any, ConcreteType]]] = WeakKeyDictionary()


def concrete_type_of(module: Module) -> ConcreteType:
    """The type of a module, shared with those that are alike."""
    found = module.__dict__.get("_concrete_type")
    if found is not None:
        return found  # type: ignore[no-any-return]
    if isinstance(getattr(module, "script_type", None), ClassType):
        return _of_program(module)
    made = _inferred(module)
    shared = _known.setdefault(type(module), [])
    key = made.key()
    for known_key, known in shared:
        if known_key == key and not known.script_type.extended:
            return known
    made.script_type.qualified_name = made.script_type.written = mangled(qualified_name_of(type(module)))
    shared.append((key, made))
    return made


_programs: WeakKeyDictionary[ClassType, ConcreteType] = WeakKeyDictionary()


def _of_program(module: Any) -> ConcreteType:
    """The type of a module that is a program already: traced, loaded or frozen."""
    kind: ClassType = module.script_type
    found = _programs.get(kind)
    if found is None:
        names = [name for name, child in module._modules.items() if child is not None]
        found = _programs[kind] = ConcreteType(type(module), "list" if names and all(map(str.isdigit, names)) else "")
        found.script_type, found.emitted = kind, True
        found.constants = dict(kind.constants)
        found.modules = {name: concrete_type_of(module._modules[name]) for name in names}
    return found


def _annotations(cls: type) -> dict[str, Any]:
    for each in cls.__mro__:
        found = inspect.get_annotations(each)
        if found:
            return found
    return {}


def is_final(annotation: Any) -> bool:
    """Whether an annotation says that an attribute is a constant."""
    return (
        typing.get_origin(annotation) is typing.Final
        or annotation is typing.Final
        or (isinstance(annotation, str) and annotation.rpartition(".")[2].startswith("Final["))
    )


def _inferred(module: Module) -> ConcreteType:
    container = "dict" if isinstance(module, ModuleDict) else "list" if isinstance(module, (ModuleList, Sequential)) else ""
    made = ConcreteType(type(module), container)
    kind = made.script_type
    kind.python_class = type(module)
    annotations = _annotations(type(module))
    made.ignored = frozenset(getattr(module, "__jit_ignored_attributes__", ()))
    scope = vars(inspect.getmodule(type(module)) or object)

    def type_of(name: str, value: Any) -> Type | None:
        wanted = annotations.get(name)
        if hasattr(value, "type") and type(value).__name__ == "Attribute":
            wanted = value.type
        if wanted is None or name == "forward":
            try:
                return type_of_python_value(value)
            except RuntimeError:  # a named tuple with fields that no program has: no matter unless it is used
                return None
        return type_of_annotation(wanted, None, scope.get)

    for registry, flags in ((module._parameters, (True, False)), (module._buffers, (False, True))):
        for name, value in registry.items():
            if name not in made.ignored:
                found = type_of(name, value) or (NONE if value is None else TENSOR)
                kind.add_attribute(name, found, *flags)
    _add_constants(module, made, annotations)
    kind.add_attribute("training", BOOL)
    # PyTorch's Module annotates this one, which a class with annotations of its own hides; those of torch.nn have some.
    hides = annotations != _annotations(Module) or type(module).__module__.partition(".")[0] == PACKAGE
    kind.add_attribute("_is_full_backward_hook", NONE if hides else OptionalType(BOOL))
    for name, value in module.__dict__.items():
        if name.startswith("__") or name in _OWN or name in made.constants or name in kind.attributes or name in made.ignored:
            continue
        _add_plain(made, name, value, type_of(name, value) if not isinstance(value, FunctionType) else None, name in annotations)
    for name, child in module._modules.items():
        if name in made.ignored:
            continue
        if child is None:
            kind.add_attribute(name, NONE)
            continue
        interface = type_of_annotation(annotations[name], None, scope.get) if name in annotations else None
        if interface is not None and interface.kind() == "InterfaceType":
            kind.add_attribute(name, interface)
            made.modules[name] = None
        else:
            made.modules[name] = inner = concrete_type_of(child)
            kind.add_attribute(name, inner.script_type)
    made.hooked = (tuple(module._forward_pre_hooks.values()), tuple(module._forward_hooks.values()))
    if made.hooked == ((), ()):
        made.hooked = ()
    return made


def _add_constants(module: Module, made: ConcreteType, annotations: dict[str, Any]) -> None:
    import warnings

    names = [*getattr(module, "__constants__", ()), *(name for name, each in annotations.items() if is_final(each))]
    for name in sorted(set(names)):
        if name in made.script_type.attributes:
            what = "submodule" if name in made.modules else "buffer" if name in module._buffers else "parameter"
            warnings.warn(
                f"'{name}' was found in ScriptModule constants,  but it is a non-constant {what}. Consider removing it.",
                stacklevel=4,
            )
        elif not hasattr(module, name):
            warnings.warn(
                f"'{name}' was found in ScriptModule constants, but was not actually set in __init__. Consider removing it.",
                stacklevel=4,
            )
        else:
            made.constants[name] = _valid_constant(name, getattr(module, name), type(module).__name__)


def _valid_constant(name: str, value: Any, owner: str) -> Any:
    from flambeau.base.device import device
    from flambeau.base.dtype import dtype
    from flambeau.base.layout import layout

    if isinstance(value, (*_CONSTANTS, device, dtype, layout)):
        return value
    if isinstance(value, (tuple, list)):
        return tuple(_valid_constant(name, each, owner) for each in value)
    import flambeau as torch

    names = "bool, float, int, str, NoneType, torch.device, torch.layout, torch.dtype, torch.qscheme"
    raise TypeError(
        f"\n'{torch.typename(value)}' object in attribute '{owner}.{name}' is not a valid constant.\nValid constants are:\n"
        f"1. a nn.ModuleList\n2. a value of type {{{names}}}\n3. a list or tuple of (2)\n"
    )


def _add_plain(made: ConcreteType, name: str, value: Any, found: Type | None, annotated: bool) -> None:
    function = getattr(value, "_script_function", None)
    if function is not None:
        made.functions[name] = function
        return
    symbol = operator_of(value)
    if symbol is not None:
        made.operators[name] = symbol
        return
    if isinstance(value, FunctionType):
        try:
            compiled = functions.compiled(value)
            if compiled is not None:
                made.functions[name] = compiled
        except Exception as error:
            made.failed[name] = (
                "(This function exists as an attribute on the Python module, but we failed to compile it to a TorchScript "
                "function. "
                f"\nThe error stack is reproduced here:\n{error})"
            )
        return
    if found is not None:
        made.script_type.add_attribute(name, found)
        return
    import flambeau as torch

    inferred = "" if annotated else "Its type was inferred; try adding a type annotation for the attribute."
    made.failed[name] = (
        f"(This attribute exists on the Python module, but we failed to convert Python type: '{torch.typename(value)}' "
        f"to a TorchScript type. {_why(value)}. {inferred})"
    )


def _why(value: Any) -> str:
    if isinstance(value, (list, dict, tuple)):
        return inferred_type(value).reason()
    return (
        "Only tensors and (possibly nested) tuples of tensors, lists, or dicts are supported as inputs or outputs of traced "
        f"functions, but instead got value of type {type(value).__name__}."
    )


# ---------------------------------------------------------------- methods


def is_exported(item: Any) -> bool:
    """Whether a method is compiled even if none that is compiled calls it."""
    return getattr(item, "_torchscript_modifier", None) == _EXPORT


def define_method(concrete: ConcreteType, function: Any, name: str | None = None) -> Function:
    """A method of a module, compiled; what it was written as may stand in `library`."""
    kind = concrete.script_type
    name = name or function.__name__
    found = kind.methods.get(name)
    if found is not None:
        return found  # type: ignore[no-any-return]
    source = library.substitute(function, concrete.python_class)
    made = Function(f"{kind.qualified_name}.{name}")
    made.python, made.doc = function, function.__doc__

    def define(method: Function) -> None:
        with compiling(f"{kind.name()}.{name}"):
            definition = definition_of(source, name, kind.name())
            resolver = PythonResolver(functions.look_up_of(source), kind, kind.name())
            Emitter(method, resolver).define(definition, ModuleSelf(concrete), functions.defaults_of(source))

    made._define = define
    kind.methods[name] = made
    try:
        made.ensure_defined()
    except BaseException:
        kind.methods.pop(name, None)
        raise
    return made


def define_hooks(concrete: ConcreteType) -> None:
    """The hooks of a module's type, compiled; they are no methods of it."""
    kind = concrete.script_type
    if not concrete.hooked or kind.pre_hooks or kind.hooks:
        return
    made: dict[str, Function] = {}
    for into, hooks in ((kind.pre_hooks, concrete.hooked[0]), (kind.hooks, concrete.hooked[1])):
        for hook in hooks:
            name = hook.__name__
            if name not in made:
                method = kind.methods.pop(name, None)
                made[name] = define_method(concrete, hook, name)
                kind.methods.pop(name)
                if method is not None:
                    kind.methods[name] = method
            into.append(made[name])


def define_property(concrete: ConcreteType, name: str, item: property) -> str:
    """Compile a property; returns the name of the method that reads it."""
    getter = f"__{name}_getter"
    define_method(concrete, item.fget, getter)
    if name not in concrete.script_type.properties:
        setter = define_method(concrete, item.fset, f"__{name}_setter") if item.fset is not None else None
        concrete.script_type.properties[name] = concrete.script_type.methods[getter], setter
    return getter


def define_overloads(concrete: ConcreteType, function: Any, declared: list[Any]) -> None:
    """Give a type the methods of each signature that was noted for a method."""
    name = function.__name__
    names = []
    kind = concrete.script_type
    for number, each in enumerate(declared):
        own = f"{name}__{number}"
        names.append(own)
        if own in kind.methods:
            continue
        made = Function(f"{kind.qualified_name}.{own}")
        made.python = function

        def define(method: Function, own: str = own, each: Any = each) -> None:
            with compiling(f"{kind.name()}.{own}"):
                merged = functions.merged_definition(function, each, own, kind.name())
                resolver = PythonResolver(functions.look_up_of(function), kind, kind.name())
                Emitter(method, resolver).define(merged, ModuleSelf(concrete), functions.defaults_of(each))

        made._define = define
        kind.methods[own] = made
    concrete.overloads[name] = names


class _IgnoredMethod(IgnoredFunction):
    """A method that stays Python."""

    def __init__(self, function: Function, self_value: Any) -> None:
        super().__init__(function)
        self.self_value = self_value

    def call(self, where: SourceRange, e: EmitterType, args: Any, kwargs: Any, binders: int) -> SugaredValue:
        self.function.schema.arguments[0].type = self.self_value.type()
        return super().call(where, e, [self.self_value, *args], kwargs, binders)


class _Unused(_IgnoredMethod):
    """A method whose call is an error when it is reached."""

    def call(self, where: SourceRange, e: EmitterType, args: Any, kwargs: Any, binders: int) -> SugaredValue:
        from flambeau.jit.frontend.matching import emit_builtin

        message = e.graph.insertConstant("This Python function is annotated to be ignored and cannot be run")
        emit_builtin(e.graph, where, "prim::RaiseException", [message])
        return SimpleValue(e.uninitialized(self.function.schema.returns[0].type))


def methods_to_compile(module: Module) -> list[tuple[str, Any]]:
    """The methods of a module that are compiled though nothing calls them: forward and the exported ones."""
    cls = type(module)
    found: list[tuple[str, Any]] = []
    forward = getattr(module, "forward", None)
    function = forward.__func__ if isinstance(forward, MethodType) else None
    if function is not None and function is not Module.forward and not functions.is_ignored(function):
        found.append(("forward", function))
    for name in dir(cls):
        item = inspect.getattr_static(cls, name, None)
        if isinstance(item, FunctionType) and is_exported(item) and name != "forward":
            found.append((name, item))
    return found
