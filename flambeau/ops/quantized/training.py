"""fused_moving_avg_obs_fake_quant: a moving average of ranges, and values rounded to the integers that it gives.

Stands on ops.elementwise.fake_quantize and conversion.
"""

from __future__ import annotations

from typing import Any

from flambeau.core.operator.publishing import NAMESPACE
from flambeau.core.tensor.tensor import Tensor
from flambeau.ops.quantized.conversion import qparams_of_range

__all__ = ["fused_moving_avg_obs_fake_quant"]


def _qparams(low: float, high: float, least: int, greatest: int, symmetric: bool) -> tuple[float, int]:
    """The scale and zero point of a range; symmetric: 0 is in the middle of the integers."""
    if not (symmetric and low < 0 < high):
        return qparams_of_range(low, high, least, greatest)
    half = (greatest - least) // 2
    largest = max(abs(low / -(half + 1)), abs(high / half))
    scale, _ = qparams_of_range(-largest * (half + 1), largest * half, least, greatest)
    return scale, round((least + greatest) / 2)


def fused_moving_avg_obs_fake_quant(
    input: Any,
    observer_on: Tensor,
    fake_quant_on: Tensor,
    running_min: Any,
    running_max: Any,
    scale: Any,
    zero_point: Any,
    averaging_const: float,
    quant_min: int,
    quant_max: int,
    ch_axis: int,
    per_row_fake_quant: bool = False,
    symmetric_quant: bool = False,
) -> Any:
    """The input rounded as fake_quantize_per_tensor_affine does it, or per_channel if per_row_fake_quant.

    observer_on: whether running_min, running_max, scale and zero_point follow the input's range first (in place), by
    averaging_const of the difference; fake_quant_on: whether values are rounded. Gradients pass where the integer was in range.
    """
    if not input.numel():
        return input.clone()
    if bool(observer_on.item()):  # type: ignore[attr-defined]
        x = input.detach()
        rows = x.transpose(0, ch_axis).flatten(1) if per_row_fake_quant else x.reshape(1, -1)
        low, high = NAMESPACE["aminmax"](rows, dim=1)
        if not per_row_fake_quant:
            low, high = low.reshape(()), high.reshape(())
        if running_min.numel() and bool(NAMESPACE["isfinite"](running_min).all()):
            low = running_min + averaging_const * (low.reshape(running_min.shape) - running_min)
            high = running_max + averaging_const * (high.reshape(running_max.shape) - running_max)
        for kept, seen in ((running_min, low), (running_max, high)):
            if kept.numel() != seen.numel():
                kept.resize_(seen.shape)
            kept.copy_(seen.reshape(kept.shape))
        pairs = zip(running_min.reshape(-1).tolist(), running_max.reshape(-1).tolist())
        made = [_qparams(a, b, quant_min, quant_max, symmetric_quant) for a, b in pairs]
        for kept, place in ((scale, 0), (zero_point, 1)):
            if kept.numel() != len(made):
                kept.resize_((len(made),))
            kept.copy_(
                NAMESPACE["tensor"]([pair[place] for pair in made], dtype=kept.dtype, device=kept.device).reshape(kept.shape)
            )
    if not bool(fake_quant_on.item()):  # type: ignore[attr-defined]
        return input.clone()
    if per_row_fake_quant:
        return NAMESPACE["fake_quantize_per_channel_affine"](input, scale, zero_point, ch_axis, quant_min, quant_max)
    return NAMESPACE["fake_quantize_per_tensor_affine"](input, scale, zero_point, quant_min, quant_max)
