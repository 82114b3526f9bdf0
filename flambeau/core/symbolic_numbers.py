"""torch.sym_int, sym_max, ... : functions of numbers that may be symbolic, which give symbolic numbers then.

Plain numbers are computed with as Python does. Stands on base.symbolic.numbers; the namespace has these names.
"""

from __future__ import annotations

import math
from typing import Any

from flambeau.base.naming import PACKAGE
from flambeau.base.symbolic.numbers import SymBool, SymFloat, SymInt, is_symbolic_number, sym_function

__all__ = [
    "SymBool", "SymFloat", "SymInt", "sym_constrain_range", "sym_constrain_range_for_size", "sym_float", "sym_fresh_size",
    "sym_int", "sym_ite", "sym_max", "sym_min", "sym_not", "sym_sqrt", "sym_sum",
]  # fmt: skip


def sym_int(a: Any) -> Any:
    """The number as an int, rounding toward zero."""
    return a if isinstance(a, SymInt) else math.trunc(a)


def sym_float(a: Any) -> Any:
    """The number as a float."""
    if isinstance(a, SymFloat):
        return a
    return _float(a) if is_symbolic_number(a) else float(a)


def sym_not(a: Any) -> Any:
    """not a."""
    return a.__sym_not__() if isinstance(a, SymBool) else _equals(a, 0) if is_symbolic_number(a) else not a


def _equals(a: Any, b: Any) -> Any:
    return a == b


def _extreme(symbolic: Any, plain: Any, a: Any, b: Any) -> Any:
    if is_symbolic_number(a) or is_symbolic_number(b):
        return symbolic(a, b)
    return plain(float(a), float(b)) if isinstance(a, float) or isinstance(b, float) else plain(a, b)


def sym_max(a: Any, b: Any) -> Any:
    """The larger; a float if one of them is."""
    return _extreme(_larger, max, a, b)


def sym_min(a: Any, b: Any) -> Any:
    """The smaller; a float if one of them is."""
    return _extreme(_smaller, min, a, b)


def sym_sum(args: Any) -> Any:
    """sum(args)."""
    items = list(args)
    return _total(*items) if any(map(is_symbolic_number, items)) else sum(items)


def sym_ite(b: Any, t: Any, f: Any) -> Any:
    """t if b else f, which is one number for both cases if b is symbolic."""
    return _either(b, t, f) if isinstance(b, SymBool) else (t if b else f)


def sym_sqrt(a: Any) -> Any:
    """The square root."""
    return _root(a) if is_symbolic_number(a) else math.sqrt(a)


def sym_fresh_size(expr: Any) -> Any:
    """A size that only a run tells, in the place of `expr` if that is symbolic; the number itself if it is none."""
    return expr.node.shape_env.create_unbacked_symint() if is_symbolic_number(expr) else expr


def sym_constrain_range(size: Any, *, min: int | None = None, max: int | None = None) -> None:
    """Raise RuntimeError unless min <= size <= max; what a run tells is checked then."""
    if is_symbolic_number(size):
        for kind, bound in ((size >= min if min is not None else True, min), (size <= max if max is not None else True, max)):
            if bound is not None and is_symbolic_number(kind):
                kind.node.expect_true()
        return
    if (min is not None and size < min) or (max is not None and size > max):
        raise RuntimeError(f"Invalid value range for {size} between [{min}, {max}].")


def sym_constrain_range_for_size(size: Any, *, min: int | None = None, max: int | None = None) -> None:
    """The same for a size, which is at least 0."""
    if isinstance(size, SymInt) and size.node.shape_env.is_unbacked_symint(size.node.expr):
        size.node.shape_env.check_is_size(size.node.expr)
    sym_constrain_range(size, min=min, max=max)


for _function in __all__[3:]:
    globals()[_function].__module__ = PACKAGE
_float = sym_function("sym_float", sym_float)
_larger, _smaller = sym_function("sym_max", sym_max), sym_function("sym_min", sym_min)
_total, _either, _root = sym_function("sym_sum", sym_sum), sym_function("sym_ite", sym_ite), sym_function("sym_sqrt", sym_sqrt)
sym_function("sym_not", sym_not)
