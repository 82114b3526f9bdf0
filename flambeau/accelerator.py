"""torch.accelerator: the accelerator in use, of which there is none."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from flambeau.core.operator.absent_devices import refusing


def is_available() -> bool:
    """False."""
    return False


def device_count() -> int:
    """0."""
    return 0


def current_accelerator(check_available: bool = False) -> Any:
    """None: there is no accelerator."""
    return None


_WORDS = "Cannot access accelerator device when none is available."
_REFUSED = """
    current_device_index current_device_idx set_device_index set_device_idx current_stream set_stream synchronize
    memory_stats memory_allocated max_memory_allocated memory_reserved max_memory_reserved reset_peak_memory_stats
    reset_accumulated_memory_stats get_device_capability get_memory_info
""".split()
globals().update(
    refusing("accelerator", _REFUSED, lambda name: RuntimeError(_WORDS), "Raises RuntimeError: there is no accelerator.")
)


def empty_cache() -> None:
    """Nothing is cached on an accelerator."""


class device_index(AbstractContextManager):
    """Context in which another accelerator is current; does nothing for None."""

    def __init__(self, device: int | None):
        self.index = device

    def __enter__(self) -> None:
        if self.index is not None:
            raise RuntimeError(_WORDS)

    def __exit__(self, *exception: object) -> None:
        return None
