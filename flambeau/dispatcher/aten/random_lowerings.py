"""Lowerings of what draws: dropout in all its forms, and pooling by random regions; modes below autograd see the draws.

Stands on lowerings; loaded by dispatcher.dispatch_modes.
"""

from __future__ import annotations

import math
from typing import Any

from flambeau.core.tensor.tensor import Tensor
from flambeau.dispatcher.aten.lowerings import LOWERINGS, packets
from flambeau.ops.nn.dropout import ALPHA

__all__: list[str] = []


def _dropout(feature: bool, alpha: bool, in_place: bool) -> Any:
    """Dropout of elements or, with `feature`, of whole channels; alpha: what is dropped is SELU's limit."""

    def rule(own: Any, input: Tensor, p: float = 0.5, train: bool = True, *args: Any) -> Any:
        aten = packets()
        if (
            args
            or not train
            or not 0 < p < 1
            or not input.numel()
            or not input.dtype.is_floating_point
            or (feature and input.dim() < 2)
        ):
            return NotImplemented
        shape = [*input.shape[:2], *[1] * (input.dim() - 2)]
        noise = aten.new_empty.default(input, shape) if feature else aten.empty_like.default(input)
        noise = aten.bernoulli_.float(noise, 1 - p)
        times = aten.mul_.Tensor if in_place else aten.mul.Tensor
        if not alpha:
            return times(input, aten.div_.Scalar(noise, 1 - p))
        a = 1 / math.sqrt((ALPHA * ALPHA * p + 1) * (1 - p))
        shift = aten.add_.Scalar(aten.mul_.Scalar(aten.add.Scalar(noise, -1), ALPHA * a), ALPHA * a * p)
        return aten.add_.Tensor(times(input, aten.mul_.Scalar(noise, a)), shift)

    return rule


for _feature in (False, True):
    for _alpha in (False, True):
        _name = "feature_" * _feature + "alpha_" * _alpha + "dropout"
        if _feature or _alpha:
            LOWERINGS[_name] = _dropout(_feature, _alpha, False)
        LOWERINGS[_name + "_"] = _dropout(_feature, _alpha, True)


def _fractional(dims: int) -> Any:
    def rule(
        own: Any,
        input: Tensor,
        kernel_size: Any,
        output_size: Any = None,
        output_ratio: Any = None,
        return_indices: bool = False,
        _random_samples: Any = None,
    ) -> Any:
        def each(x: Any) -> list[Any]:
            return [x] * dims if isinstance(x, (int, float)) else list(x)

        if (output_size is None) == (output_ratio is None):
            return NotImplemented
        if output_size is None:
            output_size = [int(n * r) for n, r in zip(input.shape[-dims:], each(output_ratio))]
        if _random_samples is None:
            lead = [*input.shape[:-dims]] if input.dim() == dims + 2 else [1, input.shape[0]]
            _random_samples = packets().rand.default([*lead, dims], dtype=input.dtype, device=input.device, pin_memory=False)
        made = getattr(packets(), f"fractional_max_pool{dims}d").default(
            input, each(kernel_size), each(output_size), _random_samples
        )
        return made if return_indices else made[0]

    return rule


LOWERINGS["fractional_max_pool2d"], LOWERINGS["fractional_max_pool3d"] = _fractional(2), _fractional(3)
