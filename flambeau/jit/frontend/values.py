"""What names and expressions mean while a program is compiled: first-class values, and what only the compiler knows of.

A SugaredValue may be asked for an attribute, called, iterated; most can't, and say so in PyTorch's words. Here are the plain
ones;
functions, casts and operators are in `callables`, loops' in `iterables`, classes in `classes`, modules in `modules`. Stands on
matching and ir; used by the emitter.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import FunctionType
from typing import TYPE_CHECKING, Any

from flambeau.core.tensor.tensor import Tensor
from flambeau.dispatcher.dispatch_modes import graph_operator
from flambeau.dispatcher.schema_types import (
    DeviceObjType,
    DictType,
    FutureType,
    ListType,
    OptionalType,
    StringType,
    TupleType,
    Type,
)
from flambeau.jit.frontend import matching
from flambeau.jit.frontend.matching import Kwargs, emit_builtin
from flambeau.jit.frontend.operators import candidates
from flambeau.jit.ir.source import ErrorReport, SourceRange
from flambeau.jit.ir.types import STRING, TENSOR, ClassType, EnumType, InterfaceType, NamedTupleType, is_tensor, make_union
from flambeau.jit.ir.values import Value

if TYPE_CHECKING:
    from flambeau.jit.frontend.emitter import Emitter

__all__ = ["ConstantTuple", "SimpleValue", "SugaredTuple", "SugaredValue", "simple"]


class SugaredValue:
    """What a name may mean."""

    def kind(self) -> str:
        """In words, for errors."""
        return "value"

    def as_value(self, where: SourceRange, e: Emitter) -> Value:
        """As a first-class value. ErrorReport if it is none."""
        raise ErrorReport(where, f"{self.kind()} cannot be used as a value")

    def attr(self, where: SourceRange, e: Emitter, name: str) -> SugaredValue:
        """An attribute."""
        raise ErrorReport(where, f"attribute lookup is not defined on {self.kind()}")

    def has_attr(self, where: SourceRange, e: Emitter, name: str) -> bool:
        """Whether it has an attribute."""
        raise ErrorReport(where, f"attribute lookup is not defined on {self.kind()}")

    def set_attr(self, where: SourceRange, e: Emitter, name: str, value: Value) -> None:
        """Set an attribute."""
        raise ErrorReport(where, f"attribute assignment is not defined on {self.kind()}")

    def as_tuple(self, where: SourceRange, e: Emitter, size: int | None = None) -> list[SugaredValue]:
        """Its parts."""
        raise ErrorReport(where, f"{self.kind()} cannot be used as a tuple")

    def call(self, where: SourceRange, e: Emitter, args: Sequence[Value], kwargs: Kwargs, binders: int) -> SugaredValue:
        """What calling it gives."""
        raise ErrorReport(where, f"cannot call a {self.kind()}")

    def iterated(self, where: SourceRange, e: Emitter) -> SugaredValue:
        """What a loop over it goes through."""
        raise ErrorReport(where, f"{self.kind()} cannot be used as an iterable")

    def unrolled(self) -> bool:
        """Whether a loop over it is written out, as its parts are no first-class values."""
        return False

    def static_length(self) -> int | None:
        """How many parts it has, if that is known."""
        return None

    def length(self, where: SourceRange, e: Emitter) -> Value:
        """How many parts it has."""
        raise ErrorReport(where, f"'{self.kind()}' object is not iterable")

    def item(self, where: SourceRange, e: Emitter, index: Value, hint: Type | None = None) -> SugaredValue:
        """One of its parts."""
        raise ErrorReport(where, f"'{self.kind()}' object is not subscriptable")

    def delete_item(self, where: SourceRange, e: Emitter, index: Value) -> None:
        """Take a part out."""
        raise ErrorReport(where, f"Cannot delete items of a {self.kind()}")

    def as_type(self) -> Type | None:
        """The type that it names, if it is one."""
        return None


def simple(value: SugaredValue) -> Value | None:
    """The first-class value; None for anything else."""
    return value.value if isinstance(value, SimpleValue) else None


# Attributes of a tensor and of a device that are operators.
_TENSOR_FIELDS = {
    **dict.fromkeys(
        "dtype device grad data shape is_cuda is_xpu is_sparse is_sparse_csr is_mkldnn is_quantized is_vulkan is_ipu is_meta "
        "is_mps is_nested requires_grad layout T H name itemsize nbytes ndim".split(),
        "prim",
    ),
    **dict.fromkeys("is_leaf mT mH real imag retains_grad".split(), "aten"),
}  # fmt: skip
_DEVICE_FIELDS = {"type": "prim", "index": "prim"}


class SimpleValue(SugaredValue):
    """A first-class value."""

    def __init__(self, value: Value) -> None:
        self.value = value

    def kind(self) -> str:
        return f"value of type '{self.value.type()}'"

    def as_value(self, where: SourceRange, e: Emitter) -> Value:
        return self.value

    def attr(self, where: SourceRange, e: Emitter, name: str) -> SugaredValue:
        kind = self.value.type()
        if isinstance(kind, FutureType) and kind.name == "Await":
            return SimpleValue(emit_builtin(e.graph, where, "prim::awaitable_wait", [self.value])).attr(where, e, name)
        found = self._field(where, e, kind, name)
        if found is None:
            found = self._method(where, e, kind, name)
        if found is not None:
            return found
        message = f"'{kind}' object has no attribute or method '{name}'."
        if isinstance(kind, ClassType):
            if kind.is_module:
                message = f"Module '{kind.name()}' has no attribute '{name}' "
            else:
                message += " Did you forget to initialize an attribute in __init__()?"
        raise ErrorReport(where, message)

    def _field(self, where: SourceRange, e: Emitter, kind: Type, name: str) -> SugaredValue | None:
        table = _TENSOR_FIELDS if is_tensor(kind) else _DEVICE_FIELDS if isinstance(kind, DeviceObjType) else {}
        if name in table:
            return SimpleValue(emit_builtin(e.graph, None, f"{table[name]}::{name}", [self.value]))
        if isinstance(kind, NamedTupleType) and name in kind.names:
            return self.item(where, e, e.graph.insertConstant(kind.names.index(name)))
        if isinstance(kind, (ClassType, InterfaceType)):
            from flambeau.jit.frontend.classes import attribute_of

            return attribute_of(where, e, self.value, name)
        if isinstance(kind, EnumType) and name in ("name", "value"):
            node = e.graph.create("prim::EnumName" if name == "name" else "prim::EnumValue", [self.value])
            node.output().setType(STRING if name == "name" else kind.value_type)
            return SimpleValue(e.graph.insertNode(node).output())
        return None

    def _method(self, where: SourceRange, e: Emitter, kind: Type, name: str) -> SugaredValue | None:
        from flambeau.jit.frontend.callables import TENSOR_CASTS, BuiltinFunction, TensorCast

        if is_tensor(kind) and name in TENSOR_CASTS:
            return TensorCast(name, self.value)
        declared = vars(Tensor).get(name) if is_tensor(kind) else None
        own = graph_operator(declared) if isinstance(declared, FunctionType) else None
        for symbol in (f"aten::{name}", f"prim::{name}", *([own] if own else ())):
            if any(self._is_self(each.schema, each.kinds) for each in candidates(symbol)):
                return BuiltinFunction(symbol, self.value)
        return None

    def _is_self(self, schema: Any, kinds: list[Type]) -> bool:
        for argument, formal in zip(schema.arguments, kinds):
            if argument.name == "self":
                found: dict[str, Type] = {}
                if matching.match_variables(formal, self.value.type(), found):
                    return False
                wanted = matching.substituted(formal, found)
                return wanted is not None and self.value.type().isSubtypeOf(wanted)
        return False

    def has_attr(self, where: SourceRange, e: Emitter, name: str) -> bool:
        kind = self.value.type()
        if isinstance(kind, ClassType):
            return name in kind.attributes or name in kind.methods or name in kind.constants or name in kind.properties
        if isinstance(kind, NamedTupleType):
            return name in kind.names
        raise ErrorReport(
            where,
            "hasattr's first argument must be a object or NamedTuple, but got a normal Tuple instead"
            if isinstance(kind, TupleType)
            else f"hasattr's first argument must be an object, got {kind} instead",
        )

    def set_attr(self, where: SourceRange, e: Emitter, name: str, value: Value) -> None:
        kind = self.value.type()
        if not isinstance(kind, ClassType):
            raise ErrorReport(where, f"Tried to set an attribute: {name} on a non-class: {kind}")
        from flambeau.jit.frontend.classes import set_attribute

        set_attribute(where, e, self.value, kind, name, value)

    def as_tuple(self, where: SourceRange, e: Emitter, size: int | None = None) -> list[SugaredValue]:
        kind = self.value.type()
        graph = e.graph
        if isinstance(kind, TupleType):
            return [SimpleValue(part) for part in matching.unpacked(graph, self.value)]
        if isinstance(kind, ListType):
            if size is None:
                raise ErrorReport(where, "cannot statically infer the expected size of a list in this context")
            node = graph.insertNode(graph.create("prim::ListUnpack", [self.value], 0))
            return [SimpleValue(node.addOutput().setType(kind.element)) for _ in range(size)]
        if kind.written == "Any":
            raise ErrorReport(where, "Any cannot be used as a tuple")
        if is_tensor(kind):
            if size is None:
                raise ErrorReport(where, "cannot statically infer the expected size of a list in this context")
            parts = emit_builtin(graph, where, "aten::unbind", [self.value, e.integer(0, where)])
            return SimpleValue(parts).as_tuple(where, e, size)
        raise ErrorReport(where, f"{kind} cannot be used as a tuple")

    def call(self, where: SourceRange, e: Emitter, args: Sequence[Value], kwargs: Kwargs, binders: int) -> SugaredValue:
        kind = self.value.type()
        if isinstance(kind, (ClassType, InterfaceType)):
            name = "forward" if kind.is_module else "__call__"
            if name not in kind.methods:
                raise ErrorReport(where, f"object of type {kind} is not callable")
            return self.attr(where, e, name).call(where, e, args, kwargs, binders)
        from flambeau.jit.ir.types import FunctionType

        if isinstance(kind, FunctionType):
            from flambeau.jit.frontend.callables import FunctionValue

            return FunctionValue(kind.function).call(where, e, args, kwargs, binders)
        return super().call(where, e, args, kwargs, binders)

    def iterated(self, where: SourceRange, e: Emitter) -> SugaredValue:
        kind = self.value.type()
        if isinstance(kind, (ListType, StringType)):
            return self
        if is_tensor(kind):
            return self
        if isinstance(kind, DictType):
            return SimpleValue(emit_builtin(e.graph, where, "aten::keys", [self.value]))
        if isinstance(kind, TupleType):
            return SugaredTuple(self.as_tuple(where, e))
        raise ErrorReport(where, f"'{kind}' object is not iterable")

    def length(self, where: SourceRange, e: Emitter) -> Value:
        kind = self.value.type()
        if isinstance(kind, TupleType):
            return e.graph.insertConstant(len(kind.elements()), where)
        if isinstance(kind, (ListType, StringType, DictType)) or is_tensor(kind):
            return emit_builtin(e.graph, where, "aten::len", [self.value])
        raise ErrorReport(where, f"'{kind}' object is not iterable")

    def static_length(self) -> int | None:
        kind = self.value.type()
        return len(kind.elements()) if isinstance(kind, TupleType) else None

    def item(self, where: SourceRange, e: Emitter, index: Value, hint: Type | None = None) -> SugaredValue:
        kind = self.value.type()
        if isinstance(kind, TupleType):
            return SimpleValue(e.tuple_item(where, self.value, index))
        if isinstance(kind, (ListType, StringType, DictType)):
            return SimpleValue(emit_builtin(e.graph, where, "aten::__getitem__", [self.value, index]))
        if is_tensor(kind):
            return SimpleValue(emit_builtin(e.graph, where, "aten::select", [self.value, e.graph.insertConstant(0), index]))
        if isinstance(kind, ClassType):
            return self.attr(where, e, "__getitem__").call(where, e, [index], [], 1)
        if isinstance(kind, OptionalType):
            raise ErrorReport(where, f"'{kind}' object is not subscriptable")
        raise ErrorReport(where, f"'{kind}' object is not subscriptable")

    def delete_item(self, where: SourceRange, e: Emitter, index: Value) -> None:
        candidate, matched = matching.match_any(e.graph, where, candidates("aten::Delete"), [self.value, index])
        node = e.graph.create("aten::Delete", matched.inputs, 0).setSourceRange(where)
        node.note = candidate.schema
        e.graph.insertNode(node)


class SugaredTuple(SugaredValue):
    """Several values of which not all need be first-class."""

    def __init__(self, parts: list[SugaredValue]) -> None:
        self.parts = parts

    def kind(self) -> str:
        return "Tuple"

    def as_value(self, where: SourceRange, e: Emitter) -> Value:
        return e.tuple_of([part.as_value(where, e) for part in self.parts])

    def as_tuple(self, where: SourceRange, e: Emitter, size: int | None = None) -> list[SugaredValue]:
        return self.parts

    def iterated(self, where: SourceRange, e: Emitter) -> SugaredValue:
        return self

    def unrolled(self) -> bool:
        return True

    def static_length(self) -> int | None:
        return len(self.parts)

    def length(self, where: SourceRange, e: Emitter) -> Value:
        return e.graph.insertConstant(len(self.parts), where)

    def item(self, where: SourceRange, e: Emitter, index: Value, hint: Type | None = None) -> SugaredValue:
        number = index.toIValue()
        if not isinstance(number, int):
            raise ErrorReport(
                where,
                "Expected integer literal for index. ModuleList/Sequential indexing is only supported with integer "
                "literals. For example, 'i = 4; self.layers[i](x)' will fail because i is not a literal. Enumeration "
                "is supported, e.g. 'for index, v in enumerate(self): out = v(inp)'",
            )
        if not -len(self.parts) <= number < len(self.parts):
            raise ErrorReport(where, f"Index {number} out of range of length {len(self.parts)}")
        return self.parts[number]


class ConstantTuple(SugaredTuple):
    """A tuple of constants of Python's."""


def element_of(kinds: list[Type]) -> Type:
    """The type of a list's items."""
    return kinds[0] if len(kinds) == 1 else make_union(kinds) if kinds else TENSOR
