"""Which tensor of a program a node of its graph is. Used by its face, torch._export.utils."""

from __future__ import annotations

from typing import Any

from flambeau.export.exported_program import ExportedProgram
from flambeau.fx.node import Node

__all__ = [
    "get_buffer", "get_lifted_tensor_constant", "get_param", "is_buffer", "is_lifted_tensor_constant", "is_param",
]  # fmt: skip


def is_param(program: ExportedProgram, node: Node) -> bool:
    """Whether a node is a parameter."""
    return node.name in program.graph_signature.inputs_to_parameters


def get_param(program: ExportedProgram, node: Node) -> Any:
    """The parameter that a node is; None for any other."""
    return program.state_dict[program.graph_signature.inputs_to_parameters[node.name]] if is_param(program, node) else None


def is_buffer(program: ExportedProgram, node: Node) -> bool:
    """Whether a node is a buffer."""
    return node.name in program.graph_signature.inputs_to_buffers


def get_buffer(program: ExportedProgram, node: Node) -> Any:
    """The buffer that a node is; None for any other."""
    if not is_buffer(program, node):
        return None
    name = program.graph_signature.inputs_to_buffers[node.name]
    hidden = name in program.graph_signature.non_persistent_buffers
    return (program.constants if hidden else program.state_dict)[name]


def is_lifted_tensor_constant(program: ExportedProgram, node: Node) -> bool:
    """Whether a node is a tensor that is neither a parameter nor a buffer."""
    return node.name in program.graph_signature.inputs_to_lifted_tensor_constants


def get_lifted_tensor_constant(program: ExportedProgram, node: Node) -> Any:
    """The tensor that such a node is; None for any other."""
    if not is_lifted_tensor_constant(program, node):
        return None
    return program.constants[program.graph_signature.inputs_to_lifted_tensor_constants[node.name]]
