"""Working out what depends on parameters alone: transposed and rounded weights, gates in another order, batch norms behind
convolutions.

The parameters that are taken in lose their names, so that ONNXProgram.apply_weights can't mistake one for what it was made of.
Stands on `_folding`; used by `_optimize`.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from flambeau.onnx._folding import evaluate
from flambeau.onnx._graph import Graph, Node, Value

__all__ = ["fold_parameters", "fuse_batch_norms", "turn_integers"]


def _uses(graph: Graph) -> Counter[int]:
    """How often each value is read."""
    found = Counter(id(x) for node in graph.nodes for x in node.reads())
    found.update(id(x) for x in graph.outputs)
    return found


def fold_parameters(graph: Graph) -> None:
    """Compute nodes of parameters and constants once, unless the file grew by it: what several nodes read stays."""
    uses = _uses(graph)
    kept = []
    for node in graph.nodes:
        given = [x for x in node.inputs if x is not None]
        whole = bool(given) and not node.domain and all(x.const_value is not None for x in given)
        if not whole or any(x in graph.outputs for x in node.outputs):
            kept.append(node)
            continue
        made = evaluate(node.op_type, [x.const_value for x in given], node.attributes)
        staying = [x for x in given if x.parameter and uses[id(x)] > 1]
        gone = sum(x.const_value.nbytes for x in given if x not in staying)  # type: ignore[union-attr]
        most = gone if staying else max(gone, 1024)
        if made is None or len(made) != len(node.outputs) or sum(x.nbytes for x in made) > most:
            kept.append(node)
            continue
        for value, array in zip(node.outputs, made):
            value.const_value, value.node = array, None
            value.parameter, value.name, value.shape = True, None, list(array.shape)
    graph.nodes = kept


def turn_integers(graph: Graph) -> None:
    """Have weights that are kept as integers be transposed in the file, and not after they are numbers."""
    uses = _uses(graph)
    kept = []
    for node in graph.nodes:
        x = node.inputs[0] if node.op_type == "Transpose" else None
        source = None if x is None else x.node
        integers = source.inputs[0] if source is not None and source.op_type == "DequantizeLinear" else None
        if integers is None or integers.const_value is None or uses[id(x)] > 1 or uses[id(integers)] > 1 or x in graph.outputs:
            kept.append(node)
            continue
        assert source is not None
        perm = node.attributes["perm"]
        array = np.ascontiguousarray(integers.const_value.transpose(perm))
        source.inputs[0] = Value(None, integers.dtype, array.shape, array, parameter=True)
        if "axis" in source.attributes:
            source.attributes["axis"] = perm.index(source.attributes["axis"])
        source.outputs = node.outputs
        source.outputs[0].node = source
    graph.nodes = kept


def fuse_batch_norms(graph: Graph) -> None:
    """Have convolutions do what the batch norms behind them do, with other weights and biases."""
    uses = _uses(graph)
    kept: list[Node] = []
    for node in graph.nodes:
        x = node.inputs[0] if node.op_type == "BatchNormalization" else None
        conv = None if x is None else x.node
        if conv is not None and conv.op_type in ("Conv", "ConvTranspose") and uses[id(x)] == 1 and _fits(conv, node, uses):
            _fuse(conv, node)
        else:
            kept.append(node)
    graph.nodes = kept


def _fits(conv: Node, norm: Node, uses: Counter[int]) -> bool:
    own = [x for x in conv.inputs[1:] if x is not None]
    read = [*own, *[x for x in norm.inputs[1:5] if x is not None]]
    if any(x.const_value is None or x.const_value.dtype.kind != "f" for x in read):
        return False
    return all(uses[id(x)] == 1 for x in own) and (conv.op_type == "Conv" or conv.attributes.get("group", 1) == 1)


def _fuse(conv: Node, norm: Node) -> None:
    """With the weight times scale / sqrt(variance + epsilon), and the bias that follows."""
    scale, bias, mean, variance = (x.const_value.astype(np.float64) for x in norm.inputs[1:5])  # type: ignore[union-attr]
    weight = conv.inputs[1]
    assert weight is not None and weight.const_value is not None
    factor = scale / np.sqrt(variance + norm.attributes.get("epsilon", 1e-5))
    shape = [1] * weight.const_value.ndim
    shape[0 if conv.op_type == "Conv" else 1] = -1
    own: Any = 0.0 if len(conv.inputs) < 3 or conv.inputs[2] is None else conv.inputs[2].const_value
    arrays = weight.const_value * factor.reshape(shape), (own - mean) * factor + bias
    made = [Value(None, weight.dtype, x.shape, x.astype(weight.const_value.dtype), parameter=True) for x in arrays]
    conv.inputs = [conv.inputs[0], *made]
    conv.outputs = norm.outputs
    conv.outputs[0].node = conv
