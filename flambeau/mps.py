"""torch.mps, as in a build without it: nothing is available, work raises PyTorch's errors."""

from __future__ import annotations

from flambeau.core.operator.absent_devices import refusing


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


_CALLS = {
    "synchronize": "deviceSynchronize",
    "empty_cache": "emptyCache",
    "current_allocated_memory": "getCurrentAllocatedMemory",
    "driver_allocated_memory": "getDriverAllocatedMemory",
    "recommended_max_memory": "getRecommendedMaxMemory",
    "set_per_process_memory_fraction": "setMemoryFraction",
    "get_rng_state": "getDefaultMPSGenerator",
    "set_rng_state": "getDefaultMPSGenerator",
}
globals().update(
    refusing(
        "mps",
        _CALLS.keys(),
        lambda name: RuntimeError(f"Cannot execute {_CALLS[name]}() without MPS backend."),
        "Raises RuntimeError: there is no MPS.",
    )
)
