"""Operators that are programs themselves, and whose calls become their bodies: what a tensor's `shape` is, numbers in front
of tensors.

Stands on parsing and the emitter; the room gives it to operators.
"""

from __future__ import annotations

import functools
from typing import Any

from flambeau.jit.frontend.text import functions_of_text

__all__ = ["REPEATED", "programs_of"]

# Lines are where PyTorch has them: graphs print `<string>:3:9`.
_TENSOR_PROPERTIES = {
    "prim::ndim": (3, "def ndim(a : Tensor) -> int:", "a.dim()"),
    "prim::T": (5, "def T(a : Tensor) -> Tensor:", "a.numpy_T()"),
    "prim::H": (7, "def H(a : Tensor) -> Tensor:", "a.matrix_H()"),
    "prim::shape": (13, "def shape(a : Tensor) -> List[int]:", "a.size()"),
}
_KINDS = ("float", "int", "complex")
# By the line that PyTorch has the body on.
_REVERSED = {
    "mul": (3, "b * a"),
    "add": (5, "b + a"),
    "ne": (7, "b != a"),
    "eq": (9, "b == a"),
    "sub": (11, "torch.neg(b) + a"),
    "div": (13, "torch.reciprocal(b) * a"),
    "lt": (3, "b > a"),
    "le": (5, "b >= a"),
    "gt": (7, "b < a"),
    "ge": (9, "b <= a"),
}
#: What layers make of a number or several, by name: how many.
REPEATED = {"_single": 1, "_pair": 2, "_triple": 3, "_quadruple": 4}
_ORDERED = ("ge", "gt", "le", "lt")


def _texts(symbol: str) -> list[tuple[str, str]]:
    """The functions of an operator: their text, with as many empty lines in front as PyTorch has, and the name."""
    namespace, _, name = symbol.partition("::")
    if symbol in _TENSOR_PROPERTIES:
        line, head, body = _TENSOR_PROPERTIES[symbol]
        return [("\n" * (line - 2) + f"{head}\n  return {body}\n", name)]
    if namespace != "aten":
        return []
    if name == "_assert":
        return [("\n" * 6 + "def _assert(condition : bool, message : str):\n  assert condition, message\n", name)]
    if name == "__contains__":
        body = "    return self.find(key, 0, len(self)) != -1\n"
        return [("\n" * 3 + f"def __contains__(self : str, key : str) -> bool:\n{body}", name)]
    if name in REPEATED:
        head = f"def {name}(x : BroadcastingList{REPEATED[name]}[%s]) -> List[%s]:\n  return x\n"
        return [(head % (kind, kind), name) for kind in ("int", "float")]
    if name == "floordiv":
        return [
            ("\n" + f"def floordiv(self : Tensor, other : {kind}) -> Tensor:\n  return torch.floor_divide(self, other)\n", name)
            for kind in ("number", "Tensor")
        ]
    if name in _REVERSED:
        kinds = _KINDS[:2] if name in _ORDERED else _KINDS
        line, body = _REVERSED[name]
        head = "\n" * (line - 2)
        return [(f"{head}def {name}(a : {kind}, b : Tensor) -> Tensor:\n  return {body}\n", name) for kind in kinds]
    return []


@functools.cache
def programs_of(symbol: str) -> tuple[Any, ...]:
    """The functions that an operator is made of besides its own overloads."""
    return tuple(functions_of_text(text, "<string>")[name] for text, name in _texts(symbol))
