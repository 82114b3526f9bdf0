"""torch.distributed.fsdp.sharded_grad_scaler: a GradScaler that asks the other processes for infinities."""

from flambeau.core.operator import unsupported as _unsupported
from flambeau.distributed.without_group import ADVICE as _ADVICE

ShardedGradScaler = _unsupported.kind("distributed.fsdp.sharded_grad_scaler.ShardedGradScaler", _ADVICE)
