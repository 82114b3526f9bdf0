"""torch.ops.aten: operators by the names of PyTorch's dispatcher, `torch.ops.aten.add.Tensor(x, y)`.

A name is looked up among the functions of the namespace, declared operators and methods; overloads share one function, which
tells their arguments apart by itself. Stands on core.derive; used by programs that call operators by these names.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau.core.derive import NAMESPACE, OPERATORS
from flambeau.core.tensor import Tensor

PREFIXES = ("linalg_", "special_", "fft_")
# The overloads that PyTorch gives to many operators.
OVERLOADS = ("default", "Tensor", "Scalar", "out", "Tensor_out", "Scalar_out", "dim", "dim_out", "dim_IntList", "int",
             "self", "input", "correction", "names_dim", "Dimname", "Tensor_Tensor", "Tensor_Scalar", "Scalar_Tensor",
             "start", "start_step", "dtype", "other", "size", "sizes", "low", "generator", "mode", "Tensor_mode",
             "Scalar_mode", "value", "vec", "using_ints", "int_Scalar", "int_Tensor", "Scalar_self", "ScalarSelf",
             "ScalarOther", "unary_out", "min", "max", "dim_max", "dim_min", "array", "values", "values_stable",
             "stable", "self_int", "self_Tensor", "ScalarList", "List", "src", "p", "dims", "float_Tensor",
             "Tensor_float", "no_stats")  # fmt: skip


class OverloadPacket:
    """One operator, `torch.ops.aten.add`: callable, and its overloads are attributes."""

    def __init__(self, name: str, function: Callable):
        self.function, self.__name__, self.__doc__ = function, name, function.__doc__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        if name not in OVERLOADS:
            raise AttributeError(f"The underlying op of 'aten.{self.__name__}' has no overload name '{name}'")
        made = Overload(self, name)
        setattr(self, name, made)
        return made

    def __repr__(self) -> str:
        return f"<OpOverloadPacket(op='aten.{self.__name__}')>"

    def __str__(self) -> str:
        return f"aten.{self.__name__}"


class Overload:
    """One overload of an operator, `torch.ops.aten.add.Tensor`."""

    def __init__(self, packet: OverloadPacket, overload: str):
        self.overloadpacket, self._overloadname = packet, overload
        self.__name__, self.__doc__ = f"{packet.__name__}.{overload}", packet.__doc__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.overloadpacket.function(*args, **kwargs)

    def name(self) -> str:
        """The dispatcher's name, without the overload if it is the default one."""
        return f"aten::{self.overloadpacket.__name__}" + ("" if self._overloadname == "default" else f".{self._overloadname}")

    def __repr__(self) -> str:
        return f"<OpOverload(op='aten.{self.overloadpacket.__name__}', overload='{self._overloadname}')>"

    def __str__(self) -> str:
        return f"aten.{self.__name__}"


def _found(name: str) -> Callable | None:
    """The function behind a dispatcher's name."""
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


def __getattr__(name: str) -> Any:
    """The operator of that name, kept for the next time."""
    function = None if name.startswith("__") else _found(name)
    if function is None:
        raise AttributeError(f"'_OpNamespace' 'aten' object has no attribute '{name}'")
    made = globals()[name] = OverloadPacket(name, function)
    return made
