"""Modules of Python as modules of programs: what `self` means in a method, and the type that modules alike share.

A ConcreteType is what the compiler knows of a module: the attributes and their types, constants, submodules, functions, and
why other
attributes can't be part of a program. Stands on callables, classes and python_values; used by module_types.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from flambeau.dispatcher.schema_types import ListType
from flambeau.jit.frontend.callables import BuiltinFunction, FunctionValue, MethodValue
from flambeau.jit.frontend.classes import attribute_of, set_attribute
from flambeau.jit.frontend.matching import Kwargs
from flambeau.jit.frontend.values import SimpleValue, SugaredTuple, SugaredValue
from flambeau.jit.ir.source import ErrorReport, SourceRange
from flambeau.jit.ir.types import STRING, TENSOR, InterfaceType
from flambeau.jit.ir.values import Value

if TYPE_CHECKING:
    from flambeau.jit.frontend.emitter import Emitter
    from flambeau.jit.frontend.module_types import ConcreteType

__all__ = ["ModuleSelf", "ModuleValue"]


class ModuleSelf:
    """What `self` is in a method of a module."""

    def __init__(self, concrete: ConcreteType) -> None:
        self.concrete, self.type = concrete, concrete.script_type

    def sugared(self, value: Value) -> SugaredValue:
        """Its meaning."""
        return ModuleValue(value, self.concrete)


class ModuleValue(SugaredValue):
    """A module."""

    def __init__(self, value: Value, concrete: ConcreteType) -> None:
        self.value, self.concrete = value, concrete

    def kind(self) -> str:
        return "module"

    def as_value(self, where: SourceRange, e: Emitter) -> Value:
        return self.value

    # ---- attributes
    def attr(self, where: SourceRange, e: Emitter, name: str) -> SugaredValue:
        found = self._attribute(where, e, name)
        if found is None:
            found = self.concrete.bound_to(self, where, e, name)
        if found is not None:
            return found
        hint = self.concrete.failed.get(name, "")
        if name in self.concrete.ignored:
            hint = (
                "(This attribute exists on the Python module, but we failed to convert Python type: it was listed in "
                "__jit_ignored_attributes__)"
            )
        raise ErrorReport(where, f"Module '{self.concrete.script_type.name()}' has no attribute '{name}' {hint}")

    def _attribute(self, where: SourceRange, e: Emitter, name: str) -> SugaredValue | None:
        concrete, kind = self.concrete, self.concrete.script_type
        if name in concrete.modules:
            return self._submodule(e, name)
        if name in concrete.overloads:
            return MethodValue(self.value, concrete.overloads[name])
        if name in kind.methods:
            return MethodValue(self.value, [name])
        if name in concrete.constants:
            from flambeau.jit.frontend.python_values import sugared

            return sugared(concrete.constants[name], e, where, constant=True)
        if name in concrete.functions:
            return FunctionValue(concrete.functions[name])
        if name in concrete.operators:
            return BuiltinFunction(concrete.operators[name])
        if name in ("keys", "values", "items") and concrete.container == "dict":
            return _Items(self, name)
        if name == "_flat_weights" and name not in kind.attributes:
            return self._parameters(e)
        return attribute_of(where, e, self.value, name)

    def _parameters(self, e: Emitter) -> SugaredValue:
        """The parameters as a list, in order: what recurrent layers hand to their operators."""
        values = []
        for name, attribute in self.concrete.script_type.attributes.items():
            if attribute.is_parameter:
                node = e.graph.insertNode(e.graph.create("prim::GetAttr", [self.value]).set("name", "s", name))
                values.append(node.output().setType(attribute.type).setDebugName(name))
        made = e.graph.insertNode(e.graph.create("prim::ListConstruct", values)).output()
        return SimpleValue(made.setType(ListType(TENSOR)))

    def _submodule(self, e: Emitter, name: str) -> SugaredValue:
        kind = self.concrete.script_type.attribute(name)
        assert kind is not None
        node = e.graph.insertNode(e.graph.create("prim::GetAttr", [self.value]).set("name", "s", name))
        value = node.output().setType(kind).setDebugName(f"_{name}" if name.isdigit() else name)
        concrete = self.concrete.modules[name]
        return SimpleValue(value) if isinstance(kind, InterfaceType) or concrete is None else ModuleValue(value, concrete)

    def has_attr(self, where: SourceRange, e: Emitter, name: str) -> bool:
        concrete = self.concrete
        kind = concrete.script_type
        return any(
            name in table
            for table in (
                kind.attributes,
                concrete.modules,
                concrete.constants,
                kind.methods,
                concrete.functions,
                kind.properties,
            )
        ) or callable(getattr(concrete.python_class, name, None))

    def set_attr(self, where: SourceRange, e: Emitter, name: str, value: Value) -> None:
        set_attribute(where, e, self.value, self.concrete.script_type, name, value)

    # ---- calls
    def call(self, where: SourceRange, e: Emitter, args: Sequence[Value], kwargs: Kwargs, binders: int) -> SugaredValue:
        if self.concrete.hooked:
            from flambeau.jit.frontend.module_hooks import call_with_hooks

            return call_with_hooks(self, where, e, args, kwargs, binders)
        return self.attr(where, e, "forward").call(where, e, args, kwargs, binders)

    # ---- containers
    def entries(self, e: Emitter) -> list[tuple[SugaredValue, SugaredValue]]:
        """The names of the submodules, as constants, and the submodules."""
        return [(SimpleValue(e.graph.insertConstant(name)), self._submodule(e, name)) for name in self.concrete.modules]

    def iterated(self, where: SourceRange, e: Emitter) -> SugaredValue:
        if self.concrete.container:
            place = 0 if self.concrete.container == "dict" else 1
            return SugaredTuple([entry[place] for entry in self.entries(e)])
        raise ErrorReport(where, "Only constant Sequential, ModuleList, ModuleDict, or ParameterList can be used as an iterable")

    def as_tuple(self, where: SourceRange, e: Emitter, size: int | None = None) -> list[SugaredValue]:
        return self.iterated(where, e).as_tuple(where, e, size)

    def length(self, where: SourceRange, e: Emitter) -> Value:
        return e.graph.insertConstant(len(self.concrete.modules), where)

    def item(self, where: SourceRange, e: Emitter, index: Value, hint: Any = None) -> SugaredValue:
        known = index.toIValue()
        if self.concrete.container == "list":
            if not isinstance(known, int):
                return SugaredTuple([each for _, each in self.entries(e)]).item(where, e, index)
            names = list(self.concrete.modules)
            if not -len(names) <= known < len(names):
                raise ErrorReport(where, f"Index {known} is out of range")
            return self.entries(e)[known][1]
        if self.concrete.container == "dict":
            if index.type() != STRING or not isinstance(known, str):
                raise ErrorReport(
                    where,
                    "Unable to extract string literal index. ModuleDict indexing is only supported with string literals. "
                    "For example, 'i = \"a\"; self.layers[i](x)' will fail because i is not a literal. Enumeration of "
                    "ModuleDict is supported, e.g. 'for k, v in self.items(): ...'",
                )
            if known not in self.concrete.modules:
                raise ErrorReport(where, f"Key Error, {known}")
            return self.entries(e)[list(self.concrete.modules).index(known)][1]
        raise ErrorReport(
            where, "Only ModuleList, Sequential, ModuleDict, ParameterList, and ParameterDict Modules are subscriptable"
        )


class _Items(SugaredValue):
    """`keys`, `values` and `items` of a ModuleDict."""

    def __init__(self, module: ModuleValue, name: str) -> None:
        self.module, self.name = module, name

    def kind(self) -> str:
        return "module dict method"

    def call(self, where: SourceRange, e: Emitter, args: Sequence[Value], kwargs: Kwargs, binders: int) -> SugaredValue:
        entries = self.module.entries(e)
        if self.name == "items":
            return SugaredTuple([SugaredTuple([key, value]) for key, value in entries])
        return SugaredTuple([entry[0 if self.name == "keys" else 1] for entry in entries])
