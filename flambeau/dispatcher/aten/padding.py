"""Padding by reflection and replication, and its gradients: reflection_pad1d and its like.

Stands on ops.views.pad.
"""

from __future__ import annotations

from typing import Any

from flambeau.core.tensor.tensor import Tensor
from flambeau.dispatcher.aten.gradients import gradient_of
from flambeau.dispatcher.aten.registry import implementation
from flambeau.ops.views.pad import pad


def _declare(mode: str, title: str, dims: int) -> None:
    def forward(self: Tensor, padding: Any) -> Any:
        return pad(self, padding, mode)

    def backward(grad_output: Tensor, self: Tensor, padding: Any) -> Tensor:
        return gradient_of(lambda x: pad(x, padding, mode), self, grad_output)

    implementation(f"{title}_pad{dims}d")(forward)
    implementation(f"{title}_pad{dims}d_backward")(backward)


for _dims in (1, 2, 3):
    _declare("reflect", "reflection", _dims)
    _declare("replicate", "replication", _dims)


@implementation("pad")
def padded(self: Tensor, size: Any, mode: str = "constant", value: float | None = None) -> Any:
    """A border of zeros, a value, mirrored or repeated elements."""
    return pad(self, tuple(size), mode, value)
