"""PyTorch's own operators by the names of its dispatcher: which function of flambeau answers
`torch.ops.aten.add.Tensor`.

A name is looked up among the functions of the namespace, declared operators and methods; overloads share one function,
which tells their arguments apart by itself. An operator that PyTorch has and flambeau has not exists all the same, as a
key of tables and to be compared with; calling it raises NotImplementedError. Stands on core.derive and aten_names; used
by namespaces.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau.core.derive import NAMESPACE, OPERATORS
from flambeau.core.tensor import Tensor
from flambeau.dispatcher.aten_names import PRIMS, aten_overloads

__all__ = ["function_of", "overloads_of"]

PREFIXES = ("linalg_", "special_", "fft_")
# Names of the dispatcher for what is only a Python function elsewhere.
_PRIM = {
    "device": lambda a: a.device,
    "dtype": lambda a: a.dtype,
    "layout": lambda a: a.layout,
    "requires_grad": lambda a: a.requires_grad,
    "data": lambda a: a.data,
    "grad": lambda a: a.grad,
    "itemsize": lambda a: a.itemsize,
    "nbytes": lambda a: a.nbytes,
}


def overloads_of(namespace: str, name: str) -> tuple[str, ...] | None:
    """The overloads that PyTorch's operator has; None if it has no operator of that name."""
    if namespace == "aten":
        return aten_overloads().get(name)
    known = name in PRIMS.split() if namespace == "prims" else namespace == "prim" and name in _PRIM
    return ("default",) if known else None


def function_of(namespace: str, name: str) -> Callable[..., Any]:
    """The function behind a name of the dispatcher; one that raises NotImplementedError where flambeau has none."""
    found = _PRIM.get(name) if namespace == "prim" else _found(name) if namespace == "aten" else None
    return found or _missing(f"{namespace}::{name}")


def _found(name: str) -> Callable[..., Any] | None:
    if name in NAMESPACE:
        return NAMESPACE[name]
    if name in OPERATORS:
        return getattr(OPERATORS[name], "public", None)
    for prefix in PREFIXES:
        short = name.removeprefix(prefix)
        if short != name and short in OPERATORS:
            return getattr(OPERATORS[short], "public", None)
    method = None if name.startswith("__") else getattr(Tensor, name, None)
    return method if callable(method) else None


def _missing(name: str) -> Callable[..., Any]:
    def missing(*args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(
            f"{name} is not implemented in flambeau; call the public function of torch or torch.nn.functional that "
            "is made of it"
        )

    missing.__name__ = missing.__qualname__ = name.rpartition("::")[2]
    missing.__doc__ = "Not implemented."
    return missing
