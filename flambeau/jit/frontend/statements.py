"""Statements other than loops and assignments, as the emitter makes nodes of them.

Stands on tree and values; a part of the emitter.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from flambeau.dispatcher.schema_types import DictType, ListType
from flambeau.jit.frontend import tree
from flambeau.jit.frontend.callables import ExceptionMessage, ExceptionValue
from flambeau.jit.frontend.matching import Kwargs, emit_builtin
from flambeau.jit.frontend.values import SimpleValue, SugaredValue
from flambeau.jit.ir.source import ErrorReport, SourceRange
from flambeau.jit.ir.types import STRING, ClassType
from flambeau.jit.ir.values import Value

if TYPE_CHECKING:
    from flambeau.jit.frontend.emitter import Emitter

__all__ = ["Statements"]


class Closure(SugaredValue):
    """A function in a function: a call of it, which is one to fork or awaitable, does what it says where it stands."""

    def __init__(self, function: tree.Def) -> None:
        self.function = function

    def kind(self) -> str:
        return "closure"

    def call(self, where: SourceRange, e: Emitter, args: Sequence[Value], kwargs: Kwargs, binders: int) -> SugaredValue:
        *stmts, last = self.function.body
        if not isinstance(last, tree.Return) or args or kwargs:
            raise ErrorReport(where, "a closure of an archive takes nothing, and ends by giving something")
        e.push_frame(e.graph.insertPoint().owningBlock(), starts=True)
        e.statements(stmts)
        made = e.expr(last.value)
        e.pop_frame()
        return SimpleValue(made)


class Statements:
    """The emitter's statements."""

    def statements(self: Emitter, stmts: list[tree.Stmt]) -> None:
        """Statements in order; what stands behind one that leaves the block is not looked at."""
        for stmt in stmts:
            self._statement(stmt)
            if self.environment.block in self.exits:
                return

    def _statement(self: Emitter, stmt: Any) -> None:
        match type(stmt):
            case tree.If:
                self.if_statement(stmt)
            case tree.While:
                self.while_statement(stmt)
            case tree.For:
                self.for_statement(stmt)
            case tree.Assign:
                self.assignment(stmt)
            case tree.AugAssign:
                self.augmented(stmt)
            case tree.Closure:
                self.environment.set(stmt.range, stmt.function.name, Closure(stmt.function))
            case tree.ExprStmt:
                self.sugared(stmt.expr, 0)
            case tree.Return:
                self.return_statement(stmt)
            case tree.Raise:
                self._raise(stmt)
            case tree.Assert:
                self._assert(stmt)
            case tree.Continue:
                self._leave_loop("continue", stmt)
            case tree.Break:
                self._leave_loop("break", stmt)
            case tree.Delete:
                self._delete(stmt)
            case tree.With:
                self._with(stmt)
            case tree.Pass:
                pass
            case _:
                raise ErrorReport(stmt.range, f"Unrecognized statement kind {type(stmt).__name__}")

    def _leave_loop(self: Emitter, word: str, stmt: tree.Stmt) -> None:
        if self.loop_status == "unrolled":
            raise ErrorReport(
                stmt.range,
                "Because we emit iteration over Modulelists or Tuples as unrolled loops, we do not support break "
                "or continue inside the body of these loops",
            )
        if self.loop_status != "loop":
            raise ErrorReport(stmt.range, f"SyntaxError: '{word}' outside loop")
        node = self.graph.create("prim::BreakStmt" if word == "break" else "prim::ContinueStmt", 0)
        self.graph.insertNode(node)
        self.exits.add(self.environment.block)

    def _raise(self: Emitter, stmt: tree.Raise) -> None:
        raised = self.sugared(stmt.value, 1)
        name = None
        if isinstance(raised, ExceptionMessage):
            message, name = raised.message, raised.qualified_name
        elif isinstance(raised, ExceptionValue):
            message = self.graph.insertConstant("", stmt.range)
        else:
            raise ErrorReport(stmt.range, "exceptions must derive from BaseException")
        if message.type() != STRING:
            message = emit_builtin(self.graph, None, "aten::str", [message])
        emit_builtin(self.graph, stmt.range, "prim::RaiseException", [message] if name is None else [message, name])
        self.exits.add(self.environment.block)

    def _assert(self: Emitter, stmt: tree.Assert) -> None:
        where = stmt.range
        cond = self.condition(stmt.test)
        message = stmt.message if stmt.message is not None else tree.StringLiteral(where, "")
        call = tree.Apply(where, tree.Var(where, "AssertionError"), [message], [])
        self.if_else(where, cond, [], [tree.Raise(where, call)])

    def _delete(self: Emitter, stmt: tree.Delete) -> None:
        for target in stmt.targets:
            if not isinstance(target, tree.Subscript):
                raise ErrorReport(
                    target.range, "del statements are only supported for deleting elements from lists and dictionaries."
                )
            value = self.sugared(target.value, 1)
            item = self.expr(target.items[0])
            plain = value.as_value(target.value.range, self)
            if not isinstance(plain.type(), (ListType, DictType, ClassType)):
                raise ErrorReport(
                    target.range, f"del is only supported for elements of lists and dictionaries, not {plain.type()}"
                )
            if isinstance(plain.type(), ClassType):
                SimpleValue(plain).attr(stmt.range, self, "__delitem__").call(stmt.range, self, [item], [], 0)
            else:
                value.delete_item(target.range, self, item)

    def _with(self: Emitter, stmt: tree.With) -> None:
        entered = []
        for _, value, name in stmt.items:
            where = value.range
            manager = self.expr(value)
            kind = manager.type()
            if not isinstance(kind, ClassType):
                raise ErrorReport(where, "With item expression must return an object")
            enter, leave = kind.method("__enter__"), kind.method("__exit__")
            if enter is None or leave is None:
                raise ErrorReport(where, "Object returned by with item expression does not define __enter__ and __exit__ methods")
            if len(enter.schema.arguments) != 1:
                raise ErrorReport(where, "__enter__ must have only one argument and one return value")
            if len(leave.schema.arguments) != 4:
                raise ErrorReport(where, "__exit__ must have four arguments")
            if any(each.type.written != "Any" for each in leave.schema.arguments[1:]):
                raise ErrorReport(
                    where,
                    "argument 1 of __exit__ must have Any type; TorchScript does not support passing exception type, value, "
                    "or traceback to the __exit__ function.",
                )
            result = self.node("prim::Enter", None, [manager]).output().setType(enter.schema.returns[0].type)
            if name is not None:
                if not isinstance(name, tree.Var):
                    raise ErrorReport(name.range, "the name behind `as` must be a variable")
                self.environment.set_value(name.range, name.name, result)
            entered.append(manager)
        self.statements(stmt.body)
        for manager in reversed(entered):
            self.node("prim::Exit", None, [manager])  # nothing reads what it gives, which PyTorch calls a tensor
