"""torch.distributed.algorithms.ddp_comm_hooks.default_hooks: exchanging gradients as they are or in half precision."""

from flambeau.distributed.without_group import absent as _absent

globals().update(
    _absent(
        "algorithms.ddp_comm_hooks.default_hooks",
        "allreduce_hook bf16_compress_hook bf16_compress_wrapper fp16_compress_hook fp16_compress_wrapper",
    )
)
