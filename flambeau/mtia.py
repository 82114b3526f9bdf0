"""torch.mtia, as in a build without it: nothing is available, work raises PyTorch's errors."""

from __future__ import annotations

from typing import Any

from flambeau.core.operator.absent_devices import refusing

default_generators: tuple[Any, ...] = ()


def is_available() -> bool:
    """False."""
    return False


def is_initialized() -> bool:
    """False."""
    return False


def _is_compiled() -> bool:
    """False."""
    return False


def _is_in_bad_fork() -> bool:
    """False."""
    return False


def is_bf16_supported() -> bool:
    """True, as PyTorch answers without a device."""
    return True


def device_count() -> int:
    """0."""
    return 0


def memory_allocated(device: Any = None) -> int:
    """0."""
    return 0


def max_memory_allocated(device: Any = None) -> int:
    """0."""
    return 0


def memory_stats(device: Any = None) -> dict[str, Any]:
    """The allocator's figures: none."""
    return {}


def reset_peak_memory_stats(device: Any = None) -> None:
    """Nothing to reset."""


def manual_seed(seed: int) -> None:
    """Seed the device; without MTIA nothing happens."""


def manual_seed_all(seed: int) -> None:
    """Seed all devices; without MTIA nothing happens."""


def seed() -> None:
    """Seed the device at random; without MTIA nothing happens."""


def seed_all() -> None:
    """Seed all devices at random; without MTIA nothing happens."""


def get_rng_state_all() -> list[Any]:
    """The states of all devices: none."""
    return []


def set_rng_state_all(new_states: Any) -> None:
    """Set all devices' states; without MTIA nothing happens."""


_CALLS = {
    "current_device": "getCurrentDevice",
    "current_stream": "getCurrentDevice",
    "default_stream": "getCurrentDevice",
    "get_device_capability": "getCurrentDevice",
    "get_device_properties": "getCurrentDevice",
    "synchronize": "getCurrentDevice",
    "set_rng_state": "getCurrentDevice",
    "set_device": "setCurrentDevice",
    "empty_cache": "emptyCache",
    "snapshot": "memorySnapshot",
    "graph_pool_handle": "graphPoolHandle",
}
globals().update(
    refusing(
        "mtia",
        _CALLS.keys(),
        lambda name: RuntimeError(f"Cannot execute {_CALLS[name]}() without MTIA backend."),
        "Raises RuntimeError: there is no MTIA.",
    )
)
globals().update(
    refusing(
        "mtia",
        ("init", "initial_seed", "get_rng_state"),
        lambda name: AssertionError("Torch not compiled with MTIA enabled."),
        "Raises AssertionError: there is no MTIA.",
    )
)


class device:
    """Context in which another device is current. Entering it raises RuntimeError: there is no MTIA."""

    def __init__(self, device: Any):
        self.idx = device

    def __enter__(self) -> None:
        raise RuntimeError("Cannot execute maybeExchangeDevice() without MTIA backend.")

    def __exit__(self, *exception: object) -> None:
        return None
