"""The graph of a module that TensorBoard shows: the operators that one call makes, inside the modules that make them.

The module is called once with the given input, and a mode sees every operator call. Stands on core.modes.observing and nn's
hooks; what the arguments of a call are, besides tensors, is not shown.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from types import FunctionType
from typing import Any

from tensorboard.compat.proto.attr_value_pb2 import AttrValue
from tensorboard.compat.proto.config_pb2 import RunMetadata
from tensorboard.compat.proto.graph_pb2 import GraphDef
from tensorboard.compat.proto.node_def_pb2 import NodeDef
from tensorboard.compat.proto.step_stats_pb2 import DeviceStepStats, StepStats
from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto
from tensorboard.compat.proto.versions_pb2 import VersionDef

import flambeau as torch
from flambeau.core.modes.observing import Observer
from flambeau.dispatcher import public_names

__all__ = ["graph"]


def _tensors(value: Any) -> list[torch.Tensor]:
    """The tensors in nested lists, tuples and dicts."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        return [tensor for each in value for tensor in _tensors(each)]
    return []


class _Recorder(Observer):
    """Makes a node of every operator call, in the scope of the innermost module that is at work."""

    def __init__(self, model: Any):
        self.nodes: list[Any] = []
        self.scopes = [type(model).__name__]
        self.numbers: Counter[str] = Counter()
        self.names: dict[int, str] = {}  # of tensors, by identity
        self.alive: list[torch.Tensor] = []  # so that no identity comes twice
        self.handles: list[Any] = []
        for parent in model.modules():
            for name, child in parent.named_children():
                self.handles += [
                    child.register_forward_pre_hook(self.opening(f"{type(child).__name__}[{name}]")),
                    child.register_forward_hook(self.close, always_call=True),
                ]
            for name, parameter in parent._parameters.items():
                if parameter is not None:
                    self.handles.append(parent.register_forward_pre_hook(self.parameter(name, parameter)))

    def opening(self, name: str) -> Callable[..., None]:
        return lambda module, inputs: self.scopes.append(name)

    def close(self, module: Any, inputs: Any, output: Any) -> None:
        self.scopes.pop()

    def parameter(self, name: str, tensor: torch.Tensor) -> Callable[..., None]:
        def enter(module: Any, inputs: Any) -> None:
            if id(tensor) not in self.names:
                self.add(name, "prim::GetAttr", [], [tensor], f"{{ name :  {name} }}", numbered=False)

        return enter

    def add(
        self, name: str, kind: str, inputs: list[str], outputs: list[torch.Tensor], about: str = "{}", numbered: bool = True
    ) -> str:
        scope = "/".join(self.scopes)
        full = f"{scope}/{name}"
        if numbered:
            self.numbers[full] += 1
            full += f".{self.numbers[full]}"
        attributes = {"attr": AttrValue(s=about.encode())}
        if outputs:
            shapes = [TensorShapeProto(dim=[TensorShapeProto.Dim(size=n) for n in t.shape]) for t in outputs]
            attributes["_output_shapes"] = AttrValue(list=AttrValue.ListValue(shape=shapes))
        self.nodes.append(NodeDef(name=full, op=kind, input=inputs, attr=attributes))
        for tensor in outputs:
            self.names[id(tensor)] = full
            self.alive.append(tensor)
        return full

    def sources(self, tensors: list[torch.Tensor]) -> list[str]:
        return [self.names[id(tensor)] for tensor in tensors if id(tensor) in self.names]

    def called(self, function: FunctionType, own: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        name = public_names.called(function)
        if not name:
            return self.go_on(function, own, args, kwargs)
        result = self.alone(function, own, args, kwargs)
        made = _tensors(result)
        if made:
            self.add(name, f"aten::{name}", self.sources(_tensors([args, kwargs])), made)
        return result


def graph(model: Any, args: Any, verbose: bool = False, use_strict_trace: bool = True) -> tuple[Any, Any]:
    """The GraphDef of one call of `model` with `args` (a tensor, or a tuple of arguments), and empty RunMetadata.

    verbose prints it; use_strict_trace is accepted: outputs may be dicts and lists. Raises what the call raises.
    """
    inputs = args if isinstance(args, tuple) else (args,)
    recorder = _Recorder(model)
    try:
        scopes, recorder.scopes = recorder.scopes, ["input"]
        for number, tensor in enumerate(_tensors(inputs)):
            recorder.add(str(number), "IO Node", [], [tensor], "", numbered=False)
        recorder.scopes = scopes
        with recorder:
            output = model(*inputs)
        recorder.scopes = ["output"]
        for number, tensor in enumerate(_tensors(output)):
            recorder.add(f"output.{number + 1}", "IO Node", recorder.sources([tensor]), [tensor], "", numbered=False)
    finally:
        for handle in recorder.handles:
            handle.remove()
    made = GraphDef(node=recorder.nodes, versions=VersionDef(producer=22))
    if verbose:
        print(made)
    return made, RunMetadata(step_stats=StepStats(dev_stats=[DeviceStepStats(device="/device:CPU:0")]))
