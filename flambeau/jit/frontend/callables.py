"""What can be called while a program is compiled: operators, functions, casts, print, exceptions, and words with rules of
their own.

Stands on values and matching; used by expressions, statements and values.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from flambeau.dispatcher.schema_types import DictType, ListType, StringType, Type
from flambeau.jit.frontend.matching import Kwargs, emit_builtin, match, match_any
from flambeau.jit.frontend.operators import Candidate, candidates
from flambeau.jit.frontend.values import SimpleValue, SugaredValue
from flambeau.jit.ir.source import ErrorReport, SourceRange
from flambeau.jit.ir.types import ANY, BOOL, DEVICE, STRING, ClassType, FunctionType
from flambeau.jit.ir.values import Value

if TYPE_CHECKING:
    from flambeau.jit.frontend.emitter import Emitter
    from flambeau.jit.ir.function import Function

__all__ = [
    "BuiltinFunction", "CastValue", "ExceptionMessage", "ExceptionValue", "FunctionValue", "IgnoredFunction", "MagicMethod",
    "MethodValue", "OverloadedFunction", "PrintValue", "SpecialForm",
]  # fmt: skip


class BuiltinFunction(SugaredValue):
    """An operator, or a method of a value that is one."""

    def __init__(self, symbol: str, self_value: Value | None = None) -> None:
        self.symbol, self.self_value = symbol, self_value

    def kind(self) -> str:
        return "builtin"

    def attr(self, where: SourceRange, e: Emitter, name: str) -> SugaredValue:
        short = self.symbol.rpartition("::")[2]
        chosen = [each for each in candidates(self.symbol) if each.schema.overload_name == ("" if name == "default" else name)]
        if not chosen:
            raise ErrorReport(where, f"attribute lookup is not defined on {self.kind()} {short}")
        return _Overload(chosen[0])

    def call(self, where: SourceRange, e: Emitter, args: Sequence[Value], kwargs: Kwargs, binders: int) -> SugaredValue:
        return SimpleValue(emit_builtin(e.graph, where, self.symbol, args, kwargs, self.self_value))


class _Overload(SugaredValue):
    """One overload of an operator, as programs name it after a point."""

    def __init__(self, candidate: Candidate) -> None:
        self.candidate = candidate

    def kind(self) -> str:
        return "builtin"

    def call(self, where: SourceRange, e: Emitter, args: Sequence[Value], kwargs: Kwargs, binders: int) -> SugaredValue:
        from flambeau.jit.frontend.matching import insert_operator

        matched = match(e.graph, where, self.candidate, args, kwargs)
        return SimpleValue(insert_operator(e.graph, where, self.candidate, matched))


class FunctionValue(SugaredValue):
    """A function of a program."""

    def __init__(self, function: Function) -> None:
        self.function = function

    def kind(self) -> str:
        return "function"

    def as_value(self, where: SourceRange, e: Emitter) -> Value:
        node = e.graph.create("prim::Constant").set("name", "s", self.function.name)
        node.note = self.function
        node.output().setType(FunctionType(self.function))
        return e.graph.insertNode(node.setSourceRange(where)).output()

    def call(self, where: SourceRange, e: Emitter, args: Sequence[Value], kwargs: Kwargs, binders: int) -> SugaredValue:
        return OverloadedFunction([self.function]).call(where, e, args, kwargs, binders)


class OverloadedFunction(SugaredValue):
    """Functions of which a call takes the first that fits."""

    def __init__(self, functions: Sequence[Function]) -> None:
        self.functions = list(functions)

    def kind(self) -> str:
        return "function"

    def call(self, where: SourceRange, e: Emitter, args: Sequence[Value], kwargs: Kwargs, binders: int) -> SugaredValue:
        choices = []
        for function in self.functions:
            if function.is_busy:
                raise ErrorReport(where, f" function '{function.name}' is called recursively. Recursive calls are not supported")
            choices.append(Candidate(function.schema, function.qualified_name, function))
        chosen, matched = match_any(e.graph, where, choices, args, kwargs)
        node = e.graph.create("prim::Constant").set("name", "s", chosen.program.name)
        node.note = chosen.program
        node.output().setType(FunctionType(chosen.program))
        called = e.graph.insertNode(node).output()
        node = e.graph.create("prim::CallFunction", [called, *matched.inputs])
        node.output().setType(matched.returns[0])
        return SimpleValue(e.graph.insertNode(node.setSourceRange(where)).output())


class MethodValue(SugaredValue):
    """A method of an object: of a class that is known, or of one that has an interface. Several: the first that fits is
    called."""

    def __init__(self, self_value: Value, names: Sequence[str]) -> None:
        self.self_value, self.names = self_value, list(names)

    def kind(self) -> str:
        return "method"

    def call(self, where: SourceRange, e: Emitter, args: Sequence[Value], kwargs: Kwargs, binders: int) -> SugaredValue:
        kind: Any = self.self_value.type()
        choices = []
        for name in self.names:
            function = kind.methods[name]
            if getattr(function, "is_busy", False):
                raise ErrorReport(where, f" method '{name}' is called recursively. Recursive calls are not supported")
            choices.append(Candidate(function.schema, name, function))
        chosen, matched = match_any(e.graph, where, choices, [self.self_value, *args], kwargs)
        node = e.graph.create("prim::CallMethod", matched.inputs).set("name", "s", chosen.symbol)
        node.output().setType(matched.returns[0])
        return SimpleValue(e.graph.insertNode(node.setSourceRange(where)).output())


class IgnoredFunction(SugaredValue):
    """A function that stays Python: a program calls it as it is."""

    def __init__(self, function: Function) -> None:
        self.function = function

    def kind(self) -> str:
        return "function"

    def call(self, where: SourceRange, e: Emitter, args: Sequence[Value], kwargs: Kwargs, binders: int) -> SugaredValue:
        matched = match(e.graph, where, Candidate(self.function.schema, self.function.name), args, kwargs)
        node = e.graph.create("prim::PythonOp", matched.inputs).set("name", "s", self.function.name)
        node.note = self.function
        node.output().setType(matched.returns[0])
        return SimpleValue(e.graph.insertNode(node.setSourceRange(where)).output())


class PrintValue(SugaredValue):
    """print."""

    def kind(self) -> str:
        return "print"

    def call(self, where: SourceRange, e: Emitter, args: Sequence[Value], kwargs: Kwargs, binders: int) -> SugaredValue:
        if kwargs:
            raise ErrorReport(where, "print doesn't accept any keyword arguments")
        node = e.graph.create("prim::Print", args, 0).setSourceRange(where)
        e.graph.insertNode(node)
        return _NoneValue()


class _NoneValue(SugaredValue):
    """None that nobody has written."""

    def kind(self) -> str:
        return "None"

    def as_value(self, where: SourceRange, e: Emitter) -> Value:
        return e.graph.insertConstant(None, where)


class SpecialForm(SugaredValue):
    """A word whose arguments the emitter looks at before they are values: `isinstance`, `range`, `annotate`."""

    def __init__(self, form: str) -> None:
        self.form = form

    def kind(self) -> str:
        return "special form"


#: Types of containers, which are true unless they are empty.
_COUNTED = (ListType, DictType, StringType)


class CastValue(BuiltinFunction):
    """float, int, bool, str ...: what is of the type already stays as it is."""

    def __init__(self, kind: Type, symbol: str) -> None:
        super().__init__(symbol)
        self.to = kind

    def as_type(self) -> Type | None:
        return self.to

    def call(self, where: SourceRange, e: Emitter, args: Sequence[Value], kwargs: Kwargs, binders: int) -> SugaredValue:
        if self.to == BOOL and len(args) == 1 and not kwargs and isinstance(args[0].type(), _COUNTED):
            nothing = e.graph.insertConstant(0)
            count = emit_builtin(e.graph, where, "aten::len", [args[0]])
            return SimpleValue(emit_builtin(e.graph, where, "aten::gt", [count, nothing]))
        if self.to != DEVICE:
            e.graph.insertConstant(None, where)  # PyTorch makes a value here that nothing reads, and whose number is taken
        kind = args[0].type() if args else ANY
        if len(args) == 1 and not kwargs and kind.isSubtypeOf(self.to) and kind != ANY:
            return SimpleValue(args[0])
        return super().call(where, e, args, kwargs, binders)


# Methods of a tensor that are conversions, with the numbers of the dtypes.
TENSOR_CASTS = {
    "byte": 0, "char": 1, "short": 2, "int": 3, "long": 4, "half": 5, "float": 6, "double": 7, "cfloat": 9, "cdouble": 10,
    "bool": 11, "bfloat16": 15,
}  # fmt: skip


class TensorCast(SugaredValue):
    """`x.float()` and its kin: the tensor with another dtype."""

    def __init__(self, name: str, self_value: Value) -> None:
        self.code, self.self_value = TENSOR_CASTS[name], self_value

    def kind(self) -> str:
        return "builtin"

    def call(self, where: SourceRange, e: Emitter, args: Sequence[Value], kwargs: Kwargs, binders: int) -> SugaredValue:
        if args:
            raise ErrorReport(where, f"Expected at most 0 arguments but found {len(args)} positional arguments")
        kind = e.graph.insertConstant(self.code, where)
        return SimpleValue(emit_builtin(e.graph, where, "aten::to", [self.self_value, kind], kwargs))


class MagicMethod(SugaredValue):
    """A function that a class of the program may answer by a method such as `__len__`."""

    def __init__(self, method: str, base: SugaredValue) -> None:
        self.method, self.base = method, base

    def kind(self) -> str:
        return "magic method"

    def as_type(self) -> Type | None:
        return self.base.as_type()

    def call(self, where: SourceRange, e: Emitter, args: Sequence[Value], kwargs: Kwargs, binders: int) -> SugaredValue:
        kind = args[0].type() if args else None
        if isinstance(kind, ClassType) and (not kind.is_module or self.method in kind.methods):
            return SimpleValue(args[0]).attr(where, e, self.method).call(where, e, args[1:], kwargs, binders)
        return self.base.call(where, e, args, kwargs, binders)


class ExceptionValue(SugaredValue):
    """An exception's class: by the word that programs always know, or by Python's class with its name."""

    def __init__(self, name: str, qualified_name: str | None = None) -> None:
        self.name, self.qualified_name = name, qualified_name

    def kind(self) -> str:
        return "exception"

    def call(self, where: SourceRange, e: Emitter, args: Sequence[Value], kwargs: Kwargs, binders: int) -> SugaredValue:
        graph = e.graph
        if self.qualified_name is not None:
            if not args:
                message = graph.insertConstant("", where)
            elif len(args) == 1:
                message = args[0]
            else:
                message = e.tuple_of(list(args))
            return ExceptionMessage(message, graph.insertConstant(self.qualified_name, where))
        message = graph.insertConstant(self.name + ": ", where)
        for value in args:
            text = value if value.type() == STRING else emit_builtin(graph, where, "aten::str", [value])
            message = emit_builtin(graph, where, "aten::add", [message, text])
        return ExceptionMessage(message, None)


class ExceptionMessage(SugaredValue):
    """An exception with its words, to be raised."""

    def __init__(self, message: Value, qualified_name: Value | None) -> None:
        self.message, self.qualified_name = message, qualified_name

    def kind(self) -> str:
        return "exception instance"
