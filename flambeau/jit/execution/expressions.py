"""How generated code writes an operator's node: as an expression of Python's own where that does the same, else as a call.

Operators on tensors are calls of the public functions that answer them, with the arguments as those name them; in code for runs
that somebody may look into (modes, proxies, classes with a `__torch_dispatch__`), calls of the objects of torch.ops, which
tell them the operator. Stands on operators and dispatcher.builtin; used by generate.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

from flambeau.dispatcher.builtin import direct_call
from flambeau.dispatcher.schema import FunctionSchema
from flambeau.jit.execution import scalars
from flambeau.jit.execution.operators import answer_of, converter_of, on_tensors
from flambeau.jit.ir.nodes import Node
from flambeau.jit.ir.types import INT
from flambeau.jit.ir.values import Value

__all__ = ["BUILTINS", "expression"]

#: The builtin functions that expressions use.
BUILTINS: dict[str, Any] = {each.__name__: each for each in (bool, float, int, len, list, tuple)}
_FUNCTIONS = scalars.FUNCTIONS
_INFIX = {
    operator.eq: "==", operator.ne: "!=", operator.lt: "<", operator.le: "<=", operator.gt: ">", operator.ge: ">=",
    operator.and_: "&", operator.or_: "|", operator.xor: "^", operator.is_: "is", operator.is_not: "is not",
}  # fmt: skip
#: By the Python function that answers an operator, what does the same.
_PATTERNS: dict[Callable[..., Any], str] = {
    **{function: f"{{0}} {sign} {{1}}" for function, sign in _INFIX.items()},
    operator.not_: "not {0}",
    operator.neg: "-{0}",
    len: "len({0})",
    _FUNCTIONS["aten::Bool"]: "bool({0})",
    _FUNCTIONS["aten::Int"]: "int({0})",
    _FUNCTIONS["aten::Float"]: "float({0})",
    _FUNCTIONS["aten::remainder"]: "{0} % {1}",
    _FUNCTIONS["aten::__contains__"]: "{1} in {0}",
    _FUNCTIONS["aten::__derive_index"]: "{1} + {0} * {2}",
}
#: Integers of Python's up to here are compared fastest, and are far from what wraps.
_SHORT = 2**30
#: Arithmetic whose integers wrap.
_WRAPPING = {_FUNCTIONS["aten::add"]: "+", _FUNCTIONS["aten::sub"]: "-", _FUNCTIONS["aten::mul"]: "*"}


def expression(node: Node, read: Callable[[Value], str], hand_over: Callable[..., str], looked_into: bool) -> str:
    """The source of what an operator's node gives.

    read: how a value is written. hand_over(object, prefix): the name that an object has in the code. looked_into: whether the
    code is for runs whose operators others may answer.
    """
    schema: FunctionSchema = node.note
    inputs = [read(value) for value in node.inputs()]
    if on_tensors(node.kind(), schema):
        made = None if looked_into else _direct(node, schema, inputs, hand_over)
        if made is not None:
            return made
    answer = answer_of(node.kind(), schema)
    if answer in _WRAPPING:
        made = f"{inputs[0]} {_WRAPPING[answer]} {inputs[1]}"
        if schema.returns[0].type != INT:
            return made
        short = f"(whole := {made}) < {_SHORT} and whole > {-_SHORT}"
        wrapped = f"{hand_over(scalars.wrapped, 'f')}(whole)"
        return f"whole if {short} or {-scalars.BITS} <= whole < {scalars.BITS} else {wrapped}"
    pattern = _PATTERNS.get(answer)
    if pattern is not None and len(inputs) == pattern.count("{"):
        return pattern.format(*inputs)
    return f"{hand_over(answer, 'f')}({', '.join(inputs)})"


def _direct(node: Node, schema: FunctionSchema, inputs: list[str], hand_over: Callable[..., str]) -> str | None:
    """A call of the public function that answers an operator on tensors; None where its arguments must be looked at first."""
    texts: dict[str, str] = {}
    defaults = set()
    for argument, value, text in zip(schema.arguments, node.inputs(), inputs):
        convert = converter_of(argument.type)
        constant = value.node().kind() == "prim::Constant"
        if convert is not None:
            if not constant:
                return None
            number = value.toIValue()
            text = "None" if number is None else hand_over(convert(number), "k")
        texts[argument.name] = text
        if constant and argument.has_default_value() and _same(value.toIValue(), argument.default_value):
            defaults.add(argument.name)
    if len(texts) != len(schema.arguments) or any(converter_of(result.type) for result in schema.returns):
        return None
    return _call(schema, texts, defaults, hand_over)


def _call(schema: FunctionSchema, texts: Mapping[str, str], defaults: set[str], hand_over: Callable[..., str]) -> str | None:
    found = direct_call(schema, texts, defaults)
    if found is None:
        return None
    function, call = found
    return call.replace("{}", hand_over(function, "f"), 1)


def _same(value: Any, default: Any) -> bool:
    return value.__class__ is default.__class__ and bool(value == default)
