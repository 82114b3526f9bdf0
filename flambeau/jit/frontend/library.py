"""What Python functions of this package mean to the compiler: words of programs, and what `shadows` has in their place.

Stands on the package's namespaces; used by python_values, functions and module_types.
"""

from __future__ import annotations

import builtins
import functools
import warnings
from collections.abc import Sequence
from typing import Any

from flambeau.base.naming import PACKAGE
from flambeau.jit.frontend.builtin_programs import REPEATED
from flambeau.jit.frontend.text import MethodSelf, TextResolver, define_from_tree, parse_text
from flambeau.jit.ir.types import ClassType

__all__ = ["CONTAINER_METHODS", "define_container_method", "functional_name", "substitute", "words"]

CONTAINER_METHODS = ("__len__", "__contains__")
_FUNCTIONS = {
    "min": "prim::min", "max": "prim::max", "abs": "prim::abs", "len": "len", "sorted": "aten::sorted", "sum": "aten::sum",
    "all": "aten::all", "any": "aten::any", "divmod": "aten::divmod", "round": "aten::round", "ord": "aten::ord", "chr":
    "aten::chr", "hash": "aten::hash",
}  # fmt: skip


@functools.cache
def words() -> dict[int, str]:
    """The words by the identity of what Python has for them."""
    import flambeau as torch
    from flambeau.jit import awaitables, marks

    table: list[tuple[Any, str]] = [
        (marks.annotate, "annotate"),
        (marks.isinstance, "isinstance"),
        (marks.fork, "fork"),
        (marks.wait, "wait"),
        (awaitables._awaitable, "awaitable"),
        (awaitables._awaitable_wait, "prim::awaitable_wait"),
        (awaitables._awaitable_nowait, "prim::awaitable_nowait"),
        (marks._unwrap_optional, "aten::_unwrap_optional"),
        (marks.is_scripting, "aten::is_scripting"),
        (torch.broadcast_tensors, "aten::broadcast_tensors"),
        (torch._assert, "aten::_assert"),
        (torch._shape_as_tensor, "aten::_shape_as_tensor"),
        (torch._C._get_tracing_state, "aten::_get_tracing_state"),
        (torch.device, "device"),
        (warnings.warn, "aten::warn"),
        (builtins.AssertionError, "AssertionError"),
    ]
    table += [(getattr(torch.nn.modules.utils, name), f"aten::{name}") for name in REPEATED]
    for name in ("isinstance", "range", "zip", "enumerate", "list", "dict", "tuple", "getattr", "hasattr"):
        table.append((getattr(builtins, name), name))
    for name, symbol in _FUNCTIONS.items():
        table.append((getattr(builtins, name), symbol))
    return {id(obj): word for obj, word in table}


# ---------------------------------------------------------------- shadows


@functools.cache
def _functional() -> dict[int, str]:
    from flambeau.jit.shadows import functional as shadows
    from flambeau.nn import functional

    return {id(getattr(functional, name)): name for name in vars(shadows) if callable(getattr(functional, name, None))}


@functools.cache
def _of_torch() -> dict[int, Any]:
    """What is compiled in the place of functions of torch, by their identity."""
    import flambeau as torch
    from flambeau.jit.shadows import namespace
    from flambeau.jit.tracing.current import is_tracing

    return {
        id(is_tracing): namespace.is_tracing,
        id(torch.compiler.is_compiling): namespace.is_compiling,
        id(torch.compiler.is_dynamo_compiling): namespace.is_compiling,
        id(torch.unique): namespace.unique,
        id(torch.unique_consecutive): namespace.unique_consecutive,
    }


def functional_name(function: Any) -> str | None:
    """The name in torch.nn.functional of a function that `shadows` has; None for any other."""
    return _functional().get(id(function))


def substitute(function: Any, owner: type | None = None) -> Any:
    """What is compiled in a function's place: what `shadows` has for it, or itself. `owner`: the class it is a method for."""
    from flambeau.jit.shadows import functional as functions
    from flambeau.jit.shadows import modules

    shadow = _of_torch().get(id(function))
    if shadow is not None:
        return shadow
    name = functional_name(function)
    if name is not None:
        return getattr(functions, name)
    if owner is None or not (getattr(function, "__module__", "") or "").startswith(f"{PACKAGE}.nn.modules."):
        return function
    for each in owner.__mro__:
        shadow = getattr(modules, each.__name__, None)
        if hasattr(shadow, function.__name__) and each.__module__.startswith(f"{PACKAGE}.nn.modules."):
            return getattr(shadow, function.__name__)
    return function


# ---------------------------------------------------------------- containers


def define_container_method(kind: ClassType, name: str, keys: Sequence[str]) -> None:
    """Give a ModuleList, Sequential or ModuleDict a method that its submodules determine."""
    if name in kind.methods:
        return
    if name == "__len__":
        text = f"def __len__(self):\n   return {len(keys)}\n"
    else:
        body = f"return key in {list(keys)!r}" if keys else "return False"
        text = f"def __contains__(self, key: str):\n   {body}\n"
    definition = parse_text(text)[0]
    kind.methods[name] = define_from_tree(f"{kind.qualified_name}.{name}", definition, TextResolver(), MethodSelf(kind))  # type: ignore[arg-type]
