"""What DistributedDataParallel tells about itself in _get_ddp_logging_data, by PyTorch's names; times aren't taken.

Stands on the model's reducer; distributed uses it.
"""

from __future__ import annotations

import os
from typing import Any

import flambeau as torch

_VARIABLES = (
    "MASTER_ADDR",
    "MASTER_PORT",
    "CUDA_VISIBLE_DEVICES",
    "GLOO_SOCKET_IFNAME",
    "GLOO_DEVICE_TRANSPORT",
    "TORCH_DISTRIBUTED_DEBUG",
)
_NATIVE = {torch.float32: "float", torch.float64: "double", torch.bfloat16: "c10::BFloat16", torch.float16: "c10::Half"}


def _bytes(tensors: Any) -> int:
    return sum(each.numel() * each.element_size() for each in tensors)


def described(model: Any) -> dict[str, Any]:
    """Numbers and words on a DistributedDataParallel and the buckets of its last iteration."""
    reducer, buckets = model.reducer, model.reducer.buckets
    sizes = ", ".join(str(_bytes(each.parameters)) for each in buckets)
    rebuilt = reducer.order_known and reducer.iteration > 1
    found: dict[str, Any] = {
        "world_size": model.process_group.size(),
        "rank": model.process_group.rank(),
        "iteration": max(reducer.iteration - 1, 0),
        "num_parameter_tensors": len(reducer.parameters),
        "total_parameter_size_bytes": _bytes(reducer.parameters),
        "module_name": type(model.module).__name__,
        "backend_name": model.process_group.name(),
        "bucket_cap_bytes": model.bucket_bytes_cap,
        "bucket_sizes": sizes,
        "num_buckets_reduced": len(buckets),
        "has_rebuilt_buckets": int(rebuilt),
        "rebuilt_bucket_sizes": sizes if rebuilt else "",
        "rebuilt_per_bucket_param_indices": ", ".join(" ".join(map(str, each.indices)) for each in buckets) if rebuilt else "",
        "find_unused_parameters": int(model.find_unused_parameters),
        "broadcast_buffers": int(model.broadcast_buffers),
        "gradient_as_bucket_view": int(model.gradient_as_bucket_view),
        "device_ids": "",
        "output_device": -1,
        "is_multi_device_module": 0,
        "dtypes": ", ".join(sorted({_NATIVE.get(each.dtype, str(each.dtype).partition(".")[2]) for each in reducer.parameters})),
        "has_sync_bn": int(any(isinstance(each, torch.nn.SyncBatchNorm) for each in model.module.modules())),
        "unused_parameter_size": _bytes(reducer.parameters[index] for index in reducer.absent),
        "comm_hook": getattr(reducer.hook[1], "__name__", "") if reducer.hook else "",
    }
    if model.static_graph:
        found["static_graph"] = 1
    return found | {name.lower(): os.environ.get(name, "N/A") for name in _VARIABLES}
