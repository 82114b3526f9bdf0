"""torch.xpu, as in a build without it: nothing is available, work raises PyTorch's errors."""

from __future__ import annotations

from typing import Any

from flambeau.base.errors import no_accelerator


def is_available() -> bool:
    """False."""
    return False


def is_initialized() -> bool:
    """False."""
    return False


def device_count() -> int:
    """0."""
    return 0


def is_bf16_supported() -> bool:
    """False."""
    return False


def empty_cache() -> None:
    """Nothing is cached."""


def manual_seed(seed: int) -> None:
    """Seed the device; without XPU nothing happens."""


def manual_seed_all(seed: int) -> None:
    """Seed all devices; without XPU nothing happens."""


def memory_allocated(device: Any = None) -> int:
    """0."""
    return 0


def _refuse(name: str) -> Any:
    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise no_accelerator("xpu")

    refuse.__name__ = refuse.__qualname__ = name
    refuse.__doc__ = "Raises AssertionError: there is no XPU."
    return refuse


for _name in (
    "synchronize",
    "current_device",
    "set_device",
    "get_device_name",
    "get_device_properties",
    "get_device_capability",
    "init",
    "current_stream",
    "initial_seed",
    "get_rng_state",
    "mem_get_info",
):
    globals()[_name] = _refuse(_name)
