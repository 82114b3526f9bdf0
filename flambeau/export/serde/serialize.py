"""Exported programs as bytes, and back: graph, weights, constants and sample inputs apart.

Stands on export.serde.programs. Its public name is torch._export.serde.serialize.
"""

from __future__ import annotations

import dataclasses
import io
from typing import Any

import flambeau as torch
from flambeau.base.naming import called
from flambeau.export.exported_program import ExportedProgram
from flambeau.export.serde import schema
from flambeau.export.serde.programs import ExportedProgramDeserializer, ExportedProgramSerializer
from flambeau.export.serde.text import dumps, loads

__all__ = ["SerializedArtifact", "deserialize", "deserialize_torch_artifact", "serialize", "serialize_torch_artifact"]

DEFAULT_PICKLE_PROTOCOL = 2


@called("_export.serde.serialize", "SerializedArtifact")
@dataclasses.dataclass
class SerializedArtifact:
    """A program: its graph as JSON, its weights, constants and sample inputs as torch.save writes them."""

    exported_program: bytes
    state_dict: bytes
    constants: bytes
    example_inputs: bytes


def serialize_torch_artifact(artifact: Any, pickle_protocol: int = DEFAULT_PICKLE_PROTOCOL) -> bytes:
    """What torch.save writes; nothing for None."""
    if artifact is None:
        return b""
    buffer = io.BytesIO()
    torch.save(artifact, buffer, pickle_protocol=pickle_protocol)
    return buffer.getvalue()


def deserialize_torch_artifact(serialized: Any) -> Any:
    """What torch.load(weights_only=True) reads; an empty dict for nothing, and what is no bytes as it is."""
    if isinstance(serialized, (dict, tuple)):
        return serialized
    return torch.load(io.BytesIO(serialized), weights_only=True) if serialized else {}


def serialize(
    exported_program: ExportedProgram,
    opset_version: dict[str, int] | None = None,
    pickle_protocol: int = DEFAULT_PICKLE_PROTOCOL,
    *,
    serialize_state_dict: bool = True,
    serialize_constants: bool = True,
    serialize_example_inputs: bool = True,
) -> SerializedArtifact:
    """A program as bytes. SerializeError for what the format doesn't have."""
    made = ExportedProgramSerializer(opset_version, pickle_protocol).serialize(exported_program)
    parts = (
        (serialize_state_dict, exported_program.state_dict),
        (serialize_constants, exported_program.constants),
        (serialize_example_inputs, exported_program.example_inputs),
    )
    kept = [serialize_torch_artifact(x if wanted else None, pickle_protocol) for wanted, x in parts]
    return SerializedArtifact(dumps(made), *kept)


def deserialize(
    artifact: SerializedArtifact,
    expected_opset_version: dict[str, int] | None = None,
    *,
    _unsafe_skip_version_check: bool = False,
) -> ExportedProgram:
    """The program that `serialize` wrote. SerializeError for another version of the format, and for what is no program."""
    inputs = deserialize_torch_artifact(artifact.example_inputs) or None
    return ExportedProgramDeserializer(expected_opset_version).deserialize(
        loads(schema.ExportedProgram, artifact.exported_program),
        deserialize_torch_artifact(artifact.state_dict),
        deserialize_torch_artifact(artifact.constants),
        inputs,
        _unsafe_skip_version_check=_unsafe_skip_version_check,
    )
