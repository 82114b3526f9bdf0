"""einsum as exported graphs have it: as modes below autograd see it, but for a given order of the products."""

from __future__ import annotations

from typing import Any

import flambeau as torch
from flambeau._decomp.composites.registry import composite
from flambeau.dispatcher.aten import contractions

__all__: list[str] = []


@composite(torch.ops.aten.einsum.default)
def einsum(equation: str, tensors: Any, *, path: Any = None) -> Any:
    return NotImplemented if path is not None and len(tensors) > 2 else contractions.einsum(None, equation, *tensors)
