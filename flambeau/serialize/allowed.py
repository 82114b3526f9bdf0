"""What a checkpoint may name when it is loaded with weights_only=True: a fixed list, and what programs add to it.

Stands on names.py and the storage markers. Used by the safe unpickler; `add_safe_globals` and its friends are public.
"""

from __future__ import annotations

import builtins
import codecs
from collections import Counter, OrderedDict
from collections.abc import Iterable
from types import FunctionType
from typing import Any

from flambeau.base.dtype import all_dtypes
from flambeau.base.qscheme import SCHEMES
from flambeau.core.tensor.storage_types import BY_NAME
from flambeau.serialize import names

#: Modules of which nothing may be named, whatever a program adds.
BLOCKED_MODULES = ("sys", "os", "posix", "nt")

PLAIN = {
    "collections.OrderedDict": OrderedDict,
    "collections.Counter": Counter,
    "builtins.bytearray": builtins.bytearray,
    "builtins.set": builtins.set,
    "builtins.complex": builtins.complex,
    "_codecs.encode": codecs.encode,
}

#: Found by name when a file asks for them. All but the classes at the end are functions that check their arguments.
OURS = (
    "torch._utils._rebuild_tensor",
    "torch._utils._rebuild_tensor_v2",
    "torch._utils._rebuild_tensor_v3",
    "torch._utils._rebuild_meta_tensor_no_storage",
    "torch._utils._rebuild_wrapper_subclass",
    "torch._utils._rebuild_sparse_tensor",
    "torch._utils._rebuild_nested_tensor",
    "torch._utils._rebuild_qtensor",
    "torch.nested._internal.nested_tensor._rebuild_njt",
    "torch.nested._internal.nested_tensor.NestedTensor",
    "torch._utils._rebuild_parameter",
    "torch._utils._rebuild_parameter_with_state",
    "torch._tensor._rebuild_from_type_v2",
    "torch.serialization._get_layout",
    "torch.nn.parameter.Parameter",
    "torch.Tensor",
    "torch.Size",
    "torch.device",
)

_REBUILD = [tuple(name.rsplit(".", 1)) for name in OURS if "._rebuild_" in name]
_added: dict[str, Any] = {}


def lookup(full_name: str) -> Any:
    """The object a file may call by this name. Raises KeyError for everything else; imports nothing on a file's word."""
    found = _added.get(full_name, _added)
    if found is not _added:
        return found
    found = PLAIN.get(full_name, BY_NAME.get(full_name))
    if found is not None:
        return found
    module, _, name = full_name.rpartition(".")
    if full_name in OURS:
        return names.resolve(module, name)
    if module == "torch":
        return SCHEMES.get(name) or all_dtypes()[name]
    raise KeyError(full_name)


def is_allowed(thing: Any) -> bool:
    """Whether a program added this very object."""
    return any(thing is added for added in _added.values())


def makes_tensors(thing: Any) -> bool:
    """Whether this is a function of ours that rebuilds a tensor."""
    return isinstance(thing, FunctionType) and any(thing is names.resolve(*name) for name in _REBUILD)


def _named(item: Any) -> tuple[str, Any]:
    if isinstance(item, tuple):
        if len(item) != 2:
            raise ValueError(
                f"Expected tuple of length 2 (global, str of callable full path), but got tuple of length: {len(item)}"
            )
        thing, name = item
        if not isinstance(name, str):
            raise TypeError(f"Expected second element in tuple to be str of callable full path, but got: {type(name)}")
        return name, thing
    return names.own_name(item), item


def add_safe_globals(safe_globals: Iterable[Any]) -> None:
    """Let files loaded with weights_only=True name these functions and classes.

    safe_globals: the objects, or (object, full name in the file) tuples. A class you add may be made and given any state by
    a file, a function may be called with any arguments: add only what is harmless whatever it is given.
    """
    _added.update(dict(map(_named, safe_globals)))


def get_safe_globals() -> list[Any]:
    """The objects that programs have added."""
    return list(_added.values())


def clear_safe_globals() -> None:
    """Take back everything that programs have added."""
    _added.clear()


class safe_globals:
    """add_safe_globals for the length of a with block."""

    def __init__(self, safe_globals: Iterable[Any]):
        self.names = dict(map(_named, safe_globals))

    def __enter__(self) -> None:
        self.before = dict(_added)
        _added.update(self.names)

    def __exit__(self, *exception: Any) -> None:
        _added.clear()
        _added.update(self.before)
