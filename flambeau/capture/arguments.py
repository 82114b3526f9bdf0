"""The arguments of a call taken apart: the key under which the call is found again, and what of them each call brings anew.

Tensors, containers, named tuples and dataclasses are in the key by their structure: what they are made of, and which of them are
one object. Other objects are there by identity, and guards pin what is looked at. An object of a plain class of the program is
taken by structure, too, once a second one of its class has come: of caches that are made anew for each use, each would stay alive
otherwise, and none would be replayed. Stands on kinds.py; used by entry and recorder.
"""

from __future__ import annotations

import struct
from types import CodeType
from typing import Any

from flambeau.capture.builtins import SCALARS
from flambeau.capture.kinds import IMMUTABLE, TENSORS, is_a, is_plain, is_record
from flambeau.core.tensor.tensor import Tensor

__all__ = ["Arguments", "Unknown"]

MOST_PARTS = 4096  # of arguments that are taken by structure
RECORD, PLAIN, PINNED = "record", "plain", "pinned"  # how objects are taken: the first two by structure


class Unknown(Exception):
    """args[0]: an argument that no key is known for."""


class _TooMany(Exception):
    """There are more parts than a key may have."""


class _Again(Exception):
    """Objects of a class are taken in another way from now on."""


class Arguments:
    """`tensors`; `objects`, those in the key by structure, and their dicts; `pinned`, those by identity.

    classes: how objects of each class are taken, or the address of the only one that has come; the caller keeps it from call to
    call. `changed`: whether a class is taken in another way than before.
    """

    __slots__ = ("changed", "classes", "objects", "pinned", "places", "tensors")

    def __init__(self, classes: dict[type, Any]) -> None:
        self.classes, self.changed = classes, False
        self.tensors: list[Tensor] = []
        self.objects: list[Any] = []
        self.pinned: list[Any] = []

    def key(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The key of the arguments. Unknown, with the reason, if there is none."""
        if not kwargs:
            for x in args:
                if x.__class__ is not Tensor or x._node is not None:
                    break
            else:  # tensors without gradients alone: the common case, and quick
                if len(args) == 1:
                    self.tensors.append(args[0])
                    return args[0]._layout
                if len({id(x._storage) for x in args}) == len(args):
                    self.tensors.extend(args)
                    return tuple([x._layout for x in args])
        while True:
            self.places: dict[int, int] = {}  # of tensors, their memory and objects, by address: the how-manieth it is
            self.tensors, self.objects, self.pinned = [], [], []
            try:
                return self._parts(args), self._items(kwargs)
            except _Again:
                self.changed = True
            except _TooMany:
                self.changed = True
                if PLAIN not in self.classes.values():
                    raise Unknown("arguments have too many parts") from None
                self.classes.update([(cls, PINNED) for cls, how in self.classes.items() if how is PLAIN])

    def _of(self, value: Any) -> Any:
        """An argument's part of the key."""
        cls = type(value)
        if cls is Tensor or cls in TENSORS:
            return self._of_tensor(cls, value)
        if cls in (int, bool, str, bytes, type(None), CodeType, property):
            return cls, value
        if cls is float:
            return cls, value.hex() if value == value else struct.pack("d", value)  # there are many NaNs
        if cls is tuple:
            self.objects.append(value)  # equal ones are told apart by identity alone, which is refused
            return cls, self._parts(value)
        if cls is slice and not all(type(each) in SCALARS - {slice} for each in (value.start, value.stop, value.step)):
            raise Unknown("an argument is a slice with parts that may change")
        if cls in IMMUTABLE:
            return cls, repr(value)
        known = self.places.get(id(value))
        if known is not None:
            return known
        if cls is list:
            self._by_structure(value)
            return cls, self._parts(value)
        if cls is dict:
            self._by_structure(value)
            return cls, self._items(value)
        how = self.classes.get(cls) or self.classes.setdefault(cls, _how(cls, value))
        if how is RECORD:
            return cls, *self._of_record(value)
        if how is PLAIN:
            return cls, self._of_plain(cls, value)
        if how is not PINNED and how != id(value):
            self.classes[cls] = PLAIN
            raise _Again
        self.places[id(value)] = len(self.places)
        self.pinned.append(value)
        return cls, id(value)

    def _of_tensor(self, cls: type, value: Tensor) -> Any:
        places, memory = self.places, id(value._storage)
        known = places.get(id(value))
        if known is not None:
            return known
        self.tensors.append(value)
        shared = places.get(memory)
        places[id(value)] = len(places)
        if shared is None:
            places[memory] = len(places)
        return cls, value._layout, value._node is None, value._node is None or value.is_leaf, shared

    def _of_plain(self, cls: type, value: Any) -> Any:
        """An object all of which is its dict."""
        self._by_structure(value)
        try:
            return self._attributes(object.__getattribute__(value, "__dict__"))
        except Unknown:
            self.classes[cls] = PINNED
            raise _Again from None

    def _of_record(self, value: Any) -> tuple[Any, ...]:
        self._by_structure(value)
        parts = self._parts(value) if is_a(value, tuple) else ()
        items = self._items(value) if is_a(value, dict) else ()
        own = getattr(value, "__dict__", None)
        if own is None:
            return parts, items
        return parts, items, self._attributes(own)

    def _attributes(self, own: dict[str, Any]) -> Any:
        """An object's dict, which may be that of several, or an argument itself."""
        known = self.places.get(id(own))
        if known is not None:
            return known
        self._by_structure(own)
        return self._items(own)

    def _by_structure(self, value: Any) -> None:
        if len(self.objects) > MOST_PARTS:
            raise _TooMany
        self.places[id(value)] = len(self.places)
        self.objects.append(value)

    def _parts(self, values: Any) -> tuple[Any, ...]:
        return tuple([self._of(each) for each in values])

    def _items(self, table: dict[Any, Any]) -> tuple[Any, ...]:
        of = self._of
        return tuple([(key if key.__class__ is str else _constant_key(key), of(each)) for key, each in dict.items(table)])


def _how(cls: type, value: Any) -> Any:
    if is_a(value, Tensor):
        raise Unknown(f"an argument of the class {cls.__name__}")
    return RECORD if is_record(cls) else id(value) if is_plain(cls) else PINNED


def _constant_key(key: Any) -> Any:
    if type(key) not in (int, bool):
        raise Unknown("an argument is a dict whose keys are neither strings nor numbers")
    return type(key), key
