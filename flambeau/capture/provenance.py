"""Provenance: which objects of a call are of the environment, and the guards that pin them.

An object is *of the environment* if it was reached from the arguments, a global or a free variable; a guard pins the place
where it was found. An object that isn't was made in the call, or is one of Python's constants. `touch` pins what C code may
read of a value. Stands on kinds and codegen.runtime.guards.
"""

from __future__ import annotations

import enum
from types import FunctionType, MethodType, ModuleType
from typing import Any

from flambeau.capture.arguments import Arguments
from flambeau.capture.builtins import CONTAINERS, SCALARS
from flambeau.capture.kinds import C_FUNCTIONS, IMMUTABLE, TENSORS, has_foreign_base, is_a, is_made_by_class_statement
from flambeau.codegen.runtime.guards import Guards
from flambeau.core.tensor.tensor import Tensor

__all__ = ["Provenance"]


def _place_of(tensor: Tensor) -> tuple[Any, ...]:
    return id(tensor._storage), tensor._offset, id(tensor._layout), id(tensor._node)


def _alike(these: list[Any], those: list[Any]) -> bool:
    """Whether two lists hold the same objects, or equal scalars of the same types."""
    return len(these) == len(those) and all(
        a is b or (type(a) is type(b) and type(a) in SCALARS and a == b and repr(a) == repr(b))
        for a, b in zip(these, those, strict=True)
    )


class Provenance:
    """`guards`, `tensors` of the environment, and `reason`, why the call can't be skipped later, or None."""

    def __init__(self) -> None:
        self.guards = Guards()
        self.reason: str | None = None
        self.environment: dict[int, Any] = {}
        self.arguments: dict[int, Any] = {}  # those of the environment that are looked up anew in every call
        self.tensors: dict[int, Tensor] = {}
        self.touched: set[int] = set()
        self._looked: set[tuple[int, bool]] = set()
        self.addresses: set[int] = set()  # that the call has asked for, and that are others in later ones
        self.bare: set[int] = set()  # arguments, tensors, that must have no attributes of their own
        self.writes: dict[tuple[int, Any], dict[Any, Any]] = {}  # entries of the environment's dicts that the call sets
        self._places: dict[int, tuple[Any, ...]] = {}  # of tensors of the environment, before the call

    def refuse(self, reason: str) -> None:
        """The call can't be skipped later; the first reason is kept."""
        if self.reason is None:
            self.reason = reason

    def _given(self, given: Arguments) -> None:
        """What the call was given: the structure of it is in the key under which it is found again, or it is pinned."""
        for each in (*given.objects, *given.tensors):
            self.arguments[id(each)] = self.environment[id(each)] = each
        self.touched.update(map(id, given.objects))
        for tensor in given.tensors:
            self._keep_tensor(tensor)
        for each in given.pinned:
            self.reach(each)
            self.guards.hold(each)

    def _plain_slice(self, value: Any) -> None:
        """Refuse a slice of the environment that isn't immutable, as its parts aren't."""
        if type(value) is slice and not all(type(part) in SCALARS - {slice} for part in (value.start, value.stop, value.step)):
            self.refuse("a slice of the surroundings has parts that may change")

    def _keep_tensor(self, tensor: Tensor) -> None:
        self.tensors[id(tensor)] = tensor
        self._places[id(tensor)] = _place_of(tensor)

    def of_environment(self, value: Any) -> bool:
        return id(value) in self.environment

    def reach(self, value: Any) -> Any:
        """A value was found at a place of the environment that a guard pins."""
        if self.reason is not None or type(value) in IMMUTABLE:
            self._plain_slice(value)
            return value
        if id(value) in self.environment:
            if id(value) in self.arguments:
                self.refuse("an argument is found in the surroundings, too")
            return value
        self.environment[id(value)] = value
        if is_a(value, Tensor):
            if type(value) not in TENSORS:
                self.refuse(f"a tensor of the class {type(value).__name__}")
                return value
            self._keep_tensor(value)
            self.guards.tensor(value)
        elif is_a(value, (MethodType, super, *C_FUNCTIONS)):
            self.reach(getattr(value, "__self__", None))  # it is bound to that for ever
        return value

    def part_of(self, container: Any, value: Any) -> Any:
        """A value that was found in a container of the environment; what is in an argument is an argument."""
        return value if id(container) in self.arguments else self.reach(value)

    def _pinned_class(self, value: Any) -> None:
        """What a class says of its instances."""
        if self.of_environment(value) and id(value) not in self.arguments:
            self.guards.class_of(value, "the class of an object")
        if not self.guards.class_state(type(value), f"attributes of {type(value).__qualname__}"):
            self.refuse(f"the class {type(value).__qualname__} changed too often")

    def is_constant(self, value: Any) -> bool:
        """Whether a value is the same in every call that guards let pass: a scalar, or an object of the environment."""
        self._plain_slice(value)
        if type(value) is int and value in self.addresses:
            return False
        return (
            type(value) in IMMUTABLE or is_a(value, enum.Enum) or (self.of_environment(value) and id(value) not in self.arguments)
        )

    def look_back(self) -> None:
        """After the call: refuse where a tensor of the environment has got another place, layout or node."""
        for key, tensor in self.tensors.items():
            if self._places[key] != _place_of(tensor):
                self.refuse("a tensor of the surroundings got other memory, another shape or another place in the graph")
        given = {tensor._storage.serial for key, tensor in self.tensors.items() if key in self.arguments}
        if any(tensor._storage.serial in given for key, tensor in self.tensors.items() if key not in self.arguments):
            self.refuse("an argument lies in the memory of a tensor of the surroundings")

    # ---- what the call writes
    def write(self, table: dict[Any, Any], key: Any) -> None:
        """An entry of a dict of the environment is about to be set: from here on it is the call's own, and an effect of it."""
        self.environment[id(table)] = table
        self.writes[id(table), key] = table

    def is_written(self, table: dict[Any, Any], key: Any) -> bool:
        """Whether the call has set an entry of a dict."""
        return bool(self.writes) and (id(table), key) in self.writes

    # ---- what C code may look into
    def touch(self, value: Any) -> Any:
        """C code will look into a value: what it may find there is pinned."""
        cls = type(value)
        if self.reason is not None or cls in IMMUTABLE:
            if cls is int and value in self.addresses:
                self.refuse("an object's address is computed with")
            return value
        if cls in CONTAINERS:
            self._touch_container(value, True)
        elif is_a(value, Tensor):
            self.guards.class_state(type(value), "attributes of Tensor")  # its operators are looked up there
        elif is_a(value, (type, FunctionType, MethodType, ModuleType, enum.Enum, *C_FUNCTIONS)):
            if is_a(value, type) and self.of_environment(value):
                self.guards.class_state(value, f"attributes of {value.__qualname__}")
        elif is_made_by_class_statement(cls):  # made by a class statement
            self._pinned_class(value)
            for base in cls.__mro__:
                if base in CONTAINERS:
                    self._touch_container(value, True)
            if self.of_environment(value) and has_foreign_base(cls):
                self.refuse(f"an object of {cls.__module__}.{cls.__qualname__} is looked into")
        elif self.of_environment(value):
            self.refuse(f"an object of {cls.__module__}.{cls.__qualname__} is looked into")
        return value

    def compared(self, value: Any) -> Any:
        """C code will compare a value with another: in containers it takes the same object for an equal one."""
        if self.reason is None and type(value) in CONTAINERS and self._goes_by_identity(value):
            self.refuse("a container of tensors is compared")
        return self.touch(value)

    def _goes_by_identity(self, value: Any) -> bool:
        """Whether a container holds what isn't equal to itself: tensors, NaN."""
        parts = [*value, *value.values()] if is_a(value, dict) else value
        return any(
            is_a(each, Tensor)
            or (is_a(each, float) and each != each)
            or (type(each) in CONTAINERS and self._goes_by_identity(each))
            for each in parts
        )

    def _touch_container(self, value: Any, deep: bool) -> None:
        """Pin the elements of a container; deep: all that C code may find in them."""
        mine = self.of_environment(value) and id(value) not in self.arguments  # the structure of which is in the key
        if mine:
            if (id(value), deep) in self._looked:
                return
            self._looked.add((id(value), deep))
            self.touched.add(id(value))
        if is_a(value, dict):
            if mine:
                self._whole_dict(value)
            elements: Any = [*dict.keys(value), *dict.values(value)]
        elif is_a(value, list):
            if mine:
                self.guards.list_items(value, "the elements of a list", keep=True)
            elements = list.copy(value)
        else:
            elements = list(value)
            if mine and not is_a(value, (tuple, frozenset)):
                self.guards.asked(lambda: _alike(list(value), elements), "the elements of a set or deque")
        for each in elements:
            if mine:
                self.reach(each)
            if deep and not is_a(each, Tensor):
                self.touch(each)

    def _whole_dict(self, table: dict[Any, Any]) -> None:
        keys = list(dict.keys(table))
        if any(other is table for other in self.writes.values()):
            self.refuse("a dict of the surroundings is looked into after it was changed")
        if any(type(key) not in SCALARS and type(key).__hash__ is not object.__hash__ for key in keys):
            self.refuse("a dict has keys that are compared by Python code")
            return
        self.guards.size_of_dict(table, "the number of entries of a dict")
        for key in keys:
            self.guards.item(table, key, f"the entry {key!r} of a dict", self._kept(dict.__getitem__(table, key)))
        if keys:
            self.guards.order(table)

    @staticmethod
    def _kept(value: Any) -> bool:
        return not is_a(value, Tensor)
