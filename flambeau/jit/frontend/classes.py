"""Classes of programs: their constructors, attributes and methods; enumerations and named tuples.

Stands on values and callables; `python_classes` compiles classes of Python. Used by expressions, values and modules.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from flambeau.dispatcher.schema_types import Type
from flambeau.jit.frontend import tree
from flambeau.jit.frontend.callables import FunctionValue, MethodValue
from flambeau.jit.frontend.matching import Kwargs, convert
from flambeau.jit.frontend.values import SimpleValue, SugaredTuple, SugaredValue
from flambeau.jit.ir.source import ErrorReport, SourceRange
from flambeau.jit.ir.types import ClassType, EnumType, NamedTupleType
from flambeau.jit.ir.values import Value

if TYPE_CHECKING:
    from flambeau.jit.frontend.emitter import Emitter

__all__ = ["ClassValue", "EnumClassValue", "NamedTupleConstructor", "NewObject", "attribute_of", "set_attribute"]


def attribute_of(where: SourceRange, e: Emitter, obj: Value, name: str) -> SugaredValue | None:
    """An attribute, method, property or constant of an object; None if it has none of the name."""
    kind: Any = obj.type()
    if name in kind.methods:
        return MethodValue(obj, [name])
    if not isinstance(kind, ClassType):
        return None
    found = kind.attribute(name)
    if found is not None:
        node = e.graph.create("prim::GetAttr", [obj]).set("name", "s", name)
        value = e.graph.insertNode(node).output().setType(found)
        value.setDebugName("_" + name if name.isdigit() else name)
        return SimpleValue(value)
    if name in kind.constants:
        return SimpleValue(e.graph.insertConstant(kind.constants[name], where))
    if name in kind.properties:
        getter = kind.properties[name][0]
        return MethodValue(obj, [getter.name]).call(where, e, [], [], 1)
    if name in kind.static_methods:
        return FunctionValue(kind.static_methods[name])
    return None


def set_attribute(where: SourceRange, e: Emitter, obj: Value, kind: ClassType, name: str, value: Value) -> None:
    """Set an attribute of an object; in a class's own __init__ it may be a new one. ErrorReport if it can't be."""
    wanted = kind.attribute(name)
    if wanted is None and name in kind.properties:
        setter = kind.properties[name][1]
        if setter is None:
            raise ErrorReport(where, f"Tried to set read-only attribute: {name}")
        MethodValue(obj, [setter.name]).call(where, e, [value], [], 0)
        return
    if wanted is None:
        initializing = e.function.name == "__init__" and getattr(e.function, "owner", None) is kind
        if not initializing:
            raise ErrorReport(
                where, f"Tried to set nonexistent attribute: {name}. Did you forget to initialize it in __init__()?"
            )
        if not _at_top(e):
            raise ErrorReport(
                where, "First assignment cannot be in a control-flow block. Initialize the field at the top level first."
            )
        kind.add_attribute(name, value.type())
        wanted = value.type()
    value = convert(e.graph, where, wanted, value, True)
    if not value.type().isSubtypeOf(wanted):
        raise ErrorReport(where, f"Wrong type for attribute assignment. Expected {wanted} but got {value.type()}")
    node = e.graph.create("prim::SetAttr", [obj, value], 0).set("name", "s", name)
    e.graph.insertNode(node)


def _at_top(e: Emitter) -> bool:
    return e.environment.block is e.graph.block()


class ClassValue(SugaredValue):
    """A class: calling it makes an object."""

    def __init__(self, kind: ClassType) -> None:
        self.type = kind

    def kind(self) -> str:
        return self.type.qualified_name

    def as_type(self) -> Type | None:
        return self.type

    def call(self, where: SourceRange, e: Emitter, args: Sequence[Value], kwargs: Kwargs, binders: int) -> SugaredValue:
        node = e.graph.create("prim::CreateObject").setSourceRange(where)
        obj = e.graph.insertNode(node).output().setType(self.type)
        if "__init__" not in self.type.methods:
            raise ErrorReport(where, f"Class {self.type.name()} does not have an __init__ function defined")
        MethodValue(obj, ["__init__"]).call(where, e, args, kwargs, 0)
        return SimpleValue(obj)

    def attr(self, where: SourceRange, e: Emitter, name: str) -> SugaredValue:
        if name == "__new__":
            return NewObject(self.type)
        if name in self.type.static_methods:
            return FunctionValue(self.type.static_methods[name])
        if name in self.type.methods:
            return _UnboundMethod(self.type, name)
        if name in self.type.constants:
            return SimpleValue(e.graph.insertConstant(self.type.constants[name], where))
        for hook in (*self.type.pre_hooks, *self.type.hooks):
            if hook.name == name:
                return FunctionValue(hook)
        raise ErrorReport(where, f"Tried to lookup unknown attribute on class {self.type.qualified_name}")


class NewObject(SugaredValue):
    """`Class.__new__`: an object without its __init__, as archives make them."""

    def __init__(self, kind: ClassType) -> None:
        self.type = kind

    def kind(self) -> str:
        return "class.__new__"

    def made(self, apply: tree.Apply, e: Emitter) -> SugaredValue:
        """The object, of a call with the class itself as its argument."""
        if len(apply.inputs) != 1 or apply.attributes or e.resolver.named_type(apply.inputs[0]) is not self.type:
            raise ErrorReport(apply.range, "__new__ takes its class, and nothing else")
        node = e.graph.create("prim::CreateObject").setSourceRange(apply.range)
        return SimpleValue(e.graph.insertNode(node).output().setType(self.type))


class _UnboundMethod(SugaredValue):
    """`Class.method`, called with an object in front."""

    def __init__(self, kind: ClassType, name: str) -> None:
        self.type, self.name = kind, name

    def kind(self) -> str:
        return "method"

    def call(self, where: SourceRange, e: Emitter, args: Sequence[Value], kwargs: Kwargs, binders: int) -> SugaredValue:
        if not args:
            raise ErrorReport(where, f"{self.name} needs an object")
        return MethodValue(args[0], [self.name]).call(where, e, args[1:], kwargs, binders)


class EnumClassValue(SugaredValue):
    """An enumeration: its members are attributes."""

    def __init__(self, kind: EnumType) -> None:
        self.type = kind

    def kind(self) -> str:
        return self.type.qualified_name

    def as_type(self) -> Type | None:
        return self.type

    def _member(self, where: SourceRange, e: Emitter, name: str) -> SugaredValue:
        value = e.graph.insertConstant(getattr(self.type.python_class, name), where, self.type)
        return SimpleValue(value)

    def attr(self, where: SourceRange, e: Emitter, name: str) -> SugaredValue:
        if name not in dict(self.type.members):
            raise ErrorReport(where, f"{self.type.qualified_name}' has no attribute '{name}'")
        return self._member(where, e, name)

    def iterated(self, where: SourceRange, e: Emitter) -> SugaredValue:
        return SugaredTuple([self._member(where, e, name) for name, _ in self.type.members])


class NamedTupleConstructor(SugaredValue):
    """A named tuple's class: calling it makes one."""

    def __init__(self, kind: NamedTupleType) -> None:
        self.type = kind

    def kind(self) -> str:
        return "named tuple"

    def as_type(self) -> Type | None:
        return self.type

    def call(self, where: SourceRange, e: Emitter, args: Sequence[Value], kwargs: Kwargs, binders: int) -> SugaredValue:
        from flambeau.dispatcher.schema import FunctionSchema
        from flambeau.jit.frontend.matching import match
        from flambeau.jit.frontend.operators import Candidate
        from flambeau.jit.ir.function import argument

        kind = self.type
        required = len(kind.names) - len(kind.defaults)
        arguments = [
            argument(name, part, kind.defaults[i - required] if i >= required else None, i >= required)
            for i, (name, part) in enumerate(zip(kind.names, kind.elements()))
        ]
        schema = FunctionSchema(kind.qualified_name.rpartition(".")[2], "", arguments, [argument("", kind)])
        matched = match(e.graph, where, Candidate(schema, kind.qualified_name), args, kwargs)
        node = e.graph.create("prim::TupleConstruct", matched.inputs).setSourceRange(where)
        return SimpleValue(e.graph.insertNode(node).output().setType(kind))
