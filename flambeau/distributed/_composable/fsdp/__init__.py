"""torch.distributed._composable.fsdp: the older place of torch.distributed.fsdp.fully_shard."""

from flambeau.distributed import fsdp as _fsdp
from flambeau.distributed._composable.fsdp import fully_shard as _module

# The module is imported before, so that the function takes its name here.
globals().update(
    (name, getattr(_fsdp, name))
    for name in (
        "CPUOffloadPolicy",
        "FSDPModule",
        "MixedPrecisionPolicy",
        "OffloadPolicy",
        "fully_shard",
        "register_fsdp_forward_method",
    )
)
