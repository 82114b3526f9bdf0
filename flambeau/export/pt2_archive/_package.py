"""torch.export.pt2_archive._package: programs into .pt2 archives and out of them, `package_pt2` and `load_pt2`.

Stands on `_archive`, `_payloads` and export.serde; used by torch.export.save and load.
"""

from __future__ import annotations

import dataclasses
import io
import logging
import os
from collections.abc import Callable, Mapping
from typing import IO, Any

import flambeau as torch
from flambeau.core.operator import unsupported
from flambeau.export.exported_program import ExportedProgram
from flambeau.export.pt2_archive import _payloads
from flambeau.export.pt2_archive._archive import PT2ArchiveReader, PT2ArchiveWriter, is_pt2_package
from flambeau.export.pt2_archive.constants import (
    AOTINDUCTOR_DIR,
    ARCHIVE_VERSION_PATH,
    ARCHIVE_VERSION_VALUE,
    CONSTANTS_CONFIG_FILENAME_FORMAT,
    CONSTANTS_DIR,
    EXECUTORCH_DIR,
    EXTRA_DIR,
    MODELS_DIR,
    MODELS_FILENAME_FORMAT,
    SAMPLE_INPUTS_FILENAME_FORMAT,
    TENSOR_CONSTANT_FILENAME_PREFIX,
    WEIGHT_FILENAME_PREFIX,
    WEIGHTS_CONFIG_FILENAME_FORMAT,
    WEIGHTS_DIR,
)
from flambeau.export.serde import schema, text
from flambeau.export.serde.programs import ExportedProgramDeserializer, ExportedProgramSerializer

__all__ = ["PT2ArchiveContents", "PT2ArchiveReader", "PT2ArchiveWriter", "is_pt2_package", "load_pt2", "package_pt2"]

DEFAULT_PICKLE_PROTOCOL = 2
_AOTI = (
    "compiled libraries of AOTInductor are not implemented in flambeau; package the exported program, and compile it where it "
    "runs"
)
File = str | os.PathLike[str] | IO[bytes]
logger = logging.getLogger(__name__)
globals().update(
    unsupported.all_of("export.pt2_archive._package.", "package the exported program, and compile it where it runs",
                       "AOTICompiledModel load_weights_to_pt2_contents")
)  # fmt: skip


@dataclasses.dataclass
class PT2ArchiveContents:
    """What an archive holds: programs and texts by name."""

    exported_programs: dict[str, ExportedProgram]
    aoti_runners: dict[str, Any]
    extra_files: dict[str, Any]


def package_pt2(
    f: File,
    *,
    exported_programs: ExportedProgram | Mapping[str, ExportedProgram] | None = None,
    aoti_files: Any = None,
    extra_files: Mapping[str, str] | None = None,
    opset_version: Mapping[str, int] | None = None,
    pickle_protocol: int = DEFAULT_PICKLE_PROTOCOL,
    executorch_files: Mapping[str, bytes] | None = None,
) -> File:
    """Write programs to a path or a binary file object, which is returned, at its beginning.

    exported_programs: by name; a single one is called "model". extra_files: texts by name, executorch_files: bytes.
    opset_version: versions of operators by namespace, which are noted. AssertionError if there is nothing to write,
    SerializeError for a program that can't be, NotImplementedError for aoti_files.
    """
    if exported_programs is None and aoti_files is None and extra_files is None:
        raise AssertionError(
            "No value passed in for `exported_programs`, `aoti_files`, and `extra_files`, implying that you do not plan on "
            "saving anything."
        )
    if aoti_files is not None:
        raise NotImplementedError(f"package_pt2(aoti_files=...): {_AOTI}")
    _check_name(f, "Expect archive file to be a file ending in .pt2, or is a buffer.")
    programs = {"model": exported_programs} if isinstance(exported_programs, ExportedProgram) else exported_programs
    with PT2ArchiveWriter(f) as writer:
        for name, program in (programs or {}).items():
            _write_program(writer, name, program, opset_version, pickle_protocol)
        for name, content in (extra_files or {}).items():
            writer.write_string(EXTRA_DIR + name, content)
        for name, content in (executorch_files or {}).items():
            writer.write_bytes(EXECUTORCH_DIR + name, content)
    if isinstance(f, (io.IOBase, IO)) and f.seekable():
        f.seek(0)
    return f


def _check_name(f: File, wanted: str) -> None:
    """Warn of what is neither a buffer nor a file with the usual ending."""
    name = os.fspath(f) if isinstance(f, (str, os.PathLike)) else getattr(f, "name", None)
    usual = name.endswith(".pt2") if isinstance(name, str) else isinstance(f, (io.IOBase, IO)) and f.seekable()
    if not usual:
        logger.warning("%s Instead got {%s}", wanted, f)


def _write_program(
    writer: PT2ArchiveWriter, name: str, program: ExportedProgram, opset_version: Mapping[str, int] | None, protocol: int
) -> None:
    for tensors, folder, prefix, place in (
        (program.state_dict, WEIGHTS_DIR, WEIGHT_FILENAME_PREFIX, WEIGHTS_CONFIG_FILENAME_FORMAT),
        (program.constants, CONSTANTS_DIR, TENSOR_CONSTANT_FILENAME_PREFIX, CONSTANTS_CONFIG_FILENAME_FORMAT),
    ):
        config = _payloads.write_tensors(writer, tensors, folder, prefix, protocol)
        writer.write_bytes(place.format(name), text.dumps(config))
    made = ExportedProgramSerializer(opset_version).serialize(program)
    writer.write_bytes(MODELS_FILENAME_FORMAT.format(name), text.dumps(made))
    _payloads.write_inputs(writer, SAMPLE_INPUTS_FILENAME_FORMAT.format(name), program.example_inputs, protocol)


def load_pt2(
    f: File,
    *,
    expected_opset_version: Mapping[str, int] | None = None,
    run_single_threaded: bool = False,
    num_runners: int = 1,
    device_index: int = -1,
    load_weights_from_disk: bool = False,
) -> PT2ArchiveContents:
    """The programs and texts of a .pt2 archive, a path or a seekable binary file object.

    Nothing in the file is run: operators are found by their names among those that there are. RuntimeError and ValueError for
    damaged files and other versions, UnpicklingError for sample inputs of classes that aren't known, NotImplementedError for
    operators that flambeau lacks and for libraries of AOTInductor, which alone the other arguments are about.
    """
    _check_name(f, "Unable to load package. f must be a buffer or a file ending in .pt2.")
    with PT2ArchiveReader(f) as reader:
        version = reader.read_string(ARCHIVE_VERSION_PATH)
        if version != ARCHIVE_VERSION_VALUE:
            raise ValueError(
                f"Saved archive version {version[:20]} does not match our current archive version {ARCHIVE_VERSION_VALUE}."
            )
        names = reader.get_file_names()
        if any(name.startswith(AOTINDUCTOR_DIR) for name in names):
            raise NotImplementedError(f"load_pt2: {_AOTI}")
        before, _, after = MODELS_FILENAME_FORMAT.partition("{}")
        models = [n[len(before) : -len(after)] for n in names if n.startswith(MODELS_DIR) and n.endswith(after)]
        programs = {name: _read_program(reader, name, expected_opset_version) for name in models}
        extra = {n[len(EXTRA_DIR) :]: reader.read_string(n) for n in names if n.startswith(EXTRA_DIR)}
    return PT2ArchiveContents(programs, {}, extra)


def _read_program(reader: PT2ArchiveReader, name: str, opset_version: Mapping[str, int] | None) -> ExportedProgram:
    serialized = text.loads(schema.ExportedProgram, _payloads.text_record(reader, MODELS_FILENAME_FORMAT.format(name)))
    state = _read_tensors(reader, name, WEIGHTS_CONFIG_FILENAME_FORMAT, WEIGHTS_DIR, torch.nn.Parameter)
    constants = _read_tensors(reader, name, CONSTANTS_CONFIG_FILENAME_FORMAT, CONSTANTS_DIR, lambda tensor, requires_grad: tensor)
    inputs = _payloads.read_inputs(reader, SAMPLE_INPUTS_FILENAME_FORMAT.format(name))
    return ExportedProgramDeserializer(opset_version).deserialize(serialized, state, constants, inputs)


def _read_tensors(
    reader: PT2ArchiveReader, name: str, config: str, folder: str, as_parameter: Callable[[torch.Tensor, bool], torch.Tensor]
) -> dict[str, torch.Tensor]:
    """The weights or constants of a program."""
    pickled = f"{folder}{name}.pt"
    if pickled in reader:
        return _payloads.read_pickled(reader, pickled)
    return _payloads.read_tensors(reader, config.format(name), folder, as_parameter)
