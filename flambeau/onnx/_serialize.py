"""A model as a file: ONNX's ModelProto, by the package onnx. Stands on `_graph` and `_package`; used by `_program`."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from flambeau.onnx._constants import ONNX_DEFAULT_OPSET
from flambeau.onnx._graph import Graph, Model, Node, SymbolicDim, Value
from flambeau.onnx._package import onnx
from flambeau.onnx._types import TensorProtoDataType, number_of

__all__ = ["named", "renamed", "save", "to_proto"]

_SMALL = 16  # elements: larger constants are initializers, which `save` may leave out
_EXTERNAL = 256  # bytes: smaller tensors stay in the model's own file
_PAGE = 4096  # where large ones begin, so that a runtime can map them


def named(graph: Graph, opset: int = ONNX_DEFAULT_OPSET) -> None:
    """Give a name to every value and node that has none, and move large constants to the initializers; all before version 9,
    whose Constant has floating-point numbers only.
    """
    small = _SMALL if opset >= 9 else -1
    taken = {v.name for v in graph.values() if v.name}
    numbers = (f"val_{i}" for i in range(1 << 62))
    for value in graph.values():
        if not value.name:
            value.name = next(n for n in numbers if n not in taken)
        large = value.const_value is not None and (value.parameter or value.const_value.size > small)
        if large and value.name not in graph.initializers:
            graph.initializers[value.name] = value
    seen: set[str] = set()
    for node in graph.all_nodes():
        name = node.name or f"node_{node.outputs[0].name}"
        while name in seen:
            name += "_"
        node.name = name
        seen.add(name)


def renamed(graph: Graph, inputs: Sequence[str] | None, outputs: Sequence[str] | None) -> None:
    """Give inputs and outputs other names, in their order. ValueError for a name that occurs twice, or is a weight's."""
    shared = sorted(set(inputs or ()) & set(outputs or ()))
    if shared:
        raise ValueError(f"Input and output names cannot be the same: {shared}")
    for kind, values, names in (("Input", graph.inputs, inputs), ("Output", graph.outputs, outputs)):
        twice = [n for n, count in Counter(names or ()).items() if count > 1]
        if twice:
            raise ValueError(f"{kind} names cannot be duplicated: {twice}")
        for name in names or ():
            if name in graph.initializers:
                raise ValueError(f"{kind} name '{name}' is the name of a weight of the model")
        chosen = dict(zip(map(id, values), names or ()))
        for value in graph.values():
            if value.name in chosen.values() and id(value) not in chosen and value.name not in graph.initializers:
                value.name = None  # its name is wanted for another
        for value in values:
            value.name = chosen.get(id(value), value.name)


def to_proto(
    model: Model, *, include_initializers: bool = True, keep_initializers_as_inputs: bool = False, data: _DataFile | None = None
) -> Any:
    """The ModelProto; large weights are written to a data file, if there is one, and are then not part of it."""
    helper = onnx().helper
    graph = model.graph
    named(graph, model.opset_imports[""])
    inputs = [_info(v) for v in graph.inputs]
    if keep_initializers_as_inputs:
        inputs += [_info(v) for v in graph.initializers.values()]
    constants = [_tensor(v, data=data) for v in graph.initializers.values()] if include_initializers else []
    outputs = {id(v) for v in graph.outputs}
    infos = [_info(v) for n in graph.nodes for v in n.outputs if _known(v) and id(v) not in outputs]
    made = helper.make_graph(
        list(_nodes(graph)), graph.name, inputs, [_info(v) for v in graph.outputs], constants, value_info=infos
    )
    imports = [helper.make_opsetid(domain, version) for domain, version in model.opset_imports.items()]
    return helper.make_model(
        made,
        opset_imports=imports,
        ir_version=model.ir_version,
        producer_name=model.producer_name,
        producer_version=model.producer_version,
        functions=model.functions,
    )


def _known(value: Value) -> bool:
    """Whether the type of a value is that of a node of the exported graph."""
    return bool(value.name) and not value.name.startswith("val_") and value.dtype is not None and value.shape is not None


def _nodes(graph: Graph) -> Iterator[Any]:
    """The nodes, small constants before their first use."""
    written: set[int] = set()
    for node in graph.nodes:
        for value in node.reads():
            if value.const_value is None or value.name in graph.initializers or id(value) in written:
                continue
            written.add(id(value))
            helper = onnx().helper
            yield helper.make_node("Constant", [], [value.name], name=f"node_{value.name}", value=_tensor(value, ""))
        yield _node(node)


def _node(node: Node) -> Any:
    helper = onnx().helper
    made = helper.make_node(
        node.op_type,
        [x.name if x is not None else "" for x in node.inputs],
        [x.name for x in node.outputs],
        name=node.name,
        domain=node.domain,
    )
    for name, value in node.attributes.items():
        made.attribute.append(_attribute(name, _inner(value) if isinstance(value, Graph) else value))
    for key, value in node.metadata_props.items():
        entry = made.metadata_props.add()
        entry.key, entry.value = key, value
    return made


def _inner(graph: Graph) -> Any:
    """A graph that a node runs; its constants are those of the model's graph."""
    nodes = [_node(node) for node in graph.nodes]
    return onnx().helper.make_graph(nodes, graph.name, [_info(v) for v in graph.inputs], [_info(v) for v in graph.outputs])


def _attribute(name: str, value: Any) -> Any:
    package = onnx()
    if isinstance(value, np.ndarray):
        value = package.numpy_helper.from_array(value, "")
    elif isinstance(value, bool):
        value = int(value)
    if isinstance(value, (list, tuple)) and not value:
        return package.helper.make_attribute(name, value, attr_type=package.AttributeProto.INTS)
    return package.helper.make_attribute(name, value)


def _tensor(value: Value, name: str | None = None, data: _DataFile | None = None) -> Any:
    package = onnx()
    array = value.const_value
    assert array is not None
    made = package.TensorProto()
    made.name = value.name if name is None else name
    made.data_type = int(number_of(value.dtype))
    made.dims.extend(array.shape)
    if data is None or array.nbytes < _EXTERNAL:
        made.raw_data = np.ascontiguousarray(array).tobytes()
        return made
    made.data_location = package.TensorProto.EXTERNAL
    for key, text in {"location": data.path.name, "offset": data.write(array), "length": array.nbytes}.items():
        entry = made.external_data.add()
        entry.key, entry.value = key, str(text)
    return made


def _info(value: Value) -> Any:
    helper = onnx().helper
    number = TensorProtoDataType.FLOAT if value.dtype is None else number_of(value.dtype)
    shape = None if value.shape is None else [n.value if isinstance(n, SymbolicDim) else n for n in value.shape]
    if value.sequence:
        return helper.make_tensor_sequence_value_info(value.name, int(number), None)
    return helper.make_tensor_value_info(value.name, int(number), shape)


class _DataFile:
    """The file of a model's weights, beside the model's own; it is made by the first of them."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.file: Any = None

    def write(self, array: np.ndarray) -> int:
        """Add an array; where it begins, on a page of its own if it is large."""
        if self.file is None:
            self.file = self.path.open("wb")
        page = _PAGE if array.nbytes >= 1 << 20 else 64
        self.file.write(b"\0" * (-self.file.tell() % page))
        start = self.file.tell()
        self.file.write(np.ascontiguousarray(array).view(np.uint8) if array.ndim else array.tobytes())
        return int(start)


def save(model: Model, destination: Any, external_data: bool, **how: bool) -> None:
    """Write a model to a path, or to an open file; with external_data, its weights to <path>.data beside it.

    how: to_proto's arguments.
    """
    if hasattr(destination, "write"):
        destination.write(to_proto(model, **how).SerializeToString())
        return
    path = Path(os.fspath(destination))
    data = _DataFile(path.with_name(path.name + ".data")) if external_data else None
    try:
        proto = to_proto(model, data=data, **how)
    finally:
        if data is not None and data.file is not None:
            data.file.close()
    path.write_bytes(proto.SerializeToString())
