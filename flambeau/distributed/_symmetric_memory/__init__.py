"""torch.distributed._symmetric_memory: memory of GPUs that other processes map, of which there is none: names to import."""

from __future__ import annotations

from typing import Any

from flambeau.distributed.without_group import absent as _absent

globals().update(_absent("_symmetric_memory", "empty enable_symm_mem_for_group get_symm_mem_workspace rendezvous set_backend"))


def is_nvshmem_available() -> bool:
    """False."""
    return False


def is_symm_mem_enabled_for_group(group_name: str) -> bool:
    """False: collectives are MPI's."""
    return False


def get_backend(device: Any) -> str | None:
    """None: no device has one."""
    return None
