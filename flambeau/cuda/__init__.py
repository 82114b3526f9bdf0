"""torch.cuda, as in a build for the CPU: nothing is available, questions are answered, work raises PyTorch's errors."""

from __future__ import annotations

import warnings
from collections import OrderedDict
from typing import Any

from flambeau.base.errors import AcceleratorError, OutOfMemoryError, no_accelerator
from flambeau.base.lazy_import import submodules as _submodules
from flambeau.core.operator.absent_devices import refusing, streams, without_instances
from flambeau.core.operator.unsupported import all_of as _all_of
from flambeau.core.tensor.legacy_types import CUDA as _TYPES

default_generators: tuple[Any, ...] = ()
has_half = True
has_magma = False
_WORDS = "flambeau computes on the CPU; leave out what concerns CUDA, or guard it with torch.cuda.is_available()"

globals().update(_TYPES)
globals().update(
    _all_of(
        "cuda.",
        _WORDS,
        kinds=(
            "BFloat16Storage BoolStorage ByteStorage CharStorage ComplexDoubleStorage ComplexFloatStorage "
            "DoubleStorage FloatStorage "
            "HalfStorage IntStorage LongStorage ShortStorage"
        ),
    )
)


class CudaError(RuntimeError):
    """An error code of CUDA."""

    def __init__(self, code: int):
        super().__init__(f"CUDA error {code}")


class DeferredCudaCallError(Exception):
    """A call that waited for CUDA failed."""


class cudaStatus:
    """Codes that CUDA's functions return."""

    SUCCESS: int = 0
    ERROR_NOT_READY: int = 34


globals().update(
    without_instances("cuda", "Stream ExternalStream", "torch.cuda.{} requires CUDA support")
    | without_instances(
        "cuda", "Event CUDAGraph MemPool CUDAPluggableAllocator GreenContext", "Tried to instantiate dummy base class {}"
    )
)
_REFUSED = {
    "current_device": "The index of the current device.",
    "get_device_name": "The name of a device.",
    "get_device_properties": "Memory and capability of a device.",
    "get_device_capability": "(major, minor) of a device.",
    "synchronize": "Wait for all work of a device.",
    "mem_get_info": "(free, total) memory of a device.",
    "initial_seed": "The seed of the current device.",
    "get_rng_state": "The generator's state on a device.",
    "set_device": "Choose the current device.",
    "current_stream": "The current stream.",
    "default_stream": "The default stream.",
    "init": "Start CUDA.",
    "ipc_collect": "Free memory shared between processes.",
    "cudart": "CUDA's runtime library.",
    "can_device_access_peer": "Whether one device reads another's memory.",
    "current_blas_handle": "cuBLAS's handle.",
    "current_solver_handle": "cuSOLVER's handle.",
    "get_sync_debug_mode": "Whether waiting warns.",
    "set_sync_debug_mode": "Warn of, or refuse, calls that wait.",
    "get_stream_from_external": "A stream made elsewhere.",
    "set_stream": "Choose the current stream.",
    "set_per_process_memory_fraction": "Limit the memory of this process.",
    "get_per_process_memory_fraction": "The limit of this process.",
    "reset_peak_memory_stats": "Start the peaks again.",
    "reset_accumulated_memory_stats": "Start the totals again.",
    "reset_max_memory_allocated": "Start the peak again.",
    "reset_max_memory_cached": "Start the peak again.",
    "memory_snapshot": "The allocator's blocks.",
    "memory_summary": "The allocator's figures as a table.",
    "caching_allocator_alloc": "Memory from the allocator.",
    "caching_allocator_delete": "Give memory back.",
    "caching_allocator_enable": "Switch caching on or off.",
    "caching_allocator_disabled": "Context without caching.",
    "change_current_allocator": "Use another allocator.",
    "get_allocator_backend": "The name of the allocator.",
    "is_current_stream_capturing": "Whether a graph is being recorded.",
    "graph_pool_handle": "A pool for graphs.",
    "graph": "Context that records a graph.",
    "make_graphed_callables": "Callables as graphs.",
    "use_mem_pool": "Context that allocates from a pool.",
    "reset_peak_host_memory_stats": "Start the peaks again.",
    "reset_accumulated_host_memory_stats": "Start the totals again.",
    "utilization": "How busy a device is, in percent.",
    "temperature": "The temperature of a device.",
    "power_draw": "The power of a device.",
    "clock_rate": "The clock of a device.",
    "memory_usage": "How busy the memory is, in percent.",
    "device_memory_used": "Bytes in use on a device.",
}
globals().update(streams("cuda"))
globals().update(refusing("cuda", _REFUSED, lambda name: no_accelerator("cuda"), "Raises AssertionError: there is no CUDA."))


class device:
    """Context in which another device is current; entering it raises RuntimeError, unless the device is None or -1."""

    def __init__(self, device: Any):
        self.index = -1 if device is None else device

    def __enter__(self) -> None:
        if self.index != -1:
            raise RuntimeError("PyTorch was compiled without CUDA support")

    def __exit__(self, *exception: object) -> None:
        """Nothing was entered."""


class device_of(device):
    """Context in which the device of a tensor is current; does nothing for tensors on the CPU."""

    def __init__(self, obj: Any):
        super().__init__(obj.get_device() if obj.is_cuda else -1)


def is_available() -> bool:
    """False: flambeau computes on the CPU."""
    return False


def is_initialized() -> bool:
    """False."""
    return False


def device_count() -> int:
    """0."""
    return 0


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """False: there is no device."""
    return False


def is_tf32_supported() -> bool:
    """False: there is no device."""
    return False


def get_arch_list() -> list[str]:
    """The architectures compiled for: none."""
    return []


def get_gencode_flags() -> str:
    """The compiler's flags: none."""
    return ""


def empty_cache() -> None:
    """Nothing is cached."""


def memory_allocated(device: Any = None) -> int:
    """0: nothing is on a device."""
    return 0


def max_memory_allocated(device: Any = None) -> int:
    """0: nothing was on a device."""
    return 0


def memory_reserved(device: Any = None) -> int:
    """0: nothing is reserved."""
    return 0


def max_memory_reserved(device: Any = None) -> int:
    """0: nothing was reserved."""
    return 0


def memory_cached(device: Any = None) -> int:
    """The older name of memory_reserved."""
    warnings.warn("`torch.cuda.memory_cached` has been renamed to `torch.cuda.memory_reserved`", FutureWarning, stacklevel=2)
    return 0


def max_memory_cached(device: Any = None) -> int:
    """The older name of max_memory_reserved."""
    warnings.warn(
        "`torch.cuda.max_memory_cached` has been renamed to `torch.cuda.max_memory_reserved`", FutureWarning, stacklevel=2
    )
    return 0


def memory_stats(device: Any = None) -> OrderedDict[str, Any]:
    """The allocator's figures: none."""
    return OrderedDict()


def memory_stats_as_nested_dict(device: Any = None) -> dict[str, Any]:
    """The allocator's figures: none."""
    return {}


def host_memory_stats() -> OrderedDict[str, Any]:
    """Figures of pinned memory: none."""
    return OrderedDict()


def host_memory_stats_as_nested_dict() -> dict[str, Any]:
    """Figures of pinned memory: none."""
    return {}


def list_gpu_processes(device: Any = None) -> str:
    """The processes on a device, as text."""
    return "pynvml module not found, please install nvidia-ml-py"


def manual_seed(seed: int) -> None:
    """Seed the current device; without CUDA nothing happens."""


def manual_seed_all(seed: int) -> None:
    """Seed all devices; without CUDA nothing happens."""


def seed() -> None:
    """Seed the current device at random; without CUDA nothing happens."""


def seed_all() -> None:
    """Seed all devices at random; without CUDA nothing happens."""


def get_rng_state_all() -> list[Any]:
    """The states of all devices: none."""
    return []


def set_rng_state(new_state: Any, device: Any = "cuda") -> None:
    """Set a device's state; without CUDA nothing happens."""


def set_rng_state_all(new_states: Any) -> None:
    """Set all devices' states; without CUDA nothing happens."""


def check_error(res: int) -> None:
    """Raise CudaError for a code that is not success."""
    if res != cudaStatus.SUCCESS:
        raise CudaError(res)


def _is_compiled() -> bool:
    """False."""
    return False


def _is_in_bad_fork() -> bool:
    """False: nothing was started that a fork would break."""
    return False


__getattr__ = _submodules(__name__)
