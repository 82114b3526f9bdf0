"""The file `.metadata` of a checkpoint: a pickle of `metadata`'s classes under PyTorch's names. Reading it makes nothing else.

Used by `filesystem`.
"""

from __future__ import annotations

import collections
import pickle
from typing import IO, Any

from flambeau.distributed.checkpoint import _entries, metadata
from flambeau.serialize import allowed
from flambeau.serialize.writing import pickled

__all__ = ["read", "write"]

_CLASSES = {
    "torch.distributed.checkpoint.metadata": {
        name: getattr(metadata, name) for name in (*metadata.__all__, "_MEM_FORMAT_ENCODING")
    },
    "torch.distributed.checkpoint.filesystem": {"_StorageInfo": _entries.StorageInfo},
    "collections": {"OrderedDict": collections.OrderedDict},
    "builtins": {"set": set, "dict": dict, "list": list, "tuple": tuple},
}


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        found = _CLASSES.get(module, {}).get(name)
        if found is not None:
            return found
        if module.startswith("pathlib") and name in ("PosixPath", "PurePosixPath", "WindowsPath", "PureWindowsPath", "Path"):
            return _path  # what wrote a checkpoint may have had other paths
        if module == "torch" or (module, name) == ("torch.serialization", "_get_layout"):
            try:
                return allowed.lookup(f"{module}.{name}")
            except KeyError:
                pass
        raise pickle.UnpicklingError(f"the metadata of a checkpoint names {module}.{name}, which no checkpoint needs: not read")


def _path(*parts: str) -> str:
    return "/".join(parts)


def read(file: IO[bytes]) -> metadata.Metadata:
    """The metadata in a file. Raises pickle.UnpicklingError for anything else, damaged or hostile."""
    try:
        found = _Unpickler(file).load()
    except pickle.UnpicklingError:
        raise
    except Exception as error:
        raise pickle.UnpicklingError(f"the metadata of the checkpoint can't be read: {error}") from error
    if not isinstance(found, metadata.Metadata) or not isinstance(found.state_dict_metadata, dict):
        raise pickle.UnpicklingError(f"the metadata of the checkpoint is a {type(found).__name__}")
    return found


def write(found: metadata.Metadata) -> bytes:
    """The file's content."""
    content, storages = pickled(found, pickle, 4)
    if storages.found:
        raise ValueError("tensors have no place in a checkpoint's metadata")
    return content
