"""Conjugate and negative views: tensors whose elements are the conjugates, or the negatives, of what lies in their memory.

`x.conj()` shares the memory of x. Its layout says what is pending (base.layout), and so no plan that was made for other
tensors is found for it: what doesn't use such views pays nothing for them. Pointwise operators, copies and conversions
among them, take what is pending into their kernels (core.operator.pointwise); views hand it on (core.operator.view).
Everything else comes here where it has no plan, before its implementation runs: that gets copies of the elements as they
are meant, while the graph keeps the views themselves. Should one slip through, the plan of its kernel is refused
(codegen.runtime.launch).

Stands on core.tensor.tensor; used by the declarations of operators and by ops.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

from flambeau.base.layout import CONJUGATE, NEGATIVE
from flambeau.core.modes.modes import local
from flambeau.core.tensor.tensor import Tensor

__all__ = ["any_pending", "meant", "register", "resolved", "resolving", "written_through"]

_clone: Any = None  # a copy without a graph, and copy_ without one: of ops.creation.copy, which is made of this module
_copy: Any = None


def register(clone: Callable[[Any], Any], copy: Callable[[Any, Any], Any]) -> None:
    """Tell which functions copy elements: clone(x) -> a tensor, and copy(target, source)."""
    global _clone, _copy
    _clone, _copy = clone, copy


def resolved(x: Any) -> Any:
    """A tensor itself, or a copy of a conjugate or negative view, which stands at its place in the graph."""
    if not isinstance(x, Tensor) or not x._layout.pending:
        return x
    made = _clone(x)
    if x._node is not None and local.grad:
        made._node, made._index = x._node, x._index
    return made


def resolved_all(given: Any) -> Any:
    """What a call was given, with copies in the place of conjugate and negative views, also of those in its lists."""
    if given.__class__ in (list, tuple):
        return type(given)([resolved(x) for x in given])
    return resolved(given)


def any_pending(given: Iterable[Any]) -> bool:
    """Whether a conjugate or negative view is among arguments or in their lists."""
    for x in given:
        if isinstance(x, Tensor):
            if x._layout.pending:
                return True
        elif x.__class__ in (list, tuple) and any_pending(x):
            return True
    return False


def resolving(implementation: Callable) -> Callable:
    """The function on copies of the conjugate and negative views that it is given."""

    @functools.wraps(implementation)
    def resolve(*args: Any, **kwargs: Any) -> Any:
        return implementation(*[resolved_all(x) for x in args], **{name: resolved_all(x) for name, x in kwargs.items()})

    return resolve


def written_through(write: Callable, target: Any, *args: Any, **kwargs: Any) -> None:
    """write(target, ...), which overwrites part of a tensor, with conjugate and negative views among the tensors."""
    copy = resolved(target)
    resolving(write)(copy, *args, **kwargs)
    if copy is not target:
        _copy(target, copy)


def meant(value: Any, pending: int) -> Any:
    """What a number in memory stands for in a view that has this pending, and the reverse."""
    if pending & CONJUGATE:
        value = complex(value).conjugate()
    return -value if pending & NEGATIVE else value
