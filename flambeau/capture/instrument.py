"""A function's tree with a hook at each place where it looks at its surroundings or changes them.

| source | becomes |
| --- | --- |
| `a.b`, `a[i]`, `f(x)` | `attribute(a, "b")`, `item(a, i)`, `callee(f)(x)` |
| `name` that is global, that is free | `global_("name")`, `free("name", name)` |
| `for x in a`, `with a`, `import a` | `for x in each(a)`, `with context(a)`, `a = module("a", ...)` |
| `a.b = v`, `a[i] = v`, `del a.b` | `set_attribute(a, "b", v)`, `set_item(a, i, v)`, ... |
| `a is b`, `a in b` | `same(a, b)`, `contains(b, a)` |
| `a + b`, `a < b`, `-a`, `a += b` | `binary("add", a, b)`, ..., `unary("neg", a)`, `a = augmented("iadd", a, b)` |
| `if a`, `not a`, `a or b`, `f"{a!r:>3}"` | `if truth(a)`, `not truth(a)`, `either(a, lambda: b)`, `text(a, "r", ">3")` |
| `x, y = a`, `f(*a)`, `f(**a)` | `x, y = spread(a)`, `callee(f)(*spread(a))`, `callee(f)(**touch(a))` |
| `a < b < c` | `compared(a) < compared(b) < compared(c)` |
| `@d` over a function inside | `f = callee(d)(f)` behind it |
| `match a` | `match matched(a)` |
| `g = v` of a global | `set_global("g", v)` |

Where an operator is C code's, what that may read of its operands is pinned by `touch` and `compared`; functions written in Python
that C code calls nevertheless are seen by the recorder's net. Hooks are free variables of the new function, lines stay as they
are. Stands on source.py and scopes.py.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from types import CodeType, NoneType
from typing import Any
from weakref import WeakKeyDictionary

from flambeau.capture.scopes import bound_by, declared, set_otherwise
from flambeau.capture.source import Source, code_in, compiled, factory_module

__all__ = ["HOOKS", "Instrumented", "NotInstrumented", "instrumented"]

_PREFIX = "_capture_"
_OF_VARIABLES = {"locals", "vars", "dir"}  # which would show the hooks, unless they are given an object
_OF_FRAMES = {"_getframe", "_getframemodulename"}  # which would find those of the hooks' code
HOOKS = (
    "attribute item slice callee called_with global_ free each spread context module imported same contains matched "
    "touch compared binary unary augmented truth both either text set_attribute set_item set_global set_free "
    "delete_attribute delete_item"
).split()
#: Patterns that look at builtin containers and constants, and the parts of constants.
_PATTERNS = (ast.MatchValue, ast.MatchSingleton, ast.MatchSequence, ast.MatchStar, ast.MatchMapping, ast.MatchAs, ast.MatchOr)
_OF_CONSTANTS = (ast.Constant, ast.UnaryOp, ast.BinOp, ast.operator, ast.unaryop, ast.expr_context)


_OPERATORS: dict[type, str] = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "truediv", ast.FloorDiv: "floordiv", ast.Mod: "mod",
    ast.Pow: "pow", ast.MatMult: "matmul", ast.LShift: "lshift", ast.RShift: "rshift", ast.BitAnd: "and_", ast.BitOr: "or_",
    ast.BitXor: "xor", ast.Eq: "eq", ast.NotEq: "ne", ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge",
    ast.USub: "neg", ast.UAdd: "pos", ast.Invert: "invert",
}  # fmt: skip


class NotInstrumented(Exception):
    """args[0]: what of a function can't be followed."""


class Instrumented:
    """An instrumented function's code, the codes in it among `codes`; `free`: its free variables in the order of its closure,
    those of the original with None, hooks with their names.
    """

    def __init__(self, code: CodeType) -> None:
        self.code, self.codes = code, tuple(codes_of(code))
        hooks = {_PREFIX + name: name for name in HOOKS}
        self.free = [(name, hooks.get(name)) for name in code.co_freevars]


_instrumented: WeakKeyDictionary[CodeType, Instrumented] = WeakKeyDictionary()


def instrumented(code: CodeType, source: Source) -> Instrumented:
    """A function's instrumented code. NotInstrumented, with the reason, for what writes globals."""
    found = _instrumented.get(code)
    if found is None:
        if looks_at_frames(code):
            raise NotInstrumented("it looks at frames")
        node = _Hooks(code, source).function(source.node)
        if isinstance(node, ast.Lambda):  # under a name that no other function on its line has
            returned = ast.copy_location(ast.Return(node.body), node.body)
            node = ast.copy_location(ast.FunctionDef(_PREFIX + "lambda", node.args, [returned], [], type_params=[]), node)
        names = tuple(_PREFIX + name for name in HOOKS)
        made = compiled(factory_module(node, source, code.co_freevars, names), code)
        inside = code_in(made, source, node.name)
        if inside is None:
            raise NotInstrumented("its defaults are functions")
        found = _instrumented[code] = Instrumented(_named(inside, code.co_name, code.co_qualname))
    return found


def _named(code: CodeType, name: str, qualified: str) -> CodeType:
    """A code object with another name, which is part of the names of those that stand in it."""
    inside = (
        _named(each, each.co_name, qualified + each.co_qualname.removeprefix(code.co_qualname))
        if isinstance(each, CodeType)
        else each
        for each in code.co_consts
    )
    return code.replace(co_name=name, co_qualname=qualified, co_consts=tuple(inside))


def looks_at_frames(code: CodeType) -> bool:
    """Whether a function asks for its caller's frames, between which those of the hooks would be."""
    return any(not _OF_FRAMES.isdisjoint(each.co_names) for each in codes_of(code))


def codes_of(code: CodeType) -> Iterable[CodeType]:
    """A code object and all that stand in it."""
    yield code
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from codes_of(each)


class _Hooks(ast.NodeTransformer):
    """Puts the hooks into one function and those inside it; nodes of the original are copied, never changed."""

    def __init__(self, code: CodeType, source: Source) -> None:
        self.free, self.private = set(code.co_freevars) - {"__class__"}, (source.class_name or "").lstrip("_")
        self.scopes: list[set[str]] = []
        self.set_globals: set[str] = set()
        self.set_free: set[str] = set()
        self.temporaries = 0
        self.first = code.co_varnames[0] if code.co_argcount and "__class__" in code.co_freevars else ""

    # ---- names
    def _mangled(self, name: str) -> str:
        """A name as the compiler would mangle it, which it doesn't do to the texts that hooks get."""
        if self.private and name.startswith("__") and not name.endswith("__") and "." not in name:
            return f"_{self.private}{name}"
        return name

    def _hook(self, at: ast.AST, name: str, *arguments: ast.expr) -> ast.Call:
        call = ast.Call(ast.Name(_PREFIX + name, ast.Load()), list(arguments), [])
        return ast.fix_missing_locations(ast.copy_location(call, at))

    def _temporary(self) -> str:
        self.temporaries += 1
        name = f"{_PREFIX}value_{self.temporaries}"
        self.scopes[-1].add(name)
        return name

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if not isinstance(node.ctx, ast.Load) or node.id == "__class__":
            return node
        name = self._mangled(node.id)
        if any(node.id in scope for scope in self.scopes):
            return node
        if name in self.free or node.id in self.free:
            return self._hook(node, "free", ast.Constant(name), node)
        if name in _OF_VARIABLES:
            raise NotInstrumented(f"it uses {name}, which may look at its variables")
        return self._hook(node, "global_", ast.Constant(name))

    def _is_global(self, name: str) -> bool:
        return not any(name in scope for scope in self.scopes) and self._mangled(name) not in self.free and name not in self.free

    # ---- scopes
    def function(self, node: ast.FunctionDef | ast.Lambda) -> ast.FunctionDef | ast.Lambda:
        """A function's tree with hooks; for the outermost one, defaults and annotations stay as they are."""
        bound = bound_by(node)
        if not self.scopes:
            self._declare(node)
        self.scopes.append(bound)
        if isinstance(node, ast.Lambda):
            made: ast.FunctionDef | ast.Lambda = ast.Lambda(node.args, self.visit(node.body))
        else:
            made = ast.FunctionDef(node.name, node.args, self._block(node.body), [], None, type_params=[])
        self.scopes.pop()
        return ast.copy_location(made, node)

    def _declare(self, node: ast.FunctionDef | ast.Lambda) -> None:
        """Note which variables of its surroundings a function sets. Only assignments to them are followed."""
        self.set_globals, others = declared(node)
        self.set_free = others & self.free
        lost = (self.set_globals | self.set_free) & set_otherwise(node)
        if lost:
            raise NotInstrumented(f"it sets variables of its surroundings: {', '.join(sorted(lost))}")

    def _definition(self, node: ast.FunctionDef | ast.Lambda) -> ast.FunctionDef | ast.Lambda:
        """A function inside the function: its defaults are evaluated where it stands; nobody asks for its annotations."""
        a = node.args
        positional, named, others = ([ast.arg(x.arg) for x in each] for each in (a.posonlyargs, a.args, a.kwonlyargs))
        var, keywords = (x and ast.arg(x.arg) for x in (a.vararg, a.kwarg))
        defaults = [d and self.visit(d) for d in a.kw_defaults], keywords, [self.visit(d) for d in a.defaults]
        arguments = ast.fix_missing_locations(ast.copy_location(ast.arguments(positional, named, var, others, *defaults), node))
        made = self.function(node)
        made.args = arguments
        return made

    def visit_FunctionDef(self, node: ast.FunctionDef) -> Any:
        if not node.decorator_list:
            return self._definition(node)
        made, held = [], []
        for decorator in node.decorator_list:
            held.append(self._temporary())
            made.append(self._assign(_store(held[-1], decorator), self._hook(decorator, "callee", self.visit(decorator))))
        definition = self._definition(node)
        definition.lineno = min(d.lineno for d in node.decorator_list)  # which is its code's first line
        value: ast.expr = _load(node.name, node)
        for name in reversed(held):
            value = ast.copy_location(ast.Call(_load(name, node), [value], []), node)
        return [*made, definition, self._assign(_store(node.name, node), value), _forget(node, *held)]

    def visit_Lambda(self, node: ast.Lambda) -> ast.expr:
        return self._definition(node)  # type: ignore[return-value]

    def _refused(self, node: ast.AST) -> ast.AST:
        raise NotInstrumented(f"line {getattr(node, 'lineno', '?')} has {type(node).__name__}")

    visit_ClassDef = visit_AsyncFunctionDef = visit_AsyncFor = visit_AsyncWith = visit_Await = _refused

    def _comprehension(self, node: ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp) -> ast.expr:
        bound = bound_by(node)
        generators = []
        for i, g in enumerate(node.generators):
            if not i:
                iterated = self.visit(g.iter)
                self.scopes.append(bound)
            else:
                iterated = self.visit(g.iter)
            target = g.target
            if any(isinstance(n, (ast.Attribute, ast.Subscript)) for n in ast.walk(target)):
                self._refused(target)
            conditions = [self._truth(c) for c in g.ifs]
            generators.append(ast.comprehension(target, self._hook(g.iter, "each", iterated), conditions, g.is_async))
        if isinstance(node, ast.DictComp):
            made: ast.expr = ast.DictComp(self.visit(node.key), self.visit(node.value), generators)
        else:
            made = type(node)(self.visit(node.elt), generators)
        self.scopes.pop()
        return ast.copy_location(made, node)

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = _comprehension

    # ---- expressions
    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        return self._hook(node, "attribute", self.visit(node.value), ast.Constant(self._mangled(node.attr)))

    def _index(self, node: ast.expr) -> ast.expr:
        """What stands in brackets, as one value: slices are made by `slice`."""
        if isinstance(node, ast.Slice):
            parts = [ast.Constant(None) if p is None else self.visit(p) for p in (node.lower, node.upper, node.step)]
            return self._hook(node, "slice", *parts)
        if isinstance(node, ast.Tuple) and any(isinstance(e, ast.Slice) for e in node.elts):
            return ast.copy_location(ast.Tuple([self._index(e) for e in node.elts], ast.Load()), node)
        return self.visit(node)

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        return self._hook(node, "item", self.visit(node.value), self._index(node.slice))

    def visit_Call(self, node: ast.Call) -> ast.expr:
        if (
            isinstance(node.func, ast.Name)
            and node.func.id == "super"
            and not node.args
            and "super" not in set().union(*self.scopes)
        ):
            if not self.first or len(self.scopes) > 1:
                self._refused(node)  # an error, or of another function's first argument
            own = ast.Name("__class__", ast.Load()), ast.Name(self.first, ast.Load())
            node = ast.copy_location(ast.Call(node.func, list(own), []), node)
            ast.fix_missing_locations(node)
        keywords = [ast.keyword(k.arg, self.visit(k.value) if k.arg else self._touched(k.value)) for k in node.keywords]
        if isinstance(node.func, ast.Name) and node.func.id in _OF_VARIABLES and self._is_global(node.func.id) and node.args:
            if len(node.args) > 1 or isinstance(node.args[0], ast.Starred):
                self._refused(node)
            function = self._hook(node, "called_with", self._hook(node.func, "global_", ast.Constant(node.func.id)))
        else:
            function = self._hook(node, "callee", self.visit(node.func))
        call = ast.Call(function, [self.visit(a) for a in node.args], keywords)
        return ast.fix_missing_locations(ast.copy_location(call, node))

    def _touched(self, node: ast.expr) -> ast.expr:
        """An operand: C code will look into its value."""
        made = self.visit(node)
        return made if isinstance(made, ast.Constant) else self._hook(node, "touch", made)

    def _compared(self, node: ast.expr) -> ast.expr:
        made = self.visit(node)
        return made if isinstance(made, ast.Constant) else self._hook(node, "compared", made)

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        if len(node.ops) > 1 and any(isinstance(op, (ast.Is, ast.IsNot, ast.In, ast.NotIn)) for op in node.ops):
            self._refused(node)
        op, a, b = node.ops[0], node.left, node.comparators[0]
        if isinstance(op, (ast.Is, ast.IsNot)):
            if any(isinstance(each, ast.Constant) and isinstance(each.value, (bool, NoneType)) for each in (a, b)):
                return self.generic_visit(node)  # type: ignore[return-value]
            made: ast.expr = self._hook(node, "same", self.visit(a), self.visit(b))
        elif isinstance(op, (ast.In, ast.NotIn)):
            made = self._hook(node, "contains", self.visit(a), self.visit(b))
        elif len(node.ops) == 1:
            return self._hook(node, "binary", ast.Constant(_OPERATORS[type(op)]), self.visit(a), self.visit(b))
        else:
            return ast.copy_location(
                ast.Compare(self._compared(a), node.ops, [self._compared(c) for c in node.comparators]), node
            )
        return ast.copy_location(ast.UnaryOp(ast.Not(), made), node) if isinstance(op, (ast.IsNot, ast.NotIn)) else made

    def _truth(self, node: ast.expr) -> ast.expr:
        """A condition."""
        if isinstance(node, (ast.Compare, ast.Constant)) or (isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)):
            made = self.visit(node)
            return made if isinstance(node, (ast.Constant, ast.UnaryOp)) else self._hook(node, "truth", made)
        return self._hook(node, "truth", self.visit(node))

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        made = self.visit(node.values[-1])
        hook = "either" if isinstance(node.op, ast.Or) else "both"
        bare = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
        if any(isinstance(n, (ast.NamedExpr, ast.Yield, ast.YieldFrom)) for v in node.values[1:] for n in ast.walk(v)):
            return ast.copy_location(ast.BoolOp(node.op, [*(self._touched(v) for v in node.values[:-1]), made]), node)
        for value in reversed(node.values[:-1]):
            later = ast.fix_missing_locations(ast.copy_location(ast.Lambda(bare, made), node))
            made = self._hook(node, hook, self.visit(value), later)
        return made

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        return self._hook(node, "binary", ast.Constant(_OPERATORS[type(node.op)]), self.visit(node.left), self.visit(node.right))

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        if isinstance(node.op, ast.Not):
            return ast.copy_location(ast.UnaryOp(node.op, self._truth(node.operand)), node)
        if isinstance(node.operand, ast.Constant):
            return node
        return self._hook(node, "unary", ast.Constant(_OPERATORS[type(node.op)]), self.visit(node.operand))

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        return ast.copy_location(ast.IfExp(self._truth(node.test), self.visit(node.body), self.visit(node.orelse)), node)

    def visit_FormattedValue(self, node: ast.FormattedValue) -> ast.expr:
        form = self.visit(node.format_spec) if node.format_spec else ast.Constant("")
        shown = self._hook(
            node, "text", self.visit(node.value), ast.Constant(chr(node.conversion & 255) if node.conversion > 0 else ""), form
        )
        return ast.copy_location(ast.FormattedValue(shown, -1, None), node)

    def visit_Starred(self, node: ast.Starred) -> ast.expr:
        return ast.copy_location(ast.Starred(self._hook(node, "spread", self.visit(node.value)), node.ctx), node)

    def visit_Dict(self, node: ast.Dict) -> ast.expr:
        keys = [k and self._touched(k) for k in node.keys]
        values = [self.visit(v) if k else self._touched(v) for k, v in zip(node.keys, node.values, strict=True)]
        return ast.copy_location(ast.Dict(keys, values), node)

    def visit_Set(self, node: ast.Set) -> ast.expr:
        return ast.copy_location(ast.Set([self._touched(e) for e in node.elts]), node)

    def visit_YieldFrom(self, node: ast.YieldFrom) -> ast.expr:
        return ast.copy_location(ast.YieldFrom(self._hook(node, "each", self.visit(node.value))), node)

    def generic_visit(self, node: ast.AST) -> ast.AST:
        """A copy of a node with its children visited."""
        fields: dict[str, Any] = {}
        for name, value in ast.iter_fields(node):
            if isinstance(value, list):
                done: list = []
                for each in value:
                    if not isinstance(each, ast.AST):
                        done.append(each)
                        continue
                    one = self.visit(each)
                    done.extend(one) if isinstance(one, list) else done.append(one)
                value = done
            elif isinstance(value, ast.AST):
                value = self.visit(value)
            fields[name] = value
        return ast.copy_location(type(node)(**fields), node)

    # ---- statements
    def _block(self, body: list[ast.stmt]) -> list[ast.stmt]:
        made: list[ast.stmt] = []
        for each in body:
            one = self.visit(each)
            made.extend(one) if isinstance(one, list) else made.append(one)
        return made

    def _stored(self, target: ast.expr, value: ast.expr) -> list[ast.stmt]:
        """target = value, for targets that may be attributes, items and tuples of targets."""
        at = target
        if isinstance(target, ast.Name):
            name = self._mangled(target.id)
            if target.id in self.set_globals and self._is_global(target.id):
                return [self._expression(self._hook(at, "set_global", ast.Constant(name), value))]
            made = [self._assign(target, value)]
            if target.id in self.set_free and not any(target.id in scope for scope in self.scopes):
                made.append(self._expression(self._hook(at, "set_free", ast.Constant(name))))
            return made
        if isinstance(target, ast.Attribute):
            attribute = ast.Constant(self._mangled(target.attr))
            held = self._temporary()
            return [
                self._assign(_store(held, at), value),
                self._expression(self._hook(at, "set_attribute", self.visit(target.value), attribute, _load(held, at))),
                _forget(at, held),
            ]
        if isinstance(target, ast.Subscript):
            held = self._temporary()
            place = self.visit(target.value), self._index(target.slice)
            stored = self._expression(self._hook(at, "set_item", *place, _load(held, at)))
            return [self._assign(_store(held, at), value), stored, _forget(at, held)]
        if isinstance(target, (ast.Tuple, ast.List)):
            if not isinstance(value, (ast.Tuple, ast.List)):
                value = self._hook(at, "spread", value)
            within = list(ast.walk(target))
            if all(isinstance(n, (ast.Name, ast.Tuple, ast.List, ast.Starred, ast.expr_context)) for n in within):
                if not any(isinstance(n, ast.Name) and n.id in self.set_globals | self.set_free for n in within):
                    return [self._assign(target, value)]
            names, after = [], []
            for each in target.elts:
                starred = isinstance(each, ast.Starred)
                held = self._temporary()
                part: ast.expr = _store(held, at)
                names.append(ast.copy_location(ast.Starred(part, ast.Store()), at) if starred else part)
                after += self._stored(each.value if isinstance(each, ast.Starred) else each, _load(held, at))
                after.append(_forget(at, held))
            return [self._assign(ast.copy_location(ast.Tuple(names, ast.Store()), at), value), *after]
        self._refused(target)
        return []

    def _assign(self, target: ast.expr, value: ast.expr) -> ast.stmt:
        return ast.fix_missing_locations(ast.copy_location(ast.Assign([target], value), target))

    def _expression(self, value: ast.expr) -> ast.stmt:
        return ast.copy_location(ast.Expr(value), value)

    def visit_Assign(self, node: ast.Assign) -> list[ast.stmt]:
        value = self.visit(node.value)
        if len(node.targets) == 1:
            return self._stored(node.targets[0], value)
        held = self._temporary()
        made = [self._assign(_store(held, node), value)]
        for target in node.targets:
            made += self._stored(target, _load(held, node))
        return [*made, _forget(node, held)]

    def visit_AnnAssign(self, node: ast.AnnAssign) -> Any:
        return [] if node.value is None else self._stored(node.target, self.visit(node.value))

    def visit_AugAssign(self, node: ast.AugAssign) -> list[ast.stmt]:
        value, target = node.value, node.target
        operator = ast.Constant("i" + _OPERATORS[type(node.op)].rstrip("_"))
        if isinstance(target, ast.Name):
            was = self.visit_Name(_load(target.id, node))
            return self._stored(target, self._hook(node, "augmented", operator, was, self.visit(value)))
        owner, held = self._temporary(), self._temporary()
        made = [self._assign(_store(owner, node), self.visit(target.value))]
        if isinstance(target, ast.Attribute):
            read, write, key = "attribute", "set_attribute", [ast.Constant(self._mangled(target.attr))]
        else:
            index = self._temporary()
            made.append(self._assign(_store(index, node), self._index(target.slice)))
            read, write, key = "item", "set_item", [_load(index, node)]  # type: ignore[list-item]
        made.append(self._assign(_store(held, node), self._hook(node, read, _load(owner, node), *key)))
        done = self._hook(node, "augmented", operator, _load(held, node), self.visit(value))
        made.append(self._assign(_store(held, node), done))
        made.append(self._expression(self._hook(node, write, _load(owner, node), *key, _load(held, node))))
        names = [each.id for each in key if isinstance(each, ast.Name)]
        return [*made, _forget(node, owner, held, *names)]

    def visit_Delete(self, node: ast.Delete) -> list[ast.stmt]:
        made: list[ast.stmt] = []
        for target in node.targets:
            if isinstance(target, ast.Attribute):
                name = ast.Constant(self._mangled(target.attr))
                made.append(self._expression(self._hook(node, "delete_attribute", self.visit(target.value), name)))
            elif isinstance(target, ast.Subscript):
                made.append(
                    self._expression(self._hook(node, "delete_item", self.visit(target.value), self._index(target.slice)))
                )
            else:
                made.append(ast.copy_location(ast.Delete([target]), node))
        return made

    def visit_For(self, node: ast.For) -> Any:
        iterated = self._hook(node.iter, "each", self.visit(node.iter))
        if any(isinstance(n, (ast.Attribute, ast.Subscript)) for n in ast.walk(node.target)):
            held = self._temporary()
            body = [*self._stored(node.target, _load(held, node)), _forget(node, held), *self._block(node.body)]
            made = ast.For(_store(held, node), iterated, body, self._block(node.orelse))
        else:
            made = ast.For(node.target, iterated, self._block(node.body), self._block(node.orelse))
        return ast.fix_missing_locations(ast.copy_location(made, node))

    def visit_With(self, node: ast.With) -> Any:
        items, first = [], []
        for each in node.items:
            held = each.optional_vars
            if held is not None and not isinstance(held, ast.Name):
                name = self._temporary()
                first += [*self._stored(held, _load(name, node)), _forget(node, name)]
                if len(node.items) > 1:
                    self._refused(node)
                held = _store(name, node)
            items.append(ast.withitem(self._hook(each.context_expr, "context", self.visit(each.context_expr)), held))
        return ast.fix_missing_locations(ast.copy_location(ast.With(items, [*first, *self._block(node.body)]), node))

    def visit_If(self, node: ast.If) -> ast.stmt:
        return ast.copy_location(ast.If(self._truth(node.test), self._block(node.body), self._block(node.orelse)), node)

    def visit_While(self, node: ast.While) -> ast.stmt:
        return ast.copy_location(ast.While(self._truth(node.test), self._block(node.body), self._block(node.orelse)), node)

    def visit_Match(self, node: ast.Match) -> ast.stmt:
        for each in node.cases:
            for part in ast.walk(each.pattern):
                if not isinstance(part, _PATTERNS + _OF_CONSTANTS):
                    self._refused(part if hasattr(part, "lineno") else node)
        subject = self._hook(node.subject, "matched", self.visit(node.subject))
        guards = [each.guard and self._truth(each.guard) for each in node.cases]
        cases = [ast.match_case(c.pattern, guard, self._block(c.body)) for c, guard in zip(node.cases, guards, strict=True)]
        return ast.copy_location(ast.Match(subject, cases), node)

    def visit_Assert(self, node: ast.Assert) -> ast.stmt:
        return ast.copy_location(ast.Assert(self._truth(node.test), node.msg and self.visit(node.msg)), node)

    def visit_Import(self, node: ast.Import) -> list[ast.stmt]:
        made = []
        for alias in node.names:
            bound = alias.asname or alias.name.split(".")[0]
            found = self._hook(node, "module", ast.Constant(alias.name), ast.Constant(alias.asname is not None))
            made.append(self._assign(_store(bound, node), found))
        return made

    def visit_ImportFrom(self, node: ast.ImportFrom) -> list[ast.stmt]:
        made = []
        for alias in node.names:
            if alias.name == "*":
                self._refused(node)
            words = ast.Constant(node.module or ""), ast.Constant(node.level), ast.Constant(alias.name)
            made.append(self._assign(_store(alias.asname or alias.name, node), self._hook(node, "imported", *words)))
        return made


def _forget(at: ast.AST, *names: str) -> ast.Delete:
    """The end of temporaries, which would keep what they hold alive."""
    targets: list[ast.expr] = [ast.copy_location(ast.Name(name, ast.Del()), at) for name in names]  # type: ignore[type-var]
    return ast.copy_location(ast.Delete(targets), at)  # type: ignore[type-var]


def _store(name: str, at: ast.AST) -> ast.Name:
    return ast.copy_location(ast.Name(name, ast.Store()), at)  # type: ignore[type-var]


def _load(name: str, at: ast.AST) -> ast.Name:
    return ast.copy_location(ast.Name(name, ast.Load()), at)  # type: ignore[type-var]
