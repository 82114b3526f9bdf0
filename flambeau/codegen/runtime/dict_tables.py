"""Where a dict has its entries: addresses of keys and values, which guards compare with what was there.

A dict has a table of keys, and values either beside the keys or, for the attributes of objects, apart, in an array; then the
table is shared by the objects of a class, and only grows. Offsets are CPython's, from 3.11 to 3.14, and probed at import: where
they aren't what they should be, `places` finds none. Stands on cpython; used by guards.
"""

from __future__ import annotations

import ctypes
import sys
from typing import Any

from flambeau.codegen.runtime.cpython import OBJECT_HEADER

__all__ = ["Table"]

KEYS, VALUES = OBJECT_HEADER + 16, OBJECT_HEADER + 24  # PyDictObject.ma_keys, ma_values
SHAPE, ENTRIES, INDICES = 8, 24, 32  # PyDictKeysObject: sizes and kind, four bytes; dk_nentries; dk_indices
_INDEX_BYTES, _KIND, _GENERAL, _SPLIT = 9, 10, 0, 2
_FIRST_VALUE = 8 if sys.version_info >= (3, 13) else 0  # of PyDictValues
MOST_KEYS = 64  # of a dict all of whose keys are compared, to know that another isn't there


def _word(address: int) -> int:
    return ctypes.c_int64.from_address(address).value


class Table:
    """Of a dict, as it is now: `keys` and `values` are addresses, `entries` the number of places that were ever filled, `shape`
    the bytes that say how the table is laid out.
    """

    def __init__(self, table: dict[Any, Any]) -> None:
        self.keys, self.values = _word(id(table) + KEYS), _word(id(table) + VALUES)
        self.entries = _word(self.keys + ENTRIES)
        self.shape = ctypes.c_uint32.from_address(self.keys + SHAPE).value
        kind = ctypes.c_uint8.from_address(self.keys + _KIND).value
        first = self.keys + INDICES + (1 << ctypes.c_uint8.from_address(self.keys + _INDEX_BYTES).value)
        step, key = (24, 8) if kind == _GENERAL else (16, 0)
        self._key_places = range(first + key, first + key + step * self.entries, step)
        self._split = kind == _SPLIT and self.values != 0

    def holds_order(self) -> bool:
        """Whether places say in which order the keys are."""
        return not self._split and self.entries <= MOST_KEYS

    def tells_absence(self) -> bool:
        """Whether places say which keys are not there."""
        return self._split or self.entries <= MOST_KEYS

    def places(self, wanted: dict[Any, int], order: bool) -> list[tuple[int, int]] | None:
        """Addresses with the words that are there as long as each of these keys has the value with this address, 0 for a key that
        isn't there; order: and all keys are the same in the same order. None if that can't be told.
        """
        if not _known:
            return None
        found = [(at, _word(at)) for at in self._key_places]
        numbers = {ctypes.cast(key, ctypes.py_object).value: i for i, (_, key) in enumerate(found) if key}
        made: list[tuple[int, int]] = []
        if not self._split and (order or not all(wanted.values())):
            made += found
        for key, value in wanted.items():
            number = numbers.get(key)
            if number is None:
                if value:
                    return None
            elif self._split:
                made.append((self.values + _FIRST_VALUE + 8 * number, value))
            else:
                at, held = found[number]
                made += [(at, held), (at + 8, value)]
        return made if all(_word(at) == word for at, word in made) else None


def _probe() -> bool:
    """Whether dicts are laid out as is said here."""

    class Kept:
        def __init__(self) -> None:
            self.a, self.b = [1], [2]

    kept, mixed = Kept(), {"a": [1], 2: [3]}
    plain = {"a": [1], "b": [2]}
    plain.pop("b")
    for table, entries in ((kept.__dict__, 2), (mixed, 2), (plain, 2)):
        found = Table(table)
        if found.entries != entries or found.keys <= 0:
            return False
        if found.places({key: id(value) for key, value in table.items()}, order=False) is None:
            return False
    return True


_known = True
_known = _probe()
