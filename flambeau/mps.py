"""torch.mps, as in a build without it: nothing is available, work raises PyTorch's errors."""

from __future__ import annotations

from typing import Any


def is_available() -> bool:
    """False."""
    return False


def device_count() -> int:
    """0."""
    return 0


def manual_seed(seed: int) -> None:
    """Seed the device; without MPS nothing happens."""


def seed() -> None:
    """Seed the device at random; without MPS nothing happens."""


def _refuse(name: str, call: str) -> Any:
    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(f"Cannot execute {call}() without MPS backend.")

    refuse.__name__ = refuse.__qualname__ = name
    refuse.__doc__ = "Raises RuntimeError: there is no MPS."
    return refuse


synchronize = _refuse("synchronize", "deviceSynchronize")
empty_cache = _refuse("empty_cache", "emptyCache")
current_allocated_memory = _refuse("current_allocated_memory", "getCurrentAllocatedMemory")
driver_allocated_memory = _refuse("driver_allocated_memory", "getDriverAllocatedMemory")
recommended_max_memory = _refuse("recommended_max_memory", "getRecommendedMaxMemory")
set_per_process_memory_fraction = _refuse("set_per_process_memory_fraction", "setMemoryFraction")
get_rng_state = _refuse("get_rng_state", "getDefaultMPSGenerator")
set_rng_state = _refuse("set_rng_state", "getDefaultMPSGenerator")
