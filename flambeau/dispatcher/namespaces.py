"""`torch.ops`: the tree of operators, `torch.ops.namespace.name`.

Namespaces come into being when they are asked for; what is in them is looked up among the records of programs'
operators, then among PyTorch's own. Stands on overloads and builtin; torch.ops (flambeau._ops) is its
face.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator
from typing import Any

from flambeau.base.naming import public_module
from flambeau.core.operator.facets import OpDef
from flambeau.core.operator.publishing import REPLACED
from flambeau.dispatcher import builtin
from flambeau.dispatcher.aten.composites.registry import tell_of
from flambeau.dispatcher.higher_order import ANSWERS, NAMES
from flambeau.dispatcher.overloads import HigherOrderOperator, OpOverloadPacket
from flambeau.dispatcher.record import RECORDS

__all__ = ["Namespace", "Ops", "forget", "ops"]


class Namespace(types.ModuleType):
    """The operators of one namespace, `torch.ops.aten`."""

    def __init__(self, name: str) -> None:
        super().__init__(f"torch.ops.{name}")
        self.__file__ = "torch.ops"
        self.name = name
        self._dir: list[str] = []

    def __iter__(self) -> Iterator[str]:
        return iter(self._dir)

    def __getattr__(self, name: str) -> Any:
        made = None if name.startswith("__") and self.name != "aten" else self._made(name)
        if made is None:
            raise AttributeError(f"'_OpNamespace' '{self.name}' object has no attribute '{name}'")
        setattr(self, name, made)
        self._dir.append(name)
        return made

    def _made(self, name: str) -> Any:
        records = RECORDS.get(f"{self.name}::{name}")
        if records and any(record.schema is not None for record in records.values()):
            return OpOverloadPacket(self.name, name)
        overloads = builtin.overloads_of(self.name, name)
        return None if overloads is None else OpOverloadPacket(self.name, name, overloads)


Namespace.__name__ = Namespace.__qualname__ = "_OpNamespace"
Namespace.__module__ = public_module("_ops")


class _HigherOrder(Namespace):
    """torch.ops.higher_order."""

    def _made(self, name: str) -> Any:
        return HigherOrderOperator(name, ANSWERS.get(name)) if name in NAMES else None


class Ops(types.ModuleType):
    """torch.ops itself. `loaded_libraries`: the paths given to load_library; `registrations`: what defines the operators of a
    namespace when it is first asked for.
    """

    __file__ = "_ops.py"

    def __init__(self) -> None:
        super().__init__("torch.ops")
        self.loaded_libraries: set[str] = set()
        self.registrations: dict[str, Callable[[], None]] = {}
        self._dir: list[str] = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"module 'torch.ops' has no attribute '{name}'")
        register = self.registrations.pop(name, None)
        if register is not None:
            register()
            if name in self.__dict__:  # which has asked for it
                return self.__dict__[name]
        made = (_HigherOrder if name == "higher_order" else Namespace)(name)
        setattr(self, name, made)
        self._dir.append(name)
        return made

    def __iter__(self) -> Iterator[str]:
        return iter(self._dir)


Ops.__name__ = Ops.__qualname__ = "_Ops"
Ops.__module__ = public_module("_ops")
ops = Ops()
tell_of(ops)


def forget(packet_name: str, overload: str) -> None:
    """Drop the objects of an operator that is defined no more, or anew."""
    namespace, _, name = packet_name.partition("::")
    space = ops.__dict__.get(namespace)
    packet = None if space is None else space.__dict__.get(name)
    if packet is None:
        return
    packet.__dict__.pop(overload or "default", None)
    if not packet.overloads():
        delattr(space, name)
        space._dir.remove(name)


def _redeclared(before: OpDef) -> None:
    """Drop the objects of the operators of a declaration in whose place another one came."""
    for packet_name in before.__dict__.get("own_schemas", ()):  # if nobody asked for them, nobody has the objects
        namespace, _, name = packet_name.partition("::")
        space = ops.__dict__.get(namespace)
        if space is not None and name in space.__dict__:
            delattr(space, name)
            space._dir.remove(name)


REPLACED.append(_redeclared)
