"""How a public function's call arrives at `Proxy.__torch_function__` in PyTorch, where that is not as it was written.

PyTorch's functions in C++ hand on the arguments as they came. Those that it writes in Python hand on the required parameters by
position and all others by name, with their defaults filled in. Stands on fx.names; used by fx.proxy.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import flambeau as torch
from flambeau.core.modes.interception import plain_signature
from flambeau.core.operator.arguments import MISSING
from flambeau.fx.names import public_name

# Operators of Tensor whose methods bear another name in PyTorch.
_OPERATORS = {
    "__add__": "add", "__radd__": "add", "__sub__": "sub", "__mul__": "mul", "__rmul__": "mul", "__truediv__": "div",
    "__matmul__": "matmul", "__pow__": "pow", "__mod__": "remainder", "__lt__": "lt", "__gt__": "gt", "__eq__": "eq",
    "__ne__": "ne", "__le__": "le", "__ge__": "ge", "__iadd__": "add_", "__isub__": "sub_", "__imul__": "mul_",
    "__itruediv__": "div_", "__neg__": "neg", "__abs__": "abs", "__invert__": "bitwise_not",
}  # fmt: skip
_IN_PYTHON = ("torch.nn.functional.", "torch.functional.", "torch._lowrank.", "torch._lobpcg.")
# Functions that only call a method.
_METHODS = {"torch.nn.functional.sigmoid": "sigmoid", "torch.nn.functional.tanh": "tanh"}
# Parameters that are not handed on: those that PyTorch's functions in Python don't have, and one that it forgets.
_KEPT = frozenset(("surplus", "axis", "keepdims", "split_size"))
_FORGOTTEN = {"torch.nn.functional.l1_loss": ("weight",)}
_WITH_OUT = frozenset(
    ("torch.functional.norm", "torch.functional.tensordot", "torch.functional.lu", "torch.nn.functional.normalize")
)
_LAST = {"torch.functional.norm": "dtype"}
# Parameters without a default that are handed on by name.
_BY_NAME = {"torch.functional.unravel_index": ("shape",)}
# Parameters that are required there, but have a default here, because another name may be used for them.
_REQUIRED = {"torch.functional.split": ("split_size_or_sections",)}
_AS_WRITTEN = frozenset(
    f"torch.functional.{name}"
    for name in "atleast_1d atleast_2d atleast_3d block_diag broadcast_tensors cartesian_prod chain_matmul".split()
)
_UPSAMPLING: dict[str, dict[str, Any]] = {
    "torch.nn.functional.upsample": {},
    "torch.nn.functional.upsample_nearest": {"mode": "nearest"},
    "torch.nn.functional.upsample_bilinear": {"mode": "bilinear", "align_corners": True},
}


# Functions that make tensors of the values they are given.
_READING = frozenset(("torch.tensor", "torch.as_tensor", "torch.asarray", "torch.from_numpy"))


def _refuse_read(name: str, data: Any) -> None:
    if name == "torch.from_numpy":
        raise TypeError(f"expected np.ndarray (got {type(data).__name__})")
    if isinstance(data, (list, tuple)):
        raise RuntimeError(
            "'len' is not supported in symbolic tracing by default. If you want this call to be recorded, please call "
            "torch.fx.wrap('len') at module scope"
        )
    raise TypeError("`__cuda_array_interface__` must be a dict")


def method_name(function: Any) -> str:
    """The name of a function or method of Tensor in a graph."""
    known = public_name(function)
    if known is not None:
        return known.rpartition(".")[2]
    name = function.__name__
    return _OPERATORS.get(name, name)


def _required(name: str, parameter: inspect.Parameter) -> bool:
    """Whether PyTorch hands a parameter of the function `name` on by position."""
    if parameter.name in _BY_NAME.get(name, ()):
        return False
    return parameter.default is parameter.empty or parameter.default is MISSING or parameter.name in _REQUIRED.get(name, ())


def arranged(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Callable[..., Any] | str, tuple[Any, ...], dict[str, Any]]:
    """The target of the node for function(*args, **kwargs), a name for a method, and its arguments.

    Raises TypeError where the arguments don't fit the function.
    """
    name = public_name(function)
    if name in _READING and args:
        _refuse_read(name, args[0])
    if name is None or not name.startswith(_IN_PYTHON) or name in _AS_WRITTEN:
        return function, args, kwargs
    if name in _METHODS:
        return _METHODS[name], args, kwargs
    if name == "torch.functional.einsum":
        if len(args) == 2 and isinstance(args[1], (list, tuple)):
            args = (args[0], *args[1])
        return function, args, kwargs
    if name in _UPSAMPLING:
        return arranged(torch.nn.functional.interpolate, args, {**kwargs, **_UPSAMPLING[name]})
    try:
        bound = plain_signature(function).bind(*args, **kwargs)
    except TypeError as error:
        raise TypeError(f"{function.__name__}() {error}") from None
    bound.apply_defaults()
    positional: list[Any] = []
    named: dict[str, Any] = {}
    for parameter in plain_signature(function).parameters.values():
        key, value = parameter.name, bound.arguments[parameter.name]
        if key in _KEPT or key in _FORGOTTEN.get(name, ()) or (key == "out" and name not in _WITH_OUT):
            continue
        if parameter.kind is parameter.VAR_POSITIONAL:
            positional += value
        elif _required(name, parameter):
            positional.append(value)
        else:
            named[key] = value
    if bound.arguments.get("return_indices"):
        function = getattr(torch.nn.functional, f"{function.__name__}_with_indices", function)
    if name in _LAST:
        named[_LAST[name]] = named.pop(_LAST[name])
    return function, tuple(positional), named
