"""From an expression over sizes to the calls that compute it: operator.mul(sym_size_int, 2). Used by size_nodes and by export."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable
from typing import Any

import flambeau as torch
from flambeau.base.symbolic.expressions import Expr, rebuild

__all__ = ["lowered"]

_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "Add": operator.add, "Mul": operator.mul, "Pow": operator.pow, "FloorDiv": operator.floordiv, "CleanDiv": operator.floordiv,
    "Mod": operator.mod, "PythonMod": operator.mod, "IntTrueDiv": operator.truediv, "FloatTrueDiv": operator.truediv,
    "PowByNatural": operator.pow, "FloatPow": operator.pow, "TruncToInt": math.trunc, "FloorToInt": math.floor,
    "CeilToInt": math.ceil, "RoundToInt": round, "Eq": operator.eq, "Ne": operator.ne, "Lt": operator.lt, "Le": operator.le,
    "Gt": operator.gt, "Ge": operator.ge, "And": operator.and_, "Or": operator.or_,
}  # fmt: skip


def _function(kind: str) -> Callable[..., Any]:
    named = {"Max": "sym_max", "Min": "sym_min", "ToFloat": "sym_float", "Not": "sym_not", "Where": "sym_ite",
             "OpaqueUnaryFn_sqrt": "sym_sqrt"}  # fmt: skip
    if kind in named:
        return getattr(torch, named[kind])  # type: ignore[no-any-return]
    if kind not in _FUNCTIONS:
        raise NotImplementedError(f"sizes computed by {kind} are not implemented in flambeau as nodes of a graph")
    return _FUNCTIONS[kind]


def lowered(e: Expr, node_of: Callable[[Expr], Any], make: Callable[..., Any], env: Any) -> Any:
    """The node of an expression: what `node_of` knows of it, a number, or make(function, args, value) over its parts."""
    found = node_of(e)
    if found is not None:
        return found
    if e.is_number:
        return e.value
    if e.kind in ("true", "false"):
        return e.kind == "true"
    if e.is_symbol:
        raise RuntimeError(f"no input or result of the graph tells the size {e}")
    args = [(a, lowered(a, node_of, make, env)) for a in e.args]
    function = _function(e.kind)
    if e.kind in ("Add", "Mul", "Max", "Min", "And", "Or"):
        return functools.reduce(lambda a, b: _joined(function, a, b, make, env, e.kind), args)[1]
    return make(function, tuple([n for _, n in args]), _value(e, env))


def _joined(function: Callable[..., Any], a: Any, b: Any, make: Any, env: Any, kind: str) -> tuple[Expr, Any]:
    e = rebuild(kind, (a[0], b[0]))
    return e, make(function, (a[1], b[1]), _value(e, env))


def _value(e: Expr, env: Any) -> Any:
    if e.kind in ("Eq", "Ne", "Lt", "Le", "Gt", "Ge", "And", "Or", "Not"):
        return env.create_symboolnode(e)
    return env.create_symintnode(e) if e.is_integer else env.create_symfloatnode(e)
