"""The containers of inputs and outputs from a file: pytree structures of classes that are known, and of no others.

`torch.utils._pytree.treespec_loads` finds classes in contexts by importing what a text names; here a text only chooses among
the registered classes, and a context must fit its children. Stands on utils._pytree; used by calls.
"""

from __future__ import annotations

import collections
import sys
from enum import Enum
from typing import Any

import flambeau.utils._pytree as pytree
from flambeau.export.serde.schema import TREESPEC_VERSION
from flambeau.export.serde.text import SerializeError, parsed

__all__ = ["treespec"]

#: Containers may be in so many others: how deep a call of Python may go isn't the same in all its versions.
DEEPEST = 200
#: What a defaultdict may make, by module and name.
_FACTORIES = {("builtins", cls.__name__): cls for cls in (list, dict, set, tuple, int, float, str, bool)}
_FACTORIES["collections", "OrderedDict"] = collections.OrderedDict
_SEQUENCES = (tuple, list)
_MAPPINGS = (dict, collections.OrderedDict)
_KEYS = (str, int, float, bool, type(None), Enum)


def treespec(text: str) -> pytree.TreeSpec:
    """The structure that treespec_dumps wrote. SerializeError for a text that it didn't write, NotImplementedError for a class
    that isn't registered."""
    data = parsed(text, "the containers of inputs or outputs")
    if not isinstance(data, list) or len(data) != 2:
        raise SerializeError("the containers of inputs or outputs must be a protocol and a structure")
    if data[0] != TREESPEC_VERSION:
        raise ValueError(f"Unknown protocol {data[0]!r}. Available protocols: {[TREESPEC_VERSION]}")
    return _structure(data[1], 1)


def _structure(data: Any, depth: int) -> pytree.TreeSpec:
    if depth > DEEPEST:
        raise SerializeError(f"the containers of inputs or outputs are nested too deeply, in more than {DEEPEST} others")
    if not isinstance(data, dict) or not {"type", "context", "children_spec"} <= set(data):
        raise SerializeError("a container must have a type, a context and children")
    name, context, children = data["type"], data["context"], data["children_spec"]
    if not isinstance(children, list):
        raise SerializeError("the children of a container must be a list")
    if name is None and context is None and not children:
        return pytree.treespec_leaf()
    if not isinstance(name, str) or name not in pytree.SERIALIZED_TYPE_TO_PYTHON_TYPE:
        raise NotImplementedError(f"Deserializing {str(name)[:200]} in pytree is not registered.")
    cls = pytree.SERIALIZED_TYPE_TO_PYTHON_TYPE[name]
    specs = [_structure(child, depth + 1) for child in children]
    return pytree.TreeSpec(cls, _context(cls, context, len(specs)), specs)


def _context(cls: Any, context: Any, count: int) -> Any:
    """What a container of this class knows besides its `count` children."""
    if cls is collections.namedtuple:
        found = pytree.SERIALIZED_TYPE_TO_PYTHON_TYPE.get(context) if isinstance(context, str) else None
        if found is None or not pytree.is_namedtuple_class(found):
            raise NotImplementedError(
                f"Can't deserialize TreeSpec of namedtuple class {str(context)[:200]} because we couldn't find a serializated "
                "name."
            )
        return _fits(found, len(found._fields) == count)
    if cls is collections.defaultdict:
        return _of_defaultdict(context, count)
    decode = pytree.SUPPORTED_SERIALIZED_TYPES[cls].from_dumpable_context
    if decode is not None:  # a function of the program that registered the class
        return decode(context)
    if not isinstance(context, str):
        raise SerializeError("the context of a container must be a text")
    known = _plain(parsed(context, "the context of a container"))
    if cls in _SEQUENCES:
        return _fits(known, known is None)
    if cls in _MAPPINGS:
        return _keys(known, count)
    if cls is collections.deque:
        return _fits(known, known is None or (type(known) is int and known >= count))
    return _fits(known, not _is_dataclass_context(known) or len(known[0]) == count)


def _is_dataclass_context(known: Any) -> bool:
    """Whether it is the fields that are there, and those that are None."""
    return isinstance(known, list) and len(known) == 2 and all(isinstance(names, list) for names in known)


def _of_defaultdict(context: Any, count: int) -> Any:
    names = ("default_factory_module", "default_factory_name", "dict_context")
    if not isinstance(context, dict) or set(context) != set(names):
        raise SerializeError(f"the context of a defaultdict must have {', '.join(names)}")
    module, name, keys = (context[each] for each in names)
    factory = _FACTORIES.get((module, name)) if isinstance(module, str) and isinstance(name, str) else None
    if factory is None:
        shown = f"{str(module)[:80]}.{str(name)[:80]}"
        raise SerializeError(f"a defaultdict that makes {shown} is not read from files; use a builtin class")
    return [factory, _keys(_plain(keys), count)]


def _keys(keys: Any, count: int) -> list[Any]:
    fine = isinstance(keys, list) and all(isinstance(key, _KEYS) and _is_short(key) for key in keys)
    if not fine or len(set(keys)) != len(keys):
        raise SerializeError("the keys of a dict must be a list of different texts, numbers or members of enumerations")
    return _fits(keys, len(keys) == count)


def _is_short(key: Any) -> bool:
    """Whether a number has 64 bits; longer ones can be made to have the same hash."""
    return not isinstance(key, int) or abs(key) < 1 << 63


def _fits(context: Any, fits: bool) -> Any:
    if not fits:
        raise SerializeError("the context of a container doesn't fit its children")
    return context


def _plain(data: Any) -> Any:
    """JSON's data with members of enumerations that are loaded already in place of what stands for them."""
    if isinstance(data, list):
        return [_plain(x) for x in data]
    if isinstance(data, dict):
        return _member(data) if "__enum__" in data else {key: _plain(x) for key, x in data.items()}
    return data


def _member(data: dict[str, Any]) -> Enum:
    module, _, path = str(data.get("fqn")).partition(":")
    cls: Any = sys.modules.get(module)
    for name in path.split("."):
        cls = vars(cls).get(name) if hasattr(cls, "__dict__") else None
    if not isinstance(cls, type) or not issubclass(cls, Enum) or data.get("name") not in cls.__members__:
        raise SerializeError(f"{str(data.get('fqn'))[:200]} is no enumeration that the program has imported")
    return cls[data["name"]]
