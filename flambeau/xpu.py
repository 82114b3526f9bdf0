"""torch.xpu, as in a build without it: nothing is available, work raises PyTorch's errors."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from flambeau.base.errors import no_accelerator
from flambeau.core.operator.absent_devices import refusing, streams, without_instances


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


def _answer(name: str, make: Any) -> Any:
    def answer(*args: Any, **kwargs: Any) -> Any:
        return make()

    answer.__name__ = answer.__qualname__ = name
    answer.__doc__ = f"{make()!r}: there is no XPU."
    return answer


_REFUSED = """
    synchronize current_device set_device get_device_name get_device_properties get_device_capability init
    current_stream initial_seed get_rng_state mem_get_info reset_peak_memory_stats reset_accumulated_memory_stats
    is_current_stream_capturing
""".split()
globals().update(refusing("xpu", _REFUSED, lambda name: no_accelerator("xpu"), "Raises AssertionError: there is no XPU."))
for _name, _make in {
    "get_rng_state_all": list,
    "set_rng_state": type(None),
    "set_rng_state_all": type(None),
    "seed": type(None),
    "seed_all": type(None),
    "max_memory_allocated": int,
    "memory_reserved": int,
    "max_memory_reserved": int,
    "memory_stats": OrderedDict,
    "memory_stats_as_nested_dict": dict,
    "memory_snapshot": list,
    "get_arch_list": list,
    "get_gencode_flags": str,
    "is_tf32_supported": bool,
    "_is_compiled": bool,
    "_is_in_bad_fork": bool,
}.items():
    globals()[_name] = _answer(_name, _make)
default_generators: tuple[Any, ...] = ()


class device:
    """Context in which another device is current. Entering it raises NotImplementedError: there is no XPU."""

    def __init__(self, device: Any):
        self.idx = device

    def __enter__(self) -> None:
        raise NotImplementedError("PyTorch was compiled without XPU support")

    def __exit__(self, *exception: object) -> None:
        return None


globals().update(streams("xpu"))
globals().update(without_instances("xpu", "Stream Event MemPool XPUGraph", "Tried to instantiate dummy base class {}"))
