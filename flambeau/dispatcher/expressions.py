"""Scalar expressions evaluated on whole tensors by public operators: the gradients of pointwise operators, step by step.

A gradient is one kernel, which modes below autograd couldn't see as operators of PyTorch's; while one is on, its expression is
run by the operators that it is made of. Stands on ir.expression and the public operators; used by dispatch_modes.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

from flambeau.core.operator.pointwise import Pointwise
from flambeau.core.operator.publishing import NAMESPACE, OPERATORS
from flambeau.core.tensor.tensor import Tensor
from flambeau.ir.expression import Expr, leaf, topological

__all__ = ["gradient"]


def _public(name: str) -> Callable[..., Any]:
    found: Callable[..., Any] = NAMESPACE.get(name) or OPERATORS[name].public
    return found


def _aten() -> Any:
    from flambeau.dispatcher.namespaces import ops

    return ops.aten


def _with_number(name: str) -> Callable[..., Any]:
    """A sum or product, whose number is one of the schema's, as it is for C++."""

    def step(a: Any, b: Any) -> Any:
        packet = getattr(_aten(), name)
        if isinstance(a, Tensor) and isinstance(b, Tensor):
            return packet.Tensor(a, b)
        return packet.Scalar(a, b) if isinstance(a, Tensor) else packet.Scalar(b, a)

    return step


def _difference(a: Any, b: Any) -> Any:
    if isinstance(a, Tensor):
        return _with_number("sub")(a, b)
    return _aten().sub_.Tensor(_aten().fill_.Scalar(_aten().empty_like.default(b), a), b)


def _quotient(a: Any, b: Any) -> Any:
    if isinstance(a, Tensor):
        return _with_number("div")(a, b)
    return _aten().mul_.Scalar(_aten().reciprocal.default(b), a)


_STEPS: dict[str, Callable[..., Any]] = {
    "add": _with_number("add"), "sub": _difference, "mul": _with_number("mul"), "div": _quotient, "neg": operator.neg,
    "eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge,
    "pow": operator.pow, "abs": operator.abs,
    "and": lambda a, b: a and b if isinstance(a, bool) else _public("logical_and")(a, b),
    "or": lambda a, b: a or b if isinstance(a, bool) else _public("logical_or")(a, b),
    "not": lambda a: not a if isinstance(a, bool) else _public("logical_not")(a),
    "where": lambda chosen, a, b: (a if chosen else b) if isinstance(chosen, bool) else _public("where")(chosen, a, b),
    "sign": lambda a: _public("sgn")(a),
    "floor_divide": lambda a, b: _public("div")(a, b, rounding_mode="floor"),
    "trunc_divide": lambda a, b: _public("div")(a, b, rounding_mode="trunc"),
    "normal_cdf": lambda a: 0.5 * (1 + _public("erf")(a * 0.5**0.5)), "trigamma": lambda a: _public("polygamma")(1, a),
}  # fmt: skip


#: Gradients, of a gradient and the one value that was saved, that are operators of PyTorch's.
_WHOLE: dict[str, Callable[..., Any]] = {
    f"{name}_backward_0": lambda g, saved, name=name: getattr(_aten(), f"{name}_backward").default(g, saved)
    for name in ("sigmoid", "tanh", "silu", "mish", "hardsigmoid", "hardswish")
}
_WHOLE["relu_backward_0"] = lambda g, saved: _aten().threshold_backward.default(g, saved, 0)


def gradient(declared: Pointwise, operands: Sequence[Any]) -> Any:
    """The result of a pointwise operator that is the gradient of another one's operand, for (gradient, saved values...)."""
    if declared.name in _WHOLE and len(operands) == 2:
        return _WHOLE[declared.name](*operands)
    leaves = [
        leaf(f"x{i}", declared.dtypes([x])[0] if isinstance(x, Tensor) else declared.dtypes(operands)[0])
        for i, x in enumerate(operands)
    ]
    like = operands[0]
    values: dict[Expr, Any] = dict(zip(leaves, operands))
    root = declared.expression(leaves, (), ())
    for node in topological(root):
        if node not in values:
            values[node] = _value(node, [values[x] for x in node.args], like)
    made = values[root]
    target = declared.dtypes(operands)[1]
    if not isinstance(made, Tensor):
        return _public("full_like")(like, made, dtype=target)
    return made if made._layout.dtype is target else made.to(target)


def _value(node: Expr, given: list[Any], like: Tensor) -> Any:
    if node.op == "constant":
        return node.value
    if node.op == "cast":  # between floating dtypes the tensors keep their own
        x = given[0]
        widened = (
            isinstance(x, Tensor)
            and node.dtype.is_floating_point
            and not (x._layout.dtype.is_floating_point or x._layout.dtype.is_complex)
        )
        return x.to(like._layout.dtype) if widened else x
    if given and not any(isinstance(x, Tensor) for x in given):
        if node.op in ("add", "sub", "mul", "neg"):
            return getattr(operator, node.op)(*given)
        if node.op == "div":
            return given[0] / given[1]
        if node.op not in _STEPS:
            return getattr(math, node.op)(*given)
    step = _STEPS.get(node.op)
    return step(*given) if step is not None else _public(node.op)(*given)
