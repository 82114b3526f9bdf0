"""torch.distributed.algorithms.ddp_comm_hooks.default_hooks: exchanging gradients as they are or in half precision.

Stands on collectives; DistributedDataParallel.register_comm_hook takes them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import flambeau as torch
from flambeau.distributed.collectives import all_reduce
from flambeau.distributed.registry import get_default_group

__all__ = ["allreduce_hook", "bf16_compress_hook", "bf16_compress_wrapper", "fp16_compress_hook", "fp16_compress_wrapper"]

Hook = Callable[[Any, Any], Any]


def _mean(group: Any, flat: Any) -> Any:
    """A Future of the mean over a group of a flat tensor, which is overwritten."""
    group = group if group is not None else get_default_group()
    flat.div_(group.size())
    work = all_reduce(flat, group=group, async_op=True)
    assert work is not None
    return work.get_future().then(lambda future: future.value()[0])


def allreduce_hook(process_group: Any, bucket: Any) -> Any:
    """The mean, as without a hook."""
    return _mean(process_group, bucket.buffer())


def compressed(process_group: Any, bucket: Any, dtype: Any) -> Any:
    """A Future of the mean of a bucket, which travels in a dtype."""
    buffer = bucket.buffer()
    return _mean(process_group, buffer.to(dtype)).then(lambda future: buffer.copy_(future.value()))


def fp16_compress_hook(process_group: Any, bucket: Any) -> Any:
    """The mean of gradients in float16: half of the bytes travel."""
    return compressed(process_group, bucket, torch.float16)


def bf16_compress_hook(process_group: Any, bucket: Any) -> Any:
    """The mean of gradients in bfloat16: half of the bytes travel."""
    return compressed(process_group, bucket, torch.bfloat16)


def _wrapped(hook: Hook, dtype: Any) -> Hook:
    def compressed(state: Any, bucket: Any) -> Any:
        buffer = bucket.buffer()
        bucket.set_buffer(buffer.to(dtype))
        return hook(state, bucket).then(lambda future: buffer.copy_(_flat(future.value())))

    return compressed


def _flat(value: Any) -> Any:
    return value[0] if isinstance(value, (list, tuple)) else value


def fp16_compress_wrapper(hook: Hook) -> Hook:
    """A hook that is given gradients in float16."""
    return _wrapped(hook, torch.float16)


def bf16_compress_wrapper(hook: Hook) -> Hook:
    """A hook that is given gradients in bfloat16."""
    return _wrapped(hook, torch.bfloat16)
