"""torch.profiler._memory_profiler: what a program's memory is for, and when it is taken and given back.

What memory is for follows from what a profiler saw of modules and optimizers, and from what data goes where: gradients end at
leaves, inputs reach gradients and depend on none, activations are made of inputs and parameters.
Stands on flambeau.profiler.data_flow, whose names it shows as well.
"""

from __future__ import annotations

import enum
import gzip
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from flambeau.profiler.data_flow import (
    DataFlowEdge,
    DataFlowGraph,
    DataFlowNode,
    Key,
    OpTree,
    SchemaMatcher,
    SizeMap,
    TensorKey,
    _in_backward,
    extract_gradients,
    extract_parameters,
    get_scopes,
)
from flambeau.profiler.data_flow import Storage as _Storage
from flambeau.profiler.records import EventType, PyCallFields

__all__ = [
    "Action", "Category", "CategoryDict", "CategoryElement", "DataFlowEdge", "DataFlowGraph", "DataFlowNode", "Key",
    "MemoryProfile", "MemoryProfileTimeline", "OpTree", "SchemaMatcher", "SizeMap", "TensorKey", "_Storage", "extract_gradients",
    "extract_parameters", "get_scopes",
]  # fmt: skip

TensorAndID = tuple[TensorKey, int]


class Category(enum.Enum):
    """What memory is for."""

    INPUT = enum.auto()
    TEMPORARY = enum.auto()
    ACTIVATION = enum.auto()
    GRADIENT = enum.auto()
    AUTOGRAD_DETAIL = enum.auto()
    PARAMETER = enum.auto()
    OPTIMIZER_STATE = enum.auto()


class Action(enum.Enum):
    """What becomes of memory."""

    PREEXISTING = enum.auto()
    CREATE = enum.auto()
    INCREMENT_VERSION = enum.auto()
    DESTROY = enum.auto()


#: The order of categories in timelines that are written.
_ORDER = (
    Category.PARAMETER, Category.OPTIMIZER_STATE, Category.INPUT, Category.TEMPORARY, Category.ACTIVATION, Category.GRADIENT,
    Category.AUTOGRAD_DETAIL, None,
)  # fmt: skip


@dataclass
class CategoryElement:
    """What is known of a tensor: of it at all times, with some memory, in some versions."""

    by_id: Category | None = None
    by_key: dict[TensorKey, Category] = field(default_factory=dict)
    by_version: dict[TensorAndID, Category] = field(default_factory=dict)
    _by_id_keyset: set[TensorKey] = field(default_factory=set)  # those that by_id was said of


class CategoryDict:
    """Categories of tensors; what is said of all times counts before what is said of some memory, and that before versions."""

    def __init__(self) -> None:
        self._values: defaultdict[int, CategoryElement] = defaultdict(CategoryElement)

    def set_by_id(self, key: TensorKey, category: Category) -> None:
        """Of a tensor at all times."""
        self._values[key.id].by_id = category
        self._values[key.id]._by_id_keyset.add(key)

    def set_by_key(self, key: TensorKey, category: Category) -> None:
        """Of a tensor with the memory it has there."""
        self._values[key.id].by_key[key] = category

    def set_by_version(self, key: TensorKey, version: int, category: Category) -> None:
        """Of one version."""
        self._values[key.id].by_version[key, version] = category

    def setdefault_by_version(self, key: TensorKey, version: int, category: Category) -> None:
        """Of one version, if nothing is known of that."""
        self._values[key.id].by_version.setdefault((key, version), category)

    def get(self, key: Any, version: int) -> Category | None:
        """What one version is for; None if that isn't known."""
        if not isinstance(key, TensorKey):
            return None
        known = self._values[key.id]
        return known.by_id or known.by_key.get(key) or known.by_version.get((key, version))


def _read(node: DataFlowNode) -> set[TensorAndID]:
    return {(key, version) for key, (_, version) in node.inputs.items()}


class MemoryProfile:
    """What a profiler (its `kineto_results`) saw of memory. timeline: what becomes of it, and when."""

    def __init__(self, result: Any) -> None:
        self._op_tree = OpTree(result)
        self._data_flow_graph = DataFlowGraph(self._op_tree)
        self._size_map = SizeMap(self._op_tree)
        self._categories = CategoryDict()
        self._set_gradients_and_temporaries()
        self._set_parameters_using_python_tracer()
        self._set_inputs()
        self._set_parameters_using_data_flow()
        self._set_activations()
        self._set_optimizer_state()
        self._set_autograd_detail()

    @property
    def _nodes(self) -> tuple[DataFlowNode, ...]:
        return self._data_flow_graph.flow_nodes

    def _is(self, tensor: TensorAndID, *categories: Category) -> bool:
        return self._categories.get(*tensor) in categories

    def _versions(self) -> Iterator[TensorAndID]:
        for node in self._nodes:
            yield from _read(node)
            yield from ((key, 0) for key in node.intermediates)
            yield from node.outputs.items()
        for known in self._categories._values.values():
            yield from ((key, 0) for key in known._by_id_keyset)

    def _category_snapshot(self) -> dict[TensorAndID, Category | None]:
        """By every version that there was: what it is for."""
        return {tensor: self._categories.get(*tensor) for tensor in sorted(set(self._versions()))}

    # ---- what memory is for

    def _set_gradients_and_temporaries(self) -> None:
        for event in self._op_tree.dfs():
            for _, gradient in extract_gradients(event):
                self._categories.set_by_id(gradient, Category.GRADIENT)
        for node in self._nodes:
            for key in node.intermediates:
                self._categories.set_by_key(key, Category.TEMPORARY)

    def _set_parameters_using_python_tracer(self) -> None:
        for event in self._op_tree.dfs():
            for parameter in extract_parameters(event):
                self._categories.set_by_id(parameter, Category.PARAMETER)

    def _depending_on_gradients(self) -> set[int]:
        """The tensors of which some version comes from a gradient or a parameter. A parameter is first read before any gradient
        has reached it: that is why all its versions count.
        """
        found: set[int] = set()
        before = -1
        while len(found) > before:
            before = len(found)
            for node in self._nodes:
                source = {
                    key.id for key, version in _read(node)
                    if key.id in found or self._is((key, version), Category.GRADIENT, Category.PARAMETER)
                }  # fmt: skip
                if source:
                    found |= source | {key.id for key in node.outputs}
        return found

    def _set_inputs(self) -> None:
        """Inputs reach a gradient or meet a parameter, depend on neither, and are not made by backward passes."""
        depending = self._depending_on_gradients()
        reaching: set[TensorAndID] = set()
        for node in reversed(self._nodes):
            touched = _read(node) | set(node.outputs.items())
            if touched & reaching or any(self._is(x, Category.GRADIENT, Category.PARAMETER) for x in touched):
                reaching |= touched
        for node in self._nodes:
            if _in_backward(node._event):
                reaching -= set(node.outputs.items())
        for key, version in reaching:
            if key.id not in depending:
                self._categories.setdefault_by_version(key, version, Category.INPUT)

    def _set_parameters_using_data_flow(self) -> None:
        """Parameters are read together with what comes from inputs, come from nowhere themselves, reach a gradient, and are
        changed by one.
        """
        forward = {tensor for tensor, category in self._category_snapshot().items() if category is Category.INPUT}
        candidates: set[TensorAndID] = set()
        for node in self._nodes:
            read, made = _read(node), set(node.outputs.items())
            if not read & forward or _in_backward(node._event) or any(self._is(x, Category.GRADIENT) for x in read | made):
                continue
            forward |= made
            candidates |= read - forward
        reaching: set[TensorAndID] = set()
        for node in reversed(self._nodes):
            made = set(node.outputs.items())
            if made & reaching or any(self._is(x, Category.GRADIENT) for x in made):
                reaching |= _read(node)
        ids = {key.id for key, _ in candidates & reaching} & self._depending_on_gradients()
        for key, _ in self._category_snapshot():
            if key.id in ids:
                self._categories.set_by_id(key, Category.PARAMETER)

    def _set_activations(self) -> None:
        """Activations are made outside of backward passes of inputs and activations, and of parameters and temporaries."""
        needed = {Category.INPUT, Category.ACTIVATION}
        allowed = {*needed, Category.PARAMETER, Category.TEMPORARY}
        for node in self._nodes:
            kinds = {self._categories.get(*tensor) for tensor in _read(node)}
            if kinds & needed and kinds <= allowed and not _in_backward(node._event):
                for tensor in node.outputs.items():
                    self._categories.setdefault_by_version(*tensor, Category.ACTIVATION)

    def _set_optimizer_state(self) -> None:
        for event in self._op_tree.dfs():
            fields = event.extra_fields
            if isinstance(fields, PyCallFields) and fields.optimizer is not None:
                for _, _, state in fields.optimizer.parameters:
                    for key in (TensorKey.from_tensor(tensor) for _, tensor in state):
                        if key is not None:
                            self._categories.set_by_id(key, Category.OPTIMIZER_STATE)

    def _set_autograd_detail(self) -> None:
        """What backward passes make, or write to where it was made by them, and is nothing else."""
        for node in self._nodes:
            if _in_backward(node._event):
                for key, version in node.outputs.items():
                    if version == 0 or self._categories.get(key, version - 1) in (None, Category.AUTOGRAD_DETAIL):
                        self._categories.setdefault_by_version(key, version, Category.AUTOGRAD_DETAIL)

    # ---- when

    @property
    def timeline(self) -> tuple[tuple[int, Action, tuple[Any, int], int], ...]:
        """(nanoseconds, what becomes of it, (which memory, version), bytes) in order; -1 for what was there before."""
        found: list[tuple[int, Action, tuple[Any, int], int]] = []
        times: dict[tuple[TensorKey, bool], int] = {}
        unknown: set[tuple[int, Key]] = set()
        for event in self._op_tree.sorted_nodes:
            if event.tag is not EventType.Allocation:
                continue
            fields, time = event.extra_fields, event.start_time_ns
            key = TensorKey.from_allocation(fields)
            if key is not None:
                times[key, fields.alloc_size > 0] = time
                continue
            place = fields.ptr, Key(fields.device)
            if fields.alloc_size > 0:
                unknown.add(place)
                found.append((time, Action.CREATE, (place[1], 0), fields.alloc_size))
                continue
            if place not in unknown:
                found.append((-1, Action.PREEXISTING, (place[1], 0), -fields.alloc_size))
            unknown.discard(place)
            found.append((time, Action.DESTROY, (place[1], 0), -fields.alloc_size))
        snapshot = self._category_snapshot()
        last = dict(snapshot.keys())
        for key, version in snapshot:
            if version == 0 and (key, True) not in times:
                found.append((-1, Action.PREEXISTING, (key, version), self._size_map[key]))
        for node in self._nodes:
            for key, edge in node._edges.items():
                size = self._size_map[key]
                if edge.is_allocation:
                    found.append((times[key, True], Action.CREATE, (key, 0), size))
                elif edge.mutated and edge.input_version is not None:
                    found.append((node.start_time, Action.INCREMENT_VERSION, (key, edge.input_version), size))
                if edge.is_deletion:
                    found.append((times[key, False], Action.DESTROY, (key, last[key]), size))
        return tuple(sorted(found, key=lambda each: (each[0], each[1].value)))


class MemoryProfileTimeline:
    """Writes the timeline of a MemoryProfile for one device."""

    def __init__(self, memory_profile: MemoryProfile) -> None:
        self.timeline = memory_profile.timeline
        self.categories = memory_profile._categories

    def _changes(self, device_str: str) -> Iterator[tuple[int, Action, int, int]]:
        """(when, what, bytes more or fewer, place of the category)."""
        import flambeau as torch

        device = torch.device(device_str)
        for time, action, (key, version), size in self.timeline:
            if key.device != device:
                continue
            category = self.categories.get(key, version)
            if action is Action.INCREMENT_VERSION:
                after = self.categories.get(key, version + 1)
                if after is not category:
                    yield time, action, -size, _ORDER.index(category)
                    yield time, action, size, _ORDER.index(after)
            else:
                yield time, action, -size if action is Action.DESTROY else size, _ORDER.index(category)

    def _coalesce_timeline(self, device_str: str) -> tuple[list[int], list[list[int]]]:
        """When something changes (microseconds), and the bytes of each category then, behind a 0."""
        times: list[int] = []
        sizes: list[list[int]] = []
        begins = next((time for time, *_ in self.timeline if time >= 0), 0)
        held = [0] * (len(_ORDER) + 1)
        previous = None
        for time, _, change, place in self._changes(device_str):
            held[place + 1] += change
            if time == previous:
                sizes[-1] = held.copy()
                continue
            previous = time
            times.append((begins if time < 0 else time) // 1000)
            sizes.append(held.copy())
        return times, sizes

    def export_memory_timeline(self, path: str, device_str: str) -> None:
        """Write [times, sizes] as JSON, compressed if the name ends in .gz."""
        _write(path, self._coalesce_timeline(device_str))

    def export_memory_timeline_raw(self, path: str, device_str: str) -> None:
        """Write [nanoseconds, action, bytes more or fewer, category] of each change as JSON."""
        _write(path, [[time, action.value, change, place] for time, action, change, place in self._changes(device_str)])

    def export_memory_timeline_html(self, path: str, device_str: str, figsize: Any = (20, 12), title: str | None = None) -> None:
        """Not implemented: plots."""
        raise NotImplementedError(
            "export_memory_timeline to HTML is not implemented in flambeau: write JSON, by a name that ends in .json, and plot it"
        )


def _write(path: str, value: Iterable[Any]) -> None:
    with gzip.open(path, "wt") if path.endswith(".gz") else open(path, "w") as file:
        json.dump(value, file)
