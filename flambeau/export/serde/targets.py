"""What the nodes of a serialized graph call, by name: operators that are known, and nothing else.

A name is looked up among PyTorch's operators, those that the program has defined, a fixed list of functions of numbers, and the
higher-order operators; it is never followed through attributes. Stands on the dispatcher; used by reading and writing.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable
from typing import Any

import flambeau as torch
from flambeau.dispatcher.overloads import HigherOrderOperator, OpOverload, OpOverloadPacket
from flambeau.export.serde.text import SerializeError

__all__ = ["SYM_OPS", "answered", "is_sym_op", "name_of", "operator_of"]

#: Functions of sizes, by the names that PyTorch writes.
SYM_OPS: dict[str, Callable[..., Any]] = {
    **{
        f"_operator.{name}": getattr(operator, name)
        for name in """eq ne le ge lt gt neg pos mul add sub floordiv mod pow truediv and_ or_ lshift rshift""".split()
    },
    "math.trunc": math.trunc,
    **{f"torch.{name}": getattr(torch, name) for name in "sym_not sym_int sym_float sym_ite sym_max sym_min".split()},
    "torch._sym_sqrt": torch.sym_sqrt,
}
_SYM_NAMES = {function: name for name, function in SYM_OPS.items()}
_NAME = re.compile(r"torch\.ops\.([A-Za-z_]\w*)\.([A-Za-z_]\w*)(?:\.([A-Za-z_]\w*))?", re.ASCII)


def is_sym_op(target: object) -> bool:
    """Whether it is a function of sizes."""
    return isinstance(target, Callable) and target in _SYM_NAMES  # type: ignore[arg-type]


def operator_of(name: str) -> Any:
    """The operator or function of sizes that a serialized name means. SerializeError for any other name."""
    found = SYM_OPS.get(name)
    if found is not None:
        return found
    match = _NAME.fullmatch(name)
    made = None if match is None else _overload(*match.groups())
    if made is None:
        raise SerializeError(
            f"We failed to resolve {name[:200]} to an operator. If it's a custom op, this is usually because the custom op is "
            "not registered when deserializing. Please import the custom op to register it before deserializing."
        )
    return made


def _overload(namespace: str, name: str, overload: str | None) -> Any:
    found = getattr(getattr(torch.ops, namespace), name, None)
    if overload is None:
        return found if isinstance(found, HigherOrderOperator) else None
    if not isinstance(found, OpOverloadPacket) or overload not in found.overloads():
        return None
    made = getattr(found, overload)
    return made if isinstance(made, OpOverload) else None


def answered(target: Any) -> bool:
    """Whether a call of the operator would be answered, or refused as one that the package lacks."""
    if isinstance(target, OpOverload):
        return not getattr(target.op, "missing", False)
    return not isinstance(target, HigherOrderOperator) or target.answered


def name_of(target: Any) -> str:
    """What an operator is called in a serialized graph. SerializeError for other functions."""
    if isinstance(target, OpOverload):
        return f"torch.ops.{target.namespace}.{target._opname}.{target._overloadname}"
    if isinstance(target, HigherOrderOperator):
        return f"torch.ops.higher_order.{target.name()}"
    if is_sym_op(target):
        return _SYM_NAMES[target]
    raise SerializeError(f"Serializing {target} is not supported")
