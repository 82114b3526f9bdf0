"""Exchanging targets, and sizes of values in bytes. Stands on passes.shape_prop."""

from __future__ import annotations

from typing import Any, NamedTuple

from flambeau.fx.graph_module import GraphModule
from flambeau.fx.node import Node, Target
from flambeau.fx.passes.shape_prop import ShapeProp

__all__ = ["get_size_of_all_nodes", "get_size_of_node", "get_tensor_meta", "replace_target_nodes_with", "size_bytes"]


class size_bytes(NamedTuple):
    """The size of a node's value, and together with the parameters that the node uses."""

    output_size: int
    total_size: int


def replace_target_nodes_with(fx_module: GraphModule, old_op: str, old_target: Target, new_op: str, new_target: Target) -> None:
    """Let every node of one kind and target be of another kind and target; the code is not written anew."""
    for node in fx_module.graph.nodes:
        if node.op == old_op and node.target == old_target:
            node.op, node.target = new_op, new_target


def get_tensor_meta(node: Node) -> Any:
    """What ShapeProp noted. Raises RuntimeError where it has not run."""
    found = node.meta.get("tensor_meta")
    if not found:
        raise RuntimeError(f"Node {node} has no tensor metadata associated with it! Check that shape propagation has run.")
    return found


def get_size_of_node(fx_module: GraphModule, node: Node) -> size_bytes:
    """The sizes of a node's value and of the parameters of the module that it calls, in bytes."""
    total = 0
    if node.op == "call_module":
        module = dict(fx_module.named_modules())[str(node.target)]
        total += sum(p.nelement() for _, p in [*module.named_parameters(), *module.named_buffers()])
    meta = get_tensor_meta(node)
    total += meta.shape.numel()
    item = meta.dtype.itemsize
    return size_bytes(item * meta.shape.numel(), item * total)


def get_size_of_all_nodes(fx_module: GraphModule, args: list[Any] | None = None) -> None:
    """Run the module on `args`, and leave in every node its size_bytes."""
    if args is not None:
        ShapeProp(fx_module).propagate(*args)
    for node in fx_module.graph.nodes:
        if node.op == "output":
            break
        node.size_bytes = get_size_of_node(fx_module, node)  # type: ignore[attr-defined]
