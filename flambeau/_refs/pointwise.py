"""References of pointwise operators: the scalar expression that each declares, evaluated by primitive operators.

An operator's declaration says how dtypes are promoted and what one element is, so one function serves them all: it converts
and broadcasts the arguments, runs the nodes of the expression as `torch.ops.prims`, and converts the result. Expressions with a
node that no primitive operator is (bits, loops) have no such reference. Stands on core.operator.pointwise, ir.expression and
torch._prims; used by torch._refs.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import flambeau as torch
import flambeau._prims_common as utils
from flambeau.core.modes.interception import plain_signature
from flambeau.core.operator.pointwise import Pointwise
from flambeau.ir.expression import Expr, compute_dtype, leaf, topological
from flambeau.ir.simplify import simplify

__all__ = ["Untranslatable", "broadcast", "declared_by", "in_place", "reference", "reference_of"]

prims = torch.ops.prims
Number = (bool, int, float, complex)


class Untranslatable(Exception):
    """An expression has a node that no primitive operator is."""


# ---------------------------------------------------------------- nodes

#: Nodes that are a primitive operator of another name.
_RENAMED = {
    "and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor", "i0": "bessel_i0", "i0e": "bessel_i0e", "i1": "bessel_i1",
    "i1e": "bessel_i1e", "erfinv": "erf_inv", "normal_quantile": "ndtri", "shl": "shift_left", "shr": "shift_right_arithmetic",
    "conj": "conj_physical", "trunc_divide": "div",
}  # fmt: skip
#: What is computed of numbers alone, by Python.
_OF_NUMBERS: dict[str, Callable[..., Any]] = {
    **{name: getattr(operator, name) for name in "add sub mul neg eq ne lt le gt ge abs xor pow".split()},
    "div": operator.truediv, "and": operator.and_, "or": operator.or_, "not": operator.not_,
    "where": lambda chosen, a, b: a if chosen else b, "clamp_min": max, "clamp_max": min,
}  # fmt: skip


def _sign(x: torch.Tensor) -> torch.Tensor:
    if not x.is_complex():
        return prims.sign(x)
    size = prims.convert_element_type(prims.abs(x), x.dtype)
    return prims.where(prims.eq(size, 0), prims.scalar_tensor(0, dtype=x.dtype, device=x.device), prims.div(x, size))


def _bound(name: str) -> Callable[..., Any]:
    return lambda x, bound: getattr(prims, name)(x, bound)


def _sigmoid(x: torch.Tensor) -> torch.Tensor:
    return (
        prims.div(1, prims.add(prims.exp(prims.neg(x)), 1))
        if not x.is_complex()
        else prims.reciprocal(prims.add(prims.exp(prims.neg(x)), 1))
    )


def _sinc(x: torch.Tensor) -> torch.Tensor:
    product = prims.mul(x, math.pi)
    return prims.where(prims.eq(x, 0), 1, prims.div(prims.sin(product), product))


def _logaddexp(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    large, small = prims.maximum(a, b), prims.minimum(a, b)
    same = prims.bitwise_and(prims.eq(a, b), prims.bitwise_not(prims.isfinite(a)))
    return prims.where(same, a, prims.add(large, prims.log1p(prims.exp(prims.sub(small, large)))))


def _copysign(a: Any, b: torch.Tensor) -> torch.Tensor:
    size = prims.abs(a) if isinstance(a, torch.Tensor) else abs(a)
    negative = prims.neg(size) if isinstance(size, torch.Tensor) else -size
    if not isinstance(b, torch.Tensor):
        return negative if math.copysign(1, b) < 0 else size
    return prims.where(prims.signbit(b), negative, size)


def _not(x: torch.Tensor) -> torch.Tensor:
    return prims.bitwise_not(x)


def _truth(value: bool) -> torch.Tensor:
    return prims.scalar_tensor(value, dtype=torch.bool)


def _floor_divide(a: Any, b: Any) -> torch.Tensor:
    like = a if isinstance(a, torch.Tensor) else b
    if not like.is_floating_point():
        quotient, rest = prims.div(a, b), prims.fmod(a, b)
        below = prims.bitwise_and(prims.ne(rest, 0), _signs_differ(rest, b))
        return prims.sub(quotient, prims.convert_element_type(below, like.dtype))
    rest = prims.fmod(a, b)
    below = prims.bitwise_and(prims.ne(rest, 0), _signs_differ(rest, b))
    quotient = prims.div(prims.sub(a, rest), b)  # whole, but for what rounding makes of it
    quotient = prims.where(below, prims.sub(quotient, 1), quotient)
    floored = prims.floor(quotient)
    floored = prims.where(prims.gt(prims.sub(quotient, floored), 0.5), prims.add(floored, 1), floored)
    zero = prims.mul(prims.div(a, b), 0)  # with the sign of the quotient
    floored = prims.where(prims.eq(quotient, 0), zero, floored)
    return prims.where(prims.eq(b, 0) if isinstance(b, torch.Tensor) else _truth(b == 0), prims.div(a, b), floored)


def _signs_differ(a: Any, b: Any) -> torch.Tensor:
    signs = [prims.signbit(x) if isinstance(x, torch.Tensor) else _truth(math.copysign(1, x) < 0) for x in (a, b)]
    return prims.ne(*signs)


_STEPS: dict[str, Callable[..., Any]] = {
    "sign": _sign, "sigmoid": _sigmoid, "sinc": _sinc, "logaddexp": _logaddexp, "copysign": _copysign, "not": _not,
    "clamp_min": _bound("maximum"), "clamp_max": _bound("minimum"),
    "clamp": lambda x, low, high: prims.minimum(prims.maximum(x, low), high), "floor_divide": _floor_divide,
    "fma": lambda a, b, c: prims.add(prims.mul(a, b), c),
    "gelu": lambda x: prims.mul(prims.mul(x, 0.5), prims.add(prims.erf(prims.mul(x, 0.5**0.5)), 1)),
}  # fmt: skip
_PLAIN = frozenset("""
    abs acos acosh add asin asinh atan atan2 atanh ceil cos cosh digamma div eq erf erfc erfcx exp exp2 expm1 floor fmax fmin
    fmod gcd ge gt hypot le lgamma log log10 log1p log2 lt maximum minimum mul ne neg pow reciprocal remainder round rsqrt sin
    sinh sqrt sub tan tanh trunc where zeta real imag
""".split()) | set(_RENAMED)  # fmt: skip

_KNOWN = _PLAIN | set(_STEPS) | {"constant", "leaf", "cast", "guard", "where"}


def _filled(value: Any, dtype: torch.dtype, like: torch.Tensor) -> torch.Tensor:
    return prims.scalar_tensor(value, dtype=dtype, device=like.device)


def _value(node: Expr, given: list[Any], like: torch.Tensor) -> Any:
    """The value of a node whose arguments are these: a tensor, or a number where none of them is one."""
    if node.op == "constant":
        return node.value
    if node.op == "cast":
        return utils.wrappers._maybe_convert_to_dtype(given[0], node.dtype)
    if node.op == "guard":  # the primitive operator refuses what it guards
        return given[0]
    if not any(isinstance(x, torch.Tensor) for x in given):
        if node.op in _OF_NUMBERS:
            return _OF_NUMBERS[node.op](*given)
        if hasattr(math, node.op):
            return getattr(math, node.op)(*given)
        raise Untranslatable(node.op)
    if node.op == "where":
        return _where(node, given, like)
    if node.op in _STEPS:
        return _STEPS[node.op](*given)
    if node.op not in _PLAIN:
        raise Untranslatable(node.op)
    return getattr(prims, _RENAMED.get(node.op, node.op))(*given)


def _where(node: Expr, given: list[Any], like: torch.Tensor) -> Any:
    chosen, a, b = given
    if not isinstance(chosen, torch.Tensor):
        return a if chosen else b
    if not isinstance(a, torch.Tensor) and not isinstance(b, torch.Tensor):
        a = _filled(a, node.dtype, like)
    return prims.where(chosen, a, b)


# ---------------------------------------------------------------- operators


def declared_by(function: Any) -> Pointwise | None:
    """The pointwise operator that a public function is; None for another."""
    found = getattr(function, "operator", None)
    return found if isinstance(found, Pointwise) else None


def _expanded(x: Any, shape: Sequence[int]) -> Any:
    if not isinstance(x, torch.Tensor) or tuple(x.shape) == tuple(shape):
        return x
    return prims.broadcast_in_dim(x, list(shape), list(range(len(shape) - x.dim(), len(shape))))


def broadcast(*values: Any) -> list[Any]:
    """Tensors expanded to the shape that they broadcast to; anything else as it is."""
    shape = torch.broadcast_shapes(*(x.shape for x in values if isinstance(x, torch.Tensor)))
    return [_expanded(x, shape) for x in values]


def _converted(x: Any, dtype: torch.dtype) -> Any:
    return prims.convert_element_type(x, dtype) if isinstance(x, torch.Tensor) and x.dtype is not dtype else x


#: Operators that are one primitive operator, which serves the computation dtype as it is: no expression is looked at.
_WHOLE = {
    "_conj_physical": "conj_physical", "bitwise_not": "bitwise_not", "isfinite": "isfinite", "igamma": "igamma",
    "signbit": "signbit", "special_bessel_j0": "bessel_j0", "special_bessel_j1": "bessel_j1",
    "special_spherical_bessel_j0": "spherical_bessel_j0", "fmod": "fmod", "remainder": "remainder",
}  # fmt: skip


def evaluated(declared: Pointwise, operands: Sequence[Any], numbers: Sequence[Any], statics: Sequence[Any]) -> torch.Tensor:
    """The result of a pointwise operator by primitive operators. Untranslatable where its expression isn't one of theirs."""
    tensors = [x for x in operands if isinstance(x, torch.Tensor)]
    computation, result = declared.dtypes(operands, statics)
    if declared.check is not None:
        declared.check(computation, operands, numbers, statics)
    declared.verify(computation)
    computed = compute_dtype(computation)
    shape = torch.broadcast_shapes(*(x.shape for x in tensors))
    leaves, values = [], []
    for place, (name, x) in enumerate(zip(declared.operands, operands)):
        own = name in declared.undecided
        dtype = compute_dtype(x.dtype if isinstance(x, torch.Tensor) else utils.type_to_dtype(type(x))) if own else computed
        leaves.append(leaf(f"x{place}", dtype))
        values.append(_expanded(_converted(x, dtype), shape))
    whole = _WHOLE.get(declared.name)
    if whole is not None:
        made = getattr(prims, whole)(*values)
    else:
        found = dict(zip(leaves, values))
        root = simplify(declared.expression(leaves, [compute_number(n, computation) for n in numbers], statics))
        for node in topological(root):
            if node not in found:
                found[node] = _value(node, [found[x] for x in node.args], tensors[0])
        made = found[root]
    if not isinstance(made, torch.Tensor):
        return prims.full_like(tensors[0], made, dtype=result, device=tensors[0].device, requires_grad=False)
    if made.dtype is result and any(made is x for x in operands):
        return prims.clone(made)
    return _converted(made, result)


def compute_number(value: Any, computation: torch.dtype) -> Any:
    """A number among the arguments, in the kind that the operator computes in."""
    if value is None or isinstance(value, (str, bool)) or computation.is_complex or not computation.is_floating_point:
        return value
    return float(value) if isinstance(value, int) else value


def reference(public: Callable[..., Any]) -> Callable[..., Any] | None:
    """The reference of a public function: of a pointwise operator that can be written in primitive ones; None for others."""
    declared = declared_by(public)
    if declared is None or not _is_translatable(declared):
        return None
    signature = plain_signature(public)
    names = [n for n in signature.parameters if n not in ("out", "surplus", "inplace")]
    if not set(declared.operands) <= set(names):
        return None

    def compute(*args: Any, **kwargs: Any) -> Any:
        bound = signature.bind(*args, **{k: v for k, v in kwargs.items() if v is not None or k != "out"})
        bound.apply_defaults()
        given = bound.arguments
        operands = [given[n] for n in declared.operands]
        if not any(isinstance(x, torch.Tensor) for x in operands):
            return public(*args, **kwargs)
        return evaluated(
            declared,
            operands,
            [given.get(n, d) for n, d in declared.numbers.items()],
            [given.get(n, d) for n, d in declared.statics.items()],
        )

    @functools.wraps(public)
    def refer(*args: Any, **kwargs: Any) -> Any:
        out = kwargs.pop("out", None)
        into = kwargs.pop("inplace", False)
        made = compute(*args, **kwargs)
        if into:
            return prims.copy_to(args[0], made)
        if out is None:
            return made
        utils.wrappers._deliver(made, out, False, False)
        return out

    refer.__module__ = "torch._refs"
    refer.is_reference = True  # type: ignore[attr-defined]
    return refer


def _is_translatable(declared: Pointwise) -> bool:
    """Whether primitive operators are all that an expression is made of, for a dtype that the operator takes."""
    if declared.name in _WHOLE:
        return True
    for dtype in (torch.float32, torch.int64, torch.bool):
        leaves = [leaf(f"x{place}", dtype) for place in range(len(declared.operands))]
        try:
            root = declared.expression(leaves, tuple(declared.numbers.values()), tuple(declared.statics.values()))
        except (TypeError, NotImplementedError):
            continue
        return all(node.op in _KNOWN for node in topological(root))
    return False


def in_place(refer: Callable[..., Any], name: str) -> Callable[..., Any]:
    """The reference of the in-place form of an operator: what it gives is written to its first argument."""

    def write(a: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        made = refer(a, *args, **kwargs)
        if not utils.can_safe_cast_to(cast_from=made.dtype, cast_to=a.dtype):
            raise RuntimeError(
                f"result type {made.dtype.scalar_name} can't be cast to the desired output type {a.dtype.scalar_name}"
            )
        return prims.copy_to(a, made)  # type: ignore[no-any-return]

    write.__name__ = write.__qualname__ = name
    write.__module__ = "torch._refs"
    write.is_reference = True  # type: ignore[attr-defined]
    return write


@functools.cache
def reference_of(public: Callable[..., Any]) -> Callable[..., Any]:
    """The reference of a public function, or itself where it has none of its own."""
    return reference(public) or public
