"""The words that every program knows: print, len, float, range, isinstance, AssertionError ...

Stands on callables; asked by the emitter after variables and before the resolver.
"""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING

from flambeau.jit.frontend.callables import BuiltinFunction, CastValue, ExceptionValue, MagicMethod, PrintValue, SpecialForm
from flambeau.jit.frontend.values import SimpleValue, SugaredValue
from flambeau.jit.ir.source import SourceRange
from flambeau.jit.ir.types import BOOL, COMPLEX, FLOAT, INT, STRING

if TYPE_CHECKING:
    from flambeau.jit.frontend.emitter import Emitter

__all__ = ["global_value"]

_FORMS = {
    "tuple": "tuple", "getattr": "getattr", "hasattr": "hasattr", "isinstance": "isinstance", "range": "range", "zip": "zip",
    "enumerate": "enumerate", "list": "list", "dict": "dict",
}  # fmt: skip
_FUNCTIONS = {
    "len": ("aten::len", "__len__"), "hex": ("aten::hex", "__hex__"), "oct": ("aten::oct", "__oct__"),
    "round": ("aten::round", "__round__"),
    "hash": ("aten::hash", ""), "id": ("prim::id", ""), "min": ("prim::min", ""), "max": ("prim::max", ""),
    "abs": ("prim::abs", ""),
    "all": ("aten::all", ""), "any": ("aten::any", ""), "divmod": ("aten::divmod", ""), "sum": ("aten::sum", ""),
    "bin": ("aten::bin", ""),
    "ord": ("aten::ord", ""), "chr": ("aten::chr", ""), "sorted": ("aten::sorted", ""), "rangelist": ("prim::rangelist", ""),
}  # fmt: skip
_CASTS = {
    "float": (FLOAT, "aten::Float", "__float__"), "int": (INT, "aten::Int", "__int__"), "bool": (BOOL, "aten::Bool", "__bool__"),
    "str": (STRING, "aten::str", "__str__"), "complex": (COMPLEX, "aten::Complex", "__complex__"),
}  # fmt: skip


@functools.cache
def _word(name: str) -> SugaredValue | None:
    if name == "print":
        return PrintValue()
    if name in _FORMS:
        return SpecialForm(_FORMS[name])
    if name in _CASTS:
        kind, symbol, method = _CASTS[name]
        return MagicMethod(method, CastValue(kind, symbol))
    if name in _FUNCTIONS:
        symbol, method = _FUNCTIONS[name]
        return MagicMethod(method, BuiltinFunction(symbol)) if method else BuiltinFunction(symbol)
    return ExceptionValue("AssertionError") if name == "AssertionError" else None


def global_value(e: Emitter, name: str, where: SourceRange) -> SugaredValue | None:
    """What a word means; None for what is none."""
    if name in ("inf", "nan"):
        return SimpleValue(e.graph.insertConstant(math.inf if name == "inf" else math.nan, where))
    return _word(name)
