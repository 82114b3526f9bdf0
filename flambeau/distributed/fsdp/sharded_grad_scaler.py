"""torch.distributed.fsdp.sharded_grad_scaler: a GradScaler that asks the other processes for infinities."""

from flambeau.core import absent as _absent
from flambeau.distributed.without_group import ADVICE as _ADVICE

ShardedGradScaler = _absent.kind("distributed.fsdp.sharded_grad_scaler.ShardedGradScaler", _ADVICE)
