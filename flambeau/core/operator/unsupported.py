"""Names of PyTorch that exist here only to say what to do instead.

A program may import them, test `isinstance` against them and catch them; calling one, or making an instance, raises
NotImplementedError with advice. Stands on base.naming; used by the faces of the namespace.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau.base.naming import public_module

#: What to do instead, by the name below `torch`, of everything that was made here: tools/list_absent.py writes the list.
ADVICE: dict[str, str] = {}


def function(name: str, advice: str) -> Callable[..., Any]:
    """A function `torch.<name>` that raises NotImplementedError with advice."""

    def absent(*args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(f"torch.{name} is not implemented in flambeau: {advice}")

    ADVICE[name] = advice
    absent.__name__ = absent.__qualname__ = name.rpartition(".")[2]
    absent.__module__ = public_module(name.rpartition(".")[0])
    absent.__doc__ = f"Not implemented: {advice}"
    return absent


def not_run(title: str, backend: str) -> str:
    """The words of PyTorch's dispatcher for an operator (`add.Tensor`) that doesn't exist for a backend (`SparseCPU`)."""
    return (
        f"Could not run 'aten::{title}' with arguments from the '{backend}' backend. This could be because the operator doesn't "
        "exist for this backend, or was omitted during the selective/custom build process (if using custom build). If you are a "
        "Facebook employee using PyTorch on mobile, please visit https://fburl.com/ptmfixes for possible resolutions."
    )


def removed(name: str, instead: str) -> Callable[..., Any]:
    """A function that PyTorch removed from `torch`: it raises RuntimeError and says what replaces it."""

    def gone(*args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(f"This function was deprecated since version 1.9 and is now removed. {instead}")

    gone.__name__ = gone.__qualname__ = name
    gone.__module__ = public_module("_linalg_utils")
    gone.__doc__ = f"Removed from PyTorch: {instead}"
    return gone


def kind(name: str, advice: str, base: type = object) -> type:
    """A class `torch.<name>` without instances; making one raises NotImplementedError with advice."""

    def refuse(cls: type, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(f"torch.{name} is not implemented in flambeau: {advice}")

    ADVICE[name] = advice
    return type(
        name.rpartition(".")[2],
        (base,),
        {"__new__": refuse, "__module__": public_module(name.rpartition(".")[0]), "__doc__": f"Not implemented: {advice}"},
    )


def all_of(prefix: str, advice: str, functions: str = "", kinds: str = "") -> dict[str, Any]:
    """Absent functions and classes by name; `prefix` is the room they belong to, such as "jit."."""
    made: dict[str, Any] = {name: function(prefix + name, advice) for name in functions.split()}
    made.update((name, kind(prefix + name, advice)) for name in kinds.split())
    return made
