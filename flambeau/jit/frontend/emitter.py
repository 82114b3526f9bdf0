"""From a function's tree to its graph: the emitter, which keeps where it is and hands statements and expressions to its parts.

The graph is made as PyTorch makes it: variables by Store and Load, `return` and `break` as nodes of their own; `passes` then
bring
it into its final form. Stands on tree, environment, values, and the files with its parts; used by functions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flambeau.dispatcher.schema import Argument, FunctionSchema
from flambeau.dispatcher.schema_types import Refused, TupleType, Type
from flambeau.jit.frontend import tree
from flambeau.jit.frontend.assignments import Assignments
from flambeau.jit.frontend.conditions import Conditions
from flambeau.jit.frontend.environment import Environment
from flambeau.jit.frontend.expressions import Expressions
from flambeau.jit.frontend.forms import Forms
from flambeau.jit.frontend.globals import global_value
from flambeau.jit.frontend.loops import Loops
from flambeau.jit.frontend.matching import convert
from flambeau.jit.frontend.statements import Statements
from flambeau.jit.frontend.subscripts import Subscripts
from flambeau.jit.frontend.values import SugaredValue
from flambeau.jit.ir.blocks import Block
from flambeau.jit.ir.function import Function, argument
from flambeau.jit.ir.graph import Graph
from flambeau.jit.ir.nodes import Node
from flambeau.jit.ir.source import ErrorReport, SourceRange
from flambeau.jit.ir.types import ANY, NONE, is_none, is_tensor, unify
from flambeau.jit.ir.values import Value, meaningful

if TYPE_CHECKING:
    from flambeau.jit.frontend.resolver import Resolver

__all__ = ["Emitter"]


class _Definition:
    """What is known of the function (or the closure in it) that is compiled: its declared result, and the one found so far."""

    def __init__(self, declared: Type | None) -> None:
        self.declared = declared
        self.merged: Type | None = None


class Emitter(Statements, Loops, Conditions, Assignments, Expressions, Subscripts, Forms):
    """Makes the graph of one function."""

    def __init__(self, function: Function, resolver: Resolver) -> None:
        self.function, self.resolver = function, resolver
        self.graph = Graph()
        self.environment: Environment = None  # type: ignore[assignment]
        self.exits: set[Block] = set()
        self.definitions: list[_Definition] = []
        self.loop_status = ""
        self._integers: dict[int, Value] = {}
        self._floats: dict[str, Value] = {}

    # ---- all of it
    def define(self, definition: tree.Def, self_value: Any = None, defaults: dict[str, Any] | None = None) -> None:
        """Make the graph and the schema. `self_value`: what makes the first parameter's meaning of its value, in a method."""
        from flambeau.jit.passes.pipeline import finish

        schema, kinds = self._declared(definition, self_value is not None, defaults or {})
        returns = self._declared_return(definition)
        self.push_frame(self.graph.block())
        self.definitions.append(_Definition(returns))
        arguments = self._parameters(definition, schema, kinds, self_value)
        if returns is not None:
            self.function.declare(FunctionSchema(self.function.name, "", arguments, [argument("", returns)]))
        self.statements(definition.body)
        self._maybe_no_return(definition)
        result = self._placeholder(self.graph.block())
        self.pop_frame()
        self.graph.setInsertPoint(self.graph.block())
        finish(self.graph)
        self.function.set(self.graph, FunctionSchema(self.function.name, "", arguments, [argument("", result)]))

    def _declared(self, definition: tree.Def, is_method: bool, defaults: dict[str, Any]) -> tuple[list[Argument], list[Type]]:
        if is_method and not definition.params:
            raise ErrorReport(definition.name_range, "methods must have a self argument")
        own = definition.params[1:] if is_method else definition.params
        made, kinds = [], []
        for param in own:
            given = param.name in defaults or param.default is not None
            kind = self.resolver.parameter_type(param)
            default = defaults.get(param.name)
            if param.default is not None:
                default = self.resolver.constant(param.default, kind)
            if given:
                try:
                    default = self.resolver.fitting_default(default, kind, param)
                except Refused:
                    message = f'Expected a default value of type {kind} on parameter "{param.name}".'
                    raise ErrorReport(definition.range, message) from None
            made.append(argument(param.name, kind, default, given, param.kwarg_only))
            kinds.append(kind)
        return made, kinds

    def _declared_return(self, definition: tree.Def) -> Type | None:
        return None if definition.returns is None else self.resolver.type_of(definition.returns)

    def _parameters(self, definition: tree.Def, schema: list[Argument], kinds: list[Type], self_value: Any) -> list[Argument]:
        params = definition.params
        arguments = list(schema)
        block = self.graph.block()
        if self_value is not None:
            name = params[0].name
            made = block.addInput().setDebugName(name)
            made.setType(self_value.type)
            arguments.insert(0, argument(name, self_value.type))
            self.environment.set(definition.range, name, self_value.sugared(made))
            params = params[1:]
        for param, kind in zip(params, kinds):
            made = block.addInput()
            if meaningful(param.name):
                made.setDebugName(param.name)
            made.setType(kind)
            self.environment.set_value(param.range, param.name, made)
        return arguments

    def _maybe_no_return(self, definition: tree.Def) -> None:
        current = self.definitions[-1]
        block = self.graph.block()
        if block not in self.exits:
            if current.declared is not None and not is_none(current.declared):
                raise ErrorReport(
                    definition.range, "Function was not annotated as having type None, but does not return along all paths"
                )
            self.return_statement(tree.Return(definition.range, tree.Literal(definition.range, None)))
        elif current.merged is None:
            current.merged = current.declared if current.declared is not None else NONE

    def _placeholder(self, block: Block) -> Type:
        kind = self.definitions[-1].merged
        assert kind is not None
        block.registerOutput(self.uninitialized(kind))
        return kind

    def return_statement(self, stmt: tree.Return) -> None:
        """`return value`, whose type must fit what is declared or returned elsewhere."""
        current = self.definitions[-1]
        declared = current.declared
        value = self.expr(stmt.value, declared)
        if declared is not None:
            if not (is_tensor(declared) and is_none(value.type())):
                value = convert(self.graph, stmt.range, declared, value, True)
            if not value.type().isSubtypeOf(declared):
                raise ErrorReport(
                    stmt.range, f"Return value was annotated as having type {declared} but is actually of type {value.type()}"
                )
        else:
            before = current.merged if current.merged is not None else value.type()
            declared = unify(before, value.type())
            if declared is None:
                raise ErrorReport(
                    stmt.range,
                    f"Previous return statement returned a value of type {before} but this return statement "
                    f"returns a value of type {value.type()}",
                )
        current.merged = declared
        if declared == ANY and value.type() != ANY:
            value = self.unchecked_cast(value, declared)
        self.graph.insertNode(self.graph.create("prim::ReturnStmt", [value], 0))
        self.exits.add(self.environment.block)

    # ---- frames
    def push_frame(self, block: Block, starts: bool = False) -> None:
        """Go into a block: nodes go to its end, variables to a frame of its own."""
        self.environment = Environment(self, block, self.environment)

    def pop_frame(self) -> Environment:
        """Leave a block; returns its frame."""
        frame = self.environment
        self.environment = frame.parent  # type: ignore[assignment]
        return frame

    # ---- names
    def global_name(self, name: str, where: SourceRange) -> SugaredValue | None:
        """What a name means that is no variable: a word of the language, or what the resolver finds."""
        found = global_value(self, name, where)
        return found if found is not None else self.resolver.value(name, self, where)

    # ---- nodes that many parts make
    def node(self, kind: str, where: SourceRange | None, inputs: Any = (), outputs: int = 1) -> Node:
        """A node where the next one goes."""
        return self.graph.insertNode(self.graph.create(kind, inputs, outputs).setSourceRange(where))

    def integer(self, value: int, where: SourceRange) -> Value:
        """An integer constant, of which there is one for the whole graph, in front."""
        found = self._integers.get(value)
        if found is None:
            with self.graph.insert_point_guard(self.graph.block().first()):
                found = self._integers[value] = self.graph.insertConstant(value, where)
        return found

    def floating(self, value: float, where: SourceRange) -> Value:
        """A float constant, of which there is one for the whole graph, in front."""
        key = repr(value)
        found = self._floats.get(key)
        if found is None:
            with self.graph.insert_point_guard(self.graph.block().first()):
                found = self._floats[key] = self.graph.insertConstant(value, where)
        return found

    def tuple_of(self, values: list[Value]) -> Value:
        """A tuple of values."""
        made = self.graph.insertNode(self.graph.create("prim::TupleConstruct", values)).output()
        return made.setType(TupleType([value.type() for value in values]))

    def uninitialized(self, kind: Type) -> Value:
        """A value that is never read."""
        return self.graph.insertNode(self.graph.create("prim::Uninitialized")).output().setType(kind)

    def unchecked_cast(self, value: Value, kind: Type) -> Value:
        """The value, known to be of a type."""
        return self.graph.insertNode(self.graph.create("prim::unchecked_cast", [value])).output().setType(kind)
