"""torch._export.serde.serialize: exported programs as bytes, and back, by PyTorch's inner names.

Stands on export.serde, whose classes it gathers.
"""

from __future__ import annotations

import dataclasses
import io
from typing import Any

import flambeau as torch
from flambeau.export.exported_program import ExportedProgram
from flambeau.export.serde import schema
from flambeau.export.serde.programs import ExportedProgramDeserializer, ExportedProgramSerializer
from flambeau.export.serde.reading import GraphModuleDeserializer
from flambeau.export.serde.text import SerializeError, dumps, from_data, loads, to_data
from flambeau.export.serde.values import tensor_meta
from flambeau.export.serde.writing import GraphModuleSerializer

__all__ = [
    "ExportedProgramDeserializer", "ExportedProgramSerializer", "GraphModuleDeserializer", "GraphModuleSerializer",
    "SerializeError", "SerializedArtifact", "deserialize", "deserialize_torch_artifact", "serialize", "serialize_tensor_meta",
    "serialize_torch_artifact",
]  # fmt: skip

DEFAULT_PICKLE_PROTOCOL = 2
_dataclass_to_dict, _dict_to_dataclass, _to_json_bytes, _bytes_to_dataclass = to_data, from_data, dumps, loads
serialize_tensor_meta = tensor_meta


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
