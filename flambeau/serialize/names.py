"""Names in files: what flambeau calls its objects and what PyTorch's files call them.

A file written here names everything as PyTorch does, so that either reads the other's. Objects bear PyTorch's names below
the package's (base/naming.py), so the names differ in the head only: flambeau.nn.modules.linear against
torch.nn.modules.linear, or not at all where the package was loaded as torch. Stands on base.naming; used by the pickler and
the unpicklers.
"""

from __future__ import annotations

import _compat_pickle
import functools
import importlib
from typing import Any

from flambeau.base.naming import PACKAGE

#: What files call by a name whose module need not be loaded to find it: (module, name) -> where it is defined.
DEFINED = {
    ("torch._utils", "_rebuild_tensor"): ("core.tensor.rebuild", "rebuild_tensor"),
    ("torch._utils", "_rebuild_tensor_v2"): ("core.tensor.rebuild", "rebuild_tensor_v2"),
    ("torch._utils", "_rebuild_tensor_v3"): ("core.tensor.rebuild", "rebuild_tensor_v3"),
    ("torch._utils", "_rebuild_meta_tensor_no_storage"): ("core.tensor.rebuild", "rebuild_meta_tensor_no_storage"),
    ("torch._utils", "_rebuild_wrapper_subclass"): ("core.tensor.rebuild", "rebuild_wrapper_subclass"),
    ("torch._utils", "_rebuild_sparse_tensor"): ("ops.sparse.pickling", "rebuild_sparse_tensor"),
    ("torch._utils", "_rebuild_nested_tensor"): ("ops.nested.pickling", "rebuild_nested_tensor"),
    ("torch._utils", "_rebuild_qtensor"): ("ops.quantized.pickling", "rebuild_qtensor"),
    ("torch.nested._internal.nested_tensor", "_rebuild_njt"): ("ops.nested.pickling", "rebuild_njt"),
    ("torch._utils", "_rebuild_parameter"): ("nn.parameter", "_rebuild_parameter"),
    ("torch._utils", "_rebuild_parameter_with_state"): ("nn.parameter", "_rebuild_parameter_with_state"),
    ("torch._tensor", "_rebuild_from_type_v2"): ("core.tensor.rebuild", "rebuild_from_type_v2"),
    ("torch.serialization", "_get_layout"): ("core.tensor.rebuild", "get_layout"),
}
_OUTWARD = {(f"{PACKAGE}.{module}", name): known for known, (module, name) in DEFINED.items()}


def outward(module: str, name: str) -> tuple[str, str]:
    """The name that a file gives to our object `module.name`; names of other packages are returned unchanged."""
    known = _OUTWARD.get((module, name))
    if known is not None:
        return known
    head, dot, rest = module.partition(".")
    return ("torch" + dot + rest, name) if head == PACKAGE else (module, name)


def inward(module: str, name: str) -> tuple[str, str]:
    """The name here of what a file calls `module.name`."""
    found = DEFINED.get((module, name))
    if found is not None:
        return f"{PACKAGE}.{found[0]}", found[1]
    head, dot, rest = module.partition(".")
    return (PACKAGE + dot + rest, name) if head == "torch" else (module, name)


def modern(module: str, name: str) -> tuple[str, str]:
    """The Python 3 name of what a pickle of protocol 2 or lower calls by its Python 2 name."""
    found = _compat_pickle.NAME_MAPPING.get((module, name))
    if found is not None:
        return found
    return _compat_pickle.IMPORT_MAPPING.get(module, module), name


def resolve(module: str, name: str) -> Any:
    """The object that a file calls `module.name`; imports its module, so only for names that are trusted.

    Raises ImportError or AttributeError.
    """
    module, name = inward(module, name)
    return functools.reduce(getattr, name.split("."), importlib.import_module(module))


def own_name(thing: Any) -> str:
    """The full name by which files call an object, such as torch.nn.modules.linear.Linear."""
    module = getattr(thing, "__module__", None) or "builtins"
    return ".".join(outward(module, getattr(thing, "__qualname__", None) or thing.__name__))
