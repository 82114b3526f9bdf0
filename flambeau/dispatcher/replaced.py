"""Kernels that programs put in the place of those of PyTorch's own operators, and of declared ones:
`Library("aten", "IMPL").impl("sin", kernel, "CPU")`.

While there is one, public functions look first (core.modes.interception), and every call is answered as under a mode below
autograd: by the operators that PyTorch makes of it, whose nodes are recorded around them. At their end stands a program's kernel,
or the operator as it is. Used by handlers, graphs, dispatch_modes and torch.library.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from flambeau.core.modes import interception
from flambeau.core.modes.modes import local
from flambeau.core.tensor.tensor import Tensor
from flambeau.dispatcher import builtin_schemas

__all__ = ["ABOVE_AUTOGRAD", "KEYS", "body_of", "kernel_of", "names", "replace", "restore", "run"]

ABOVE_AUTOGRAD = ("AutogradCPU", "Autograd")
#: The dispatch keys under which kernels of PyTorch's operators are asked for here.
KEYS = frozenset([*ABOVE_AUTOGRAD, "CPU", "Meta", "CompositeExplicitAutograd", "CompositeImplicitAutograd"])
# By "aten::add.Tensor", then by dispatch key: the kernels that there are, of which the last is asked for.
_KERNELS: dict[str, dict[str, list[Callable[..., Any]]]] = {}
_attention: list[interception.Attention] = []
names: frozenset[str] = frozenset()  #: of the operators that have one, without overloads: "add", "flambeau::frobnicate"


def _changed() -> None:
    global names
    names = frozenset(name.removeprefix("aten::").partition(".")[0] for name in _KERNELS)
    interception.kernels_replaced(bool(names))
    if names and not _attention:
        interception.load()
        _attention.append(interception.Attention())
    elif not names:
        _attention.clear()


def replace(name: str, key: str, kernel: Callable[..., Any]) -> Callable[[], None]:
    """Put a kernel in place; gives what takes it back: then the one before is asked for."""
    _KERNELS.setdefault(name, {}).setdefault(key, []).append(kernel)
    _changed()
    return lambda: restore(name, key, kernel)


def restore(name: str, key: str, kernel: Callable[..., Any]) -> None:
    """Take a kernel back."""
    stacks = _KERNELS.get(name, {})
    if kernel in stacks.get(key, ()):
        stacks[key].remove(kernel)
        if not stacks[key]:
            del stacks[key]
        if not stacks:
            del _KERNELS[name]
        _changed()


def kernel_of(overload: Any, *keys: str) -> Callable[..., Any] | None:
    """The program's kernel of an overload for the first of these keys that has one."""
    found = _KERNELS.get(overload._name, {})
    return next((found[key][-1] for key in keys if key in found), None)


def body_of(overload: Any) -> Callable[..., Any] | None:
    """The program's body for an operator that PyTorch computes by others; of one with kernels it is never asked for."""
    composite = builtin_schemas.is_composite(overload._overloadpacket._qualified_op_name, overload._overloadname)
    return kernel_of(overload, "CompositeImplicitAutograd") if composite else None


def run(overload: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The program's kernel for these arguments, or the operator as it is: what that is made of is nobody's business."""
    kernel = kernel_of(overload, "Meta" if _on_meta([*args, *kwargs.values()]) else "CPU", "CompositeExplicitAutograd")
    if kernel is not None:
        return kernel(*args, **kwargs)
    before, local.own_kernels = local.own_kernels, True
    try:
        return overload._op(*args, **kwargs)
    finally:
        local.own_kernels = before


def _on_meta(values: Iterable[Any]) -> bool:
    return any(
        x._layout.device.type == "meta" if isinstance(x, Tensor) else isinstance(x, (list, tuple)) and _on_meta(x) for x in values
    )
