"""Calls and schemas: which overload the arguments of a call fit, with conversions where PyTorch makes them, and why none fits.

Stands on operators and ir; used by the values that can be called.
"""

from __future__ import annotations

from collections.abc import Sequence

from flambeau.dispatcher.schema import Argument, FunctionSchema
from flambeau.dispatcher.schema_types import FutureType, ListType, NumberType, OptionalType, StringType, TupleType, Type
from flambeau.jit.frontend.operators import Candidate, candidates
from flambeau.jit.ir.graph import Graph
from flambeau.jit.ir.source import ErrorReport, SourceRange
from flambeau.jit.ir.types import (
    BOOL,
    COMPLEX,
    DEVICE,
    FLOAT,
    INT,
    TENSOR,
    InferredTensorType,
    InterfaceType,
    NamedTupleType,
    is_none,
    is_tensor,
    is_variable,
    missing_methods,
    unify,
)
from flambeau.jit.ir.values import Value

__all__ = [
    "Kwargs",
    "Matched",
    "convert",
    "emit_builtin",
    "insert_operator",
    "match",
    "match_any",
    "match_variables",
    "substituted",
    "unpacked",
]

Kwargs = Sequence[tuple[str, Value]]
_EMPTY_LIST = (
    "Empty lists default to List[Tensor]. Add a variable annotation to the assignment to create an empty list of another type "
    "(torch.jit.annotate(List[T, []]) where T is the type of elements in the list for Python 2)\n"
)


class Matched:
    """A call that fits: the inputs in the order of the schema, and the types of the results."""

    __slots__ = ("inputs", "returns", "schema")

    def __init__(self, inputs: list[Value], returns: list[Type], schema: FunctionSchema) -> None:
        self.inputs, self.returns, self.schema = inputs, returns, schema


# ---------------------------------------------------------------- types with variables


def match_variables(formal: Type, actual: Type, found: dict[str, Type]) -> str:
    """Find what the variables of a type stand for; why they can't be, or nothing."""
    if is_variable(formal):
        name = formal.written
        if name not in found:
            found[name] = actual
            return ""
        unified = unify(found[name], actual)
        if unified is None:
            return f"Type variable '{name}' previously matched to type {found[name]} is matched to type {actual}"
        found[name] = unified
        return ""
    parts = formal.containedTypes()
    if not parts:
        return ""
    if isinstance(formal, OptionalType):
        if isinstance(actual, OptionalType):
            return match_variables(formal.element, actual.element, found)
        # None fits any optional, and says nothing of the variable.
        return "" if is_none(actual) else match_variables(formal.element, actual, found)
    if isinstance(formal, ListType):
        if isinstance(actual, ListType):
            return match_variables(formal.element, actual.element, found)
        if isinstance(actual, TupleType) and actual.elements():
            unified = actual.elements()[0]
            for each in actual.elements()[1:]:
                merged = unify(unified, each)
                if merged is None:
                    break
                unified = merged
            else:
                return match_variables(formal.element, unified, found)
        if not _has_variable(formal):
            return ""
        return f"Cannot match {formal} to {actual}"
    if type(formal) is type(actual) and len(parts) == len(actual.containedTypes()):
        for part, mine in zip(parts, actual.containedTypes()):
            reason = match_variables(part, mine, found)
            if reason:
                return reason
        return ""
    return f"Cannot match {_kind_words(formal)} to {actual}" if _has_variable(formal) else ""


def _kind_words(formal: Type) -> str:
    return {"DictType": "a dict", "TupleType": "a tuple", "FutureType": "a future"}.get(formal.kind(), str(formal))


def _has_variable(kind: Type) -> bool:
    return is_variable(kind) or any(map(_has_variable, kind.containedTypes()))


def substituted(kind: Type, found: dict[str, Type]) -> Type | None:
    """The type with what its variables stand for; None if that isn't known of one of them."""
    if is_variable(kind):
        return found.get(kind.written)
    parts = kind.containedTypes()
    if not parts or not _has_variable(kind):
        return kind
    made = [substituted(part, found) for part in parts]
    return None if None in made else kind.withContained([part for part in made if part is not None])


# ---------------------------------------------------------------- values and types


def _convertible_to_list(kind: Type, wanted: Type) -> bool:
    if not isinstance(wanted, ListType):
        return False
    if kind.isSubtypeOf(wanted):
        return True
    return isinstance(kind, TupleType) and all(part.isSubtypeOf(wanted.element) for part in kind.elements())


def _unwrapped(kind: Type) -> Type:
    return kind.element if isinstance(kind, OptionalType) else kind


def unpacked(graph: Graph, value: Value) -> list[Value]:
    """The items of a tuple; of one that has just been made, what it was made of."""
    if value.node().kind() == "prim::TupleConstruct":
        return list(value.node().inputs())
    node = graph.insertNode(graph.create("prim::TupleUnpack", [value], 0))
    kind = value.type()
    assert isinstance(kind, TupleType)
    return [node.addOutput().setType(part) for part in kind.elements()]


def convert(graph: Graph, where: SourceRange, wanted: Type, value: Value, allow: bool) -> Value:
    """The value as one of a type, where that can be said without being asked for; else the value itself."""
    kind = value.type()
    if isinstance(wanted, OptionalType) and not isinstance(kind, OptionalType) and not is_none(kind):
        return convert(graph, where, wanted.element, value, allow)
    if value.node().kind() == "prim::EmptyListLiteral" and isinstance(wanted, ListType):
        value = graph.insertNode(graph.create("prim::ListConstruct")).output().setType(ListType(wanted.element))
    if isinstance(kind, TupleType):
        inner = _unwrapped(wanted)
        if _convertible_to_list(kind, inner):
            assert isinstance(inner, ListType)
            node = graph.create("prim::ListConstruct", unpacked(graph, value))
            value = graph.insertNode(node).output().setType(ListType(inner.element))
        elif isinstance(wanted, TupleType) and not kind.isSubtypeOf(wanted) and len(wanted.elements()) == len(kind.elements()):
            parts = [convert(graph, where, to, part, allow) for to, part in zip(wanted.elements(), unpacked(graph, value))]
            value = graph.insertNode(graph.create("prim::TupleConstruct", parts)).output()
            value.setType(TupleType([part.type() for part in parts]))
    if allow:
        value = _implicit(graph, where, wanted, value)
    return value


def _implicit(graph: Graph, where: SourceRange, wanted: Type, value: Value) -> Value:
    if isinstance(value.type(), FutureType) and value.type().name == "Await" and not isinstance(wanted, FutureType):  # type: ignore[attr-defined]
        inner = value.type().getElementType()  # type: ignore[attr-defined]
        if inner.isSubtypeOf(wanted):
            return emit_builtin(graph, where, "prim::awaitable_wait", [value])
    kind = value.type()
    words = {"float": "Float", "complex": "Complex", "int": "Int", "Scalar": "Scalar"}
    word = words.get(wanted.written)
    if word is not None:
        if is_tensor(kind):
            return emit_builtin(graph, where, f"aten::{word}Implicit", [value])
        if isinstance(kind, NumberType) and word != "Scalar":
            return emit_builtin(graph, where, f"aten::{word}", [value])
        if kind == BOOL and wanted != COMPLEX:
            return emit_builtin(graph, where, "aten::Float" if wanted == FLOAT else "aten::Int", [value])
    if isinstance(kind, StringType) and wanted == DEVICE:
        return emit_builtin(graph, where, "aten::device", [value])
    return value


# ---------------------------------------------------------------- calls


class _Attempt:
    """One schema, tried with the arguments of a call."""

    def __init__(self, graph: Graph, where: SourceRange, schema: FunctionSchema, kinds: list[Type], allow: bool) -> None:
        self.graph, self.where, self.schema, self.kinds, self.allow = graph, where, schema, kinds, allow
        self.found: dict[str, Type] = {}
        self.failure = ""

    def fail(self, message: str) -> None:
        self.failure += f"\n{self.schema}:\n{message}\n"

    def inputs(self, args: Sequence[Value], kwargs: Kwargs, self_value: Value | None) -> list[Value] | None:
        made: list[Value] = []
        used, self_used = 0, False
        named: dict[str, int] = {name: i for i, (name, _) in enumerate(kwargs)}
        taken: set[int] = set()
        for i, argument in enumerate(self.schema.arguments):
            if argument.name == "self" and self_value is not None and not self_used:
                actual: Value | None = self_value
                self_used = True
            elif not argument.kwarg_only and used < len(args):
                if self.allow and self._takes_the_rest(i, argument):
                    kind = args[used].type()
                    wanted = _unwrapped(self.kinds[i])
                    if not isinstance(_unwrapped(kind), ListType) and not _convertible_to_list(kind, wanted):
                        assert isinstance(wanted, ListType)
                        rest = self._as_list(argument, wanted.element, args[used:])
                        if rest is None:
                            return None
                        used = len(args)
                        made.append(rest)
                        continue
                actual = args[used]
                used += 1
            elif argument.name in named:
                taken.add(named[argument.name])
                actual = kwargs[named[argument.name]][1]
            elif argument.has_default_value():
                actual = self.graph.insertConstant(argument.default_value, None, _default_type(self.kinds[i], argument))
            else:
                self.fail(f"Argument {argument.name} not provided.")
                return None
            value = self._argument(argument, self.kinds[i], actual)
            if value is None:
                return None
            made.append(value)
        if self_value is not None and not self_used:
            self.fail("Provided self argument not used in schema.")
            return None
        if self.schema.is_vararg:
            made += args[used:]
            used = len(args)
        if used < len(args):
            self.fail(f"Expected at most {used} arguments but found {len(args)} positional arguments.")
            return None
        known = [argument.name for argument in self.schema.arguments]
        for i, (name, _) in enumerate(kwargs):
            if i not in taken:
                self.fail(
                    f"Keyword argument {name} unknown." if name not in known else f"Keyword argument {name} specified twice."
                )
                return None
        return made

    def _takes_the_rest(self, index: int, argument: Argument) -> bool:
        arguments = self.schema.arguments
        last = index + 1 == len(arguments) or arguments[index + 1].kwarg_only
        kind = _unwrapped(self.kinds[index])
        return last and isinstance(kind, ListType) and not is_variable(kind.element) and not _is_broadcasting(argument)

    def _as_list(self, argument: Argument, element: Type, values: Sequence[Value]) -> Value | None:
        items = []
        for value in values:
            reason = match_variables(element, value.type(), self.found)
            wanted = substituted(element, self.found)
            item = value if reason or wanted is None else convert(self.graph, self.where, wanted, value, self.allow)
            if wanted is None or not item.type().isSubtypeOf(wanted):
                self.fail(_mismatch(argument, element, item))
                return None
            items.append(item)
        node = self.graph.create("prim::ListConstruct", items)
        return self.graph.insertNode(node).output().setType(ListType(substituted(element, self.found) or element))

    def _argument(self, argument: Argument, kind: Type, value: Value) -> Value | None:
        count = argument.N
        if (
            count
            and isinstance(_unwrapped(kind), ListType)
            and _unwrapped(kind).containedTypes()[0] == value.type()
            and value.type() in (INT, FLOAT, BOOL)
        ):
            node = self.graph.create("prim::ListConstruct", [value] * count)
            value = self.graph.insertNode(node).output().setType(ListType(value.type()))
        reason = match_variables(kind, value.type(), self.found)
        if reason:
            self.fail(f"Could not match type {value.type()} to {kind} in argument '{argument.name}': {reason}.")
            return None
        wanted = substituted(kind, self.found)
        if wanted is None:
            self.fail(f"Type variables in type {kind} could not be inferred from actual type {value.type()}.")
            return None
        value = convert(self.graph, self.where, wanted, value, self.allow)
        if not value.type().isSubtypeOf(wanted):
            message = _mismatch(argument, kind, value)
            if isinstance(wanted, InterfaceType) and hasattr(value.type(), "methods"):
                why = missing_methods(value.type().methods, wanted)  # type: ignore[attr-defined]
                message += f"\n{value.type()} is not compatible with interface {wanted}, {why}"
            self.fail(message)
            return None
        return value


def _is_broadcasting(argument: Argument) -> bool:
    """Whether its list may be left out for one number, so that further arguments don't go into it."""
    return argument.N is not None and argument.N <= 1


def _default_type(kind: Type, argument: Argument) -> Type | None:
    value = argument.default_value
    return _unwrapped(kind) if isinstance(value, list) else None


def _mismatch(argument: Argument, wanted: Type, value: Value) -> str:
    kind = value.type()
    text = f"Expected a value of type '{wanted}' for argument '{argument.name}' but instead found type '{kind}'."
    if isinstance(kind, InferredTensorType):
        text += (
            f"\nInferred the value for argument '{argument.name}' to be of type 'Tensor' because it was not annotated with an "
            "explicit type."
        )
    if isinstance(kind, ListType) and is_tensor(kind.element):
        text += "\n" + _EMPTY_LIST.rstrip("\n")
    return text


def _try(
    graph: Graph,
    where: SourceRange,
    candidate: Candidate,
    args: Sequence[Value],
    kwargs: Kwargs,
    self_value: Value | None,
    allow: bool,
) -> tuple[Matched | None, str]:
    attempt = _Attempt(graph, where, candidate.schema, candidate.kinds, allow)
    inputs = attempt.inputs(args, kwargs, self_value)
    if inputs is None:
        return None, attempt.failure
    returns = [substituted(kind, attempt.found) for kind in candidate.returns]
    return Matched(inputs, [kind if kind is not None else TENSOR for kind in returns], candidate.schema), ""


def match(
    graph: Graph,
    where: SourceRange,
    candidate: Candidate,
    args: Sequence[Value],
    kwargs: Kwargs = (),
    self_value: Value | None = None,
) -> Matched:
    """The call of the only schema there is. ErrorReport if it doesn't fit."""
    matched, failure = _try(graph, where, candidate, args, kwargs, self_value, True)
    if matched is None:
        raise ErrorReport(where, failure)
    return matched


def match_any(
    graph: Graph,
    where: SourceRange,
    choices: Sequence[Candidate],
    args: Sequence[Value],
    kwargs: Kwargs = (),
    self_value: Value | None = None,
) -> tuple[Candidate, Matched]:
    """The call of the first schema that fits, without conversions if one fits so. ErrorReport, with what is wrong with each."""
    if len(choices) == 1:
        return choices[0], match(graph, where, choices[0], args, kwargs, self_value)
    failures = ""
    for allow in (False, True):
        failures = ""
        for candidate in choices:
            matched, failure = _try(graph, where, candidate, args, kwargs, self_value, allow)
            if matched is not None:
                return candidate, matched
            failures += failure
    lines = "\n".join("  " + line for line in failures.split("\n"))
    raise ErrorReport(
        where,
        f"Arguments for call are not valid.\nThe following variants are available:\n{lines.rstrip(' ')}\nThe original call is",
    )


def insert_operator(graph: Graph, where: SourceRange | None, candidate: Candidate, matched: Matched) -> Value:
    """The node of a matched call, or the body of an operator that is a program; its result, several as a tuple."""
    if candidate.program is not None:
        from flambeau.jit.passes.inlining import insert_graph

        return insert_graph(graph, candidate.program.graph, matched.inputs)[0]
    node = graph.create(candidate.symbol, matched.inputs, 0).setSourceRange(where)
    node.note = candidate.schema
    for kind in matched.returns:
        node.addOutput().setType(kind)
    graph.insertNode(node)
    return packed(graph, list(node.outputs()), candidate.schema)


def packed(graph: Graph, values: list[Value], schema: FunctionSchema | None = None) -> Value:
    """One value for several: a tuple, with the names that the schema has for them."""
    if len(values) == 1:
        return values[0]
    made = graph.insertNode(graph.create("prim::TupleConstruct", values)).output()
    kinds = [value.type() for value in values]
    names = [result.name for result in schema.returns] if schema is not None else []
    if values and names and all(names):
        short = schema.name.rpartition("::")[2] if schema is not None else ""
        return made.setType(NamedTupleType(short, names, kinds))
    return made.setType(TupleType(kinds))


def emit_builtin(
    graph: Graph,
    where: SourceRange | None,
    symbol: str,
    args: Sequence[Value],
    kwargs: Kwargs = (),
    self_value: Value | None = None,
) -> Value:
    """The result of a call of an operator. ErrorReport if no overload takes the arguments."""
    choices = candidates(symbol)
    if not choices:
        raise ErrorReport(
            where,
            f"unknown builtin op: {symbol}\nCould not find any similar ops to {symbol}. This op may not exist or may "
            "not be currently supported in TorchScript.\n",
        )
    candidate, matched = match_any(graph, where, choices, args, kwargs, self_value)  # type: ignore[arg-type]
    return insert_operator(graph, where, candidate, matched)
