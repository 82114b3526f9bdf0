"""A model in an older version of the operator set, 7 to 17: what inputs and attributes were then. Used by `_export`.

Translations write version 18. Each rule rewrites the nodes of an operator for the versions below one; what then doesn't fit the
operators as they were is refused with the version from which it can be written.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from flambeau.onnx._builder import Builder
from flambeau.onnx._constants import OLDEST_OPSET, TRANSLATED_OPSET
from flambeau.onnx._graph import Graph, Model, Node, Value
from flambeau.onnx._package import onnx
from flambeau.onnx._types import NUMBER_OF
from flambeau.onnx.errors import UnsupportedOperatorError

__all__ = ["rewrite"]

_REDUCTIONS = "ReduceMean ReduceMax ReduceMin ReduceProd ReduceL1 ReduceL2 ReduceLogSumExp ReduceSumSquare".split()

#: What onnx calls the types of tensors.
_TYPES = {dtype: f"tensor({number.name.lower()})" for dtype, number in NUMBER_OF.items()}

_Rule = Callable[[Builder, Node], Any]
#: By operator: (the version below which it holds, the rule), newest first.
_RULES: dict[str, list[tuple[int, _Rule]]] = {}


def rewrite(model: Model, version: int) -> None:
    """Have a model be of a version. UnsupportedOperatorError for a node that can't be of it; the model is as it was then."""
    if version < OLDEST_OPSET:
        raise UnsupportedOperatorError("ai.onnx", version, OLDEST_OPSET)
    lowering = _Lowering(version)
    try:
        for node in model.graph.nodes:
            lowering.emit(node)
    except UnsupportedOperatorError:
        for node, attributes, inputs, op_type in lowering.before:
            node.attributes, node.inputs, node.op_type = attributes, inputs, op_type
        raise
    model.graph.nodes = lowering.nodes
    model.opset_imports[""] = version


class _Lowering:
    """nodes: what is rewritten so far; before: what nodes were before."""

    def __init__(self, version: int) -> None:
        self.version = version
        self.builder = Builder(Graph(), version, version)
        self.nodes: list[Node] = []
        self.before: list[tuple[Node, dict[str, Any], list[Any], str]] = []

    def emit(self, node: Node) -> None:
        """Add a node behind those that its rules need, which are rewritten as well."""
        self.before.append((node, dict(node.attributes), list(node.inputs), node.op_type))
        if not node.domain:
            self.builder.graph, self.builder.origin = Graph(), node.metadata_props
            for below, rule in _RULES.get(node.op_type, ()):
                if self.version < below:
                    rule(self.builder, node)
            for helper in self.builder.graph.nodes:
                self.emit(helper)
            for graph in node.graphs():
                inner = _Lowering(self.version)
                inner.before = self.before
                for each in graph.nodes:
                    inner.emit(each)
                graph.nodes = inner.nodes
            _check(node, self.version)
        self.nodes.append(node)


def _check(node: Node, version: int) -> None:
    if not _fits(node, version):
        raise _refused(node, version)


def _refused(node: Node, version: int) -> UnsupportedOperatorError:
    since = next((v for v in range(version + 1, TRANSLATED_OPSET) if _fits(node, v)), TRANSLATED_OPSET)
    return UnsupportedOperatorError(f"aten::{node.op_type}", version, since)


def _fits(node: Node, version: int) -> bool:
    """Whether an operator of a version has a node's inputs and attributes."""
    defs = onnx().defs
    try:
        schema = defs.get_schema(node.op_type, version, "")
    except defs.SchemaError:
        return False
    if len(node.inputs) > schema.max_input or not set(node.attributes) <= set(schema.attributes):
        return False
    allowed = {c.type_param_str: c.allowed_type_strs for c in schema.type_constraints}
    formal = [schema.inputs[min(i, len(schema.inputs) - 1)] for i in range(len(node.inputs))]
    return all(
        x is None or x.dtype is None or _TYPES.get(x.dtype) in allowed.get(f.type_str, [_TYPES.get(x.dtype)])
        for x, f in zip(node.inputs, formal)
    )


def _below(version: int, *op_types: str) -> Callable[[_Rule], _Rule]:
    def keep(rule: _Rule) -> _Rule:
        for op_type in op_types:
            _RULES.setdefault(op_type, []).append((version, rule))
        return rule

    return keep


def _as_attribute(b: Builder, node: Node, at: int, name: str) -> None:
    """Have an input that is constant be an attribute."""
    if len(node.inputs) > at and node.inputs[at] is not None:
        value = node.inputs[at]
        assert value is not None
        if value.constant is None:
            raise _refused(node, b.opset)
        node.attributes[name] = value.constant.tolist()
        node.inputs = node.inputs[:at]


@_below(18, *_REDUCTIONS)
def _axes_of_reductions(b: Builder, node: Node) -> None:
    _as_attribute(b, node, 1, "axes")
    node.attributes.pop("noop_with_empty_axes", None)


@_below(13, "ReduceSum", "Squeeze", "Unsqueeze")
def _axes(b: Builder, node: Node) -> None:
    _as_attribute(b, node, 1, "axes")


@_below(18, "Split")
def _equal_parts(b: Builder, node: Node) -> None:
    node.attributes.pop("num_outputs", None)


@_below(13, "Split")
def _parts(b: Builder, node: Node) -> None:
    _as_attribute(b, node, 1, "split")


@_below(18, "Resize")
def _whole_sizes(b: Builder, node: Node) -> None:
    """Sizes and scales of all dimensions; before 13, regions and scales can't be left out."""
    axes = node.attributes.pop("axes", None)
    x, scales = node.inputs[0], node.inputs[2] if len(node.inputs) > 2 else None
    sizes = node.inputs[3] if len(node.inputs) > 3 else None
    assert x is not None
    if axes is not None and sizes is not None:
        node.inputs[3] = b.op("Concat", b.ints([b.size(x, d) for d in range(axes[0])]), sizes, axis=0)
    elif axes is not None and scales is not None:
        node.inputs[2] = b._array(np.concatenate([np.ones(axes[0], np.float32), scales.const_value]))
    if b.opset < 13:
        empty = b._array(np.zeros(0, np.float32))
        node.inputs = [x, node.inputs[1] or empty, node.inputs[2] or empty, *node.inputs[3:]]


@_below(15, "Shape")
def _whole_shape(b: Builder, node: Node) -> None:
    """The shape, then a part of it."""
    start, end = node.attributes.pop("start", 0), node.attributes.pop("end", None)
    if start or end is not None:
        whole = b.op("Shape", node.inputs[0])
        rank = node.inputs[0].rank  # type: ignore[union-attr]
        stop = rank if end is None else end
        places: list[Value | None] = [b.ints([start]), b.ints([stop]), b.ints([0])]
        node.op_type, node.inputs = "Slice", [whole, *places]


@_below(14, "Reshape")
def _no_empty(b: Builder, node: Node) -> None:
    node.attributes.pop("allowzero", None)


@_below(13, "Softmax", "LogSoftmax")
def _last_dimension(b: Builder, node: Node) -> None:
    """Before 13, all dimensions from one on were one row: the last one is what later versions mean."""
    x = node.inputs[0]
    assert x is not None
    axis = node.attributes.get("axis", -1) % x.rank
    if axis != x.rank - 1:
        moved = b.swap(x, axis, x.rank - 1)
        made = b.op(node.op_type, moved, axis=x.rank - 1)
        perm = list(range(x.rank))
        perm[axis], perm[-1] = perm[-1], perm[axis]
        node.op_type, node.inputs, node.attributes = "Transpose", [made], {"perm": perm}
    else:
        node.attributes["axis"] = axis


@_below(12, "LessOrEqual", "GreaterOrEqual")
def _not_the_other(b: Builder, node: Node) -> None:
    other = b.op("Greater" if node.op_type == "LessOrEqual" else "Less", *node.inputs)
    node.op_type, node.inputs = "Not", [other]


@_below(14, "Trilu")
def _triangle(b: Builder, node: Node) -> None:
    """A choice by places: the column minus the row against the diagonal's."""
    x, k = node.inputs[0], node.inputs[1] if len(node.inputs) > 1 else b.const(0)
    assert x is not None
    row, column = (b.op("Range", b.const(0), b.number(b.size(x, d), None), b.const(1), shape=(1,)) for d in (-2, -1))
    away = b.op("Sub", b.unsqueeze(column, 0), b.unsqueeze(row, 1))
    upper = node.attributes.pop("upper", 1)
    other = b.op("Less" if upper else "Greater", away, k)
    node.op_type, node.inputs = "Where", [other, b.number(0, x.dtype), x]


@_below(10, "MaxPool", "AveragePool")
def _plain_windows(b: Builder, node: Node) -> None:
    """Without what the operator couldn't be told, where that is as it was then."""
    for name, usual in (("ceil_mode", 0), ("dilations", 1)):
        value = node.attributes.get(name, usual)
        if all(n == usual for n in (value if isinstance(value, list) else [value])):
            node.attributes.pop(name, None)


@_below(11, "Clip")
def _limits(b: Builder, node: Node) -> None:
    for at, name in ((2, "max"), (1, "min")):
        _as_attribute(b, node, at, name)


@_below(14, "BatchNormalization")
def _no_training(b: Builder, node: Node) -> None:
    node.attributes.pop("training_mode", None)
