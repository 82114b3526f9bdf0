"""Simplification of scalar expressions: constant folding and identities that keep every value.

A rule is here only if it holds for NaN, infinities and signed zeros (up to the sign of a NaN), so forward code may be
simplified too: x * 1, x / 1, x - 0, -(-x) and where(c, a, a) go; x * 0 and x - x of floats stay, as in PyTorch's
autograd. Stands on ir.scalar. Used by ir.derivative and operator declarations.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from flambeau.base.dtype import bool_
from flambeau.ir import scalar as s
from flambeau.ir.scalar import Expr, constant, is_constant, is_integral, make, rewrite

_FOLDED: dict[str, Callable[..., Any]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "neg": np.negative, "abs": np.abs,
    "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal, "eq": np.equal, "ne": np.not_equal,
    "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor, "not": np.invert, "sqrt": np.sqrt,
    "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc, "round": np.rint, "conj": np.conj,
    "real": np.real, "imag": np.imag,
}  # fmt: skip


def simplify(expr: Expr) -> Expr:
    """An expression with the same values, usually smaller."""
    return rewrite((expr,), simplify_node)[0]


def simplify_node(node: Expr) -> Expr:
    """One step at the root of `node`, whose arguments are simple already."""
    folded = _fold(node)
    if folded is not None:
        return folded
    rule = _RULES.get(node.op)
    return node if rule is None else rule(node, *node.args)


def _build(op: str, args: tuple[Expr, ...], like: Expr) -> Expr:
    return simplify_node(make(op, args, like.dtype, like.value if op == like.op else None))


def _fold(node: Expr) -> Expr | None:
    if not node.args or any(arg.op != "constant" for arg in node.args):
        return None
    values = [arg.dtype.numpy.type(arg.value) for arg in node.args]
    if node.op == "cast":
        value = node.args[0].value
        if node.dtype.is_complex or not node.args[0].dtype.is_complex:
            if is_integral(node.dtype) and isinstance(value, float) and not abs(value) < 2.0**31:
                return None
            return constant(value, node.dtype)
        return None
    with np.errstate(all="ignore"):
        if node.op == "div" and node.dtype.is_floating_point:
            return constant(np.true_divide(*values), node.dtype)
        if node.op == "complex":
            return constant(complex(*(arg.value for arg in node.args)), node.dtype)
        function = _FOLDED.get(node.op)
        return None if function is None else constant(function(*values), node.dtype)


def _minus_one(x: Expr) -> bool:
    return is_constant(x, -1) and (not is_integral(x.dtype) or x.dtype.is_signed)


def _negative_zero(x: Expr) -> bool:
    return is_constant(x, 0) and isinstance(x.value, float) and math.copysign(1, x.value) < 0


def _add(node: Expr, a: Expr, b: Expr) -> Expr:
    if (is_integral(node.dtype) and is_constant(a, 0)) or _negative_zero(a):
        return b
    if (is_integral(node.dtype) and is_constant(b, 0)) or _negative_zero(b):
        return a
    if b.op == "neg":
        return _build("sub", (a, b.args[0]), node)
    if a.op == "neg":
        return _build("sub", (b, a.args[0]), node)
    return node


def _sub(node: Expr, a: Expr, b: Expr) -> Expr:
    if is_constant(b, 0) and not _negative_zero(b) and not node.dtype.is_complex:
        return a
    if b.op == "neg":
        return _build("add", (a, b.args[0]), node)
    if is_integral(node.dtype) and is_constant(a, 0):
        return _build("neg", (b,), node)
    return node


def _mul(node: Expr, a: Expr, b: Expr) -> Expr:
    if is_constant(a) and not is_constant(b):  # constants to the right
        return _build("mul", (b, a), node)
    if is_constant(b, 1) and not node.dtype.is_complex:
        return a
    if is_integral(node.dtype) and is_constant(b, 0):
        return b
    if _minus_one(b) and not node.dtype.is_complex:
        return _build("neg", (a,), node)
    if node.dtype.is_complex or node.value is not None:
        return node
    if a.op == "neg" and b.op == "neg":
        return _build("mul", (a.args[0], b.args[0]), node)
    if a.op == "neg":
        if is_constant(b):
            return _build("mul", (a.args[0], _build("neg", (b,), b)), node)
        return _build("neg", (_build("mul", (a.args[0], b), node),), node)
    if b.op == "neg":
        return _build("neg", (_build("mul", (a, b.args[0]), node),), node)
    if is_constant(b) and a.op == "mul" and a.value is None and is_constant(a.args[1]):
        if abs(b.value) in (0.5, 1, 2, 4) or is_integral(node.dtype):  # a power of two does not round
            return _build("mul", (a.args[0], _build("mul", (a.args[1], b), node)), node)
    if b.op == "div" and is_constant(b.args[0], 1):
        return _build("div", (a, b.args[1]), node)
    if a.op == "div" and is_constant(a.args[0], 1):
        return _build("div", (b, a.args[1]), node)
    return node


def _div(node: Expr, a: Expr, b: Expr) -> Expr:
    if node.dtype.is_complex:
        return node
    if is_constant(b, 1):
        return a
    if is_constant(b) and math.isfinite(b.value) and b.value != 0:
        fraction, exponent = math.frexp(b.value)
        if abs(fraction) == 0.5 and abs(exponent) < 100:  # the reciprocal of a power of two is exact
            return _build("mul", (a, constant(1 / b.value, node.dtype)), node)
    if a.op == "neg" and b.op == "neg":
        return _build("div", (a.args[0], b.args[0]), node)
    if a.op == "neg" and not is_constant(a.args[0]):
        return _build("neg", (_build("div", (a.args[0], b), node),), node)
    if b.op == "neg":
        return _build("neg", (_build("div", (a, b.args[0]), node),), node)
    return node


def _neg(node: Expr, x: Expr) -> Expr:
    if x.op == "neg":
        return x.args[0]
    if x.op == "mul" and is_constant(x.args[1]) and not node.dtype.is_complex and x.value is None:
        return _build("mul", (x.args[0], _build("neg", (x.args[1],), x.args[1])), x)
    return node


def _where(node: Expr, condition: Expr, a: Expr, b: Expr) -> Expr:
    if is_constant(condition):
        return a if condition.value else b
    if a is b:
        return a
    if condition.op == "not":
        return _build("where", (condition.args[0], b, a), node)
    if a.op == "where" and a.args[0] is condition:
        return _build("where", (condition, a.args[1], b), node)
    if b.op == "where" and b.args[0] is condition:
        return _build("where", (condition, a, b.args[2]), node)
    if node.dtype is bool_ and is_constant(a, 1) and is_constant(b, 0):
        return condition
    return node


def _cast(node: Expr, x: Expr) -> Expr:
    if x.dtype is node.dtype:
        return x
    if x.op == "cast" and x.args[0].dtype is bool_:  # false and true are 0 and 1 in every dtype
        return s.cast(x.args[0], node.dtype)
    return node


def _fma(node: Expr, a: Expr, b: Expr, c: Expr) -> Expr:
    if is_constant(a, 1):
        return _build("add", (b, c), node)
    if is_constant(b, 1):
        return _build("add", (a, c), node)
    return node


def _pow(node: Expr, x: Expr, y: Expr) -> Expr:
    # The exponents that PyTorch treats apart.
    if not is_constant(y):
        return node
    if y.value == 0:
        return constant(1, node.dtype)
    if y.value == 1:
        return x
    if y.value == 2:
        return x * x
    if y.value == 3:
        return x * x * x
    if node.dtype.is_floating_point:
        if y.value == 0.5:
            return s.sqrt(x)
        if y.value == -0.5:
            return s.rsqrt(x)
        if y.value == -1:
            return 1 / x
        if y.value == -2:
            return 1 / (x * x)
    return node


def _and(node: Expr, a: Expr, b: Expr) -> Expr:
    if a is b:
        return a
    if node.dtype is bool_:
        for x, y in ((a, b), (b, a)):
            if is_constant(x):
                return y if x.value else x
    return node


def _or(node: Expr, a: Expr, b: Expr) -> Expr:
    if a is b:
        return a
    if node.dtype is bool_:
        for x, y in ((a, b), (b, a)):
            if is_constant(x):
                return x if x.value else y
    return node


def _involution(node: Expr, x: Expr) -> Expr:
    return x.args[0] if x.op == node.op else node


def _part(node: Expr, x: Expr) -> Expr:
    return x.args[node.op == "imag"] if x.op == "complex" else node


def _extremum(node: Expr, a: Expr, b: Expr) -> Expr:
    return a if a is b else node


_RULES: dict[str, Callable[..., Expr]] = {
    "add": _add, "sub": _sub, "mul": _mul, "div": _div, "neg": _neg, "where": _where, "cast": _cast, "fma": _fma,
    "pow": _pow, "and": _and, "or": _or, "not": _involution, "conj": _involution, "real": _part, "imag": _part,
    "minimum": _extremum, "maximum": _extremum, "fmin": _extremum, "fmax": _extremum,
}  # fmt: skip
