"""torch._addmm_activation: addmm and the activation behind it in one call.

Stands on ops.linalg.addmm.
"""

from __future__ import annotations

from typing import Any

from flambeau.core.operator.define import composite
from flambeau.core.tensor.tensor import Tensor
from flambeau.ops.elementwise.activation import gelu, relu
from flambeau.ops.linalg.addmm import addmm

__all__ = ["_addmm_activation"]


@composite(out=True)
def _addmm_activation(
    input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Any = 1, alpha: Any = 1, use_gelu: bool = False
) -> Tensor:
    """relu(beta * input + alpha * mat1 @ mat2), or gelu of that."""
    made = addmm(input, mat1, mat2, beta=beta, alpha=alpha)
    return gelu(made) if use_gelu else relu(made)
