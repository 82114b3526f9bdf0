"""Proxies: values that don't exist yet. What is done to one becomes a node of a graph.

A proxy answers Python's operators, attributes and calls, and by `__torch_function__` the public functions; it refuses what
would need the value: conditions, loops, lengths. Stands on fx.node and core.modes.interception, which tells public
functions to look out for proxies while there are any; used by the tracers.
"""

from __future__ import annotations

import collections
import copy
import dataclasses
import dis
import enum
import logging
import operator
import os
import sys
import traceback
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any

import flambeau as torch
from flambeau.core.modes import interception
from flambeau.fx import traceback as fx_traceback
from flambeau.fx.calls import arranged, method_name
from flambeau.fx.graph import Graph, magic_methods, reflectable_magic_methods
from flambeau.fx.names import is_method, public_functions
from flambeau.fx.node import Argument, Node, Target, base_types, map_aggregate, nodes_in

__all__ = [
    "Attribute",
    "GraphAppendingTracer",
    "ParameterProxy",
    "Proxy",
    "Scope",
    "ScopeContextManager",
    "TraceError",
    "TracerBase",
]

log = logging.getLogger(__name__)
_FOLDER = os.path.dirname(__file__) + os.sep
_TRACER_FILE = _FOLDER + "_symbolic_trace.py"
_ATTENTION = os.path.dirname(interception.__file__) + os.sep


class TraceError(ValueError):
    """The traced function asked a proxy for its value."""


class Scope:
    """The module whose forward is being traced: its path and type."""

    def __init__(self, module_path: str, module_type: Any) -> None:
        self.module_path, self.module_type = module_path, module_type


class ScopeContextManager:
    """Puts a scope in the place of the tracer's for a `with` block."""

    def __init__(self, scope: Scope, current_scope: Scope) -> None:
        self._prev_scope = copy.copy(scope)
        scope.module_path, scope.module_type = current_scope.module_path, current_scope.module_type
        self._scope = scope

    def __enter__(self) -> Scope:
        return self._scope

    def __exit__(self, *exception: object) -> None:
        self._scope.module_path = self._prev_scope.module_path
        self._scope.module_type = self._prev_scope.module_type


_COPY_META_FIELDS = [
    "nn_module_stack",
    "torch_fn",
    "source_fn_stack",
    "original_aten",
    "recompute",
    "ac_graph_id",
    "has_backward_hook",
    "from_node",
    "quantization_tag",
    "_numeric_debug_handle",
    "custom",
    "partitioner_tag",
]


class TracerBase:
    """What makes nodes and proxies; Tracer adds how a module is run."""

    graph: Graph
    record_stack_traces: bool = False
    _record_forward_stack_traces_only: bool = False
    check_mutable_operations: bool = False
    trace_asserts: bool = False
    proxy_buffer_attributes: bool = False
    traced_func_name: str = "forward"
    #: Whether functions of the program are given proxies, so that public functions are to look out for these.
    gives_proxies: bool = True
    scope: Scope
    module_stack: OrderedDict[str, tuple[str, Any]]
    node_name_to_scope: dict[str, tuple[str, type]]

    def create_node(
        self,
        kind: str,
        target: Target,
        args: tuple[Argument, ...],
        kwargs: dict[str, Argument],
        name: str | None = None,
        type_expr: Any | None = None,
    ) -> Node:
        """A node at the graph's insert point, with what is known about its origin. To be overridden to see every node."""
        if kind == "call_function" and self.check_mutable_operations:
            from flambeau.fx.operator_schemas import check_for_mutable_operation

            check_for_mutable_operation(target, args, kwargs)  # type: ignore[arg-type]
        node = self.graph.create_node(kind, target, args, kwargs, name, type_expr)
        self.node_name_to_scope[node.name] = (self.scope.module_path, self.scope.module_type)
        if fx_traceback.has_preserved_node_meta():
            current = fx_traceback.get_current_meta()
            stack = current.get("stack_trace")
            if stack:
                node.stack_trace = stack
            for field in _COPY_META_FIELDS:
                if field in current:
                    node.meta[field] = copy.copy(current[field])
        elif self.module_stack:
            node.meta["nn_module_stack"] = copy.copy(self.module_stack)
        if self.record_stack_traces and not node.stack_trace and kind not in ("placeholder", "output"):
            frames = self._filter_traceback_frames(traceback.extract_stack())
            if frames:
                node.stack_trace = "".join(frames.format()).strip()
        return node

    def proxy(self, node: Node) -> Proxy:
        """The proxy of a node."""
        return Proxy(node, self)

    def create_proxy(
        self,
        kind: str,
        target: Target,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        name: str | None = None,
        type_expr: Any | None = None,
        proxy_factory_fn: Callable[[Node], Proxy] | None = None,
    ) -> Proxy:
        """A node whose arguments may be proxies, and its proxy."""
        given, named = self.create_arg(args), self.create_arg(kwargs)
        if not isinstance(given, tuple) or not isinstance(named, dict):
            raise AssertionError("create_arg must turn a tuple into a tuple, and a dict into a dict")
        node = self.create_node(kind, target, given, named, name, type_expr)
        return self.proxy(node) if proxy_factory_fn is None else proxy_factory_fn(node)

    def _filter_traceback_frames(self, user_stack_summary: traceback.StackSummary) -> traceback.StackSummary:
        """The frames of the traced program: those from the traced function inwards, without the tracer's own."""
        frames = list(user_stack_summary)
        begin = max([i + 1 for i, f in enumerate(frames) if f.filename == _TRACER_FILE and f.name == "trace"], default=0)
        kept = [f for f in frames[begin:] if not f.filename.startswith((_FOLDER, _ATTENTION, "<flambeau"))]
        if self._record_forward_stack_traces_only:
            kept = [f for f in kept if f.name == "forward"]
        return traceback.StackSummary.from_list(kept)

    def create_arg(self, a: Any) -> Argument:
        """A value as a node's argument: proxies become their nodes, at any depth. Raises NotImplementedError for other types.

        To be overridden for types of one's own; a class may say it itself by a method `__fx_create_arg__(tracer)`.
        """
        if isinstance(a, Proxy):
            return a.node
        if hasattr(a, "__fx_create_arg__"):
            return a.__fx_create_arg__(self)
        if isinstance(a, tuple):
            items = [self.create_arg(item) for item in a]
            return type(a)(*items) if hasattr(a, "_fields") else type(a)(items)
        if isinstance(a, list):
            return [self.create_arg(item) for item in a]
        if isinstance(a, dict):
            return {_checked_key(self.create_arg(k)): self.create_arg(v) for k, v in a.items()}
        if isinstance(a, slice):
            return slice(self.create_arg(a.start), self.create_arg(a.stop), self.create_arg(a.step))
        if isinstance(a, range):
            start, stop, step = (self.create_arg(n) for n in (a.start, a.stop, a.step))
            return range(start, stop, step)  # type: ignore[arg-type]
        if dataclasses.is_dataclass(a) and not isinstance(a, type):
            fields = {f.name: self.create_arg(getattr(a, f.name)) for f in dataclasses.fields(a)}
            return self.create_node("call_function", type(a), (), fields)
        if isinstance(a, (*base_types, enum.Enum, Node)) or a is None or a is ...:
            return a
        raise NotImplementedError(f"argument of type: {type(a)}")

    def to_bool(self, obj: Proxy) -> bool:
        """Called where a proxy is a condition."""
        raise TraceError("symbolically traced variables cannot be used as inputs to control flow")

    def iter(self, obj: Proxy) -> Iterator[Any]:
        """Called where a proxy is gone through."""
        raise TraceError(
            "Proxy object cannot be iterated. This can be attempted when the Proxy is used in a loop or as a *args or "
            "**kwargs function argument. See the torch.fx docs on pytorch.org for a more detailed explanation of what "
            "types of control flow can be traced, and check out the Proxy docstring for help troubleshooting Proxy "
            "iteration errors"
        )

    def keys(self, obj: Proxy) -> Any:
        """Called for proxy.keys(), also by `**proxy`; must return an iterator for the latter to work."""
        return Attribute(obj, "keys")()


def _checked_key(key: Argument) -> Any:
    for node in nodes_in(key):
        raise RuntimeError(f"Keys for dictionaries used as an argument cannot contain a Node. Got key: {node}")
    return key


class GraphAppendingTracer(TracerBase):
    """Adds to a graph that exists: the tracer of proxies that are made by hand."""

    def __init__(self, graph: Graph) -> None:
        super().__init__()
        self.graph = graph
        self.scope = Scope("", None)
        self.module_stack = collections.OrderedDict()
        self.node_name_to_scope = {}


def assert_fn(x: object) -> None:
    """assert x."""
    if not x:
        raise AssertionError("Assertion failed")


class Proxy:
    """Stands for the value of a node. `Proxy(node)` appends what is done to it at the insert point of the node's graph."""

    tracer: TracerBase
    node: Node

    def __init__(self, node: Node, tracer: TracerBase | None = None) -> None:
        self.tracer = GraphAppendingTracer(node.graph) if tracer is None else tracer
        self._attention = interception.Attention() if self.tracer.gives_proxies else None
        if node is not None:
            self.node = node

    def __repr__(self) -> str:
        return f"{type(self).__name__.replace('Attribute', 'Proxy')}({self.node.name})"

    def __getattr__(self, k: str) -> Any:
        return Attribute(self, k)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_attention"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.__dict__["_attention"] = interception.Attention() if self.tracer.gives_proxies else None

    def __deepcopy__(self, memo: dict[int, Any]) -> Proxy:
        made = type(self).__new__(type(self))
        made.__setstate__({name: copy.deepcopy(value, memo) for name, value in self.__getstate__().items()})
        return made

    def __call__(self, *args: Any, **kwargs: Any) -> Proxy:
        return self.tracer.create_proxy("call_method", "__call__", (self, *args), kwargs)

    def __iter__(self) -> Iterator[Any]:
        frame = sys._getframe(1)
        found = next((x for x in dis.get_instructions(frame.f_code) if x.offset == frame.f_lasti), None)
        if found is not None and found.opname == "UNPACK_SEQUENCE":
            return (self[i] for i in range(found.argval))  # type: ignore[index]
        return self.tracer.iter(self)

    def __abs__(self) -> Proxy:
        return self.tracer.create_proxy("call_function", operator.abs, (self,), {})

    def __bool__(self) -> bool:
        if self.tracer.trace_asserts and _in_assert(sys._getframe(1)):
            self.tracer.create_proxy("call_function", assert_fn, (self,), {})
            return True
        return self.tracer.to_bool(self)

    def keys(self) -> Any:
        """The proxy of `.keys()`."""
        return self.tracer.keys(self)

    def __len__(self) -> int:
        raise RuntimeError(
            "'len' is not supported in symbolic tracing by default. If you want this call to be recorded, please call "
            "torch.fx.wrap('len') at module scope"
        )

    @classmethod
    def __torch_function__(cls, orig_method: Any, types: Any, args: Any = None, kwargs: dict[str, Any] | None = None) -> Proxy:
        args, kwargs = args or (), kwargs or {}
        tracers: dict[TracerBase, None] = {}

        def note(a: Any) -> None:
            if isinstance(a, cls):
                tracers[a.tracer] = None

        map_aggregate(args, note)
        map_aggregate(kwargs, note)
        if len(tracers) > 1:
            raise RuntimeError(f"Found multiple different tracers {list(tracers)} while trying to trace operations {orig_method}")
        tracer = next(iter(tracers))
        if is_method(orig_method):
            _refuse_sliced(orig_method, args)
            return tracer.create_proxy("call_method", method_name(orig_method), args, kwargs)
        target, args, kwargs = arranged(orig_method, args, kwargs)
        if isinstance(target, str):
            return tracer.create_proxy("call_method", target, args, kwargs)
        name = tracer.graph._target_to_str(method_name(target))
        return tracer.create_proxy("call_function", target, args, kwargs, name=name)


def _refuse_sliced(method: Any, args: tuple[Any, ...]) -> None:
    """Raise TypeError for a tensor that is indexed by a slice with a proxy: PyTorch reads its numbers before it asks."""
    if method.__name__ in ("__getitem__", "__setitem__") and isinstance(args[0], torch.Tensor):
        for part in args[1] if isinstance(args[1], tuple) else (args[1],):
            if isinstance(part, slice) and any(isinstance(n, Proxy) for n in (part.start, part.stop, part.step)):
                raise TypeError("slice indices must be integers or None or have an __index__ method")


def _in_assert(frame: Any) -> bool:
    """Whether the condition that a frame is deciding is that of an `assert`."""
    listed = [x for x in dis.get_instructions(frame.f_code) if x.opname not in ("CACHE", "EXTENDED_ARG", "NOT_TAKEN")]
    place = next((i for i, x in enumerate(listed) if x.offset >= frame.f_lasti), None)
    if place is None:
        return False
    behind = [x.opname for x in listed[place : place + 3]]
    return "LOAD_ASSERTION_ERROR" in behind


class Attribute(Proxy):
    """An attribute of a proxy: the node that reads it is only made if it isn't a method that is called."""

    def __init__(self, root: Proxy, attr: str) -> None:
        self.root, self.attr = root, attr
        self.tracer = root.tracer
        self._node: Node | None = None
        self._attention = interception.Attention() if self.tracer.gives_proxies else None

    @property
    def node(self) -> Node:  # type: ignore[override]
        """The node that reads the attribute."""
        if self._node is None:
            self._node = self.tracer.create_proxy("call_function", getattr, (self.root, self.attr), {}).node
        return self._node

    def __call__(self, *args: Any, **kwargs: Any) -> Proxy:
        return self.tracer.create_proxy("call_method", self.attr, (self.root, *args), kwargs)


class ParameterProxy(Proxy):
    """A parameter of the module whose shape the traced function may look at: `Tracer(param_shapes_constant=True)`."""

    def __init__(self, tracer: TracerBase, node: Node, name: str, param: torch.nn.Parameter) -> None:
        super().__init__(node, tracer)
        if not isinstance(param, torch.nn.Parameter):
            raise AssertionError(f"Expected param to be a Parameter, got {type(param)}")
        self.param, self.name = param, name

    def __repr__(self) -> str:
        return f"ParameterProxy({self.name})"

    @property
    def shape(self) -> Any:
        """The parameter's shape."""
        return self.param.shape

    def size(self) -> Any:
        """The parameter's shape."""
        return self.param.size()

    def dim(self) -> int:
        """The number of dimensions."""
        return self.param.dim()

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return self.param.ndim

    def numel(self) -> int:
        """The number of elements."""
        return self.param.numel()

    def nelement(self) -> int:
        """The number of elements."""
        return self.param.nelement()


def _define(method: str) -> None:
    target = getattr(operator, method)

    def call(*args: Any, **kwargs: Any) -> Any:
        return args[0].tracer.create_proxy("call_function", target, args, kwargs)

    call.__name__ = f"__{method.strip('_')}__"
    setattr(Proxy, call.__name__, call)


def _define_reflected(method: str) -> None:
    target = getattr(operator, method)

    def call(self: Proxy, rhs: Any) -> Any:
        return self.tracer.create_proxy("call_function", target, (rhs, self), {})

    call.__name__ = call.__qualname__ = f"__r{method.strip('_')}__"
    setattr(Proxy, call.__name__, call)


for _method in magic_methods:
    if hasattr(operator, _method):
        _define(_method)
for _method in reflectable_magic_methods:
    if hasattr(operator, _method) and _method != "getitem":
        _define_reflected(_method)
Proxy.__hash__ = object.__hash__  # type: ignore[method-assign]

_UNCONCERNED = (torch.is_tensor, torch.is_storage, torch.typename, torch.compile)
interception.attend(Proxy, lambda: [f for f in public_functions() if f not in _UNCONCERNED], _UNCONCERNED)
