"""The deprecated overloads of sums of products, whose factors stand among the tensors: add(x, alpha, y), addcmul(x, value, a, b),
addmm(beta, x, alpha, a, b). Programs of PyTorch's first years call them.

A call with more arguments than an operator has is looked up here before it is refused. Stands on notices; used by
core.operator.variants and core.operator.define.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from flambeau.base.warn import first_time, warn
from flambeau.core.tensor.tensor import Tensor

__all__ = ["call", "translated"]

_FACTOR = {"add": "alpha", "sub": "alpha", "addcmul": "value", "addcdiv": "value"}
_PRODUCTS = frozenset(("addmm", "addmv", "addr", "addbmm", "baddbmm"))


def translated(name: str, given: Sequence[Any], keywords: dict[str, Any]) -> tuple[list[Any], dict[str, Any]] | None:
    """The arguments of a deprecated call, by position and by name, as the operator takes them now; None if it is no such call.
    Warns, once in a process.
    """
    public = name.rstrip("_")
    if public in _FACTOR:
        factor = _FACTOR[public]
        if len(given) != (3 if factor == "alpha" else 4) or keywords.keys() - {"out"} or not _is_number(given[1]):
            return None
        _warn(name, ("input", factor, *_rest(public)), f"Number {factor} = 1")
        return [given[0], *given[2:]], {factor: given[1], **keywords}
    if public not in _PRODUCTS or len(given) not in (4, 5) or keywords.keys() - {"out"}:
        return None
    first, second = (0, 1) if isinstance(given[0], Tensor) else (1, 0)      # of a method the tensor is first
    numbers = [given[second], *given[2:len(given) - 2]]
    if not isinstance(given[first], Tensor) or not all(map(_is_number, numbers)):
        return None
    _warn(name, ("beta", "input", *(["alpha"] if len(given) == 5 else []), *_rest(public)), "Number beta = 1, Number alpha = 1")
    return [given[first], *given[-2:]], {**dict(zip(("beta", "alpha"), numbers)), **keywords}


def call(function: Callable, name: str, given: Sequence[Any], keywords: dict[str, Any]) -> Any:
    """The answer to a deprecated call; None if it is no such call."""
    found = translated(name, given, keywords)
    return None if found is None else function(*found[0], **found[1])


def _is_number(x: Any) -> bool:
    return isinstance(x, (int, float, complex)) or (isinstance(x, Tensor) and not x._layout.ndim)


def _rest(public: str) -> tuple[str, ...]:
    if public in ("add", "sub"):
        return ("other",)
    if public in _FACTOR:
        return "tensor1", "tensor2"
    return {"addmm": ("mat1", "mat2"), "addmv": ("mat", "vec"), "addr": ("vec1", "vec2")}.get(public, ("batch1", "batch2"))


def _warn(name: str, order: Sequence[str], keywords: str) -> None:
    if not first_time("deprecated overload"):
        return

    def listed(names: Sequence[str]) -> str:
        return ", ".join(f"{'Number' if n in ('alpha', 'beta', 'value') else 'Tensor'} {n}" for n in names)
    now = ("input", *_rest(name.rstrip("_")))
    warn(f"This overload of {name} is deprecated:\n\t{name}({listed(order)})\n"
              f"Consider using one of the following signatures instead:\n\t{name}({listed(now)}, *, {keywords})")
