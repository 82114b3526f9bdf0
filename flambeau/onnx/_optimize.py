"""Making a model smaller without changing what it computes. Stands on `_graph`; used by `_export` and ONNXProgram.optimize."""

from __future__ import annotations

from typing import Any

import numpy as np

from flambeau.onnx._fusing import fold_parameters, fuse_batch_norms, turn_integers
from flambeau.onnx._graph import Graph, Model, Node, Value

__all__ = ["optimize", "without_unused"]

_RANDOM = frozenset("RandomUniform RandomNormal RandomUniformLike RandomNormalLike Bernoulli Multinomial Dropout".split())


def optimize(model: Model, parameters: bool = True) -> None:
    """Take out Identity nodes and nodes that compute what another does, then what nobody uses.

    parameters: whether what depends on parameters alone is worked out, which leaves some of them without their names.
    """
    graph = model.graph
    _share(graph)
    if parameters:
        fuse_batch_norms(graph)
        fold_parameters(graph)
        turn_integers(graph)
    without_unused(graph)


def _share(graph: Graph) -> None:
    replaced: dict[int, Value] = {}
    known: dict[Any, Node] = {}
    outputs = {id(v) for v in graph.outputs}
    kept = []
    for node in graph.nodes:
        node.replace(replaced)
        (first, *_) = node.outputs
        if node.op_type == "Identity" and not node.domain and id(first) not in outputs:
            replaced[id(first)] = node.inputs[0]
            continue
        key = _key(node)
        same = known.get(key)
        if same is None or any(id(x) in outputs for x in node.outputs):
            if key is not None:
                known.setdefault(key, node)
            kept.append(node)
            continue
        for old, new in zip(node.outputs, same.outputs):
            replaced[id(old)] = new
            if new.name is None:
                new.name, new.dtype, new.shape = old.name, old.dtype, old.shape
    graph.nodes = kept


def _key(node: Node) -> Any:
    """What a node computes; None for random numbers and for graphs."""
    if node.op_type in _RANDOM or node.graphs():
        return None
    attributes = tuple(
        (name, (x.dtype.name, x.shape, x.tobytes()) if isinstance(x, np.ndarray) else repr(x))
        for name, x in sorted(node.attributes.items())
    )
    return node.domain, node.op_type, tuple(map(id, node.inputs)), attributes, len(node.outputs)


def without_unused(graph: Graph) -> None:
    """Take out nodes and initializers that no output depends on."""
    needed = {id(v) for v in graph.outputs}
    kept = []
    for node in reversed(graph.nodes):
        if any(id(x) in needed for x in node.outputs):
            kept.append(node)
            needed.update(map(id, node.reads()))
    graph.nodes = kept[::-1]
    graph.initializers = {name: v for name, v in graph.initializers.items() if id(v) in needed}
