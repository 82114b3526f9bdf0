"""Symbolic functions: how an operator of a program's own is written in ONNX, `symbolic(g, *arguments)`.

They are kept here for the exporter. PyTorch's own (torch.onnx.symbolic_opset9 ... by the operator's name) are the table's
translations, to be called in a program's. Stands on `_registry`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from flambeau.core.operator import unsupported
from flambeau.onnx._registry import find
from flambeau.onnx.errors import OnnxExporterError

__all__ = ["ADVICE", "OPSETS", "SYMBOLICS", "opset_module", "register_custom_op_symbolic", "unregister_custom_op_symbolic"]

ADVICE = "use torch.onnx.export, or write the nodes with g.op"
OPSETS = range(7, 21)
#: By operator, then by the version of the operator set from which it holds.
SYMBOLICS: dict[str, dict[int, Callable[..., Any]]] = {}


def _checked(name: str) -> str:
    if not re.fullmatch(r"[a-zA-Z0-9-_]+::[a-zA-Z-_]+[a-zA-Z0-9-_]*", name):
        raise OnnxExporterError(
            f"Failed to register operator {name}. The symbolic name must match the format domain::name, and should start with a "
            "letter and contain only alphanumeric characters"
        )
    return name if not name.startswith("::") else "aten" + name


def register_custom_op_symbolic(symbolic_name: str, symbolic_fn: Callable[..., Any], opset_version: int) -> None:
    """Keep the symbolic function of an operator "domain::name" from a version of the operator set on.

    Raises OnnxExporterError for a name that isn't of that form.
    """
    SYMBOLICS.setdefault(_checked(symbolic_name), {})[opset_version] = symbolic_fn


def unregister_custom_op_symbolic(symbolic_name: str, opset_version: int) -> None:
    """Forget a symbolic function."""
    SYMBOLICS.get(_checked(symbolic_name), {}).pop(opset_version, None)


class _Opset(ModuleType):
    """The symbolic functions of PyTorch's operators in one version of the operator set, by name."""

    def __getattr__(self, name: str) -> Any:
        from flambeau.dispatcher.builtin_schemas import overloads_of
        from flambeau.onnx import translations as _translations  # noqa: F401 - they fill the table

        found = next((find("aten", name, overload) for overload in _OVERLOADS if find("aten", name, overload)), None)
        if found is not None:
            made: Any = _symbolic(name, found)
        elif overloads_of(f"aten::{name}"):
            made = unsupported.function(f"{self.__name__.partition('.')[2]}.{name}", ADVICE)
        else:
            raise AttributeError(f"module '{self.__name__}' has no attribute '{name}'")
        setattr(self, name, made)
        return made


_OVERLOADS = ("default", "Tensor", "self", "int", "input", "dim_IntList")


def _symbolic(name: str, translation: Callable[..., Any]) -> Callable[..., Any]:
    """An operator's translation as a symbolic function: symbolic(g, *arguments)."""

    def symbolic(g: Any, *args: Any, **kwargs: Any) -> Any:
        return translation(g.builder, *args, **kwargs)

    symbolic.__name__ = symbolic.__qualname__ = name
    return symbolic


def opset_module(package: str, version: int) -> ModuleType:
    """The module symbolic_opset<version> of the package."""
    name = f"{package}.symbolic_opset{version}"
    made = _Opset(name, f"Symbolic functions of PyTorch's operators in version {version} of ONNX's operator set.")
    made.__spec__ = ModuleSpec(name, None)
    sys.modules[name] = made
    return made
