"""torch.load: reads PyTorch's zip files and, through legacy.py, those from before version 1.6.

Stands on the archive, the unpicklers and locations. With weights_only, the default, a file is data and nothing else;
without, it is a program, as with any pickle.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import mmap as mapping
import os
import pickle
import sys
import warnings
from collections.abc import Callable
from typing import IO, Any

import numpy as np

from flambeau.base.naming import PACKAGE
from flambeau.base.warn import warn
from flambeau.core.tensor import storage_io
from flambeau.core.tensor.storage import Storage
from flambeau.core.tensor.storage_types import BY_NAME, StorageReference, StorageType
from flambeau.ops.interop.typed_storage import of, retyped
from flambeau.serialize import legacy, names, options, safe
from flambeau.serialize.archive import ArchiveReader, is_archive
from flambeau.serialize.identity import parts, storage_identity
from flambeau.serialize.locations import restorer, wants_no_data


def load(
    f: str | os.PathLike[str] | IO[bytes],
    map_location: Any = None,
    pickle_module: Any = None,
    *,
    weights_only: bool | None = None,
    mmap: bool | None = None,
    **pickle_load_args: Any,
) -> Any:
    """Read what torch.save wrote, here or in PyTorch.

    f: a path, or a binary file object with read, tell and seek, and readline where it isn't an archive. map_location: where
    the storages go: a string, a torch.device, a dict of locations, or a function (storage, location) -> storage or None.
    weights_only (default): accept tensors, plain containers and what `torch.serialization.add_safe_globals` allows, refuse
    everything else.
    With weights_only=False the file can run any code: only for files you trust. mmap: map the file (a path) into memory
    instead of reading it.

    Raises UnpicklingError for what weights_only refuses, RuntimeError for damaged files, FileNotFoundError.
    """
    if options.skipping.active:
        raise RuntimeError(
            "`torch.load` called within a torch.serialization.skip_data context manager is not supported yet. "
            "Please call torch.load outside the skip_data context manager."
        )
    always, never = _flag("TORCH_FORCE_WEIGHTS_ONLY_LOAD"), _flag("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD")
    if always and never:
        raise RuntimeError(
            "Only one of `TORCH_FORCE_WEIGHTS_ONLY_LOAD` or `TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD` should be set, but both were set."
        )
    if weights_only is None:
        weights_only = pickle_module is None
        if never:
            warn(
                "Environment variable TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD detected, since the`weights_only` argument was not "
                "explicitly passed to `torch.load`, forcing weights_only=False."
            )
            weights_only = False
    if always:
        weights_only = True
    if weights_only and pickle_module is not None:
        raise RuntimeError("Can not safely load weights when explicit pickle_module is specified")
    if weights_only and pickle_load_args:
        warnings.warn("pickle_load_args only works if `weights_only=False`.", stacklevel=2)
        unknown = set(pickle_load_args) - {"encoding"}
        if unknown:
            raise TypeError(f"Unpickler.__init__() got an unexpected keyword argument '{unknown.pop()}'")
    # Files that Python 2 wrote have texts of bytes.
    pickle_load_args.setdefault("encoding", "utf-8")
    if mmap and not isinstance(f, str | os.PathLike):
        raise ValueError("f must be a file path in order to use the mmap argument")
    unpickle = unpickler(pickle_module or pickle, weights_only, pickle_load_args)
    with contextlib.ExitStack() as stack:
        file = stack.enter_context(open(f, "rb")) if isinstance(f, str | os.PathLike) else checked(f)
        if is_archive(file):
            reader = ArchiveReader(file)
            if "constants.pkl" in reader:
                return _script(file, map_location, weights_only)
            return ZipLoad(reader, map_location, bool(mmap)).load(unpickle)
        if mmap:
            raise RuntimeError(
                f"mmap can only be used with files saved with `torch.save({f}, _use_new_zipfile_serialization=True), please "
                "torch.save your checkpoint with this option in order to use mmap."
            )
        return legacy.load(file, map_location, unpickle)


def _script(file: Any, map_location: Any, weights_only: bool) -> Any:
    """The scripted or traced module of an archive, as torch.jit.load gives it. RuntimeError where only weights may be loaded."""
    warnings.warn(
        "'torch.load' received a zip file that looks like a TorchScript archive dispatching to 'torch.jit.load' (call "
        "'torch.jit.load' directly to silence this warning)",
        UserWarning,
        stacklevel=3,
    )
    if weights_only:
        raise RuntimeError(
            "Cannot use ``weights_only=True`` with TorchScript archives passed to ``torch.load``. In PyTorch 2.6, we changed the "
            "default value of the `weights_only` argument in `torch.load` from `False` to `True`. Re-running `torch.load` with "
            "`weights_only` set to `False` will likely succeed, but it can result in arbitrary code execution. Do it only if you "
            "got the file from a trusted source."
        )
    file.seek(0)
    # The room jit stands on this one, so that it is asked for by its name.
    return importlib.import_module(f"{PACKAGE}.jit").load(file, map_location=map_location)


def _flag(name: str) -> bool:
    return os.environ.get(name, "0").lower() in ("1", "y", "yes", "true")


def checked(file: Any) -> IO[bytes]:
    """The file object, if it can be read at any place. Raises what it raises, with PyTorch's advice where it can't be set."""
    try:
        file.seek(file.tell())
    except (io.UnsupportedOperation, AttributeError) as error:
        advice = (
            "You can only torch.load from a file that is seekable. Please pre-load the data into a buffer like io.BytesIO "
            "and try to load from it instead."
        )
        if any(method in str(error) for method in ("seek", "tell")):
            raise type(error)(f"{error}. {advice}") from None
        raise
    return file  # type: ignore[no-any-return]


Unpickle = Callable[[IO[bytes], Callable[[Any], Any]], Any]


def unpickler(pickle_module: Any, weights_only: bool, arguments: dict[str, Any]) -> Unpickle:
    """The function (file, persistent_load) -> object that reads one pickle, in the safe or the trusting way."""
    if weights_only:

        def read_safely(file: IO[bytes], persistent_load: Callable[[Any], Any]) -> Any:
            try:
                return safe.SafeUnpickler(file, persistent_load, **arguments).load()
            except pickle.UnpicklingError as error:
                raise safe.explained(error) from None

        return read_safely

    class Unpickler(pickle_module.Unpickler):  # type: ignore[misc, name-defined]
        def find_class(self, module: str, name: str) -> Any:
            marker = BY_NAME.get(f"{module}.{name}")
            if marker is not None:
                return marker
            if module.partition(".")[0] == "torch":
                return names.resolve(module, name)
            return super().find_class(module, name)

    def read_trusting(file: IO[bytes], persistent_load: Callable[[Any], Any]) -> Any:
        reader = Unpickler(file, **arguments)
        reader.persistent_load = persistent_load
        return reader.load()

    return read_trusting


class ZipLoad:
    """One reading of a zip file: finds the storages that its pickle refers to, in the records of a folder."""

    folder = "data"

    def __init__(self, reader: ArchiveReader, map_location: Any, mmap: bool):
        self.reader = reader
        self.restore = restorer(map_location)
        self.without_data = wants_no_data(map_location)
        self.loaded: dict[str, StorageReference | Storage] = {}
        self.swap = self.byteorder() != sys.byteorder
        self.mapped: mapping.mmap | None = None
        if mmap:
            shared = options.get_default_mmap_options() == getattr(mapping, "MAP_SHARED", 1)
            access = mapping.ACCESS_WRITE if shared else mapping.ACCESS_COPY
            file: Any = reader.file  # of a path
            if shared:
                with open(file.name, "r+b") as file:
                    self.mapped = mapping.mmap(file.fileno(), 0, access=access)
            else:
                self.mapped = mapping.mmap(file.fileno(), 0, access=access)

    def byteorder(self) -> str:
        """The byte order of the storages. Raises ValueError for one that doesn't exist."""
        if "byteorder" not in self.reader:
            assumed = options.get_default_load_endianness()
            return sys.byteorder if assumed in (None, options.LoadEndianness.NATIVE) else assumed.name.lower()
        order = self.reader.beginning("byteorder").decode()
        if order not in ("little", "big"):
            raise ValueError("Unknown endianness type: " + order)
        return order

    def load(self, unpickle: Unpickle) -> Any:
        """The object in the file."""
        with self.reader.open("data.pkl") as file:
            return unpickle(file, self.persistent_load)

    def persistent_load(self, identity: tuple[Any, ...]) -> StorageReference | Storage:
        """The storage that a persistent id of the pickle means: itself, if it is of bytes and there is memory behind it."""
        of_type, key, place, count = parts(identity)
        marker, key, location, numel = storage_identity(of_type, key, place, count)
        found = self.loaded.get(key)
        if found is None:
            storage = self.restore(self.storage(f"{self.folder}/{key}", marker, numel), location)
            found = storage if marker.dtype is None else of(storage, marker.dtype)
            self.loaded[key] = found
        return retyped(found, marker)

    def storage(self, name: str, marker: StorageType, numel: int) -> Any:
        """A storage with the content of a record, whose size must be `numel` elements."""
        nbytes = numel * marker.itemsize
        if self.without_data:
            return storage_io.on_meta(nbytes)
        size = self.reader.size(name)
        if size != nbytes:
            raise RuntimeError(
                f"record size ({size} bytes) does not match expected size ({nbytes} bytes = {nbytes} elements * 1 "
                "bytes/element) for dtype Byte"
            )
        if self.mapped is not None:
            if not self.reader.is_stored(name) or self.swap:
                raise RuntimeError(
                    f"record {name} is compressed or in foreign byte order and can't be mapped: load with mmap=False"
                )
            return storage_io.map_storage(self.mapped, self.reader.start(name), nbytes)
        self.reader.start(name)  # the record must be in the file before memory for it is taken
        storage = storage_io.allocate(nbytes)
        memory = storage_io.memory_of(storage)
        self.reader.read_into(name, memory)
        if self.swap:
            swap_bytes(memory, marker)
        return storage


def swap_bytes(memory: memoryview, marker: StorageType) -> None:
    """Turn the byte order of every element around. Raises RuntimeError for bytes without a type."""
    if marker.dtype is None:
        raise RuntimeError("a storage without type in foreign byte order can't be read; save it on a machine of this kind")
    width = marker.itemsize // (2 if marker.dtype.is_complex else 1)
    array = np.frombuffer(memory, np.dtype(f"V{width}") if width not in (1, 2, 4, 8) else np.dtype(f"u{width}"))
    if width > 1:
        array.byteswap(inplace=True)
