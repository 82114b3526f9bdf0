"""einsum as exported graphs have it: as modes below autograd see it, but for a given order of the products."""

from __future__ import annotations

from typing import Any

from flambeau.dispatcher.aten import contractions
from flambeau.dispatcher.aten.composites.registry import composite

__all__: list[str] = []


@composite("einsum.default")
def einsum(equation: str, tensors: Any, *, path: Any = None) -> Any:
    return NotImplemented if path is not None and len(tensors) > 2 else contractions.einsum(None, equation, *tensors)
