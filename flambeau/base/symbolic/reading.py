"""Texts as expressions: what SymPy's str and srepr print, read by a grammar of a few forms; nothing is ever evaluated.

`read("2*s0 + 1", symbols)` and `read("Add(Mul(Integer(2), Symbol('s0', positive=True, integer=True)), Integer(1))")`.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from typing import Any

from flambeau.base.symbolic.expressions import RELATIONS, Expr, as_expr, float_of, integer, product, rebuild, sum_of, symbol
from flambeau.base.symbolic.functions import floor_div, power_by_natural, python_mod
from flambeau.base.symbolic.ranges import int_oo
from flambeau.base.symbolic.relations import conjunction, disjunction, negation, relation

__all__ = ["MOST_CHARACTERS", "read"]

MOST_CHARACTERS = 100_000
_LONG = {**{name: kind for kind, name in RELATIONS.items()}, "CleanDiv": "FloorDiv"}
_ASSUMPTIONS = ("integer", "positive", "nonnegative", "negative", "finite", "real", "zero")
_COMPARED: dict[type, str] = {ast.Eq: "Eq", ast.NotEq: "Ne", ast.Lt: "Lt", ast.LtE: "Le", ast.Gt: "Gt", ast.GtE: "Ge"}
_BINARY: dict[type, Callable[[Expr, Expr], Expr]] = {
    ast.Add: sum_of,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: product,
    ast.FloorDiv: floor_div,
    ast.Mod: python_mod,
    ast.Pow: power_by_natural,
    ast.BitAnd: conjunction,
    ast.BitOr: disjunction,
}
_FEWEST = {"Add": 0, "Mul": 0, "And": 0, "Or": 0, "Min": 1, "Max": 1}  # arguments of functions of any number of them
_ARITIES = {"Pow": 2, "Where": 3, "IntTrueDiv": 2, "FloatTrueDiv": 2, "FloatPow": 2, "PowByNatural": 2, "FloorDiv": 2, "Mod": 2,
            "PythonMod": 2, "CeilDiv": 2, "RoundDecimal": 2, "LShift": 2, "RShift": 2, "Not": 1, "ToFloat": 1, "TruncToInt": 1,
            "FloorToInt": 1, "CeilToInt": 1, "RoundToInt": 1, "OpaqueUnaryFn_sqrt": 1, "TruncToFloat": 1, "Identity": 1,
            "Eq": 2, "Ne": 2, "Lt": 2, "Le": 2, "Gt": 2, "Ge": 2}  # fmt: skip


def read(text: str, symbols: Mapping[str, Expr] | None = None) -> Any:
    """The expression that a text says; int_oo and -int_oo as they are.

    symbols: those that names stand for, and texts such as "L['x'].size()[0]"; other names are symbols of integers. ValueError for
    anything else than an expression.
    """
    if not isinstance(text, str) or len(text) > MOST_CHARACTERS:
        raise ValueError(f"expected the text of an expression of at most {MOST_CHARACTERS} characters")
    try:
        return _Reader(symbols or {}).of(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, RecursionError, MemoryError, OverflowError, ZeroDivisionError, TypeError, KeyError) as error:
        raise ValueError(f"not an expression over sizes: {text[:80]!r} ({type(error).__name__})") from None


class _Reader:
    def __init__(self, symbols: Mapping[str, Expr]) -> None:
        self.symbols = symbols

    def of(self, node: ast.expr) -> Any:
        if isinstance(node, ast.Constant) and isinstance(node.value, (bool, int, float)):
            return as_expr(node.value)
        if isinstance(node, ast.Name):
            return self._name(node.id)
        if isinstance(node, ast.Subscript) and ast.unparse(node) in self.symbols:
            return self.symbols[ast.unparse(node)]
        if isinstance(node, ast.BoolOp):
            return (conjunction if isinstance(node.op, ast.And) else disjunction)(*map(self._finite, node.values))
        if isinstance(node, ast.UnaryOp):
            inner = self.of(node.operand)
            if isinstance(node.op, ast.USub):
                return -inner
            if isinstance(node.op, (ast.Invert, ast.Not)):
                return negation(inner)
        if isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
            a, b = self._finite(node.left), self._finite(node.right)
            if isinstance(node.op, ast.Pow):
                _check_power(a, b)
            return _BINARY[type(node.op)](a, b)
        if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in _COMPARED:
            return relation(_COMPARED[type(node.ops[0])], self._finite(node.left), self._finite(node.comparators[0]))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            return self._call(node.func.id, node)
        raise ValueError(f"not an expression over sizes: {ast.unparse(node)[:80]!r}")

    def _finite(self, node: ast.expr) -> Expr:
        made = self.of(node)
        if not isinstance(made, Expr):
            raise ValueError("infinity has no place in an expression")
        return made

    def _name(self, name: str) -> Any:
        if name in self.symbols:
            return self.symbols[name]
        if name in ("int_oo", "oo", "IntInfinity"):
            return int_oo
        if name in ("true", "false", "True", "False"):
            return as_expr(name.lower() == "true")
        return symbol(name)

    def _call(self, name: str, node: ast.Call) -> Any:
        if name in ("Integer", "Float") and len(node.args) == 1:
            if any(k.arg != "precision" for k in node.keywords):
                raise ValueError(f"{name} takes a number, and its precision")
            return _number(name, node.args[0])
        if name == "Symbol" and len(node.args) == 1 and isinstance(node.args[0], ast.Constant):
            return self._symbol(node)
        if name in ("IntInfinity", "NegativeIntInfinity") and not node.args:
            return int_oo if name == "IntInfinity" else -int_oo
        if node.keywords:
            raise ValueError(f"{name} takes no arguments by name")
        kind = _LONG.get(name, {"max": "Max", "min": "Min"}.get(name, name))
        args = tuple([self._finite(a) for a in node.args])
        if kind not in _FEWEST and kind not in _ARITIES:
            raise ValueError(f"{name[:40]!r} is no function of sizes")
        if len(args) < _FEWEST.get(kind, 0) or len(args) != _ARITIES.get(kind, len(args)):
            raise ValueError(f"{kind} doesn't take {len(args)} arguments")
        if kind in ("Pow", "PowByNatural", "FloatPow", "LShift"):
            _check_power(*args)
        return rebuild(kind, args)

    def _symbol(self, node: ast.Call) -> Expr:
        name = node.args[0].value  # type: ignore[attr-defined]
        if not isinstance(name, str) or not name.isidentifier():
            raise ValueError(f"{name!r} is no name of a symbol")
        given = {}
        for k in node.keywords:
            if k.arg not in _ASSUMPTIONS or not isinstance(k.value, ast.Constant):
                raise ValueError(f"a symbol takes no {k.arg!r}")
            given[k.arg] = k.value.value is True
        if name in self.symbols:
            return self.symbols[name]
        return symbol(name, integer=given.get("integer", False), positive=given.get("positive", False),
                      nonnegative=given.get("nonnegative", False))  # fmt: skip


def _number(name: str, node: ast.expr) -> Expr:
    sign = 1
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        sign, node = -1, node.operand
    if not isinstance(node, ast.Constant) or isinstance(node.value, bool) or not isinstance(node.value, (int, float, str)):
        raise ValueError(f"{name} takes a number")
    return integer(sign * int(node.value)) if name == "Integer" else float_of(sign * float(node.value))


def _check_power(base: Expr, exponent: Expr) -> None:
    """Refuse powers whose digits would fill memory."""
    if exponent.is_number and not (0 <= exponent.value <= 64 and exponent.kind == "Integer"):
        raise ValueError(f"an exponent of {exponent.value} has no place among sizes")
    if base.kind == "Integer" and exponent.is_number and base.value.bit_length() * exponent.value > 4096:
        raise ValueError("a power of more than 4096 bits has no place among sizes")
