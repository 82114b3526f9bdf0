"""The bodies of named functions, and `expand`, which replaces each named op by its body.

Expressions keep exp, sin, pow, ... as named ops, so that derivatives and rewrites recognise them; code generation
sees only primitives. A body is a Python function from expressions to an expression, branch-free, without loops, so
that it vectorises. Bodies live by family in ir.elementary (division, exp, log, pow), ir.trigonometric, ir.special
(erf, gamma, Bessel), ir.zeta and ir.complex. Used by codegen.scalar.
"""

from __future__ import annotations

from functools import lru_cache

from flambeau.ir import complex as complex_bodies
from flambeau.ir import elementary, special, trigonometric, zeta
from flambeau.ir.scalar import Expr, complex_, imag, make, real

#: op -> body, for arguments of a real dtype. A body may return its own op only on primitive dtypes.
BODIES = {**elementary.BODIES, **trigonometric.BODIES, **special.BODIES, **zeta.BODIES}
#: op -> body, for ops that take or give complex numbers. Results are complex() of two real expressions.
COMPLEX_BODIES = complex_bodies.BODIES


def body_of(node: Expr):
    """The body to which `node` expands, or None for a primitive."""
    if any(arg.dtype.is_complex for arg in node.args) or node.dtype.is_complex:
        return COMPLEX_BODIES.get(node.op)
    found = BODIES.get(node.op)
    if found is None:
        return None
    floating = node.dtype.is_floating_point
    if (node.op in elementary.FLOATING_ONLY and not floating) or (node.op in elementary.INTEGER_ONLY and floating):
        return None
    return found


@lru_cache(maxsize=64)
def expand(expr: Expr) -> Expr:
    """`expr` in primitives only. Leaves are values from outside and stay as they are.

    Complex values become complex(re, im) of real expressions; a complex leaf is read through real() and imag().
    """
    done: dict[Expr, Expr] = {}
    stack = [expr]
    pending: dict[Expr, Expr] = {}  # node -> the body's result that it waits for
    while stack:
        node = stack[-1]
        if node in done:
            stack.pop()
            continue
        if node in pending:
            done[node] = done[pending.pop(node)]
            stack.pop()
            continue
        missing = [arg for arg in node.args if arg not in done]
        if missing:
            stack.extend(reversed(missing))
            continue
        args = tuple(done[arg] for arg in node.args)
        body = body_of(node)
        if body is None:
            done[node] = _split(make(node.op, args, node.dtype, node.value))
            continue
        result = body(node, *args)
        if result is node:
            done[node] = node
        else:
            pending[node] = result
            stack.append(result)
    return done[expr]


def _split(node: Expr) -> Expr:
    """A complex leaf or constant as complex(re, im); anything else unchanged."""
    if node.dtype.is_complex and node.op in ("leaf", "constant"):
        if node.op == "constant":
            return node
        return complex_(real(node), imag(node))
    return node
