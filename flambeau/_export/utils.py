"""torch._export.utils: which tensor of a program a node of its graph is, and splits of graphs. A face of export."""

from flambeau.export._splits import node_inline_, nodes_count, nodes_filter, nodes_first, nodes_map, sequential_split
from flambeau.export.state_nodes import (
    get_buffer,
    get_lifted_tensor_constant,
    get_param,
    is_buffer,
    is_lifted_tensor_constant,
    is_param,
)

__all__ = [
    "get_buffer", "get_lifted_tensor_constant", "get_param", "is_buffer", "is_lifted_tensor_constant", "is_param",
    "node_inline_", "nodes_count", "nodes_filter", "nodes_first", "nodes_map", "sequential_split",
]  # fmt: skip
