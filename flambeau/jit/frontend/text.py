"""Programs from texts, as archives have them: names are looked up in a table, and nothing of the text is ever executed.

`torch.x` is the operator aten::x, `ops.ns.x` the operator ns::x, `CONSTANTS.c0` a constant of the table that the reader
hands over, `__torch__...` a class or a function that it knows. Stands on parsing and the emitter; used by
jit.archive.importing, by builtin_programs, and by jit.compilation_unit.
"""

from __future__ import annotations

import ast
import math
import textwrap
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import flambeau as torch
from flambeau.dispatcher.schema_types import Type
from flambeau.jit.frontend import tree
from flambeau.jit.frontend.callables import BuiltinFunction, CastValue, FunctionValue, SpecialForm
from flambeau.jit.frontend.operators import is_operator
from flambeau.jit.frontend.parsing import Parser
from flambeau.jit.frontend.python_source import aligned, commented
from flambeau.jit.frontend.resolver import Resolver
from flambeau.jit.frontend.values import SimpleValue, SugaredValue
from flambeau.jit.ir.function import Function
from flambeau.jit.ir.source import ErrorReport, Source, SourceRange, compiling
from flambeau.jit.ir.types import DEVICE, ClassType, EnumType, InterfaceType, NamedTupleType

if TYPE_CHECKING:
    from flambeau.jit.frontend.emitter import Emitter

__all__ = ["MethodSelf", "TextResolver", "define_from_tree", "functions_of_text", "parse_text"]

_FORMS = ("annotate", "unchecked_cast", "uninitialized", "fork", "awaitable", "isinstance")
Lookup = Callable[[str], Any]


def _nothing(name: str) -> Any:
    return None


class OperatorNamespace(SugaredValue):
    """`torch`, and what stands behind `ops.`: operators by name."""

    def __init__(self, namespace: str) -> None:
        self.namespace = namespace

    def kind(self) -> str:
        return "builtin module"

    def attr(self, where: SourceRange, e: Emitter, name: str) -> SugaredValue:
        if self.namespace == "aten" and name == "device":
            return CastValue(DEVICE, "aten::device")
        if self.namespace == "aten" and name in ("inf", "nan"):
            return SimpleValue(e.graph.insertConstant(getattr(math, name), where))
        marker = getattr(torch, name, None) if self.namespace == "aten" else None
        if isinstance(marker, (torch.dtype, torch.layout, torch.memory_format)):
            return SimpleValue(e.graph.insertConstant(marker, where))
        symbol = f"{self.namespace}::{name}"
        if not is_operator(symbol):
            raise ErrorReport(
                where,
                f"Unknown builtin op: {symbol}.\nCould not find any similar ops to {symbol}. This op may not exist or may "
                "not be currently supported in TorchScript.\n",
            )
        return BuiltinFunction(symbol)


class _Ops(SugaredValue):
    """`ops`: the namespaces of operators."""

    def kind(self) -> str:
        return "ops"

    def attr(self, where: SourceRange, e: Emitter, name: str) -> SugaredValue:
        return OperatorNamespace(name)


class _Constants(SugaredValue):
    """`CONSTANTS`: `c0` and so on stand for values of a table."""

    def __init__(self, values: Sequence[Any]) -> None:
        self.values = values

    def kind(self) -> str:
        return "CONSTANTS"

    def value(self, where: SourceRange, name: str) -> Any:
        """The value of a name. ErrorReport if there is none of it."""
        number = int(name[1:]) if name[:1] == "c" and name[1:].isdecimal() else len(self.values)
        if number >= len(self.values):
            raise ErrorReport(where, f"invalid constant specifier: {name}")
        return self.values[number]

    def attr(self, where: SourceRange, e: Emitter, name: str) -> SugaredValue:
        return SimpleValue(e.graph.insertConstant(self.value(where, name), where))


class _Qualified(SugaredValue):
    """A name with points that isn't a class or a function yet."""

    def __init__(self, name: str, lookup: Lookup) -> None:
        self.name, self.lookup = name, lookup

    def kind(self) -> str:
        return "class namespace"

    def attr(self, where: SourceRange, e: Emitter, name: str) -> SugaredValue:
        full = f"{self.name}.{name}"
        found = self.lookup(full)
        return _Qualified(full, self.lookup) if found is None else meaning(found)


def meaning(found: Any) -> SugaredValue:
    """What a function or a type of a program means as a value."""
    from flambeau.jit.frontend.classes import ClassValue, EnumClassValue, NamedTupleConstructor

    if isinstance(found, Function):
        return FunctionValue(found)
    if isinstance(found, NamedTupleType):
        return NamedTupleConstructor(found)
    if isinstance(found, EnumType):
        return EnumClassValue(found)
    assert isinstance(found, ClassType)
    return ClassValue(found)


class TextResolver(Resolver):
    """Looks names up in a table. `lookup`: the function or type of a qualified name, None if there is none; `constants`: those of
    CONSTANTS.
    """

    def __init__(self, lookup: Lookup = _nothing, constants: Sequence[Any] = ()) -> None:
        self.lookup, self.constants = lookup, _Constants(constants)
        self._known: dict[str, SugaredValue] = {
            "torch": OperatorNamespace("aten"), "ops": _Ops(), "CONSTANTS": self.constants,
            "__torch__": _Qualified("__torch__", lookup),
            **{name: SpecialForm(name) for name in _FORMS},
        }  # fmt: skip

    def constant(self, expr: tree.Expr, kind: Type) -> Any:
        if isinstance(expr, tree.Select) and isinstance(expr.value, tree.Var) and expr.value.name == "CONSTANTS":
            return self.constants.value(expr.range, expr.name)
        return super().constant(expr, kind)

    def value(self, name: str, e: Emitter, where: SourceRange) -> SugaredValue | None:
        found = self._known.get(name)
        if found is not None:
            return found
        known = self.lookup(name)
        return None if known is None else meaning(known)

    def named_type(self, expr: tree.Expr) -> Type | None:
        name = dotted(expr)
        found = self.lookup(name) if name and (name.startswith("__torch__") or "." not in name) else None
        return found if isinstance(found, (ClassType, InterfaceType, EnumType, NamedTupleType)) else None


def dotted(expr: tree.Expr) -> str:
    """A name with points as text; empty for anything else."""
    if isinstance(expr, tree.Var):
        return expr.name
    if isinstance(expr, tree.Select):
        inner = dotted(expr.value)
        return f"{inner}.{expr.name}" if inner else ""
    return ""


class MethodSelf:
    """What `self` is in a method: of which type, and what it means as a value."""

    def __init__(self, kind: Type) -> None:
        self.type = kind

    def sugared(self, value: Any) -> SugaredValue:
        """Its meaning."""
        return SimpleValue(value)


# ---------------------------------------------------------------- reading


def parse_text(text: str, filename: str | None = None) -> list[tree.Def | tree.ClassDef]:
    """The definitions of a text, all of which may be indented.

    ErrorReport for what is no definition, SyntaxError for what is no Python.
    """
    if _margin(text):
        text = "".join(aligned(text.splitlines(keepends=True)))
    moved = textwrap.dedent(text)
    margin = _margin(text) - _margin(moved)
    parser = Parser(Source(text, filename), margin, archive=True)
    lines = text.splitlines(keepends=True)
    found: list[tree.Def | tree.ClassDef] = []
    for node in ast.parse(moved).body:
        if isinstance(node, ast.FunctionDef):
            own = "".join(lines[node.lineno - 1 : node.end_lineno])
            found.append(parser.definition(node, type_comment=commented(own)))
        elif isinstance(node, ast.ClassDef):
            found.append(_class(parser, node))
        elif not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
            raise ErrorReport(parser.span(node, 1), "expected a definition of a function or a class")
    return found


def _margin(text: str) -> int:
    """How far the first line that isn't empty is indented."""
    first = next((line for line in text.splitlines() if line.strip()), "")
    return len(first) - len(first.lstrip())


def _class(parser: Parser, node: ast.ClassDef) -> tree.ClassDef:
    made = tree.ClassDef(parser.span(node, len("class")), node.name, [parser.expr(base) for base in node.bases])
    for each in node.body:
        if isinstance(each, ast.FunctionDef):
            made.methods.append(parser.definition(each, self_name=node.name))
        elif isinstance(each, ast.AnnAssign) and each.value is None and isinstance(each.target, ast.Name):
            made.annotations.append((each.target.id, parser.expr(each.annotation)))
        elif isinstance(each, (ast.Assign, ast.AnnAssign)):
            stmt = parser.stmt(each)
            assert isinstance(stmt, tree.Assign)
            made.assigns.append(stmt)
        elif not isinstance(each, ast.Pass):
            raise ErrorReport(parser.span(each, 1), "expected an assignment or a method")
    return made


def define_from_tree(
    qualified_name: str, definition: tree.Def, resolver: Resolver, self_value: MethodSelf | None = None
) -> Function:
    """A function that is compiled from a tree when it is first asked for its program."""
    from flambeau.jit.frontend.emitter import Emitter

    def define(function: Function) -> None:
        with compiling(function.name):
            Emitter(function, resolver).define(definition, self_value)

    return Function(qualified_name, define)


def functions_of_text(text: str, filename: str | None = None, lookup: Lookup = _nothing) -> dict[str, Function]:
    """The functions that a text defines, by name; they may call each other."""
    made: dict[str, Function] = {}
    resolver = TextResolver(lambda name: made.get(name) or lookup(name))
    for definition in parse_text(text, filename):
        if not isinstance(definition, tree.Def):
            raise ErrorReport(definition.range, "expected a definition of a function")
        made[definition.name] = define_from_tree(definition.name, definition, resolver)
    return made
