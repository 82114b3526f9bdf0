"""What an exported program must be like. Used by ExportedProgram."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING

from flambeau.base.naming import public_module
from flambeau.dispatcher.overloads import OpOverload
from flambeau.export.graph_signature import ConstantArgument, InputKind

if TYPE_CHECKING:
    from flambeau.export.exported_program import ExportedProgram

__all__ = ["SpecViolationError", "check"]


class SpecViolationError(Exception):
    """A program whose graph, signature and state don't fit."""

    __module__ = public_module("_export.verifier")


def check(program: ExportedProgram) -> None:
    """Raise SpecViolationError unless the graph calls operators, and its inputs and outputs are those of the signature."""
    graph, signature = program.graph, program.graph_signature
    graph.lint()
    for node in graph.nodes:
        if node.op in ("call_method", "call_module"):
            raise SpecViolationError(f"Invalid node.op: {node.op}")
        if node.op == "call_function" and not isinstance(node.target, OpOverload) and node.target is not operator.getitem:
            raise SpecViolationError(f"Operator '{node.target}' is not an allowed operator type")
    names = [node.name for node in graph.nodes if node.op == "placeholder"]
    wanted = [spec.arg.name for spec in signature.input_specs]
    if names != wanted:
        raise SpecViolationError(f"The graph's inputs {names} are not those of the signature, {wanted}")
    for spec in signature.input_specs:
        known = program.state_dict if spec.kind == InputKind.PARAMETER or spec.persistent else program.constants
        if spec.kind != InputKind.USER_INPUT and spec.target not in known:
            raise SpecViolationError(f"{spec.kind.name.capitalize()} {spec.target} is not in the state dict or the constants.")
    outputs = graph.output_node().args[0]
    if len(outputs) != len(signature.output_specs):
        raise SpecViolationError(
            f"Number of output nodes {len(outputs)} is different Than the number of outputs specified by the graph signature: "
            f"{len(signature.output_specs)}"
        )
    for value, spec in zip(outputs, signature.output_specs):
        if not isinstance(spec.arg, ConstantArgument) and getattr(value, "name", None) != spec.arg.name:
            raise SpecViolationError(f"Output {value} is not {spec.arg.name}, as the signature has it")
