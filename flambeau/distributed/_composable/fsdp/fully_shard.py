"""torch.distributed._composable.fsdp.fully_shard: an older place of torch.distributed.fsdp's functions."""

from flambeau.distributed import fsdp as _fsdp

globals().update(
    (name, getattr(_fsdp, name)) for name in ("FSDPModule", "UnshardHandle", "fully_shard", "register_fsdp_forward_method")
)
