"""Writing a program: torch.jit.save.

Stands on classes, which writes the code, on pickler, and on the zip writer of torch.save.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
import zlib
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from flambeau.base.whole_files import replacing
from flambeau.dispatcher.schema import FunctionSchema
from flambeau.dispatcher.schema_types import Type
from flambeau.jit.archive.classes import Code
from flambeau.jit.archive.pickler import ArchivePickler, Storages
from flambeau.jit.execution.runtime import place_of
from flambeau.jit.ir.function import Function, argument
from flambeau.jit.ir.source import ErrorReport
from flambeau.jit.ir.types import BOOL, ClassType
from flambeau.serialize import options
from flambeau.serialize.archive import ArchiveWriter
from flambeau.serialize.writing import identity_of

__all__ = ["of_function", "write", "written"]


def attributes_of(obj: Any, kind: ClassType) -> list[tuple[str, Any, Type]]:
    """The values of an object's attributes, with their types, in the order of its class."""
    return [(name, getattr(obj, place_of(kind, name)).get(name), attribute.type) for name, attribute in kind.attributes.items()]


def write(module: Any, f: Any, extra: dict[str, Any] | None = None) -> None:
    """Write a program and extra files, by name, to a path or a binary file object. RuntimeError for what can't be written."""
    if isinstance(f, (str, os.PathLike)):
        path = os.fspath(f)
        name, opened = os.path.splitext(os.path.basename(path))[0] or "archive", replacing(path)
        content = _content(module, name, extra or {})
        try:
            with opened as file:
                file.write(content)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise RuntimeError(f"Parent directory {os.path.dirname(path)} does not exist.") from error
        return
    with contextlib.nullcontext(f) as file:
        file.write(_content(module, "archive", extra or {}))


def written(module: Any, extra: dict[str, Any] | None = None) -> bytes:
    """The bytes of the archive."""
    return _content(module, "archive", extra or {})


def of_function(function: Function) -> Any:
    """What stands for the module by which a function is written: its forward is the function."""
    kind = ClassType("__torch__.PlaceholderModule", is_module=True)
    kind.add_attribute("training", BOOL)
    graph = function.graph.copy()
    graph.block().insertInput(0).setType(kind).setDebugName("self")
    forward = Function("__torch__.PlaceholderModule.forward")
    schema = function.schema
    taken = [argument(each.name, each.type) for each in schema.arguments]  # as in PyTorch, without defaults
    forward.set(graph, FunctionSchema("forward", "", [argument("self", kind), *taken], schema.returns))
    kind.methods["forward"] = forward
    return SimpleNamespace(script_type=kind, script_attributes={"training": True})


def _content(module: Any, name: str, extra: dict[str, Any]) -> bytes:
    kind: ClassType = module.script_type
    code = Code()
    try:
        code.add(kind)
    except ErrorReport as error:
        raise RuntimeError(str(error)) from None
    tensors, constants = Storages(), Storages()
    data = _pickled(tensors, lambda pickler: pickler.value(module, kind), code)
    table = _pickled(constants, lambda pickler: pickler.tuple_(tuple(code.constants.values), None), code)
    buffer = io.BytesIO()
    archive = ArchiveWriter(buffer, name, checksums=options.get_crc32_options())
    checksum = 0
    for file, content in extra.items():
        archive.record(f"extra/{file}", content.encode() if isinstance(content, str) else bytes(content))
    checksum = _records(archive, "data", data, tensors, checksum)
    for prefix, texts in code.files.items():
        archive.record(f"code/{prefix.replace('.', '/')}.py", "".join(texts).encode())
    checksum = _records(archive, "constants", table, constants, checksum)
    archive.record("version" if code.version < 6 else ".data/version", f"{code.version}\n".encode())
    archive.record("byteorder", sys.byteorder.encode())
    archive.record(".data/serialization_id", identity_of(archive, checksum))
    archive.close()
    return buffer.getvalue()


def _pickled(storages: Storages, write_it: Callable[[ArchivePickler], None], code: Code) -> bytes:
    pickler = ArchivePickler(storages, attributes_of)
    write_it(pickler)
    for kind in pickler.classes.values():
        code.add(kind)
    return pickler.finished()


def _records(archive: ArchiveWriter, folder: str, content: bytes, storages: Storages, checksum: int) -> int:
    for key, memory in storages.contents():
        checksum = zlib.crc32(archive.record(f"{folder}/{key}", memory).to_bytes(4, "little"), checksum)
    return zlib.crc32(archive.record(f"{folder}.pkl", content).to_bytes(4, "little"), checksum)
