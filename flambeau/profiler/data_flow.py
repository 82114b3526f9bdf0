"""What data goes where in a profiled program: which memory each operator reads, writes, makes and gives up, by versions.

A version of memory ends with each write to it. What a node of the flow is: an operator whose schema is known, a node of a
backward pass, or memory that is taken or given back outside of both; what stands below them in the tree belongs to them.
Stands on flambeau.profiler.tree's events and the dispatcher's schemas; used by flambeau.profiler._memory_profiler.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from flambeau.dispatcher import builtin_schemas
from flambeau.dispatcher.record import RECORDS
from flambeau.profiler._utils import traverse_dfs
from flambeau.profiler.records import (
    AllocationFields,
    EventType,
    ProfilerEvent,
    PyCallFields,
    RecordScope,
    TensorMetadata,
    TorchOpFields,
    tensors_in,
)

__all__ = [
    "DataFlowEdge", "DataFlowGraph", "DataFlowNode", "Key", "OpTree", "SchemaMatcher", "SizeMap", "Storage", "TensorKey",
    "extract_gradients", "extract_parameters", "get_scopes",
]  # fmt: skip

# ---------------------------------------------------------------- keys


@dataclass(frozen=True)
class Key:
    """Memory of a device of which nothing more is known."""

    device: Any


@dataclass(frozen=True, eq=False)
class Storage:
    """Memory from when it is taken until it is given back; equal by its number."""

    ptr: int
    allocation_id: int

    def __repr__(self) -> str:
        return f"{hex(self.ptr):>18} ({self.allocation_id})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Storage) and self.allocation_id == other.allocation_id

    def __hash__(self) -> int:
        return hash(self.allocation_id)


@functools.total_ordering
@dataclass(frozen=True)
class TensorKey(Key):
    """A tensor with the memory that it has at one time."""

    id: int
    storage: Storage

    def __repr__(self) -> str:
        return f"id={self.id}: {self.storage!r:<24} ({self.device})"

    def _as_sortable(self) -> tuple[Any, ...]:
        return self.id, self.storage.allocation_id, self.device.type, self.device.index or 0

    def __lt__(self, other: TensorKey) -> bool:
        return self._as_sortable() < other._as_sortable()

    @staticmethod
    def _make(number: int | None, ptr: int | None, allocation: int | None, device: Any) -> TensorKey | None:
        if number is None or ptr is None or allocation is None:
            return None
        return TensorKey(device, number, Storage(ptr, allocation))

    @classmethod
    def from_allocation(cls, alloc: AllocationFields) -> TensorKey | None:
        """Of memory; None if no tensor was seen with it."""
        return cls._make(alloc.id, alloc.ptr, alloc.allocation_id, alloc.device)

    @classmethod
    def from_tensor(cls, t: TensorMetadata | None) -> TensorKey | None:
        """Of what was seen of a tensor; None for none and for those without memory of their own."""
        return None if t is None else cls._make(t.id, t.storage_data_ptr, t.allocation_id, t.device)


# ---------------------------------------------------------------- what events say


def get_scopes(event: Any) -> tuple[RecordScope, ...]:
    """The scopes of an event and of what it stands below, innermost first."""
    scopes = []
    while event is not None:
        if event.tag is EventType.TorchOp:
            scopes.append(event.extra_fields.scope)
        event = event.parent
    return tuple(scopes)


def _in_backward(event: Any) -> bool:
    return RecordScope.BACKWARD_FUNCTION in get_scopes(event)


def _parameters_and_gradients(event: Any) -> Iterator[tuple[TensorKey | None, TensorKey | None]]:
    """What an event shows of parameters, and of their gradients: the leaf's turn in a backward pass, a module, an optimizer."""
    fields = event.extra_fields
    if event.tag is EventType.TorchOp:
        if event.name.endswith("AccumulateGrad") and fields.scope is RecordScope.BACKWARD_FUNCTION:
            for child in event.children:
                if child.name in ("aten::detach", "aten::add_", "aten::copy_"):
                    (first, *_) = [*tensors_in(child.extra_fields.inputs), None]
                    yield None, TensorKey.from_tensor(first)
    elif isinstance(fields, PyCallFields):
        if fields.module is not None:
            for _, parameter, gradient in fields.module.parameters:
                yield TensorKey.from_tensor(parameter), TensorKey.from_tensor(gradient)
        elif fields.optimizer is not None:
            for parameter, gradient, _ in fields.optimizer.parameters:
                yield TensorKey.from_tensor(parameter), TensorKey.from_tensor(gradient)


def extract_parameters(event: Any) -> Iterator[TensorKey]:
    """The parameters that an event shows."""
    return (parameter for parameter, _ in _parameters_and_gradients(event) if parameter is not None)


def extract_gradients(event: Any) -> Iterator[tuple[TensorKey | None, TensorKey]]:
    """The gradients that an event shows, each behind its parameter where it shows that as well."""
    return ((parameter, gradient) for parameter, gradient in _parameters_and_gradients(event) if gradient is not None)


class OpTree:
    """The tree of what a profiler measured."""

    def __init__(self, result: Any) -> None:
        self._roots = result.experimental_event_tree()
        self._sorted = tuple(sorted(self.dfs(), key=lambda event: event.start_time_ns))

    def dfs(self, *args: Any, **kwargs: Any) -> Iterator[ProfilerEvent]:
        """The events, each before those below it."""
        yield from traverse_dfs(self._roots, *args, **kwargs)

    @property
    def sorted_nodes(self) -> tuple[ProfilerEvent, ...]:
        """The events in the order they began."""
        return self._sorted


class SizeMap:
    """How many bytes a tensor's memory has; what was taken says it better than what was seen of the tensor."""

    def __init__(self, op_tree: OpTree) -> None:
        self._sizes: dict[TensorKey, int] = {}
        for event in op_tree.sorted_nodes:
            for tensor in _tensors_of(event):
                key = TensorKey.from_tensor(tensor)
                if key is not None:
                    extent = 1 + sum((n - 1) * s for n, s in zip(tensor.sizes, tensor.strides))
                    size = 0 if 0 in tensor.sizes else extent * tensor.dtype.itemsize
                    self._sizes[key] = max(size, self._sizes.get(key, 0))
        taken = {TensorKey.from_allocation(e.extra_fields): abs(e.extra_fields.alloc_size)
                 for e in op_tree.sorted_nodes if e.tag is EventType.Allocation}  # fmt: skip
        self._sizes.update((key, size) for key, size in taken.items() if key is not None)

    def __getitem__(self, key: TensorKey) -> int:
        return self._sizes[key]


def _tensors_of(event: Any) -> list[TensorMetadata]:
    fields = event.extra_fields
    if event.tag is EventType.TorchOp:
        return tensors_in(fields.inputs)
    found: list[TensorMetadata | None] = []
    if isinstance(fields, PyCallFields):
        if fields.module is not None:
            found = [x for _, p, g in fields.module.parameters for x in (p, g)]
        elif fields.optimizer is not None:
            found = [x for p, g, state in fields.optimizer.parameters for x in (p, g, *(s for _, s in state))]
    return [x for x in found if x is not None]


# ---------------------------------------------------------------- schemas


class SchemaMatcher:
    """Which overloads an operator's event may be of. What was recorded doesn't always tell one from another."""

    @classmethod
    def inputs_are_mutable(cls, t: TorchOpFields) -> tuple[bool | None, ...]:
        """Whether the operator writes to each input, in any of these overloads; None where there is no schema."""
        schemas = cls.match_schemas(t)
        if not schemas:
            return (None,) * len(t.inputs)
        return tuple(any(a.alias_info is not None and a.alias_info.is_write for a in arguments)
                     for arguments in zip(*(schema.arguments for schema in schemas)))  # fmt: skip

    @classmethod
    def match_schemas(cls, t: TorchOpFields) -> tuple[Any, ...]:
        """The schemas that the inputs fit."""
        return tuple(
            schema for schema in cls.lookup_schemas(t.name) or ()
            if len(schema.arguments) == len(t.inputs)
            and all(_fits(value, str(argument.type)) for value, argument in zip(t.inputs, schema.arguments))
        )  # fmt: skip

    @staticmethod
    def lookup_schemas(name: str) -> tuple[Any, ...] | None:
        """All schemas of an operator; none where there is no such one, None where there can't be."""
        if "::" not in name or " " in name:
            return None
        return _schemas(name)


@functools.cache
def _schemas(name: str) -> tuple[Any, ...]:
    own = tuple(builtin_schemas.schema_of(name, overload) for overload in builtin_schemas.overloads_of(name))
    return own or tuple(record.schema for record in RECORDS.get(name, {}).values() if record.schema is not None)


#: By Python's type: which types of schemas a recorded number may be of. What is recorded of dtypes and the like are numbers, too.
_NUMBERS = {
    bool: ("bool", "number", "int"), int: ("int", "float", "complex", "number", "Device", "Layout", "MemoryFormat"),
    float: ("float", "complex", "number"), complex: ("complex", "number"),
}  # fmt: skip


def _fits(value: Any, declared: str) -> bool:
    """Whether a recorded input may be of a type; None may be anything but a tensor that has to be there."""
    optional = declared.startswith("Optional[")
    kind = declared.removeprefix("Optional[").rstrip("]") if optional else declared
    if value is None:
        return optional or kind not in ("Tensor", "List[Tensor]")
    if isinstance(value, TensorMetadata):
        return kind == "Tensor"
    if isinstance(value, list):
        return kind.startswith("List[") and "Tensor" in kind
    return kind in _NUMBERS[type(value)]


# ---------------------------------------------------------------- the graph


@dataclass
class DataFlowEdge:
    """What a node does with memory. input_version: what it finds, None for what it takes itself; mutated: whether it writes to
    it, None where it gives it back.
    """

    input_version: int | None = None
    mutated: bool | None = False

    @property
    def is_allocation(self) -> bool:
        """Whether the node takes it."""
        return self.input_version is None

    @property
    def is_deletion(self) -> bool:
        """Whether the node gives it back."""
        return self.mutated is None


class DataFlowNode:
    """An event of the flow, with all that stands below it."""

    def __init__(self, event: ProfilerEvent, graph: DataFlowGraph) -> None:
        self._event, self._graph = event, graph
        self._edges = self._found(list(traverse_dfs([event])))
        for key, edge in self._edges.items():
            graph.lookup(key)
            if edge.mutated and not edge.is_allocation:
                graph.bump(key)
        for key, edge in self._edges.items():
            if edge.is_deletion:
                graph.delete(key)

    def _found(self, events: Sequence[ProfilerEvent]) -> dict[TensorKey, DataFlowEdge]:
        written: dict[TensorKey, bool] = {}
        for event in events:
            if event.tag is EventType.TorchOp:
                fields = event.extra_fields
                given = [*zip(fields.inputs, SchemaMatcher.inputs_are_mutable(fields)), *((x, False) for x in fields.saved)]
                for value, writes in given:
                    for tensor in tensors_in([value]):
                        key = TensorKey.from_tensor(tensor)
                        if key is not None:
                            written[key] = written.get(key, False) or bool(writes)
        edges = {key: DataFlowEdge(mutated=writes) for key, writes in written.items()}
        taken = set()
        for event in events:
            if event.tag is EventType.Allocation:
                key = TensorKey.from_allocation(event.extra_fields)
                if key is None:
                    continue
                edge = edges.setdefault(key, DataFlowEdge())
                if event.extra_fields.alloc_size > 0:
                    taken.add(key)
                else:
                    edge.mutated = None
        for key, edge in edges.items():
            edge.input_version = None if key in taken else self._graph.lookup(key)
        return dict(sorted(edges.items()))

    @property
    def inputs(self) -> dict[TensorKey, tuple[bool, int]]:
        """By what it finds: whether it writes to it, and the version."""
        return {k: (bool(e.mutated), e.input_version) for k, e in self._edges.items() if e.input_version is not None}

    @property
    def outputs(self) -> dict[TensorKey, int]:
        """By what it leaves behind, new or written to: the version."""
        return {k: 0 if e.input_version is None else e.input_version + 1
                for k, e in self._edges.items() if (e.is_allocation and not e.is_deletion) or e.mutated}  # fmt: skip

    @property
    def intermediates(self) -> tuple[TensorKey, ...]:
        """What it takes and gives back."""
        return tuple(k for k, e in self._edges.items() if e.is_allocation and e.is_deletion)

    @property
    def start_time(self) -> int:
        """When it began."""
        return self._event.start_time_ns


class DataFlowGraph:
    """The nodes of the flow, in the order they began."""

    def __init__(self, op_tree: OpTree) -> None:
        self._leaf_events = _leaves(op_tree)
        self._active_version: dict[TensorKey, int | None] = {}
        self._flow_nodes = [DataFlowNode(event, self) for event in self._leaf_events]
        self.validate()

    @property
    def flow_nodes(self) -> tuple[DataFlowNode, ...]:
        """The nodes."""
        return tuple(self._flow_nodes)

    @property
    def leaf_events(self) -> tuple[ProfilerEvent, ...]:
        """Their events."""
        return self._leaf_events

    def validate(self) -> None:
        """AssertionError where a version has come from two nodes, or nodes stand in another order than they began."""
        made: set[tuple[TensorKey, int]] = set()
        for node in self.flow_nodes:
            outputs = set(node.outputs.items())
            if outputs & made:
                raise AssertionError(f"{node._event.name} writes a version that there was before: {outputs & made}")
            made |= outputs
        starts = [node.start_time for node in self.flow_nodes]
        if starts != sorted(starts):
            raise AssertionError("the nodes of the flow are out of order")

    def lookup(self, key: TensorKey) -> int:
        """The version that memory has now. AssertionError if it was given back."""
        version = self._active_version.setdefault(key, 0)
        if version is None:
            raise AssertionError(f"{key} is used after it was given back")
        return version

    def bump(self, key: TensorKey) -> None:
        """Memory is written to."""
        self._active_version[key] = self.lookup(key) + 1

    def delete(self, key: TensorKey) -> None:
        """Memory is given back."""
        self._active_version[key] = None


def _leaves(op_tree: OpTree) -> tuple[ProfilerEvent, ...]:
    """The events that are nodes of the flow: the topmost that can be."""
    found: list[ProfilerEvent] = []

    def below(event: ProfilerEvent) -> Sequence[ProfilerEvent]:
        if _is_leaf(event):
            found.append(event)
            return ()
        return event.children

    for _ in op_tree.dfs(below):
        pass
    return tuple(sorted(found, key=lambda event: event.start_time_ns))


def _is_leaf(event: ProfilerEvent) -> bool:
    if event.tag is EventType.TorchOp:
        fields = event.extra_fields
        return fields.scope is RecordScope.BACKWARD_FUNCTION or bool(SchemaMatcher.match_schemas(fields))
    return event.tag is EventType.Allocation
