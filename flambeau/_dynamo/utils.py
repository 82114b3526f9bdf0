"""torch._dynamo.utils: questions about compiling, and counters of what was compiled: nothing."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

import flambeau as torch

counters: defaultdict[str, Counter[str]] = defaultdict(Counter)


def is_compile_supported(device_type: Any) -> bool:
    """Whether torch.compile makes something faster on a device: not yet."""
    return False


def clone_input(x: Any, *, dtype: Any = None) -> Any:
    """A copy with the same strides, a leaf that requires grad as the tensor does."""
    with torch.no_grad():
        made = torch.empty_strided(x.size(), x.stride(), dtype=dtype or x.dtype, device=x.device).copy_(x)
    return made.requires_grad_(x.requires_grad)


def clone_inputs(example_inputs: Any) -> Any:
    """Copies of the tensors in a list, tuple or dict."""

    def clone(x: Any) -> Any:
        return clone_input(x) if isinstance(x, torch.Tensor) else x

    if isinstance(example_inputs, dict):
        return {key: clone(value) for key, value in example_inputs.items()}
    return type(example_inputs)(clone(x) for x in example_inputs)
