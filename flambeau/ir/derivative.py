"""Symbolic derivatives of scalar expressions.

`vjp` is reverse mode over an expression: it pulls a gradient back to leaves, shares subexpressions with the forward
value (expressions are hash-consed) and simplifies. The results are expressions again, so every order follows. The
conventions (ties, zeros, bounds) and the conjugate-gradient rule for complex numbers are PyTorch's.

Stands on ir.scalar and ir.simplify. Used by core.operator.pointwise to derive the gradient of pointwise operators.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from flambeau.base.dtype import float32
from flambeau.ir import scalar as s
from flambeau.ir.scalar import Expr, cast, complex_, conj, constant, imag, isnan, real, topological, where
from flambeau.ir.simplify import simplify

LN_2, LN_10 = math.log(2), math.log(10)
TWO_OVER_ROOT_PI = 2 / math.sqrt(math.pi)
ONE_OVER_ROOT_TWO_PI = 1 / math.sqrt(2 * math.pi)


def _add(g, out, a, b):
    return g, g


def _div(g, out, a, b):
    if s.is_constant(a, 1):  # spares a division: out is the reciprocal
        return None, -g * conj(out * out)
    return g / conj(b), -g * conj(out / b)  # out / b is 0 where a is, when g / b overflows


def _where(g, out, condition, a, b):
    return None, where(condition, g, 0), where(condition, 0, g)


def _cast(g, out, x):
    return (None if s.is_integral(x.dtype) else g,)


def _maximum(g, out, a, b):
    half = g / 2
    return where(a == b, half, where(a < b, 0, g)), where(a == b, half, where(b < a, 0, g))


def _minimum(g, out, a, b):
    half = g / 2
    return where(a == b, half, where(a > b, 0, g)), where(a == b, half, where(b > a, 0, g))


def _fmax(g, out, a, b):
    first = (a >= b) | isnan(b)
    return where(first, g, 0), where(first, 0, g)


def _fmin(g, out, a, b):
    first = (a <= b) | isnan(b)
    return where(first, g, 0), where(first, 0, g)


def _clamp(g, out, x, low, high):
    inside = (x >= low) & (x <= high)
    return where(inside, g, 0), where((x < low) & (low < high), g, 0), where((x > high) | (high < low), g, 0)


def _pow(g, out, x, y):
    slope = g * conj(y * s.pow(x, y - 1))
    at_zero = x == 0
    at_zero = at_zero & ((real(y) >= 0) & (imag(y) == 0) if y.dtype.is_complex else y >= 0)
    return where(y == 0, 0, slope), where(at_zero, 0, g * conj(out * s.log(x)))


def _sign(g, out, x):
    if not x.dtype.is_complex:
        return (None,)
    size = abs(x)
    return (where(size == 0, 0, (g - real(g * conj(out)) * out) / size),)


def _copysign(g, out, a, b):
    return where(a == 0, 0, g * (out / a)), None


def _epsilon(x):
    """Below it x + 1 is 1."""
    return 2.0**-23 if x.dtype is float32 else 2.0**-52


def _bessel_i1(g, out, x):
    near = abs(x) < _epsilon(x)
    return (g * where(near, 0.5, s.i0(x) - out / where(near, 1, x)),)  # no 1 / 0, for the second derivative's sake


def _bessel_i1e(g, out, x):
    near = abs(x) < _epsilon(x)
    return (g * where(near, 0.5, s.i0e(x) - out * (s.sign(x) + 1 / where(near, 1, x))),)


def _sinc(g, out, x):
    product = x * math.pi
    return (where(product * x == 0, 0, g * ((s.cos(product) * product - s.sin(product)) / (product * x))),)


def _acosh(g, out, x):
    if x.dtype.is_complex:
        return (g * conj(s.rsqrt(x + 1) * s.rsqrt(x - 1)),)
    return (g * s.rsqrt(x * x - 1),)


def _atan2(g, out, y, x):
    norm = x * x + y * y
    scaled = where(norm == 0, 0, g / norm)
    return scaled * x, -scaled * y


def _none(g, out, *args):
    return (None,) * len(args)


#: Stands for a gradient without a formula, as in PyTorch.
UNKNOWN = s.leaf("unknown", float32)

#: op -> rule(gradient, output, *arguments), one gradient (or None, for zero) per argument.
RULES: dict[str, Callable[..., tuple[Expr | None, ...]]] = {
    "add": _add,
    "sub": lambda g, out, a, b: (g, -g),
    "mul": lambda g, out, a, b: (g * conj(b), g * conj(a)),
    "div": _div,
    "fma": lambda g, out, a, b, c: (g * b, g * a, g),
    "neg": lambda g, out, x: (-g,),
    "where": _where,
    "guard": lambda g, out, value, bad: (g, None),
    "cast": _cast,
    "abs": lambda g, out, x: (g * s.sign(x),),
    "sign": _sign,
    "copysign": _copysign,
    "minimum": _minimum,
    "maximum": _maximum,
    "fmin": _fmin,
    "fmax": _fmax,
    "clamp": _clamp,
    "clamp_min": lambda g, out, x, low: (where(x >= low, g, 0), where(x < low, g, 0)),
    "clamp_max": lambda g, out, x, high: (where(x <= high, g, 0), where(x > high, g, 0)),
    "fmod": lambda g, out, a, b: (g, -g * s.trunc_divide(a, b)),
    "remainder": lambda g, out, a, b: (g, -g * s.floor_divide(a, b)),
    "reciprocal": lambda g, out, x: (-g * conj(out * out),),
    "sqrt": lambda g, out, x: (g / (2 * conj(out)),),
    "rsqrt": lambda g, out, x: (g * conj(out * out * out) * -0.5,),
    "pow": _pow,
    "hypot": lambda g, out, a, b: (g * (a / out), g * (b / out)),
    "exp": lambda g, out, x: (g * conj(out),),
    "exp_normal": lambda g, out, x: (g * conj(out),),
    "exp2": lambda g, out, x: (g * conj(out) * LN_2,),
    "expm1": lambda g, out, x: (g * conj(out + 1),),
    "log": lambda g, out, x: (g / conj(x),),
    "log2": lambda g, out, x: (g / conj(x * LN_2),),
    "log10": lambda g, out, x: (g / conj(x * LN_10),),
    "log1p": lambda g, out, x: (g / conj(x + 1),),
    "logaddexp": lambda g, out, a, b: (g / (1 + s.exp(b - a)), g / (1 + s.exp(a - b))),
    "sigmoid": lambda g, out, x: (g * conj((1 - out) * out),),
    "sin": lambda g, out, x: (g * conj(s.cos(x)),),
    "cos": lambda g, out, x: (-g * conj(s.sin(x)),),
    "tan": lambda g, out, x: (g * conj(1 + out * out),),
    "asin": lambda g, out, x: (g * conj(s.rsqrt(1 - x * x)),),
    "acos": lambda g, out, x: (-g * conj(s.rsqrt(1 - x * x)),),
    "atan": lambda g, out, x: (g / conj(x * x + 1),),
    "atan2": _atan2,
    "sinh": lambda g, out, x: (g * conj(s.cosh(x)),),
    "cosh": lambda g, out, x: (g * conj(s.sinh(x)),),
    "tanh": lambda g, out, x: (g * conj(1 - out * out),),
    "asinh": lambda g, out, x: (g * conj(s.rsqrt(x * x + 1)),),
    "acosh": _acosh,
    "atanh": lambda g, out, x: (g / conj(1 - x * x),),
    "sinc": _sinc,
    "erf": lambda g, out, x: (g * (s.exp(-(x * x)) * TWO_OVER_ROOT_PI),),
    "erfc": lambda g, out, x: (g * (s.exp(-(x * x)) * -TWO_OVER_ROOT_PI),),
    "normal_cdf": lambda g, out, x: (g * (s.exp(-0.5 * (x * x)) * ONE_OVER_ROOT_TWO_PI),),
    "gelu": lambda g, out, x: (g * (s.normal_cdf(x) + x * (s.exp(-0.5 * (x * x)) * ONE_OVER_ROOT_TWO_PI)),),
    "erfcx": lambda g, out, x: (g * (2 * x * out - TWO_OVER_ROOT_PI),),
    "normal_quantile": lambda g, out, x: (g * s.exp(out * out * 0.5) / ONE_OVER_ROOT_TWO_PI,),
    "erfinv": lambda g, out, x: (g * (s.exp(out * out) / TWO_OVER_ROOT_PI),),
    "lgamma": lambda g, out, x: (g * s.digamma(x),),
    "digamma": lambda g, out, x: (g * s.trigamma(x),),
    "trigamma": lambda g, out, x: (g * (s.zeta(3, x) * -2),),
    "zeta": lambda g, out, x, q: (UNKNOWN, g * -x * s.zeta(x + 1, q)),
    "i0": lambda g, out, x: (g * s.i1(x),),
    "i0e": lambda g, out, x: (g * (s.i1e(x) - s.sign(x) * out),),
    "i1": _bessel_i1,
    "i1e": _bessel_i1e,
    "complex": lambda g, out, re, im: (real(g), imag(g)),
    "real": lambda g, out, x: (complex_(g, constant(0, g.dtype)),),
    "imag": lambda g, out, x: (complex_(constant(0, g.dtype), g),),
    "conj": lambda g, out, x: (conj(g),),
    **dict.fromkeys(("floor", "ceil", "trunc", "round", "floor_divide", "trunc_divide"), _none),
}


def vjp(output: Expr, leaves: Sequence[Expr], gradient: Expr) -> tuple[Expr | None, ...]:
    """The gradients of `leaves` when that of `output` is `gradient` (an Expr, often a leaf); None where it is zero,
    UNKNOWN where a rule on the way has no formula.

    For complex leaves this is PyTorch's convention, the conjugate Wirtinger derivative. Raises NotImplementedError if
    a needed op has no rule.
    """
    order = list(topological(output))
    needed = set(leaves)
    for node in order:
        if any(arg in needed for arg in node.args) and not s.is_integral(node.dtype):
            needed.add(node)
    gradients: dict[Expr, Expr] = {output: _like(gradient, output)} if output in needed else {}
    targets = set(leaves)
    for node in reversed(order):
        g = gradients.get(node)
        if g is None or not node.args or node in targets:
            continue
        rule = RULES.get(node.op)
        if rule is None:
            raise NotImplementedError(f"derivative for {node.op} is not implemented")
        pulls = _pulled(rule, g, node) if g is not UNKNOWN else (UNKNOWN,) * len(node.args)
        for arg, pulled in zip(node.args, pulls, strict=True):
            if pulled is None or arg not in needed:
                continue
            known = gradients.get(arg)
            if pulled is UNKNOWN or known is UNKNOWN:
                gradients[arg] = UNKNOWN
                continue
            pulled = simplify(_like(pulled, arg))
            gradients[arg] = pulled if known is None else simplify(known + pulled)
    return tuple(gradients.get(leaf) for leaf in leaves)


def _pulled(rule: Callable[..., tuple[Expr | None, ...]], g: Expr, node: Expr) -> tuple[Expr | None, ...]:
    """The rule's gradients. Where g is 0 because its branch wasn't taken, so are they, even if the slope is infinite there."""
    if g.op != "where" or node.op == "where":
        return rule(g, node, *node.args)
    condition, a, b = g.args
    if not (s.is_constant(a, 0) or s.is_constant(b, 0)):
        return rule(g, node, *node.args)
    taken = s.is_constant(a, 0)
    pulls = rule(b if taken else a, node, *node.args)
    return tuple(x if x is None or x is UNKNOWN else where(condition, 0, x) if taken else where(condition, x, 0) for x in pulls)


def derivative(output: Expr, leaf: Expr) -> Expr:
    """d output / d leaf; 0 if it does not depend on it. Both must be real."""
    if output.dtype.is_complex or leaf.dtype.is_complex:
        raise TypeError("derivative() is for real expressions; use vjp() for complex ones")
    (result,) = vjp(simplify(output), (leaf,), constant(1, output.dtype))
    return constant(0, leaf.dtype) if result is None else result


def _like(gradient: Expr, value: Expr) -> Expr:
    """A gradient in the dtype of its value; that of a real value is real."""
    if gradient.dtype.is_complex and not value.dtype.is_complex:
        gradient = real(gradient)
    return cast(gradient, value.dtype)
