"""torch.cpu: the CPU under the names that rooms of devices have; a stream is the program itself."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from flambeau.codegen import cpu as processor
from flambeau.core.tensor.storage import empty_cache, memory_statistics, reset_peak

__all__ = [
    "Event",
    "Stream",
    "StreamContext",
    "current_device",
    "current_stream",
    "device_count",
    "empty_cache",
    "is_available",
    "is_initialized",
    "memory_stats",
    "reset_peak_memory_stats",
    "set_device",
    "stream",
    "synchronize",
]


class Stream:
    """Work in order; on the CPU every call is finished when it returns, so waiting does nothing."""

    def __init__(self, priority: int = -1):
        self.priority = priority

    def wait_stream(self, stream: Any) -> None:
        """Nothing to wait for."""

    def record_event(self) -> None:
        """Nothing to record."""

    def wait_event(self, event: Any) -> None:
        """Nothing to wait for."""


class Event:
    """A moment of a stream; on the CPU it has always happened."""

    def query(self) -> bool:
        """Whether it has happened."""
        return True

    def record(self, stream: Any = None) -> None:
        """Nothing to record."""

    def synchronize(self) -> None:
        """Nothing to wait for."""

    def wait(self, stream: Any = None) -> None:
        """Nothing to wait for."""


_current = Stream()


class StreamContext(AbstractContextManager):
    """Context in which `stream` is the current stream."""

    def __init__(self, stream: Any):
        self.stream = stream

    def __enter__(self) -> None:
        global _current
        self.before = _current
        if self.stream is not None:
            _current = self.stream

    def __exit__(self, *exception: object) -> None:
        global _current
        _current = self.before


def stream(stream: Any) -> StreamContext:
    """Context in which `stream` is the current stream."""
    return StreamContext(stream)


def current_stream(device: Any = None) -> Stream:
    """The stream that work goes to."""
    return _current


def is_available() -> bool:
    """True: there is a CPU."""
    return True


def is_initialized() -> bool:
    """True."""
    return True


def device_count() -> int:
    """1."""
    return 1


def current_device() -> str:
    """The name of the device."""
    return "cpu"


def set_device(device: Any) -> None:
    """There is only one."""


def synchronize(device: Any = None) -> None:
    """Nothing to wait for: calls are finished when they return."""


def memory_stats() -> dict[str, int]:
    """Bytes in tensors now and at most, bytes kept for reuse, allocations so far."""
    return memory_statistics()


def reset_peak_memory_stats() -> None:
    """Start the peak again at what is in use now."""
    reset_peak()


def _is_avx2_supported() -> bool:
    """Whether the processor has vectors of 32 bytes."""
    return "avx2" in processor.features()


def _is_avx512_supported() -> bool:
    """Whether the processor has vectors of 64 bytes, by bytes and words too."""
    return {"avx512f", "avx512bw", "avx512vl", "avx512dq"} <= processor.features()


def _is_avx512_bf16_supported() -> bool:
    """Whether it multiplies pairs of bfloat16."""
    return "avx512_bf16" in processor.features()


def _is_vnni_supported() -> bool:
    """Whether it multiplies and sums bytes by fours."""
    return "avx512_vnni" in processor.features()


def _is_amx_tile_supported() -> bool:
    """Whether it has tiles for products."""
    return "amx_tile" in processor.features()


def _is_amx_fp16_supported() -> bool:
    """Whether its tiles multiply float16."""
    return "amx_fp16" in processor.features()


def __getattr__(name: str) -> Any:
    if name == "amp":
        import importlib

        return importlib.import_module("flambeau.cpu.amp")
    raise AttributeError(f"module {__name__!r} has no attribute '{name}'")
