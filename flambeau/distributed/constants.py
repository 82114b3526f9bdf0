"""torch.distributed.constants: how long operations wait for each other."""

from flambeau.distributed.distributed_c10d import default_pg_nccl_timeout, default_pg_timeout

__all__ = ["default_pg_nccl_timeout", "default_pg_timeout"]
