"""torch._export.utils: which tensor of a program a node of its graph is. A face of export.state_nodes."""

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
]  # fmt: skip
