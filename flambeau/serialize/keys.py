"""Values of a file as keys of dicts and in the words of errors, whatever they are.

A file can nest tuples a million deep, or name one tuple twice in the next, forty times over: neither is given to Python's
hash() or repr(), which walk such a value by recursion to its end. And it can choose numbers that a dict finds in one place, so
that each must be compared with all before it. Stands on the standard library; used by the safe unpickler and the readers.
"""

from __future__ import annotations

import reprlib
from collections import Counter
from collections.abc import Iterable
from pickle import UnpicklingError
from types import FunctionType
from typing import Any

#: How deep tuples may be nested in a key of a dict, how many values it may have, and how many keys may have one hash.
DEEPEST, LARGEST, ALIKE = 50, 10_000, 100
_NEAR = range(-(1 << 60), 1 << 60)  # numbers whose hash no other of them has


def check_key(key: Any) -> None:
    """Raises UnpicklingError for tuples whose hash would take the interpreter's whole stack, or a year."""
    if not isinstance(key, tuple):
        return
    pending, count = [(key, 1)], 0
    while pending:
        inner, depth = pending.pop()
        count += len(inner)
        if depth > DEEPEST or count > LARGEST:
            raise UnpicklingError("a tuple that is nested deeply or has very many values can't be a key")
        pending += [(item, depth + 1) for item in inner if isinstance(item, tuple)]


class Keys:
    """The keys that dicts and sets are given; most are texts and small numbers, which need no look."""

    def __init__(self) -> None:
        self.hashes: Counter[tuple[int, int]] = Counter()

    def check(self, keys: Iterable[Any], target: Any = None) -> None:
        """Raises UnpicklingError for tuples that are no keys, and where too many in one target have the same hash."""
        for key in keys:
            kind = type(key)
            if kind is str or (kind is int and key in _NEAR):
                continue
            check_key(key)
            if kind in (int, float, tuple):
                found = id(target), hash(key)
                self.hashes[found] += 1
                if self.hashes[found] > ALIKE:
                    raise UnpicklingError("too many keys of a dict have the same hash")


def shown(thing: Any) -> str:
    """A value of a file as an error shows it: whole if it is short, with dots where it is long."""
    return str(thing) if isinstance(thing, str | int | type | FunctionType) else _short.repr(thing)


_short = reprlib.Repr()
_short.maxlevel = 3
