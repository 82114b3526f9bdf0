"""What a frozen program need not do: dropout in evaluation, and batch norms whose work the product in front takes over.

Stands on ir; used by entry.
"""

from __future__ import annotations

from typing import Any

import flambeau as torch
from flambeau.jit.ir.blocks import Block
from flambeau.jit.ir.graph import Graph
from flambeau.jit.ir.nodes import Node
from flambeau.jit.ir.types import TENSOR
from flambeau.jit.ir.values import Value

__all__ = ["fold_norms", "remove_dropout"]

_DROPOUT = frozenset("aten::dropout aten::feature_dropout aten::alpha_dropout aten::feature_alpha_dropout".split())
_CONVOLUTIONS = frozenset("aten::conv1d aten::conv2d aten::conv3d aten::_convolution".split())


def _nodes(block: Block) -> list[Node]:
    found = []
    for node in block.nodes():
        found.append(node)
        for inner in node.blocks():
            found += _nodes(inner)
    return found


def remove_dropout(graph: Graph) -> None:
    """Take out dropout that is known to be off."""
    for node in _nodes(graph.block()):
        if node.kind() in _DROPOUT and node.inputsAt(2).toIValue() is False:
            node.output().replaceAllUsesWith(node.inputsAt(0))
            node.destroy()


def fold_norms(graph: Graph) -> None:
    """Let convolutions and linear layers do what a batch norm behind them would, where all weights are constants."""
    for node in _nodes(graph.block()):
        if node.kind() != "aten::batch_norm":
            continue
        product = node.inputsAt(0).node()
        weights = [value.toIValue() for value in list(node.inputs())[1:5]]
        if not _can_take(product, node, weights):
            continue
        _take(graph, product, node, weights)


def _can_take(product: Node, norm: Node, weights: list[Any]) -> bool:
    if len(norm.inputsAt(0).uses()) != 1 or norm.inputsAt(5).toIValue() is not False:
        return False
    if product.owningBlock() is not norm.owningBlock() or any(
        value.node().kind() != "prim::Constant" for value in list(norm.inputs())[1:5]
    ):
        return False
    if weights[2] is None or weights[3] is None or not isinstance(norm.inputsAt(7).toIValue(), float):
        return False
    if product.kind() not in _CONVOLUTIONS or not isinstance(product.inputsAt(1).toIValue(), torch.Tensor):
        return False
    if product.kind() == "aten::_convolution" and product.inputsAt(6).toIValue() is not False:
        return False
    bias = product.inputsAt(2)
    return bias.node().kind() == "prim::Constant"


def _take(graph: Graph, product: Node, norm: Node, weights: list[Any]) -> None:
    scale, shift, mean, variance = weights
    kernel, bias = product.inputsAt(1).toIValue(), product.inputsAt(2).toIValue()
    with torch.no_grad():
        factor = torch.rsqrt(variance + norm.inputsAt(7).toIValue())
        if scale is not None:
            factor = factor * scale
        new_kernel = (kernel * factor.reshape([-1] + [1] * (kernel.dim() - 1))).to(kernel.dtype)
        new_bias = ((0 if bias is None else bias) - mean) * factor
        if shift is not None:
            new_bias = new_bias + shift
        new_bias = new_bias.to(kernel.dtype)
    product.replaceInput(1, _constant(graph, new_kernel, product.inputsAt(1), "weight_fused_bn"))
    product.replaceInput(2, _constant(graph, new_bias, product.inputsAt(2), "bias_fused_bn"))
    norm.output().replaceAllUsesWith(norm.inputsAt(0))
    norm.destroy()


def _constant(graph: Graph, value: Any, before: Value, name: str) -> Value:
    with graph.insert_point_guard(graph.block().first()):
        made = graph.insertConstant(value, None, TENSOR)
    prefix = before.debugName().rpartition(".")[0] if before.hasDebugName() else ""
    return made.setDebugName(f"{prefix}.{name}" if prefix else name)
