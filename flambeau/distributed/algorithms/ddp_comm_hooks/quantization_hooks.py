"""torch.distributed.algorithms.ddp_comm_hooks.quantization_hooks: exchanging gradients as bytes.

Every process maps the range of its gradients to 0..255; scales, zero points and bytes go to all, which add up what they stand
for. Stands on the collectives; DistributedDataParallel.register_comm_hook takes them.
"""

from __future__ import annotations

from typing import Any

import flambeau as torch
from flambeau.distributed.collectives import all_gather
from flambeau.distributed.registry import get_default_group

__all__ = ["quantization_perchannel_hook", "quantization_pertensor_hook"]

_LEVELS = 255
_SMALLEST = 2.0**-23  # of a scale: float32's epsilon


def _scales(rows: Any) -> Any:
    """float32[n, 2]: scale and zero point of each row of rows[n, k], such that its range and 0 are mapped to 0..255."""
    low, high = rows.amin(1).clamp(max=0), rows.amax(1).clamp(min=0)
    scale = ((high - low) / float(_LEVELS)).clamp(min=_SMALLEST)
    zero = (-torch.round(low / scale)).clamp(0, _LEVELS)
    return torch.stack([scale, zero], 1)


def _quantized(rows: Any, scales: Any) -> Any:
    return (torch.round(rows / scales[:, :1]) + scales[:, 1:]).clamp(0, _LEVELS).to(torch.uint8)


def _dequantized(levels: Any, scales: Any) -> Any:
    return scales[:, :1] * (levels.to(torch.float32) - scales[:, 1:])


def _gathered(tensor: Any, group: Any) -> list[Any]:
    everyone = [torch.empty_like(tensor) for _ in range(group.size())]
    all_gather(everyone, tensor, group=group)
    return everyone


def _mean_of_bytes(rows: Any, group: Any) -> Any:
    """The mean over a group of rows[n, k], each row with a scale of its own."""
    scales = _scales(rows)
    everyone = zip(_gathered(_quantized(rows, scales), group), _gathered(scales, group), strict=True)
    return torch.stack([_dequantized(levels, each) for levels, each in everyone]).sum(0) / group.size()


def _done(value: Any) -> Any:
    future: Any = torch.futures.Future()
    future.set_result(value)
    return future


def quantization_pertensor_hook(process_group: Any, bucket: Any) -> Any:
    """The mean of gradients in 8 bits, with one scale for a bucket."""
    group, buffer = process_group if process_group is not None else get_default_group(), bucket.buffer()
    return _done(_mean_of_bytes(buffer.view(1, -1), group).view(-1))


def quantization_perchannel_hook(process_group: Any, bucket: Any, bucket_size: int = 512) -> Any:
    """The mean of gradients in 8 bits, with a scale for every bucket_size of them."""
    group, buffer = process_group if process_group is not None else get_default_group(), bucket.buffer()
    padded = torch.nn.functional.pad(buffer, (0, -buffer.numel() % bucket_size))
    return _done(_mean_of_bytes(padded.view(-1, bucket_size), group).view(-1)[: buffer.numel()])
