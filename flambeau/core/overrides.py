"""Subclasses that take part in operator calls: `__torch_function__`.

A tensor of a subclass that has (or inherits) an override carries a layout of its own flavor, so that it misses every cached plan
and comes here; plain tensors and Parameters never do. Stands on core.tensor.
"""

from __future__ import annotations

from typing import Any, Callable, Sequence

from flambeau.core.tensor import Tensor


PLAIN: set[type] = {Tensor, type(None), bool, int, float, complex}
"""Classes whose instances never override anything; Parameter joins them."""


def any_override(operands: Sequence[Any]) -> bool:
    """Whether one of the operands is an instance whose class overrides `__torch_function__`."""
    for x in operands:
        if x.__class__ not in PLAIN and hasattr(x.__class__, "__torch_function__"):
            return True
    return False


def dispatch(function: Callable, operands: Sequence[Any], keywords: dict[str, Any], tensors: Sequence[Any] | None = None) -> Any:
    """Ask the overriding classes in turn, subclasses before their bases; `tensors`: who is asked, if not the operands."""
    found: list[Any] = []
    for x in operands if tensors is None else tensors:
        if any_override([x]) and type(x) not in [type(y) for y in found]:
            at = next((i for i, y in enumerate(found) if issubclass(type(x), type(y))), len(found))
            found.insert(at, x)
    types = tuple(type(x) for x in found)
    for x in found:
        result = type(x).__torch_function__(function, types, tuple(operands), keywords)
        if result is not NotImplemented:
            return result
    name = getattr(function, "__name__", str(function))
    raise TypeError(f"no implementation found for 'torch.{name}' on types that implement __torch_function__: "
                    f"{[t.__name__ for t in types]}")
