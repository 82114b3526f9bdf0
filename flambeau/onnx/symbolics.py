"""Symbolic functions: how an operator of a program's own is written in ONNX, `symbolic(g, *arguments)`.

They are kept here for an exporter. PyTorch's own (torch.onnx.symbolic_opset9 ... by the operator's name) exist to be named in a
program's, and say that there is none. Stands on dispatcher for the names.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from flambeau.core.operator import unsupported
from flambeau.onnx.errors import OnnxExporterError

__all__ = ["ADVICE", "OPSETS", "SYMBOLICS", "opset_module", "register_custom_op_symbolic", "unregister_custom_op_symbolic"]

ADVICE = "export the model with PyTorch: the state_dict saved by torch.save(module.state_dict()) loads there"
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

        if not overloads_of(f"aten::{name}"):
            raise AttributeError(f"module '{self.__name__}' has no attribute '{name}'")
        made = unsupported.function(f"{self.__name__.partition('.')[2]}.{name}", ADVICE)
        setattr(self, name, made)
        return made


def opset_module(package: str, version: int) -> ModuleType:
    """The module symbolic_opset<version> of the package."""
    name = f"{package}.symbolic_opset{version}"
    made = _Opset(name, f"Symbolic functions of PyTorch's operators in version {version} of ONNX's operator set.")
    made.__spec__ = ModuleSpec(name, None)
    sys.modules[name] = made
    return made
