"""From Python's syntax trees to ours: what no program can have is refused here, in PyTorch's words, with the line and a mark.

One parser for functions of Python (whose text `python_source` finds) and for the text of archives. Stands on tree and errors.
"""

from __future__ import annotations

import ast
from typing import Any

from flambeau.jit.frontend import tree
from flambeau.jit.frontend.errors import FrontendError, NotSupportedError, UnsupportedNodeError
from flambeau.jit.frontend.tree import Expr, Stmt, covering
from flambeau.jit.ir.source import Source, SourceRange

__all__ = ["Parser"]

_RESERVED = "__jit"
_BINARY = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.Pow: "**", ast.Mod: "%", ast.FloorDiv: "//", ast.BitAnd: "&",
    ast.BitXor: "^", ast.BitOr: "|", ast.LShift: "<<", ast.RShift: ">>", ast.MatMult: "@",
}  # fmt: skip
_AUGMENTED = {op: sign for op, sign in _BINARY.items() if sign not in ("//", "@")}
_UNARY = {ast.Not: "not", ast.USub: "-", ast.Invert: "~"}
_COMPARED = {
    ast.Eq: "==", ast.NotEq: "!=", ast.LtE: "<=", ast.Lt: "<", ast.GtE: ">=", ast.Gt: ">", ast.Is: "is", ast.IsNot: "is not",
    ast.In: "in", ast.NotIn: "not in",
}  # fmt: skip
_VARIABLE_ARGUMENTS = "Compiled functions can't take variable number of arguments or use keyword-only arguments with defaults"


class Parser:
    """Makes trees of Python's; `margin`: how far the text was moved to the left for Python to parse it."""

    def __init__(self, source: Source, margin: int = 0, function_name: str = "", archive: bool = False) -> None:
        self.source, self.margin, self.function_name, self.archive = source, margin, function_name, archive
        self._lines = source.lines()

    # ---- ranges
    def _column(self, line: int, column: int) -> int:
        """The characters in front of a column that Python counts in bytes of UTF-8."""
        text = self._lines[line]
        if text.isascii():
            return column + self.margin
        return len(text.encode()[: column + self.margin].decode("utf-8", "ignore"))

    def span(self, node: Any, width: int) -> SourceRange:
        """The range from where a node begins, of so many characters."""
        start = self.source.offset(node.lineno - 1, self._column(node.lineno - 1, node.col_offset))
        return SourceRange(self.source, start, start + width)

    def between(self, lhs: Expr, rhs: Expr) -> SourceRange:
        """The range of what stands between two expressions."""
        return SourceRange(self.source, lhs.range.end, rhs.range.start)

    # ---- definitions
    def definition(
        self,
        node: ast.FunctionDef,
        name: str | None = None,
        self_name: str | None = None,
        type_comment: ast.FunctionDef | None = None,
    ) -> tree.Def:
        """A function."""
        where = self.span(node, len("def"))
        params = self._params(node.args, self_name)
        returns = self.expr(node.returns) if node.returns is not None else None
        if type_comment is not None:
            params, returns = self._commented(where, params, returns, type_comment, self_name is not None)
        body = self.stmts(node.body)
        return tree.Def(covering(where, list(params), returns, body), name or node.name, params, returns, body, where)

    def _params(self, args: ast.arguments, self_name: str | None) -> list[tree.Param]:
        for extra in (args.kwarg, args.vararg):
            if extra is not None:
                where = self.span(extra, len(extra.arg))
                where = SourceRange(self.source, where.start - 1, where.end)
                raise NotSupportedError(where, _VARIABLE_ARGUMENTS)
        if not self.archive:
            for default in args.kw_defaults:
                if default is not None:
                    raise NotSupportedError(self.expr(default).range, _VARIABLE_ARGUMENTS)
        made = [self._param(arg, self_name, False) for arg in args.args]
        made += [self._param(arg, self_name, True) for arg in args.kwonlyargs]
        if self.archive:
            for param, default in zip(reversed(made[: len(args.args)]), reversed(args.defaults)):
                param.default = self.expr(default)
            for param, given in zip(made[len(args.args) :], args.kw_defaults):
                param.default = None if given is None else self.expr(given)
        return made

    def _param(self, arg: ast.arg, self_name: str | None, kwarg_only: bool) -> tree.Param:
        where = self.span(arg, len(arg.arg))
        kind: Expr | None = None
        if arg.annotation is not None:
            kind = self.expr(arg.annotation)
        elif self_name is not None and arg.arg == "self":
            kind = tree.Var(where, self_name)
        return tree.Param(covering(where, kind), arg.arg, kind, kwarg_only)

    def _commented(
        self, where: SourceRange, params: list[tree.Param], returns: Expr | None, comment: ast.FunctionDef, is_method: bool
    ) -> tuple[list[tree.Param], Expr | None]:
        """The parameters with the types of a comment `# type: (int) -> int`."""
        typed = [arg.annotation for arg in comment.args.args]
        own = params[1:] if is_method else params
        if len(typed) != len(own):
            raise FrontendError(
                where,
                f"Number of type annotations for function parameters ({len(typed)}) does not match the number of parameters on "
                f"the function ({len(own)})!",
            )
        for param, kind in zip(own, typed):
            assert kind is not None
            param.type = self._of_comment(where, kind)
        return params, self._of_comment(where, comment.returns) if comment.returns is not None else returns

    def _of_comment(self, where: SourceRange, node: ast.expr) -> Expr:
        """An annotation of a comment, whose parts all lie where the function begins."""
        parser = Parser(Source(ast.unparse(node)), archive=True)
        made = parser.expr(ast.parse(ast.unparse(node), mode="eval").body)
        return _moved(made, where)

    # ---- statements
    def stmts(self, nodes: list[ast.stmt]) -> list[Stmt]:
        """Statements; texts that stand alone are left out."""
        made = []
        for node in nodes:
            found = self.stmt(node)
            if found is not None:
                made.append(found)
        return made

    def stmt(self, node: ast.stmt) -> Stmt | None:
        """A statement; None for a text that stands alone."""
        method = getattr(self, f"_{type(node).__name__.lower()}_stmt", None)
        if method is None:
            raise UnsupportedNodeError(self.span(node, UnsupportedNodeError.width(node)), node)
        made: Stmt | None = method(node)
        return made

    def _functiondef_stmt(self, node: ast.FunctionDef) -> Stmt:
        """What fork and awaitable call later, as archives write it: a function without parameters."""
        if not self.archive or node.args.args or node.decorator_list:
            raise UnsupportedNodeError(self.span(node, UnsupportedNodeError.width(node)), node)
        made = self.definition(node)
        return tree.Closure(made.range, made)

    def _expr_stmt(self, node: ast.Expr) -> Stmt | None:
        value = self.expr(node.value)
        return tree.ExprStmt(value.range, value)

    def _assign_stmt(self, node: ast.Assign) -> Stmt:
        value = self.expr(node.value)
        targets = [self.expr(target) for target in node.targets]
        return tree.Assign(covering(targets[0].range, list(targets), value), targets, value)

    def _annassign_stmt(self, node: ast.AnnAssign) -> Stmt:
        if node.value is None:
            raise UnsupportedNodeError(self.span(node, 1), node, reason="without assigned value")
        target = node.target
        if (
            isinstance(target, ast.Attribute)
            and isinstance(target.value, ast.Name)
            and target.value.id == "self"
            and self.function_name != "__init__"
        ):
            width = len(f"self.{target.attr}")
            if isinstance(node.annotation, ast.Name):
                width += len(f": {node.annotation.id}")
            raise ValueError(
                "Type annotations on instance attributes must be declared in "
                f"__init__, not '{self.function_name}': {self.span(node, width).highlight()}"
            )
        value, to, kind = self.expr(node.value), self.expr(target), self.expr(node.annotation)
        return tree.Assign(covering(to.range, value, kind), [to], value, kind)

    def _augassign_stmt(self, node: ast.AugAssign) -> Stmt:
        target, value = self.expr(node.target), self.expr(node.value)
        sign = _AUGMENTED.get(type(node.op))
        if sign is None:
            place = self.source.text.rindex("=", 0, value.range.start)
            raise NotSupportedError(
                SourceRange(self.source, place - 1, place + 1),
                f"unsupported kind of augmented assignment: {type(node.op).__name__}",
            )
        return tree.AugAssign(covering(target.range, value), target, sign, value)

    def _delete_stmt(self, node: ast.Delete) -> Stmt:
        targets = [self.expr(target) for target in node.targets]
        return tree.Delete(covering(self.span(node, 3), list(targets)), targets)

    def _return_stmt(self, node: ast.Return) -> Stmt:
        where = self.span(node, len("return"))
        value = tree.Literal(where, None) if node.value is None else self.expr(node.value)
        return tree.Return(covering(where, value), value)

    def _raise_stmt(self, node: ast.Raise) -> Stmt:
        where = self.span(node, len("raise"))
        if node.exc is None:
            raise UnsupportedNodeError(where, node, reason="without an exception")
        value = self.expr(node.exc)
        return tree.Raise(covering(where, value), value)

    def _assert_stmt(self, node: ast.Assert) -> Stmt:
        test = self.expr(node.test)
        message = self.expr(node.msg) if node.msg is not None else None
        return tree.Assert(covering(self.span(node, len("assert")), test, message), test, message)

    def _while_stmt(self, node: ast.While) -> Stmt:
        if node.orelse:
            raise NotSupportedError(None, "else branches of while loops aren't supported")
        cond, body = self.expr(node.test), self.stmts(node.body)
        return tree.While(covering(self.span(node, len("while")), cond, list(body)), cond, body)

    def _for_stmt(self, node: ast.For) -> Stmt:
        where = self.span(node, len("for"))
        if node.orelse:
            raise NotSupportedError(where, "else branches of for loops aren't supported")
        target, iterated, body = self.expr(node.target), self.expr(node.iter), self.stmts(node.body)
        return tree.For(covering(where, target, iterated, list(body)), target, iterated, body)

    def _if_stmt(self, node: ast.If) -> Stmt:
        cond, true, false = self.expr(node.test), self.stmts(node.body), self.stmts(node.orelse)
        return tree.If(covering(self.span(node, len("if")), cond, list(true), list(false)), cond, true, false)

    def _with_stmt(self, node: ast.With) -> Stmt:
        items = []
        for item in node.items:
            value = self.expr(item.context_expr)
            name = self.expr(item.optional_vars) if item.optional_vars is not None else None
            where = self.span(item.context_expr, len("with statements"))
            items.append((covering(where, value, name), value, name))
        body = self.stmts(node.body)
        return tree.With(covering(self.span(node, len("with")), [each[0] for each in items], list(body)), items, body)

    def _pass_stmt(self, node: ast.Pass) -> Stmt:
        return tree.Pass(self.span(node, len("pass")))

    def _break_stmt(self, node: ast.Break) -> Stmt:
        return tree.Break(self.span(node, len("break")))

    def _continue_stmt(self, node: ast.Continue) -> Stmt:
        return tree.Continue(self.span(node, len("continue")))

    # ---- expressions
    def expr(self, node: ast.expr) -> Expr:
        """An expression."""
        method = getattr(self, f"_{type(node).__name__.lower()}", None)
        if method is None:
            raise UnsupportedNodeError(self.span(node, UnsupportedNodeError.width(node)), node)
        made: Expr = method(node)
        return made

    def _name(self, node: ast.Name) -> Expr:
        where = self.span(node, len(node.id))
        if node.id.startswith(_RESERVED):
            raise NotSupportedError(where, f"names of variables used in JIT-ed functions can't start with {_RESERVED}")
        return tree.Dots(where) if node.id == "Ellipsis" else tree.Var(where, node.id)

    def _constant(self, node: ast.Constant) -> Expr:
        value: Any = node.value
        width = len(str(value))
        if value is None or isinstance(value, bool):
            return tree.Literal(self.span(node, width), value)
        if isinstance(value, (int, float, complex)):
            return tree.Const(self.span(node, width), value)
        if isinstance(value, str):
            return tree.StringLiteral(self.span(node, width + 1), value)
        if value is Ellipsis:
            return tree.Dots(self.span(node, 3))
        raise FrontendError(self.span(node, width), "Unknown Constant expression type")

    def _attribute(self, node: ast.Attribute) -> Expr:
        value = self.expr(node.value)
        place, text = value.range.end + 1, self.source.text
        while place < len(text) and text[place].isspace():
            place += 1
        return tree.Select(covering(value.range, SourceRange(self.source, place, place + len(node.attr))), value, node.attr)

    def _call(self, node: ast.Call) -> Expr:
        callee = self.expr(node.func)
        inputs = [self.expr(arg) for arg in node.args]
        named = []
        for keyword in node.keywords:
            value = self.expr(keyword.value)
            if not keyword.arg:
                raise NotSupportedError(value.range, "keyword-arg expansion is not supported")
            named.append((keyword.arg, value))
        return tree.Apply(covering(callee.range, list(inputs), [value for _, value in named]), callee, inputs, named)

    def _binop(self, node: ast.BinOp) -> Expr:
        lhs, rhs = self.expr(node.left), self.expr(node.right)
        return tree.BinOp(covering(lhs.range, rhs), _BINARY[type(node.op)], lhs, rhs)

    def _unaryop(self, node: ast.UnaryOp) -> Expr:
        operand = self.expr(node.operand)
        sign = _UNARY.get(type(node.op))
        if sign is None:
            raise NotSupportedError(self.span(node, 1), f"unsupported unary operator: {type(node.op).__name__}")
        return tree.UnaryOp(covering(self.span(node, len(sign)), operand), sign, operand)

    def _boolop(self, node: ast.BoolOp) -> Expr:
        values = [self.expr(value) for value in node.values]
        sign = "and" if isinstance(node.op, ast.And) else "or"
        made = values[0]
        for value in values[1:]:
            made = tree.BinOp(covering(made.range, value), sign, made, value)
        return made

    def _compare(self, node: ast.Compare) -> Expr:
        operands = [self.expr(operand) for operand in [node.left, *node.comparators]]
        made: Expr | None = None
        for lhs, op, rhs in zip(operands, node.ops, operands[1:]):
            sign = _COMPARED[type(op)]
            both = covering(lhs.range, rhs)
            if sign == "not in":
                inner = tree.BinOp(both, "in", lhs, rhs)
                one: Expr = tree.UnaryOp(covering(self.between(lhs, rhs), inner), "not", inner)
            elif sign == "is not":
                one = tree.BinOp(both, "is not", lhs, rhs)
            else:
                one = tree.BinOp(both, sign, lhs, rhs)
            made = one if made is None else tree.BinOp(covering(made.range, one), "and", made, one)
        assert made is not None
        return made

    def _ifexp(self, node: ast.IfExp) -> Expr:
        cond, true, false = self.expr(node.test), self.expr(node.body), self.expr(node.orelse)
        return tree.TernaryIf(covering(cond.range, true, false), cond, true, false)

    def _subscript(self, node: ast.Subscript) -> Expr:
        value = self.expr(node.value)
        inner = node.slice
        items: list[Expr]
        if isinstance(inner, ast.Slice):
            items = [self._slice_of(value, inner)]
        elif isinstance(inner, ast.Tuple):
            items = [self._slice_of(value, each) if isinstance(each, ast.Slice) else self.expr(each) for each in inner.elts]
            if not items:
                items = [tree.TupleLiteral(self.span(inner, 2), [])]
        else:
            items = [self.expr(inner)]
        where = covering(value.range, list(items))
        return tree.Subscript(SourceRange(self.source, where.start, where.end + 1), value, items)

    def _slice_of(self, value: Expr, node: ast.Slice) -> Expr:
        parts = [None if part is None else self.expr(part) for part in (node.lower, node.upper, node.step)]
        return tree.SliceExpr(covering(value.range, *parts), *parts)

    def _list(self, node: ast.List) -> Expr:
        inputs = [self.expr(each) for each in node.elts]
        return tree.ListLiteral(covering(self.span(node, 1), list(inputs)), inputs)

    def _tuple(self, node: ast.Tuple) -> Expr:
        inputs = [self.expr(each) for each in node.elts]
        return tree.TupleLiteral(covering(self.span(node, 1), list(inputs)), inputs)

    def _dict(self, node: ast.Dict) -> Expr:
        where = self.span(node, 1)
        keys = []
        for key in node.keys:
            if key is None:
                raise NotSupportedError(where, "Dict expansion (e.g. `{**dict}`) is not supported")
            keys.append(self.expr(key))
        values = [self.expr(value) for value in node.values]
        return tree.DictLiteral(covering(where, list(keys), list(values)), keys, values)

    def _joinedstr(self, node: ast.JoinedStr) -> Expr:
        text, inputs = "", []
        for value in node.values:
            where = self.span(value, 1)
            if isinstance(value, ast.FormattedValue):
                if value.conversion != -1:
                    raise NotSupportedError(where, "Don't support conversion in JoinedStr")
                if value.format_spec is not None:
                    raise NotSupportedError(where, "Don't support formatting in JoinedStr")
                text += "{}"
                inputs.append(self.expr(value.value))
            elif isinstance(value, ast.Constant):
                text += value.value
            else:
                raise NotSupportedError(where, "Unsupported value in JoinedStr")
        where = self.span(node, 1)
        callee = tree.Select(where, tree.StringLiteral(where, text), "format")
        return tree.Apply(covering(where, list(inputs)), callee, inputs, [])

    def _generator(self, node: Any) -> tuple[SourceRange, ast.comprehension]:
        where = self.span(node, 0)
        if len(node.generators) != 1:
            raise NotSupportedError(where, "Only a single generator is currently supported")
        if node.generators[0].ifs:
            raise NotSupportedError(where, "Comprehension ifs are not supported yet")
        return where, node.generators[0]

    def _listcomp(self, node: ast.ListComp | ast.GeneratorExp) -> Expr:
        where, generator = self._generator(node)
        elt, target, iterated = self.expr(node.elt), self.expr(generator.target), self.expr(generator.iter)
        return tree.ListComp(covering(where, elt, target, iterated), elt, target, iterated)

    _generatorexp = _listcomp

    def _dictcomp(self, node: ast.DictComp) -> Expr:
        where, generator = self._generator(node)
        key, value = self.expr(node.key), self.expr(node.value)
        target, iterated = self.expr(generator.target), self.expr(generator.iter)
        return tree.DictComp(covering(where, key, value, target, iterated), key, value, target, iterated)

    def _starred(self, node: ast.Starred) -> Expr:
        value = self.expr(node.value)
        return tree.Starred(covering(self.span(node, 1), value), value)


def _moved(made: Expr, where: SourceRange) -> Expr:
    """The expression with all its parts at one place."""
    made.range = where
    for name in made.__dataclass_fields__:
        part = getattr(made, name)
        for each in part if isinstance(part, list) else [part]:
            if isinstance(each, Expr):
                _moved(each, where)
    return made
