"""What the profiler's tree of events is made of: the events, what each kind says beside its name, and what was seen of tensors.

Records only: flambeau.profiler.recorder fills them, flambeau.profiler.tree numbers them. torch._C._profiler shows them under
PyTorch's names.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any

from flambeau.core.tensor.tensor import Tensor

__all__ = [
    "ActiveProfilerType", "AllocationFields", "BackendFields", "EventType", "ExperimentalConfig", "FrameState", "KinetoFields",
    "ModuleInfo", "OptimizerInfo", "OutOfMemoryFields", "ProfilerEvent", "ProfilerState", "PyCCallFields", "PyCallFields",
    "RecordScope", "TensorMetadata", "TorchOpFields", "VulkanFields", "tensors_in",
]  # fmt: skip


class _EventType(enum.Enum):
    """What an event of the tree is."""

    TorchOp = 0
    Backend = 1
    Vulkan = 2
    Allocation = 3
    PyCall = 4
    PyCCall = 5
    Kineto = 6


EventType = _EventType


class RecordScope(enum.Enum):
    """Which part of the system an operator's event comes from."""

    FUNCTION = 0
    BACKWARD_FUNCTION = 1
    TORCHSCRIPT_FUNCTION = 2
    KERNEL_FUNCTION_DTYPE = 3
    CUSTOM_CLASS = 4
    BUILD_FEATURE = 5
    LITE_INTERPRETER = 6
    USER_SCOPE = 7
    STATIC_RUNTIME_OP = 8
    STATIC_RUNTIME_MODEL = 9


class ActiveProfilerType(enum.Enum):
    """Which profiler measures."""

    NONE = 0
    LEGACY = 1
    KINETO = 2
    NVTX = 3
    ITT = 4
    PRIVATEUSE1 = 5


class ProfilerState(enum.Enum):
    """What a profiler was asked for."""

    Disabled = 0
    CPU = 1
    CUDA = 2
    NVTX = 3
    ITT = 4
    PRIVATEUSE1 = 5
    KINETO = 6
    KINETO_GPU_FALLBACK = 7
    KINETO_PRIVATEUSE1_FALLBACK = 8


class ExperimentalConfig:
    """Settings of `profile(experimental_config=...)`. adjust_profiler_step: a step's event ends with what goes on inside of it.

    verbose: accepted; so are those about devices that are not measured.
    """

    def __init__(
        self,
        profiler_metrics: Sequence[str] = (),
        profiler_measure_per_kernel: bool = False,
        verbose: bool = False,
        performance_events: Sequence[str] = (),
        enable_cuda_sync_events: bool = False,
        adjust_profiler_step: bool = False,
        disable_external_correlation: bool = False,
        profile_all_threads: bool = False,
        capture_overload_names: bool = False,
        record_python_gc_info: bool = False,
        expose_kineto_event_metadata: bool = False,
        custom_profiler_config: str = "",
        **_: Any,
    ) -> None:
        if profiler_metrics or performance_events:
            raise NotImplementedError(
                "_ExperimentalConfig(profiler_metrics=..., performance_events=...) is not implemented in flambeau: counters of "
                "the hardware are not read; leave both out and measure times"
            )
        if profile_all_threads:
            raise NotImplementedError(
                "_ExperimentalConfig(profile_all_threads=True) is not implemented in flambeau: the thread that enters a profiler "
                "is measured; enter one in each thread"
            )
        self.verbose, self.adjust_profiler_step = verbose, adjust_profiler_step
        self.capture_overload_names, self.custom_profiler_config = capture_overload_names, custom_profiler_config

    def __bool__(self) -> bool:
        return True


class TensorMetadata:
    """What an operator saw of a tensor. impl_ptr: the tensor, storage_data_ptr: its memory; id: equal for what shares memory or
    is one tensor at different times, allocation_id: of the memory, both None until the tree is built.
    """

    __slots__ = (
        "allocation_id", "device", "dim", "dtype", "id", "impl_ptr", "layout", "sizes", "storage_data_ptr", "strides",
    )  # fmt: skip

    def __init__(self, tensor: Tensor, impl_ptr: int) -> None:
        self.impl_ptr = impl_ptr
        self.device, self.dtype, self.layout = tensor.device, tensor.dtype, tensor.layout
        self.id: int | None = None
        self.allocation_id: int | None = None
        self.sizes: list[int] = [] if tensor.is_nested else list(tensor.shape)
        self.dim = tensor.dim()
        strided = tensor.layout.name == "strided" and not tensor.is_nested
        self.strides: list[int] = list(tensor.stride()) if strided else []
        self.storage_data_ptr: int | None = None
        if strided:
            self.storage_data_ptr = tensor._storage.ptr if tensor._storage.nbytes() else 0


def tensors_in(values: Sequence[Any]) -> list[TensorMetadata]:
    """The tensors among an operator's inputs, and those in its lists."""
    found: list[TensorMetadata] = []
    for x in values:
        if isinstance(x, TensorMetadata):
            found.append(x)
        elif isinstance(x, list):
            found += tensors_in(x)
    return found


class TorchOpFields:
    """An operator: its inputs (TensorMetadata, lists of these, numbers, None for anything else), the number that its node of the
    graph has or would have, its scope.
    """

    def __init__(self, name: str, inputs: list[Any], scope: RecordScope, sequence_number: int) -> None:
        self.name, self.inputs, self.scope, self.sequence_number = name, inputs, scope, sequence_number
        self.saved: list[TensorMetadata] = []  # what a node of a backward pass has kept, and reads as well
        self.allow_tf32_cublas = False


class AllocationFields:
    """Memory that was taken, or given back where alloc_size is negative; total_allocated: what is held with that."""

    total_reserved = 0

    def __init__(self, ptr: int, alloc_size: int, total_allocated: int, device: Any) -> None:
        self.ptr, self.alloc_size, self.total_allocated, self.device = ptr, alloc_size, total_allocated, device
        self.id: int | None = None
        self.allocation_id: int | None = None


class FrameState:
    """A place in the program."""

    __slots__ = ("file_name", "function_name", "line_number")

    def __init__(self, file_name: str, line_number: int, function_name: str) -> None:
        self.file_name, self.line_number, self.function_name = file_name, line_number, function_name

    @property
    def name(self) -> str:
        """As events are called."""
        return f"{self.file_name}({self.line_number}): {self.function_name}"


class ModuleInfo:
    """A module whose forward runs: its parameters as (name, tensor, gradient or None), as they were when it was first called."""

    def __init__(self, cls_name: str, cls_ptr: int, self_ptr: int, parameters: list[tuple[str, Any, Any]]) -> None:
        self.cls_name, self.cls_ptr, self.self_ptr, self.parameters = cls_name, cls_ptr, self_ptr, parameters


class OptimizerInfo:
    """An optimizer that made a step: its parameters as (tensor, gradient or None, [(name, tensor) of its state])."""

    def __init__(self, self_ptr: int, parameters: list[tuple[Any, Any, list[tuple[str, Any]]]]) -> None:
        self.self_ptr, self.parameters = self_ptr, parameters


class PyCallFields:
    """A call of a Python function: where it was called from and which one, and the module or the optimizer that it is of."""

    def __init__(
        self, callsite: FrameState, caller: FrameState, module: ModuleInfo | None, optimizer: OptimizerInfo | None
    ) -> None:
        self.callsite, self.caller, self.module, self.optimizer = callsite, caller, module, optimizer


class PyCCallFields:
    """A call of a function that is not written in Python: where from."""

    def __init__(self, caller: FrameState) -> None:
        self.caller = caller


class BackendFields:
    """Events of backends; flambeau has none."""


class VulkanFields:
    """Events of Vulkan; flambeau has none."""


class KinetoFields:
    """Events of devices; flambeau has none."""


class OutOfMemoryFields:
    """Memory that was refused; flambeau has none of a device."""


class ProfilerEvent:
    """A node of the tree. Times are nanoseconds since the epoch; start_tid: the thread, counted from 1.

    began, ended: the order of beginnings and ends, which times may share.
    """

    def __init__(
        self, name: str, tag: EventType, fields: Any, began: int, ended: int, times: tuple[int, int], thread: int
    ) -> None:
        self.name, self.tag, self.extra_fields = name, tag, fields
        self.began, self.ended = began, ended
        self.start_time_ns, self.end_time_ns = times
        self.start_tid = thread
        self.parent: ProfilerEvent | None = None
        self.children: list[ProfilerEvent] = []
        self.correlation_id = 0
        self.overload_name = ""
        self.source: Any = None  # the FunctionEvent of an operator

    @property
    def id(self) -> int:
        """A number of its own."""
        return id(self)

    @property
    def duration_time_ns(self) -> int:
        """From begin to end."""
        return self.end_time_ns - self.start_time_ns

    @property
    def typed(self) -> tuple[EventType, Any]:
        """The kind, and what the event says."""
        return self.tag, self.extra_fields
