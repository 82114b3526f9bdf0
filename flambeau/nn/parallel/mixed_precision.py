"""Lower precision in DistributedDataParallel: parameters are cast for the forward pass, and gradients travel in fewer bits.

The casts are part of the graph, so that gradients come back in the parameters' own dtype. Stands on torch.func;
distributed uses it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import flambeau as torch

__all__ = ["MixedPrecision"]


@dataclass
class MixedPrecision:
    """Dtypes of a DistributedDataParallel; None leaves things as they are.

    param_dtype: of parameters and floating inputs in the forward pass. reduce_dtype: of gradients while they are exchanged (None:
    param_dtype). buffer_dtype: of floating buffers, from the start.
    """

    param_dtype: Any = None
    reduce_dtype: Any = None
    buffer_dtype: Any = None


def cast(value: Any, dtype: Any) -> Any:
    """Floating tensors within a value (lists, dicts, tuples) in a dtype, through which gradients flow."""
    if dtype is None:
        return value
    return torch.utils._pytree.tree_map(
        lambda each: each.to(dtype) if isinstance(each, torch.Tensor) and each.is_floating_point() else each, value
    )


def cast_buffers(module: Any, settings: MixedPrecision, ignored: set[str]) -> None:
    """Floating buffers in their dtype, once."""
    if settings.buffer_dtype is not None:
        for name, each in module.named_buffers():
            if each.is_floating_point() and name not in ignored:
                each.data = each.to(settings.buffer_dtype)


def run(module: Any, settings: MixedPrecision, ignored: set[str], inputs: Any, kwargs: Any) -> Any:
    """module(*inputs, **kwargs) with parameters and inputs in their dtypes."""
    if settings.param_dtype is None:
        return module(*inputs, **kwargs)
    lower = {name: cast(each, settings.param_dtype) for name, each in module.named_parameters() if name not in ignored}
    return torch.func.functional_call(module, lower, cast(inputs, settings.param_dtype), cast(kwargs, settings.param_dtype))


def hook(settings: MixedPrecision, group: Any) -> Callable[[Any, Any], Any] | None:
    """How gradients are exchanged; None: in their own dtype."""
    dtype = settings.reduce_dtype or settings.param_dtype
    if dtype is None:
        return None
    return lambda _, bucket: torch.distributed.algorithms.ddp_comm_hooks.default_hooks.compressed(group, bucket, dtype)
