"""Words whose arguments are looked at before they are values: annotate, isinstance, range, zip, enumerate, getattr, fork ...

Stands on tree and values; a part of the emitter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flambeau.dispatcher.schema_types import ListType, Type
from flambeau.jit.frontend import tree
from flambeau.jit.frontend.callables import BuiltinFunction
from flambeau.jit.frontend.iterables import IterableTree, RangeValue
from flambeau.jit.frontend.matching import convert, emit_builtin
from flambeau.jit.frontend.values import SimpleValue, SugaredValue
from flambeau.jit.ir.source import ErrorReport
from flambeau.jit.ir.types import STRING, is_none

if TYPE_CHECKING:
    from flambeau.jit.frontend.emitter import Emitter

__all__ = ["Forms"]


class Forms:
    """The emitter's words with rules of their own."""

    def check_count(self: Emitter, apply: tree.Apply, count: int) -> None:
        """ErrorReport unless a call has so many arguments, none by name."""
        name = apply.callee.name if isinstance(apply.callee, (tree.Var, tree.Select)) else "function"
        if apply.attributes:
            raise ErrorReport(apply.range, f"{name} takes no keyword arguments")
        if len(apply.inputs) != count:
            raise ErrorReport(apply.range, f"{name} expected exactly {count} arguments but found {len(apply.inputs)}")

    def special_form(self: Emitter, form: str, apply: tree.Apply, hint: Type | None) -> SugaredValue:
        """A call of such a word."""
        method = getattr(self, f"_form_{form}", None)
        if method is None:
            raise ErrorReport(apply.range, f"{form} can't be called here")
        made: SugaredValue = method(apply, hint)
        return made

    # ---- types
    def _form_annotate(self: Emitter, apply: tree.Apply, hint: Type | None) -> SugaredValue:
        self.check_count(apply, 2)
        kind = self.resolver.type_of(apply.inputs[0])
        value = convert(self.graph, apply.range, kind, self.expr(apply.inputs[1], kind), True)
        if not value.type().isSubtypeOf(kind):
            raise ErrorReport(
                apply.inputs[0].range,
                f"expected an expression of type {kind} because of this annotation but found {value.type()}",
            )
        if is_none(value.type()) and not is_none(kind):
            node = self.graph.createClone(value.node(), {})
            self.graph.insertNode(node)
            value = node.output().setType(kind)
        return SimpleValue(value)

    def _form_isinstance(self: Emitter, apply: tree.Apply, hint: Type | None) -> SugaredValue:
        return SimpleValue(self.condition(apply).value)

    _form_hasattr = _form_isinstance

    def _form_unchecked_cast(self: Emitter, apply: tree.Apply, hint: Type | None) -> SugaredValue:
        self.check_count(apply, 2)
        value = self.expr(apply.inputs[1])
        made = self.unchecked_cast(value, self.resolver.type_of(apply.inputs[0]))
        return SimpleValue(made)

    def _form_uninitialized(self: Emitter, apply: tree.Apply, hint: Type | None) -> SugaredValue:
        self.check_count(apply, 1)
        return SimpleValue(self.uninitialized(self.resolver.type_of(apply.inputs[0])))

    def types_of(self: Emitter, expr: tree.Expr) -> list[Type]:
        """The types that isinstance is asked for: one, or several in a tuple."""
        from flambeau.dispatcher.schema_types import NamedType
        from flambeau.jit.ir.types import FLOAT, INT

        if isinstance(expr, tree.TupleLiteral):
            return [kind for each in expr.inputs for kind in self.types_of(each)]
        if isinstance(expr, tree.Var):
            if expr.name in ("list", "tuple"):
                return [NamedType("AnyListType" if expr.name == "list" else "AnyTupleType")]
            if expr.name in ("int", "float"):
                return [INT if expr.name == "int" else FLOAT]
        return [self.resolver.type_of(expr)]

    # ---- loops
    def _form_range(self: Emitter, apply: tree.Apply, hint: Type | None) -> SugaredValue:
        return self.range_of(apply)

    def _form_zip(self: Emitter, apply: tree.Apply, hint: Type | None) -> SugaredValue:
        where = apply.range
        if not apply.inputs:
            raise ErrorReport(where, "zip expected at least 1 arguments, got 0")
        children = [self.sugared(each, 1).iterated(where, self) for each in apply.inputs]
        return IterableTree.of(where, self, children)

    def _form_enumerate(self: Emitter, apply: tree.Apply, hint: Type | None) -> SugaredValue:
        import sys

        where, inputs = apply.range, apply.inputs
        if not inputs:
            raise ErrorReport(where, "enumerate expected at least 1 arguments, got 0")
        if len(inputs) > 2:
            raise ErrorReport(where, f"enumerate expected at most 2 arguments, got {len(inputs)}")
        bounds = [self.sugared(inputs[1], 1).as_value(where, self)] if len(inputs) == 2 else []
        bounds.append(self.integer(sys.maxsize, where))
        iterable = self.sugared(inputs[0], 1).iterated(where, self)
        return IterableTree.of(where, self, [RangeValue(where, self, bounds, iterable.static_length()), iterable])

    # ---- containers
    def _form_tuple(self: Emitter, apply: tree.Apply, hint: Type | None) -> SugaredValue:
        if len(apply.inputs) != 1:
            raise ErrorReport(
                apply.range,
                f"tuple expected exactly 1 arguments but found {len(apply.inputs)}"
                if apply.inputs
                else "tuple expected exactly 1 arguments but found 0",
            )
        source = self.sugared(apply.inputs[0], 1)
        parts = source.as_tuple(apply.range, self)
        return SimpleValue(self.tuple_of([part.as_value(apply.range, self) for part in parts]))

    def _form_list(self: Emitter, apply: tree.Apply, hint: Type | None) -> SugaredValue:
        where = apply.range
        if not apply.inputs:
            return SimpleValue(self.expr(tree.ListLiteral(where, []), hint))
        self.check_count(apply, 1)
        source = self.sugared(apply.inputs[0], 1).iterated(where, self)
        if isinstance(source, SimpleValue):
            kind = source.value.type()
            if isinstance(kind, (ListType,)) or kind == STRING:
                return SimpleValue(emit_builtin(self.graph, where, "aten::list", [source.value]))
        name = tree.Var(where, self.temporary_name("$list_of_"))
        return SimpleValue(self.expr(tree.ListComp(where, name, name, apply.inputs[0]), hint))

    def _form_dict(self: Emitter, apply: tree.Apply, hint: Type | None) -> SugaredValue:
        where = apply.range
        names = [tree.StringLiteral(value.range, name) for name, value in apply.attributes]
        values = [value for _, value in apply.attributes]
        if not apply.inputs:
            return SimpleValue(self.expr(tree.DictLiteral(where, list(names), values), hint))
        if len(apply.inputs) > 1:
            raise ErrorReport(where, f"dict expected at most 1 arguments, got {len(apply.inputs)}")
        source = apply.inputs[0]
        if isinstance(source, (tree.DictComp, tree.DictLiteral)):
            made = self.expr(source, hint)
        elif isinstance(source, tree.ListLiteral) and all(
            isinstance(each, tree.TupleLiteral) and len(each.inputs) == 2 for each in source.inputs
        ):
            pairs = [each.inputs for each in source.inputs]  # type: ignore[attr-defined]
            made = self.expr(tree.DictLiteral(where, [p[0] for p in pairs], [p[1] for p in pairs]), hint)
        else:
            made = emit_builtin(self.graph, where, "aten::dict", [self.expr(source)])
        for name, value in zip(names, values):
            emit_builtin(self.graph, where, "aten::_set_item", [made, self.expr(name), self.expr(value)])
        return SimpleValue(made)

    # ---- objects
    def _form_getattr(self: Emitter, apply: tree.Apply, hint: Type | None) -> SugaredValue:
        where = apply.range
        if apply.attributes:
            raise ErrorReport(where, "getattr takes no keyword arguments")
        if not 2 <= len(apply.inputs) <= 3:
            raise ErrorReport(where, f"getattr expects 2 or 3 arguments but found {len(apply.inputs)}")
        obj = self.sugared(apply.inputs[0], 1)
        name = apply.inputs[1]
        if not isinstance(name, tree.StringLiteral):
            raise ErrorReport(where, "getattr's second argument must be a string literal")
        if len(apply.inputs) == 2 or obj.has_attr(where, self, name.text):
            return obj.attr(where, self, name.text)
        return self.sugared(apply.inputs[2], 1)

    # ---- futures
    def _form_fork(self: Emitter, apply: tree.Apply, hint: Type | None) -> SugaredValue:
        from flambeau.jit.frontend.forks import fork

        if not apply.inputs:
            raise ErrorReport(apply.range, "Expected at least one argument to fork()")
        args = self.values_of(apply.inputs[1:])
        kwargs = [(name, self.expr(value)) for name, value in apply.attributes]
        return SimpleValue(fork(self, apply.range, self.sugared(apply.inputs[0], 1), args, kwargs))

    def _form_awaitable(self: Emitter, apply: tree.Apply, hint: Type | None) -> SugaredValue:
        from flambeau.jit.frontend.forks import fork

        if not apply.inputs:
            raise ErrorReport(apply.range, "Expected at least one argument to awaitable()")
        args = self.values_of(apply.inputs[1:])
        kwargs = [(name, self.expr(value)) for name, value in apply.attributes]
        callee = self.sugared(apply.inputs[0], 1)
        return SimpleValue(fork(self, apply.range, callee, args, kwargs, "prim::awaitable", "Await"))

    def _form_wait(self: Emitter, apply: tree.Apply, hint: Type | None) -> SugaredValue:
        return BuiltinFunction("aten::wait").call(apply.range, self, self.values_of(apply.inputs), [], 1)
