"""Conditions: `if`, `and`, `or`, `not`, `is None`, `isinstance`, and what they say of a variable's type where they hold.

Stands on tree and values; a part of the emitter.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from flambeau.dispatcher.schema_types import ListType, OptionalType, TupleType, Type
from flambeau.jit.frontend import tree
from flambeau.jit.frontend.callables import SpecialForm
from flambeau.jit.frontend.matching import emit_builtin
from flambeau.jit.frontend.values import simple
from flambeau.jit.ir.blocks import Block
from flambeau.jit.ir.source import ErrorReport, SourceRange
from flambeau.jit.ir.types import ANY, BOOL, NONE, UnionType, is_none, make_union, ordered, unify, unshaped
from flambeau.jit.ir.values import Value

if TYPE_CHECKING:
    from flambeau.jit.frontend.emitter import Emitter
    from flambeau.jit.frontend.environment import Environment

__all__ = ["Condition", "Conditions", "Refinements"]


class Refinements:
    """What is known of variables where a condition holds, and where it doesn't: pairs of a name and a type."""

    def __init__(self, true: list[tuple[str, Type]] | None = None, false: list[tuple[str, Type]] | None = None) -> None:
        self.true, self.false = true or [], false or []

    def both(self, other: Refinements) -> Refinements:
        """Of two conditions with `and`."""
        return Refinements(self._joined(self.true, other.true), self._common(self.false, other.false))

    def either(self, other: Refinements) -> Refinements:
        """Of two conditions with `or`."""
        return Refinements(self._common(self.true, other.true), self._joined(self.false, other.false))

    def negated(self) -> Refinements:
        """Of the condition with `not`."""
        return Refinements(self.false, self.true)

    @staticmethod
    def _joined(a: list[tuple[str, Type]], b: list[tuple[str, Type]]) -> list[tuple[str, Type]]:
        names = {name for name, _ in b}
        return [each for each in a if each[0] not in names] + b

    @staticmethod
    def _common(a: list[tuple[str, Type]], b: list[tuple[str, Type]]) -> list[tuple[str, Type]]:
        kept = []
        for name, kind in a:
            for other, theirs in b:
                if name == other:
                    merged = unify(kind, theirs)
                    if merged is not None:
                        kept.append((name, merged))
        return kept


class Condition:
    """A condition: its value, what it says of types, and its answer where the compiler knows it."""

    def __init__(self, value: Value, refinements: Refinements | None = None, known: bool | None = None) -> None:
        self.value, self.known = value, known
        self.refinements = refinements if refinements is not None else Refinements()


class Conditions:
    """The emitter's conditions."""

    def condition(self: Emitter, expr: tree.Expr) -> Condition:
        """A condition of an expression."""
        if isinstance(expr, tree.BinOp):
            if expr.op in ("and", "or"):
                return self._short_circuit(expr)
            if expr.op in ("is", "is not"):
                return self._identity(expr)
        if isinstance(expr, tree.UnaryOp) and expr.op == "not":
            inner = self.condition(expr.operand)
            made = emit_builtin(self.graph, expr.range, "aten::__not__", [inner.value])
            return Condition(made, inner.refinements.negated(), None if inner.known is None else not inner.known)
        if isinstance(expr, tree.Apply):
            if isinstance(expr.callee, tree.Var) and expr.callee.name in ("isinstance", "hasattr"):
                self.check_count(expr, 2)
                if expr.callee.name == "isinstance":
                    return self._isinstance(expr.inputs[0], expr.inputs[1])
                return self._hasattr(expr)
            callee = self.sugared(expr.callee, 1)
            if isinstance(callee, SpecialForm) and callee.form == "isinstance":
                self.check_count(expr, 2)
                return self._isinstance(expr.inputs[0], expr.inputs[1])
        value = self.to_bool(expr.range, self.expr_of_condition(expr))
        kind = value.node().kind()
        known: bool | None = None
        if kind in ("aten::is_scripting", "aten::is_notscripting"):
            known = kind == "aten::is_scripting"
        elif kind == "prim::Constant":
            known = bool(value.toIValue())
        return Condition(value, None, known)

    def expr_of_condition(self: Emitter, expr: tree.Expr) -> Value:
        """The value of what is to be a condition."""
        return self.expr(expr)

    def to_bool(self: Emitter, where: SourceRange, value: Value) -> Value:
        """The value as a truth value."""
        cast = self.environment.get("bool", where)
        assert cast is not None
        try:
            made = simple(cast.call(where, self, [value], [], 0))
        except ErrorReport:
            raise ErrorReport(where, f"Could not cast value of type {value.type()} to bool") from None
        if made is None or not made.type().isSubtypeOf(BOOL):
            raise ErrorReport(where, f"expected a bool expression for condition but found {made.type() if made else None}")
        return made

    def _static(self: Emitter, where: SourceRange, answer: bool, refinements: Refinements | None = None) -> Condition:
        return Condition(self.graph.insertConstant(answer, where), refinements, answer)

    # ---- and, or
    def _short_circuit(self: Emitter, expr: tree.BinOp) -> Condition:
        is_or, where = expr.op == "or", expr.range
        lhs = self.condition(expr.lhs)
        found: list[Condition] = []

        def constant() -> Value:
            return self.graph.insertConstant(is_or, where)

        def go_on() -> Value:
            found.append(self.condition(expr.rhs))
            return found[0].value

        if is_or:
            value = self.if_expr(where, lhs, constant, go_on)
        else:
            value = self.if_expr(where, lhs, go_on, constant)
        rhs = found[0]
        refinements = lhs.refinements.either(rhs.refinements) if is_or else lhs.refinements.both(rhs.refinements)
        known: bool | None = None
        if is_or in (lhs.known, rhs.known):
            known = is_or
        elif lhs.known is not None and rhs.known is not None:
            known = not is_or
        return Condition(value, refinements, known)

    def if_expr(
        self: Emitter, where: SourceRange, cond: Condition, true: Callable[[], Value], false: Callable[[], Value]
    ) -> Value:
        """The value of one of two expressions."""
        node = self.node("prim::If", where, [cond.value], 0)
        for refinements, made in ((cond.refinements.true, true), (cond.refinements.false, false)):
            block = node.addBlock()
            self.push_frame(block)
            with self.graph.insert_point_guard(block):
                self.refine(where, refinements)
                block.registerOutput(made())
            self.pop_frame()
        kinds = [next(block.outputs()).type() for block in node.blocks()]
        unified = unify(kinds[0], kinds[1])
        if unified is None:
            raise ErrorReport(where, f"if-expression's true branch has type {kinds[0]} but false branch has type {kinds[1]}")
        return node.addOutput().setType(unified)

    def refine(self: Emitter, where: SourceRange, refinements: list[tuple[str, Type]]) -> None:
        """Give variables the types that are known of them here."""
        for name, kind in refinements:
            value = self.environment.variable(name, where)
            if unshaped(value.type()) != unshaped(kind):
                self.environment.set_value(where, name, self.unchecked_cast(value, kind))

    # ---- is None
    def _identity(self: Emitter, expr: tree.BinOp) -> Condition:
        lhs, rhs = self.expr(expr.lhs), self.expr(expr.rhs)
        is_it = expr.op == "is"
        a, b = _can_be_none(lhs.type()), _can_be_none(rhs.type())
        if a == b == "always":
            return self._static(expr.range, is_it)
        if {a, b} == {"always", "never"}:
            return self._static(expr.range, not is_it)
        value = emit_builtin(self.graph, expr.range, "aten::__is__" if is_it else "aten::__isnot__", [lhs, rhs])
        return Condition(value, _none_refinements(expr.lhs, lhs, expr.rhs, rhs, is_it))

    # ---- isinstance, hasattr
    def _isinstance(self: Emitter, obj: tree.Expr, types: tree.Expr) -> Condition:
        value = self.expr(obj)
        kinds = self.types_of(types)
        where = obj.range
        name = obj.name if isinstance(obj, tree.Var) else None
        mine = value.type()
        known = _always_instance(mine, kinds)
        if known is None:
            members = list(_union_members(mine))
            inside = [m for m in members if any(_is_instance_type(m, k) for k in kinds)]
            outside = [m for m in members if m not in inside]
            if mine == ANY:
                true = kinds[0] if len(kinds) == 1 else make_union(kinds)
                if any(k.kind() in ("_Any",) for k in kinds):
                    true = ANY
                refinements = Refinements([(name, true)] if name and not _is_vague(kinds) else [], [])
            else:
                refinements = Refinements(
                    [(name, make_union(inside))] if name and inside else [],
                    [(name, make_union(outside))] if name and outside else [],
                )
            node = self.graph.create("prim::isinstance", [value])
            node.set("types", "tys", ordered(kinds))
            made = self.graph.insertNode(node).output().setType(BOOL)
            return Condition(made, refinements)
        return self._static(where, known)

    def _hasattr(self: Emitter, expr: tree.Apply) -> Condition:
        obj = self.sugared(expr.inputs[0], 1)
        name = expr.inputs[1]
        if not isinstance(name, tree.StringLiteral):
            raise ErrorReport(expr.range, "hasattr's second argument must be a string literal")
        return self._static(expr.range, obj.has_attr(expr.range, self, name.text))

    # ---- if
    def if_statement(self: Emitter, stmt: tree.If) -> None:
        """`if cond: ... else: ...`."""
        self.if_else(stmt.range, self.condition(stmt.cond), stmt.true, stmt.false)

    def _branch(
        self: Emitter, block: Block, branch: list[tree.Stmt], where: SourceRange, refinements: list[tuple[str, Type]]
    ) -> Environment:
        self.push_frame(block)
        with self.graph.insert_point_guard(block):
            self.refine(where, refinements)
            self.statements(branch)
        return self.pop_frame()

    def if_else(self: Emitter, where: SourceRange, cond: Condition, true: list[tree.Stmt], false: list[tree.Stmt]) -> None:
        """One of two lists of statements; both where only the run decides."""
        if cond.known is not None:
            if cond.known:
                self.refine(where, cond.refinements.true)
                self.statements(true)
            else:
                self.refine(where, cond.refinements.false)
                self.statements(false)
            return
        node = self.node("prim::If", where, [cond.value], 0)
        blocks = node.addBlock(), node.addBlock()
        frames = (
            self._branch(blocks[0], true, where, cond.refinements.true),
            self._branch(blocks[1], false, where, cond.refinements.false),
        )
        leaves = [block in self.exits for block in blocks]
        if all(leaves):
            self.exits.add(node.owning_block)  # type: ignore[arg-type]
        for name in self._assigned(where, blocks, frames, leaves):
            self._merge(where, name, blocks, frames, leaves)

    def _assigned(
        self: Emitter,
        where: SourceRange,
        blocks: tuple[Block, Block],
        frames: tuple[Environment, Environment],
        leaves: list[bool],
    ) -> list[str]:
        """The variables that an `if` gives a value on every path; why others have none is kept for whoever reads them."""
        found: set[str] = set()
        for mine, other in ((0, 1), (1, 0)):
            for name in frames[mine].defined():
                with self.graph.insert_point_guard(blocks[other]):
                    if frames[other].in_any_frame(name) is not None or leaves[other]:
                        found.add(name)
                    else:
                        branch = "false" if mine == 0 else "true"
                        self.environment.set_error(
                            name,
                            lambda name=name, branch=branch: (  # type: ignore[misc]
                                f"\n{name} is not defined in the {branch} branch:\n{where.highlight()}"
                            ),
                        )
        return sorted(found)

    def _merge(
        self: Emitter,
        where: SourceRange,
        name: str,
        blocks: tuple[Block, Block],
        frames: tuple[Environment, Environment],
        leaves: list[bool],
    ) -> None:
        values: list[Value | None] = [None, None]
        for side in (0, 1):
            if not leaves[side]:
                with self.graph.insert_point_guard(blocks[side]):
                    values[side] = frames[side].variable(name, where)
        if all(leaves):
            return
        for side in (0, 1):
            if leaves[side]:
                other = values[1 - side]
                assert other is not None
                with self.graph.insert_point_guard(blocks[side]):
                    values[side] = made = self.uninitialized(other.type())
                    self.graph.insertNode(self.graph.create("prim::Store", [made], 0).set("name", "s", name))
        kinds = [value.type() for value in values if value is not None]
        before = self.environment.in_any_frame(name)
        full = None
        if before is not None:
            plain = simple(before)
            full = plain.type() if plain is not None else None
        to_union = full is not None and bool(full.containedUnionTypes())
        unified = unify(kinds[0], kinds[1], to_union, full)
        if unified is None:
            sides = f"type {kinds[0]} in the true branch and type {kinds[1]} in the false branch"
            message = f"Type mismatch: {name} is set to {sides}"
            if frames[0].in_parent_frame(name) is not None or frames[1].in_parent_frame(name) is not None:
                raise ErrorReport(where, message)
            self.environment.set_error(name, lambda: f"\n{message}:\n{where.highlight()}")
            return
        self.environment.set_type(name, unified)

    def ternary(self: Emitter, expr: tree.TernaryIf, hint: Type | None) -> Value:
        """`true if cond else false`."""
        cond = self.condition(expr.cond)
        if cond.known is not None:
            return self.expr(expr.true if cond.known else expr.false, hint)
        return self.if_expr(expr.range, cond, lambda: self.expr(expr.true, hint), lambda: self.expr(expr.false, hint))


def _can_be_none(kind: Type) -> str:
    if is_none(kind):
        return "always"
    return "maybe" if NONE.isSubtypeOf(kind) else "never"


def _none_refinements(lhs: tree.Expr, lhs_value: Value, rhs: tree.Expr, rhs_value: Value, is_it: bool) -> Refinements:
    if not _is_none_literal(rhs) and _is_none_literal(lhs):
        return _none_refinements(rhs, rhs_value, lhs, lhs_value, is_it)
    if not (_is_none_literal(rhs) and isinstance(lhs, tree.Var)):
        return Refinements()
    kind = lhs_value.type()
    if isinstance(kind, OptionalType):
        present: Type = kind.element
    elif isinstance(kind, UnionType):
        present = make_union(m for m in kind.members if not is_none(m))
    else:
        return Refinements()
    found = [(lhs.name, present)]
    return Refinements([], found) if is_it else Refinements(found, [])


def _is_none_literal(expr: tree.Expr) -> bool:
    return isinstance(expr, tree.Literal) and expr.value is None


def _union_members(kind: Type) -> list[Type]:
    if isinstance(kind, OptionalType):
        return [*_union_members(kind.element), NONE]
    return kind.containedUnionTypes() or [kind]


def _is_instance_type(kind: Type, wanted: Type) -> bool:
    if wanted.written == "AnyListType":
        return isinstance(kind, ListType)
    if wanted.written == "AnyTupleType":
        return isinstance(kind, TupleType)
    return kind.isSubtypeOf(wanted)


def _always_instance(mine: Type, kinds: list[Type]) -> bool | None:
    """Whether a value of a type always, or never, is of one of these; None if only the run knows."""
    if mine == ANY:
        return None
    answers = {any(_is_instance_type(member, kind) for kind in kinds) for member in _union_members(mine)}
    return answers.pop() if len(answers) == 1 else None


def _is_vague(kinds: list[Type]) -> bool:
    return any(kind.written in ("AnyListType", "AnyTupleType", "Scalar") for kind in kinds)
