"""Whole exported programs as the classes of the format, and back: ExportedProgramSerializer, ExportedProgramDeserializer.

Stands on reading and writing; used by export.pt2_archive. Its public name is torch._export.serde.serialize.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import flambeau as torch
from flambeau.base.naming import public_module
from flambeau.base.symbolic.ranges import ValueRanges, int_oo
from flambeau.export._guards import guards_of, input_texts
from flambeau.export._verifier import load_verifier
from flambeau.export.exported_program import ExportedProgram
from flambeau.export.graph_signature import InputKind, OutputKind
from flambeau.export.serde import schema
from flambeau.export.serde.reading import GraphModuleDeserializer
from flambeau.export.serde.symbols import inputs_by_text
from flambeau.export.serde.text import SerializeError
from flambeau.export.serde.writing import GraphModuleSerializer
from flambeau.version import __version__

__all__ = ["ExportedProgramDeserializer", "ExportedProgramSerializer"]

#: The version of PyTorch's operators that its files of this format name.
OPSET = {"aten": 10}


class ExportedProgramSerializer:
    """Writes whole programs but their weights. opset_version: versions of operators by namespace, which are noted."""

    __module__ = public_module("_export.serde.serialize")

    def __init__(self, opset_version: Mapping[str, int] | None = None, pickle_protocol: int = 2) -> None:
        self.opset_version, self.pickle_protocol = {**OPSET, **(opset_version or {})}, pickle_protocol

    def serialize(self, exported_program: ExportedProgram) -> schema.ExportedProgram:
        """The program. SerializeError for what the format doesn't have, SpecViolationError for a program that doesn't fit."""
        exported_program.validate()
        guards = guards_of(_inputs(exported_program), {}, exported_program._guards, related_only=True)
        writer = GraphModuleSerializer(exported_program.graph_signature, exported_program.module_call_graph)
        return schema.ExportedProgram(
            graph_module=writer.serialize(exported_program.graph_module),
            opset_version=self.opset_version,
            range_constraints={str(e): _range_data(r) for e, r in exported_program.range_constraints.items()},
            schema_version=schema.SchemaVersion(*schema.SCHEMA_VERSION),
            verifiers=[verifier.dialect for verifier in exported_program.verifiers],
            torch_version=str(__version__),
            guards_code=[text for text, _ in guards],
        )


def _range_data(r: ValueRanges) -> schema.RangeConstraint:
    """A range; bounds that aren't there are None."""
    low, high = (None if abs(bound) == int_oo else int(bound) for bound in (r.lower, r.upper))
    return schema.RangeConstraint(low, high)


def _inputs(program: ExportedProgram) -> list[tuple[str, Any]]:
    """(how guards write it, what it is) of each input that a caller gives."""
    call = program.module_call_graph[0].signature
    assert call is not None
    names = {spec.arg.name for spec in program.graph_signature.input_specs if spec.kind == InputKind.USER_INPUT}
    given = [node.meta["val"] for node in program.graph.find_nodes(op="placeholder") if node.name in names]
    return list(zip(input_texts(call.in_spec, call.forward_arg_names or [], "L[{!r}]"), given))


class ExportedProgramDeserializer:
    """Reads whole programs. expected_opset_version: by namespace, the versions of operators that the program must be of."""

    __module__ = public_module("_export.serde.serialize")

    def __init__(self, expected_opset_version: Mapping[str, int] | None = None) -> None:
        self.expected_opset_version = {**OPSET, **(expected_opset_version or {})}

    def deserialize(
        self,
        exported_program: schema.ExportedProgram,
        state_dict: Mapping[str, torch.Tensor],
        constants: Mapping[str, Any],
        example_inputs: tuple[tuple[Any, ...], dict[str, Any]] | None = None,
        *,
        _unsafe_skip_version_check: bool = False,
    ) -> ExportedProgram:
        """The program with these weights. SerializeError for another version of the format, and for what is no program."""
        version = exported_program.schema_version
        known = version.major == schema.SCHEMA_VERSION[0] or (version.major, version.minor) == (0, 0)
        if not known and not _unsafe_skip_version_check:
            raise SerializeError(
                f"Serialized schema version {version} does not match our current schema version {schema.SCHEMA_VERSION}."
            )
        try:
            parts = GraphModuleDeserializer().deserialize(
                exported_program.graph_module, state_dict, constants, example_inputs, exported_program.range_constraints
            )
            made = ExportedProgram(
                parts.graph_module, parts.graph_module.graph, parts.signature, parts.state_dict, parts.symbols.ranges(),
                parts.module_call_graph, parts.example_inputs, parts.constants,
                verifiers=list(map(_verifier, exported_program.verifiers)) or None,
            )  # fmt: skip
        except RecursionError:
            raise SerializeError("the graphs of a program are nested too deeply") from None
        _check_leaves(made)
        made._guards = parts.symbols.guards(exported_program.guards_code, inputs_by_text(_inputs(made)))
        return made


def _verifier(dialect: str) -> type:
    try:
        return load_verifier(dialect)
    except KeyError:
        raise SerializeError(f"a program of the dialect {dialect[:80]!r} can't be read; import what defines it first") from None


def _check_leaves(program: ExportedProgram) -> None:
    """Raise SerializeError unless the containers of the whole program's inputs and outputs have as many leaves as the graph."""
    first = program.module_call_graph[:1]
    if not first or first[0].fqn or first[0].signature is None:
        raise SerializeError("the first module of a program must be the program itself")
    call, signature = first[0].signature, program.graph_signature
    kinds = OutputKind.USER_OUTPUT, OutputKind.LOSS_OUTPUT
    counts = sum(s.kind == InputKind.USER_INPUT for s in signature.input_specs), sum(
        s.kind in kinds for s in signature.output_specs)  # fmt: skip
    if (call.in_spec.num_leaves, call.out_spec.num_leaves) != counts:
        raise SerializeError(
            f"the containers of inputs and outputs have {call.in_spec.num_leaves} and {call.out_spec.num_leaves} leaves, the "
            f"graph has {counts[0]} and {counts[1]}"
        )
