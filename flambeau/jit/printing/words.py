"""Expressions, constants and types as a function's text has them.

Stands on ir; used by code.
"""

from __future__ import annotations

import enum
import math
from typing import TYPE_CHECKING, Any

from flambeau.base.device import device
from flambeau.base.dtype import dtype
from flambeau.base.layout import layout, memory_format
from flambeau.core.tensor.tensor import Tensor
from flambeau.dispatcher.schema import FunctionSchema
from flambeau.dispatcher.schema_types import AnyType, DictType, ListType, OptionalType, Type
from flambeau.jit.ir.constants import same_constant
from flambeau.jit.ir.nodes import Node
from flambeau.jit.ir.printing import complex_text, float_text, quoted
from flambeau.jit.ir.types import ClassType, EnumType, FunctionType, InterfaceType, NamedTupleType, UnionType, canonical
from flambeau.jit.ir.values import Value

if TYPE_CHECKING:
    from flambeau.jit.printing.code import ConstantTable, Printer

__all__ = ["Words"]

_CASTS = {
    "aten::Bool": "bool",
    "aten::Int": "int",
    "aten::Float": "float",
    "aten::Complex": "complex",
    "aten::str": "str",
    "aten::sorted": "sorted",
}
_IMPLICIT = {
    "aten::IntImplicit": "int",
    "aten::FloatImplicit": "float",
    "aten::ScalarImplicit": "number",
    "aten::ComplexImplicit": "complex",
}


class Words:
    """Writes what stands within a line."""

    def __init__(self, printer: Printer, constants: ConstantTable, dependencies: list[Any]) -> None:
        self.printer, self.constants, self.dependencies = printer, constants, dependencies

    def depend(self, thing: Any) -> None:
        """Note a class or function that the text names."""
        if not any(known is thing for known in self.dependencies):
            self.dependencies.append(thing)

    # ---- types
    def type(self, kind: Type) -> str:
        """A type as an annotation."""
        self._note(kind)
        return kind.annotation_str if not kind.containedTypes() or isinstance(kind, NamedTupleType) else str(_plain(kind))

    def _note(self, kind: Type) -> None:
        if isinstance(kind, (ClassType, InterfaceType, EnumType, NamedTupleType)):
            self.depend(kind)
        for part in kind.containedTypes():
            self._note(part)

    # ---- constants
    def constant_node(self, node: Node) -> str:
        """A constant where it is read."""
        kind = node.output().type()
        if isinstance(kind, FunctionType):
            self.depend(kind.function)
            name = kind.function.qualified_name
            return name if name.startswith("__torch__") else f"__torch__.{name}"
        value = node.ivalue()
        if value is None and isinstance(kind, OptionalType):
            return f"annotate({self.type(kind)}, None)"
        return self.constant(value, kind)

    def constant(self, value: Any, kind: Type | None = None) -> str:
        """A value as a literal, or as a place in the table of constants."""
        if value is None or isinstance(value, bool):
            return str(value)
        if isinstance(value, enum.Enum):
            from flambeau.jit.ir.names import qualified_name_of

            if kind is not None:
                self._note(kind)
            return f"{qualified_name_of(type(value))}.{value.name}"
        if isinstance(value, int):
            return str(value)
        if isinstance(value, float):
            return self._float(value)
        if isinstance(value, complex):
            return complex_text(value)
        if isinstance(value, str):
            if not all(32 <= ord(char) < 127 or char in "\n\t\r" for char in value):
                return f"CONSTANTS.c{self.constants.number(value)}"
            return quoted(value)
        if isinstance(value, device):
            return f'torch.device("{value}")'
        if isinstance(value, (dtype, layout, memory_format)):
            from flambeau.jit.ir.codes import code_of

            return str(code_of(value))
        if isinstance(value, (list, tuple, dict)) and not _has_tensor(value):
            return self._container(value, kind)
        return f"CONSTANTS.c{self.constants.number(value)}"

    def _float(self, value: float) -> str:
        if math.isnan(value):
            return "nan"
        if math.isinf(value):
            return "inf" if value > 0 else "-inf"
        return float_text(value)

    def _container(self, value: Any, kind: Type | None) -> str:
        if isinstance(value, list):
            if not value and isinstance(kind, ListType):
                return f"annotate({self.type(kind)}, [])"
            return f"[{', '.join(map(self.constant, value))}]"
        if isinstance(value, tuple):
            return f"({', '.join(map(self.constant, value))}{',' if len(value) == 1 else ''})"
        return "{" + ", ".join(f"{self.constant(k)}: {self.constant(v)}" for k, v in value.items()) + "}"

    # ---- expressions
    def expression(self, node: Node) -> str:
        """What a node gives, as an expression."""
        kind = node.kind()
        method = getattr(self, "_" + kind.replace("::", "_"), None)
        if method is not None:
            made: str = method(node)
            return made
        if kind in _CASTS and node.inputsSize() == 1:
            return f"{_CASTS[kind]}({self._use(node, 0)})"
        if kind in _IMPLICIT:
            return f"annotate({_IMPLICIT[kind]}, {self._use(node, 0)})"
        return self._operator(node)

    def _use(self, node: Node, index: int) -> str:
        return self.printer.use(node.inputsAt(index))

    def _uses(self, node: Node, first: int = 0) -> list[str]:
        return [self.printer.use(value) for value in list(node.inputs())[first:]]

    def _operator(self, node: Node) -> str:
        namespace, _, name = node.kind().partition("::")
        title = f"torch.{name}" if namespace == "aten" else f"ops.{namespace}.{name}"
        schema = node.note
        if not isinstance(schema, FunctionSchema):
            return f"{title}({', '.join(self._uses(node))})"
        inputs = list(node.inputs())
        arguments = schema.arguments
        needed, tail = _needed(schema, inputs)
        shown = []
        for index in [*range(needed), *tail]:
            text = self.printer.use(inputs[index])
            if index < len(arguments) and arguments[index].kwarg_only:
                text = f"{arguments[index].name}={text}"
            shown.append(text)
        return f"{title}({', '.join(shown)})"

    def _prim_Uninitialized(self, node: Node) -> str:
        return f"uninitialized({self.type(node.output().type())})"

    def _prim_unchecked_cast(self, node: Node) -> str:
        return f"unchecked_cast({self.type(node.output().type())}, {self._use(node, 0)})"

    def _prim_unchecked_unwrap_optional(self, node: Node) -> str:
        return f"unchecked_unwrap_optional({self._use(node, 0)})"

    def _prim_Print(self, node: Node) -> str:
        return f"print({', '.join(self._uses(node))})"

    def _prim_EmptyListLiteral(self, node: Node) -> str:
        return f"annotate({self.type(node.output().type())}, [])"

    def _prim_ListConstruct(self, node: Node) -> str:
        kind = node.output().type()
        assert isinstance(kind, ListType)
        items = f"[{', '.join(self._uses(node))}]"
        if not node.inputsSize() or not _can_be_inferred(kind.element):
            return f"annotate({self.type(kind)}, {items})"
        return items

    def _prim_TupleConstruct(self, node: Node) -> str:
        kind = node.output().type()
        items = self._uses(node)
        if isinstance(kind, NamedTupleType):
            return f"{self.type(kind)}({', '.join(items)})"
        return f"({items[0]},)" if len(items) == 1 else f"({', '.join(items)})"

    def _prim_DictConstruct(self, node: Node) -> str:
        kind = node.output().type()
        assert isinstance(kind, DictType)
        inputs = self._uses(node)
        items = "{" + ", ".join(f"{k}: {v}" for k, v in zip(inputs[::2], inputs[1::2])) + "}"
        if not inputs or not _can_be_inferred(kind.key) or not _can_be_inferred(kind.value):
            return f"annotate({self.type(kind)}, {items})"
        return items

    def _prim_TupleIndex(self, node: Node) -> str:
        return f"({self._use(node, 0)})[{self._use(node, 1)}]"

    def _prim_TupleSlice(self, node: Node) -> str:
        return f"({self._use(node, 0)})[{node.i('beg')}:{node.i('end')}]"

    def _aten___getitem__(self, node: Node) -> str:
        base = self._use(node, 0)
        return f"{base if base.isidentifier() else f'({base})'}[{self._use(node, 1)}]"

    def _prim_isinstance(self, node: Node) -> str:
        kinds = [_instance_word(kind) or self.type(kind) for kind in node.ivalue("types")]
        shown = kinds[0] if len(kinds) == 1 else f"({', '.join(kinds)})"
        return f"isinstance({self._use(node, 0)}, {shown})"

    def _prim_CallFunction(self, node: Node) -> str:
        return f"{self._use(node, 0)}({''.join(f'{text}, ' for text in self._uses(node, 1))})"

    def _prim_CallMethod(self, node: Node) -> str:
        return f"({self._use(node, 0)}).{node.s('name')}({''.join(f'{text}, ' for text in self._uses(node, 1))})"

    def _prim_PythonOp(self, node: Node) -> str:
        return f"^{node.s('name')}()({', '.join(self._uses(node))})"

    def _prim_GetAttr(self, node: Node) -> str:
        name = node.s("name")
        if not name.isidentifier():
            return f'getattr({self._use(node, 0)}, "{name}")'
        return f"{self._use(node, 0)}.{name}"

    def _prim_CreateObject(self, node: Node) -> str:
        name = self.type(node.output().type())
        return f"{name}.__new__({name})"

    def _prim_EnumName(self, node: Node) -> str:
        return f"({self._use(node, 0)}).name"

    def _prim_EnumValue(self, node: Node) -> str:
        return f"({self._use(node, 0)}).value"


def _plain(kind: Type) -> Type:
    """The type without what is only said of parameters that aren't annotated."""
    return kind


def _instance_word(kind: Type) -> str:
    return {"AnyListType": "list", "AnyTupleType": "tuple"}.get(kind.written, "")


def _can_be_inferred(kind: Type) -> bool:
    return not isinstance(kind, (OptionalType, UnionType, InterfaceType, AnyType))


def _has_tensor(value: Any) -> bool:
    if isinstance(value, Tensor):
        return True
    if isinstance(value, dict):
        return any(_has_tensor(each) for pair in value.items() for each in pair)
    return isinstance(value, (list, tuple)) and any(map(_has_tensor, value))


def _needed(schema: FunctionSchema, inputs: list[Value]) -> tuple[int, list[int]]:
    """How many inputs must be written, as those behind them have their defaults; and which `out` arguments stand behind those."""
    arguments = schema.arguments
    if schema.is_vararg or len(inputs) > len(arguments):
        return len(inputs), []
    outs = [i for i, argument in enumerate(arguments) if argument.is_out]
    count = len(inputs) - len(outs)
    while count:
        argument = arguments[count - 1]
        if not argument.has_default_value() or not _is_default(
            argument.default_value, inputs[count - 1], canonical(argument.type)
        ):
            break
        count -= 1
    return count, outs


def _is_default(default: Any, value: Value, kind: Type) -> bool:
    node = value.node()
    if node.kind() == "prim::Constant":
        given = node.ivalue()
        if (isinstance(default, float) and isinstance(given, int)) or (isinstance(default, int) and isinstance(given, float)):
            return False
        return same_constant(given, default) if type(given) is type(default) else given is default
    return False  # a list that is made when the program runs is always written
