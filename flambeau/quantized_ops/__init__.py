"""torch.ops.quantized: products, convolutions and other functions of quantized tensors, with packed weights.

`schemas.txt` has PyTorch's text of each operator; `OPERATORS` of the modules have the kernels. Stands on ops.quantized and
torch.library; torch.ops loads it when the namespace is first asked for.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import flambeau as torch
from flambeau.quantized_ops import convolution, elementwise, embedding, linear, packed, recurrent

__all__ = ["register"]

SCHEMAS = Path(__file__).with_name("schemas.txt")
_libraries: list[Any] = []


def register() -> None:
    """Define the operators of `torch.ops.quantized`, and those of `torch.ops._quantized` that are the same."""
    kernels: dict[str, Any] = {}
    for module in (convolution, elementwise, embedding, linear, recurrent):
        kernels |= module.OPERATORS
    libraries = {name: torch.library.Library(name, "DEF") for name in ("quantized", "_quantized")}
    _libraries.extend(libraries.values())
    for line in SCHEMAS.read_text(encoding="utf-8").splitlines():
        namespace, _, schema = line.partition("::")
        name = schema.partition("(")[0]
        library = libraries[namespace]
        library.define(schema)
        library.impl(name, torch.no_grad()(kernels[name]), "CompositeExplicitAutograd")
        library.impl(name, torch.library.fallthrough_kernel, "Autograd")
