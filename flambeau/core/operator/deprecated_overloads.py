"""The deprecated overloads of sums of products, whose factors stand among the tensors: add(x, alpha, y), addcmul(x, value, a, b),
addmm(beta, x, alpha, a, b). Programs of PyTorch's first years call them.

A call with more arguments than an operator has is looked up here before it is refused. Stands on base.warn; used by
core.operator.variants and core.operator.define.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from flambeau.base.warn import first_time, warn
from flambeau.core.operator.facets import record_of
from flambeau.core.tensor.tensor import Tensor

__all__ = ["call", "translated"]

_FACTORS = ("alpha", "beta", "value")


def translated(
    name: str, order: Iterable[str], given: Sequence[Any], keywords: dict[str, Any], in_place: bool = False
) -> tuple[list[Any], dict[str, Any]] | None:
    """The arguments of a deprecated call, by position and by name, as the operator takes them now; None if it is no such call.
    Warns, once in a process. order: the names of the operator's parameters, of which factors come last; in_place: it is a call
    of the method that writes to its tensor.
    """
    tensors = [n for n in order if n not in _FACTORS]
    factors = [n for n in order if n in _FACTORS]
    surplus = len(given) - len(tensors)
    if not record_of(name).factors or not 0 < surplus <= len(factors) or keywords.keys() - {"out"}:
        return None
    method = in_place or name.endswith("_")
    if len(factors) == 1:
        first, numbers, where = given[0], [given[1]], ["input", factors[0]]
    else:  # the first factor stands before everything; of a method the tensor is first
        at = 0 if isinstance(given[0], Tensor) else 1
        method = method or not at
        first, numbers = given[at], [given[1 - at], *given[2 : surplus + 1]]
        where = [factors[0], "input", *factors[1:surplus]]
    if not isinstance(first, Tensor) or not all(map(_is_number, numbers)):
        return None
    if method:
        where.remove("input")
        name, tensors = name + "_" * (in_place and not name.endswith("_")), ["input", *tensors[1:]]
    _warn(name, [*where, *tensors[1:]], tensors[method:], ", ".join(f"Number {n} = 1" for n in factors))
    return [first, *given[surplus + 1 :]], {**dict(zip(factors, numbers)), **keywords}


def call(function: Callable, name: str, order: Iterable[str], given: Sequence[Any], keywords: dict[str, Any]) -> Any:
    """The answer to a deprecated call; None if it is no such call."""
    found = translated(name, order, given, keywords)
    return None if found is None else function(*found[0], **found[1])


def _is_number(x: Any) -> bool:
    return isinstance(x, (int, float, complex)) or (isinstance(x, Tensor) and not x._layout.ndim)


def _warn(name: str, given: Sequence[str], tensors: Sequence[str], factors: str) -> None:
    if not first_time("deprecated overload"):
        return

    def listed(names: Sequence[str]) -> str:
        return ", ".join(f"{'Number' if n in _FACTORS else 'Tensor'} {n}" for n in names)

    warn(
        f"This overload of {name} is deprecated:\n\t{name}({listed(given)})\n"
        f"Consider using one of the following signatures instead:\n\t{name}({listed(tensors)}, *, {factors})"
    )
