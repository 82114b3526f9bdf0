"""Weights, constants and sample inputs of programs in a .pt2 archive.

A weight is a piece of a record that holds the bytes of a whole storage, so that weights that share memory share it again. Stands
on serialize for bytes and pickles, and on the format's classes; used by `_package`.
"""

from __future__ import annotations

import dataclasses
import io
import pickle
from collections.abc import Callable, Mapping
from typing import Any

import flambeau as torch
import flambeau.utils._pytree as pytree
from flambeau.core.tensor import storage_io
from flambeau.core.tensor.storage_types import StorageType
from flambeau.export.pt2_archive._archive import PT2ArchiveReader, PT2ArchiveWriter
from flambeau.export.pt2_archive.constants import CUSTOM_OBJ_FILENAME_PREFIX, OPAQUE_OBJ_FILENAME_PREFIX
from flambeau.export.serde import schema, text, values
from flambeau.export.serde.text import SerializeError
from flambeau.serialize.allowed import safe_globals
from flambeau.serialize.reading import ZipLoad
from flambeau.serialize.reading import load as load_pickle

__all__ = ["read_inputs", "read_pickled", "read_tensors", "text_record", "write_inputs", "write_tensors"]

#: A compressed record of JSON may be this many times as large as its bytes in the file; PyTorch's aren't compressed.
_EXPANSION = 32


# ---------------------------------------------------------------- writing


def write_tensors(
    writer: PT2ArchiveWriter, tensors: Mapping[str, Any], folder: str, prefix: str, pickle_protocol: int
) -> schema.PayloadConfig:
    """Add the records of some tensors; where they lie. SerializeError for what is no tensor."""
    config: dict[str, schema.PayloadMeta] = {}
    places: dict[Any, str] = {}
    count = writer.count_prefix(folder + prefix)
    for name, tensor in tensors.items():
        if not isinstance(tensor, torch.Tensor):
            raise SerializeError(f"Unsupported constant type: {type(tensor)}")
        pickled = not _is_plain(tensor)
        plain = tensor.detach() if pickled else _as_in_memory(tensor.detach())
        key = name if pickled else (id(plain._storage), plain.dtype)
        if key not in places:
            places[key] = path = f"{prefix}{count}"
            count += 1
            writer.write_bytes(folder + path, _pickle(tensor, pickle_protocol) if pickled else _bytes_of(plain))
        meta = dataclasses.replace(values.tensor_meta(plain), requires_grad=tensor.requires_grad)
        config[name] = schema.PayloadMeta(places[key], isinstance(tensor, torch.nn.Parameter), pickled, meta)
    return schema.PayloadConfig(config)


def _is_plain(tensor: torch.Tensor) -> bool:
    """Whether its bytes are all that it is; others are pickled."""
    return type(tensor.data) is torch.Tensor and tensor.layout is torch.strided


def _as_in_memory(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.resolve_conj().resolve_neg()


def _bytes_of(tensor: torch.Tensor) -> memoryview:
    storage = storage_io.parts(tensor)[0]
    if storage_io.without_memory(storage):
        raise SerializeError("weights without data (fake tensors, or tensors on meta) can't be written")
    return storage_io.memory_of(storage) if tensor.numel() else memoryview(b"")


def _pickle(thing: Any, protocol: int) -> bytes:
    buffer = io.BytesIO()
    torch.save(thing, buffer, pickle_protocol=protocol)
    return buffer.getvalue()


def write_inputs(writer: PT2ArchiveWriter, name: str, inputs: Any, protocol: int) -> None:
    """Add the record of a program's sample inputs, which is empty if it has none."""
    writer.write_bytes(name, b"" if inputs is None else _pickle(inputs, protocol))


# ---------------------------------------------------------------- reading


def text_record(reader: PT2ArchiveReader, name: str) -> bytes:
    """The content of a record of JSON. RuntimeError for one that is compressed beyond what texts are."""
    entry = reader.archive_file.entry(name)
    if entry.size > max(_EXPANSION * entry.stored, 1 << 20):
        raise RuntimeError(f"refusing record {name} of {entry.stored} bytes that claims to be a text of {entry.size}")
    return reader.read_bytes(name)


def read_tensors(
    reader: PT2ArchiveReader, config_name: str, folder: str, as_parameter: Callable[[torch.Tensor, bool], torch.Tensor]
) -> dict[str, torch.Tensor]:
    """The tensors that a config of the archive lists; as_parameter(tensor, requires_grad) makes those that are parameters.

    SerializeError for a config that is none, RuntimeError for tensors that don't lie inside their records.
    """
    config = text.loads(schema.PayloadConfig, text_record(reader, config_name)).config
    records = ZipLoad(reader.archive_file, None, False)
    storages: dict[tuple[str, torch.dtype], Any] = {}
    made = {}
    for name, payload in config.items():
        if payload.path_name.startswith((CUSTOM_OBJ_FILENAME_PREFIX, OPAQUE_OBJ_FILENAME_PREFIX)):
            raise NotImplementedError(
                f"torch.export.load: {name[:80]} is an object of a program's own class, which is not implemented in flambeau; "
                "export a program of tensors"
            )
        if payload.use_pickle:
            tensor = _unpickled(reader, folder + payload.path_name)
            if not isinstance(tensor, torch.Tensor):
                raise SerializeError(f"{name[:80]} is no tensor but a {type(tensor).__name__}")
            made[name] = tensor
            continue
        if payload.tensor_meta is None:
            raise SerializeError(f"nothing is said of what {name[:80]} is")
        tensor = _tensor(records, payload.tensor_meta, folder + payload.path_name, storages)
        made[name] = as_parameter(tensor, payload.tensor_meta.requires_grad) if payload.is_param else tensor
    return made


def _tensor(records: ZipLoad, meta: schema.TensorMeta, record: str, storages: dict[Any, Any]) -> torch.Tensor:
    """A tensor over the storage of a record."""
    dtype = values.dtype_of(meta.dtype)
    if values.layout_of(meta.layout) is not torch.strided:
        raise SerializeError(f"the bytes of {record} can't be those of a sparse tensor")
    device = values.device_of(meta.device)
    if device.type != "cpu":
        raise RuntimeError(f"{record} is a weight on {device}, of which flambeau has none; save the program from the CPU")
    sizes, strides = values.numbers_of(meta.sizes), values.numbers_of(meta.strides)
    if (record, dtype) not in storages:
        count, rest = divmod(records.reader.size(record), dtype.itemsize)
        if rest:
            size = records.reader.size(record)
            raise ValueError(f"Record {record}: size {size} is not a multiple of element size {dtype.itemsize} for dtype {dtype}")
        storages[record, dtype] = records.storage(record, StorageType("torch", str(dtype), dtype), count)
    return storage_io.make_tensor(storages[record, dtype], dtype, values.number_of(meta.storage_offset), sizes, strides)


def read_pickled(reader: PT2ArchiveReader, record: str) -> dict[str, torch.Tensor]:
    """The tensors of a record that PyTorch 2.8 wrote, which is a file of torch.save. SerializeError for anything else in it."""
    found = _unpickled(reader, record)
    if not isinstance(found, dict) or not all(isinstance(x, torch.Tensor) for x in found.values()):
        raise SerializeError(f"{record} must hold a dict of tensors")
    return found


def _unpickled(reader: PT2ArchiveReader, record: str) -> Any:
    return load_pickle(io.BytesIO(reader.read_bytes(record)), weights_only=True)


def read_inputs(reader: PT2ArchiveReader, record: str) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
    """The sample inputs (args, kwargs) of a program; None if it has none.

    Besides what torch.load(weights_only=True) allows, they may be of the named tuples and dataclasses that the program has
    registered as containers. UnpicklingError for others, SerializeError for what are no inputs.
    """
    content = reader.read_bytes(record)
    if not content:
        return None
    with safe_globals(_containers()):
        try:
            made = load_pickle(io.BytesIO(content), weights_only=True)
        except (pickle.UnpicklingError, RuntimeError) as error:
            error.add_note(f"This is the record {record} of the archive, the inputs that the program was exported with.")
            raise
    inputs = isinstance(made, tuple) and len(made) == 2 and isinstance(made[0], tuple) and isinstance(made[1], dict)
    if not inputs:
        raise SerializeError("the sample inputs of a program must be a tuple of arguments, and a dict of keywords")
    return made


def _containers() -> list[type]:
    """The registered classes that do nothing but hold values."""
    known = {**pytree.SUPPORTED_NODES, **pytree.SUPPORTED_SERIALIZED_TYPES}
    return [
        cls
        for cls in known
        if isinstance(cls, type)
        and (pytree.is_namedtuple_class(cls) or (dataclasses.is_dataclass(cls) and cls.__new__ is object.__new__))
        and not hasattr(cls, "__setstate__")
    ]
