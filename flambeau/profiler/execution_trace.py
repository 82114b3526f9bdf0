"""torch.profiler.ExecutionTraceObserver: writes what a program calls, with what, and what that gives, to a file of nodes.

The form is that of Chakra's execution traces. A node stands for a call; `ctrl_deps` is the call that it stands in. Calls of the
thread that starts the observer are seen.
Stands on flambeau.profiler.recorder, which tells of each event while one is on.
"""

from __future__ import annotations

import gzip
import json
import math
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

import flambeau.profiler.recorder as recorders
from flambeau.base.device import device as Device
from flambeau.core.tensor.tensor import Tensor
from flambeau.profiler.averages import FunctionEvent
from flambeau.profiler.records import RecordScope

__all__ = ["ExecutionTraceObserver"]

_SCHEMA = "1.1.1-chakra.0.0.4"
_NOTHING: dict[str, list[Any]] = {"values": [], "shapes": [], "types": [], "strides": []}
_PLACE = "[pytorch|profiler|execution_trace|{}]"
_NUMBERS = {bool: "Bool", int: "Int", float: "Double", str: "String"}


class _Nodes:
    """The nodes of a trace, in the order that calls ended."""

    def __init__(self) -> None:
        self.nodes: list[dict[str, Any]] = []
        self.started = time.time_ns()
        self._ids = count(3)  # 1 is the process, 2 the thread; tensors and their memory have numbers as well
        self._functions = count(1)
        self._open: dict[int, dict[str, Any]] = {}  # by the event's number
        self._tensors: dict[int, int] = {}
        self._storages: dict[int, int] = {}

    # ---- what a recorder tells

    def begins(self, event: FunctionEvent) -> None:
        """A call."""
        event.record_function_id = next(self._functions)
        above = event.cpu_parent
        while above is not None and above.id not in self._open:
            above = above.cpu_parent
        self._open[event.id] = self._node(next(self._ids), event.name, 2 if above is None else self._open[above.id]["id"])

    def given(self, event: FunctionEvent, values: Sequence[Any], identity: Callable[[Tensor], int]) -> None:
        """What it is given."""
        if event.id in self._open:
            self._open[event.id]["inputs"] = self._written(values, identity)

    def gives(self, event: FunctionEvent, result: Any, identity: Callable[[Tensor], int]) -> None:
        """What it gives: nothing is said of a stretch or of a node of a backward pass."""
        if event.id in self._open and event.name.startswith("aten::"):
            values = result if isinstance(result, (list, tuple)) else () if result is None else (result,)
            self._open[event.id]["outputs"] = self._written(values, identity)

    def ends(self, event: FunctionEvent) -> None:
        """It ends."""
        node = self._open.pop(event.id, None)
        if node is None:
            return
        backward = event.scope == RecordScope.BACKWARD_FUNCTION.value
        node["name"] = event.trace_name
        node["attrs"] = _attributes(
            event.record_function_id, node["ctrl_deps"] if backward else 0,
            -1 if event.name.startswith("autograd::") else event.sequence_nr, event.scope, 1, int(backward), event.schema
        )  # fmt: skip
        self.nodes.append(node)

    # ---- what is written

    @staticmethod
    def _node(number: int, name: str, above: int) -> dict[str, Any]:
        return {"id": number, "name": name, "ctrl_deps": above, "inputs": _NOTHING, "outputs": _NOTHING, "attrs": []}

    def _written(self, values: Sequence[Any], identity: Callable[[Tensor], int]) -> dict[str, list[Any]]:
        found = [self._value(x, identity) for x in values]
        return {name: [each[place] for each in found] for place, name in enumerate(("values", "shapes", "types", "strides"))}

    def _value(self, value: Any, identity: Callable[[Tensor], int]) -> tuple[Any, Any, str, Any]:
        """A value as (value, shape, type, strides)."""
        if isinstance(value, Tensor):
            return self._tensor(value, identity)
        if isinstance(value, (list, tuple)):
            found = [self._value(x, identity) for x in value]
            kind = "Tuple" if isinstance(value, tuple) else "GenericList"
            types = ",".join(each[2] for each in found)
            return [each[0] for each in found], [each[1] for each in found], f"{kind}[{types}]", [each[3] for each in found]
        if value is None:
            return "<None>", [], "None", []
        if isinstance(value, Device):
            return str(value), [], "Device", []
        if isinstance(value, float) and not math.isfinite(value):
            return str(value), [], "Double", []
        if type(value) in _NUMBERS:
            return value, [], _NUMBERS[type(value)], []
        from flambeau.profiler import inputs

        number = inputs.concrete(value)
        return ("<None>", [], "None", []) if number is None else (number, [], "Int", [])

    def _tensor(self, tensor: Tensor, identity: Callable[[Tensor], int]) -> tuple[Any, Any, str, Any]:
        from flambeau.profiler import inputs

        number = self._tensors.setdefault(identity(tensor), -1)
        if number < 0:
            number = self._tensors[identity(tensor)] = next(self._ids)
        kind = f"Tensor({inputs.types(tensor)})"
        strided = tensor.layout.name == "strided" and not tensor.is_nested
        memory = tensor._storage.ptr if strided else 0
        if memory not in self._storages:
            self._storages[memory] = next(self._ids)
        described = [number, self._storages[memory], tensor.storage_offset() if strided else 0,
                     tensor.numel(), tensor.dtype.itemsize, str(tensor.device)]  # fmt: skip
        return described, [] if tensor.is_nested else list(tensor.shape), kind, list(tensor.stride()) if strided else []

    def write(self, path: str) -> None:
        """Write the trace; calls that go on are left out."""
        thread, process = self._node(2, _PLACE.format("thread"), 1), self._node(1, _PLACE.format("process"), 1)
        scope = RecordScope.USER_SCOPE.value
        thread["attrs"], process["attrs"] = _attributes(0, 0, -1, scope, 1, 0), _attributes(0, 0, -1, scope, 0, 0)
        trace = {
            "schema": _SCHEMA, "pid": os.getpid(), "time": time.strftime("%Y-%m-%d %H:%M:%S"),
            "start_ts": self.started // 1000, "nodes": [thread, *self.nodes, process], "finish_ts": time.time_ns() // 1000,
        }  # fmt: skip
        with gzip.open(path, "wt") if path.endswith(".gz") else open(path, "w") as file:
            json.dump(trace, file)


def _attributes(
    function: int, above: int, sequence: int, scope: int, thread: int, forward_thread: int, schema: str = ""
) -> list[dict[str, Any]]:
    named = {"rf_id": function, "fw_parent": above, "seq_id": sequence, "scope": scope, "tid": thread, "fw_tid": forward_thread,
             "op_schema": schema, "kernel_backend": "", "kernel_file": "", "tensor_range": ""}  # fmt: skip
    return [
        {"name": name, "type": "string" if isinstance(value, str) else "int64" if name == "seq_id" else "uint64", "value": value}
        for name, value in named.items()
    ]


class ExecutionTraceObserver:
    """Writes an execution trace: register_callback(path), start() and stop() any number of times, then unregister_callback().

    `profile(execution_trace_observer=...)` starts and stops one with its own recording, and ends it.
    """

    def __init__(self) -> None:
        self._registered = self._execution_trace_running = False
        self.extra_resources_collection = False
        self.resources_dir = ""
        self.output_file_path = ""
        self._nodes = _Nodes()
        self._recorder: Any = None

    @property
    def is_registered(self) -> bool:
        """Whether it has a file to write to."""
        return self._registered

    def is_running(self) -> bool:
        """Whether calls are written."""
        return self._execution_trace_running

    def get_output_file_path(self) -> str | None:
        """The file that it writes; None if it never had one."""
        return self.output_file_path or None

    def register_callback(self, output_file_path: str) -> ExecutionTraceObserver:
        """Take a file to write to, once."""
        if not self._registered:
            self.output_file_path = output_file_path
            self._nodes = _Nodes()
            self._nodes.write(output_file_path)
            self._registered = True
        return self

    def unregister_callback(self) -> None:
        """End, and write the file."""
        if self._registered:
            self.stop()
            self._nodes.write(self.output_file_path)
            self._registered = False

    def start(self, recorder: Any = None) -> None:
        """Begin to write calls. recorder: of a profiler, whose events are written; otherwise it looks itself."""
        if not self._registered or self._execution_trace_running:
            return
        self._execution_trace_running = True
        self._recorder = recorder
        if recorder is None:
            self._recorder = recorders.Recorder()
            self._recorder.listener = self._nodes
            self._recorder.__enter__()
        else:
            recorder.listener = self._nodes

    def stop(self) -> None:
        """Write no more calls."""
        if self._execution_trace_running:
            self._execution_trace_running = False
            if self._recorder.profiles:
                self._recorder.listener = None
            else:
                self._recorder.__exit__(None, None, None)
            self._recorder = None

    def cleanup(self) -> None:
        """End."""
        self.unregister_callback()

    def set_extra_resource_collection(self, val: bool) -> None:
        """Accepted: there are no kernels of devices whose files could be kept."""
        self.extra_resources_collection = val

    def get_resources_dir(self, can_create: bool = False) -> str | None:
        """A folder beside the file, made if asked; None without extra resources."""
        if not self._registered or not self.extra_resources_collection:
            return None
        self.resources_dir = os.path.splitext(self.output_file_path)[0] + "_resources"
        if can_create:
            os.makedirs(self.resources_dir, exist_ok=True)
        return self.resources_dir if os.path.exists(self.resources_dir) else None

    @staticmethod
    def build_execution_trace_obs_from_env() -> ExecutionTraceObserver | None:
        """One that writes to a fresh file, if ENABLE_PYTORCH_EXECUTION_TRACE is 1."""
        if os.environ.get("ENABLE_PYTORCH_EXECUTION_TRACE", "0") != "1":
            return None
        folder = os.environ.get("ENABLE_PYTORCH_EXECUTION_TRACE_SAVE_PATH") or tempfile.gettempdir()
        handle, path = tempfile.mkstemp(".et.json", dir=folder)
        os.close(handle)
        return ExecutionTraceObserver().register_callback(path)
