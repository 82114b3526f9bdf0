"""torch.export.save and torch.export.load: programs as .pt2 files in PyTorch's format. Stands on pt2_archive."""

from __future__ import annotations

import os
from typing import IO, Any

from flambeau.export.exported_program import ExportedProgram

__all__ = ["load", "save"]

DEFAULT_PICKLE_PROTOCOL = 2


def save(
    ep: ExportedProgram,
    f: str | os.PathLike[str] | IO[bytes],
    *,
    extra_files: dict[str, Any] | None = None,
    opset_version: dict[str, int] | None = None,
    pickle_protocol: int = DEFAULT_PICKLE_PROTOCOL,
) -> None:
    """Write a program with its weights, so that torch.export.load, here and in PyTorch, reads it.

    f: a path, which should end in .pt2, or a binary file object. extra_files: texts by name, kept beside the program.
    opset_version: versions of operators by namespace, which are noted. TypeError for what is no ExportedProgram,
    torch._export.serde.serialize.SerializeError (a RuntimeError) for a program that the format can't hold.
    """
    if not isinstance(ep, ExportedProgram):
        raise TypeError(f"The 'ep' parameter must be an instance of 'ExportedProgram', got '{type(ep).__name__}' instead.")
    from flambeau.export.pt2_archive._package import package_pt2

    package_pt2(
        f, exported_programs={"model": ep}, extra_files=extra_files, pickle_protocol=pickle_protocol, opset_version=opset_version
    )


def load(
    f: str | os.PathLike[str] | IO[bytes],
    *,
    extra_files: dict[str, Any] | None = None,
    expected_opset_version: dict[str, int] | None = None,
) -> ExportedProgram:
    """The program that torch.export.save wrote, here or in PyTorch. Nothing in the file is run.

    f: a path, or a seekable binary file object. extra_files: gets the texts that were kept beside the program. Classes of named
    tuples and dataclasses among inputs and outputs must be registered as they were (register_dataclass).
    expected_opset_version changes nothing, as in PyTorch.

    RuntimeError and ValueError for damaged files and other versions of the format, pickle.UnpicklingError for sample inputs of
    classes that aren't known, NotImplementedError for operators that flambeau lacks, by name, and for containers that aren't
    registered.
    """
    from flambeau.export.pt2_archive._package import load_pt2

    contents = load_pt2(f, expected_opset_version=expected_opset_version)
    if extra_files is not None:
        extra_files.update(contents.extra_files)
    if "model" not in contents.exported_programs:
        raise RuntimeError(
            f"the archive has no program called 'model', but {sorted(contents.exported_programs)}; use "
            "torch.export.pt2_archive._package.load_pt2"
        )
    return contents.exported_programs["model"]
