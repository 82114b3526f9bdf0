"""What an exported program must be like. Used by ExportedProgram."""

from __future__ import annotations

import math
import operator
from typing import TYPE_CHECKING, Any

from flambeau.base.naming import public_module
from flambeau.dispatcher.overloads import HigherOrderOperator, OpOverload
from flambeau.export.graph_signature import ConstantArgument, InputKind
from flambeau.export.serde.targets import is_sym_op
from flambeau.fx.graph import Graph
from flambeau.fx.graph_module import GraphModule

if TYPE_CHECKING:
    from flambeau.export.exported_program import ExportedProgram

__all__ = ["SpecViolationError", "TrainingIRVerifier", "Verifier", "load_verifier"]


#: Functions of sizes that programs may call besides those that files have names for.
_ROUNDING = (math.ceil, math.floor, round)


class SpecViolationError(Exception):
    """A program whose graph, signature and state don't fit."""

    __module__ = public_module("_export.verifier")


class Verifier:
    """Checks programs of a dialect. A subclass has the name of another one in `dialect`."""

    __module__ = public_module("_export.verifier")
    dialect = "ATEN"
    known: dict[str, type[Verifier]] = {}

    def __init_subclass__(cls) -> None:
        Verifier.known[cls.dialect] = cls

    def allowed_op_types(self) -> tuple[type[Any], ...]:
        """The classes of operators that nodes may call."""
        return OpOverload, HigherOrderOperator

    def check(self, program: ExportedProgram) -> None:
        """Raise SpecViolationError unless the graph calls operators, and its inputs and outputs are those of the signature."""
        _check_nodes(program.graph, self.allowed_op_types())
        _check_signature(program)


class TrainingIRVerifier(Verifier):
    """Checks programs whose operators are as they are called."""

    __module__ = public_module("_export.verifier")
    dialect = "TRAINING"


def load_verifier(dialect: str) -> type[Verifier]:
    """The class that checks a dialect. KeyError for one that nobody has defined."""
    return Verifier if dialect in ("ATEN", "") else Verifier.known[dialect]


def _check_nodes(graph: Graph, allowed: tuple[type[Any], ...]) -> None:
    """Raise SpecViolationError unless nodes call operators of these classes, in the graphs that operators run as well."""
    graph.lint()
    for node in graph.nodes:
        if node.op in ("call_method", "call_module"):
            raise SpecViolationError(f"Invalid node.op: {node.op}")
        if node.op == "call_function" and not (
            isinstance(node.target, allowed) or is_sym_op(node.target) or node.target in (operator.getitem, *_ROUNDING)
        ):
            raise SpecViolationError(f"Operator '{node.target}' is not an allowed operator type")
        inner = getattr(graph.owning_module, node.target, None) if node.op == "get_attr" else None
        if isinstance(inner, GraphModule):
            _check_nodes(inner.graph, allowed)


def _check_signature(program: ExportedProgram) -> None:
    """Raise SpecViolationError unless inputs and outputs of the graph are those of the signature, and the state is there."""
    graph, signature = program.graph, program.graph_signature
    names = [node.name for node in graph.nodes if node.op == "placeholder"]
    wanted = [spec.arg.name for spec in signature.input_specs]
    if names != wanted:
        raise SpecViolationError(f"The graph's inputs {names} are not those of the signature, {wanted}")
    for spec in signature.input_specs:
        known = program.state_dict if spec.kind == InputKind.PARAMETER or spec.persistent else program.constants
        if spec.kind not in (InputKind.USER_INPUT, InputKind.TOKEN) and spec.target not in known:
            raise SpecViolationError(f"{spec.kind.name.capitalize()} {spec.target} is not in the state dict or the constants.")
    outputs = graph.output_node().args[0]
    if not isinstance(outputs, (list, tuple)):
        raise SpecViolationError(f"The output of the graph must be a tuple, got {outputs}")
    if len(outputs) != len(signature.output_specs):
        raise SpecViolationError(
            f"Number of output nodes {len(outputs)} is different Than the number of outputs specified by the graph signature: "
            f"{len(signature.output_specs)}"
        )
    for value, spec in zip(outputs, signature.output_specs):
        if not isinstance(spec.arg, ConstantArgument) and getattr(value, "name", None) != spec.arg.name:
            raise SpecViolationError(f"Output {value} is not {spec.arg.name}, as the signature has it")
