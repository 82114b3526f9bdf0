"""What functions written in C read and change, for those that capture knows; every other one makes a call that can't be skipped.

A name stands in one of three tables: functions and classes that only read their arguments, whose answer depends on nothing else;
methods of Python's own containers that only read; and those that write to their object, which is allowed for objects that were
made in the call. Standard library only.
"""

from __future__ import annotations

import builtins
import collections
import contextvars
import functools
import itertools
import math
import operator
import os
import types
from typing import Any

__all__ = ["CONTAINERS", "PURE", "READS", "SCALARS", "WRITES", "method_kind"]

#: Immutable and equal to themselves for ever: nothing to guard but the value.
SCALARS: frozenset[type] = frozenset(
    (int, float, complex, bool, str, bytes, type(None), type(Ellipsis), type(NotImplemented), range, slice, types.CodeType)
)
#: Containers whose content is guarded when C code looks into them.
CONTAINERS: frozenset[type] = frozenset(
    (list, tuple, dict, set, frozenset, collections.OrderedDict, collections.defaultdict, collections.Counter, collections.deque)
)
#: What belongs to the context of a thread.
OF_CONTEXTS: frozenset[type] = frozenset((contextvars.ContextVar, contextvars.Token))

_FUNCTIONS = (
    "len abs min max sum any all sorted round divmod pow int float complex bool str bytes tuple list dict set frozenset range "
    "enumerate zip reversed slice callable ord chr bin hex oct format repr ascii filter"
)
#: Functions and classes that read their arguments and nothing else.
PURE: set[Any] = {getattr(builtins, name) for name in _FUNCTIONS.split()}
PURE |= {f for name, f in vars(math).items() if callable(f)}
PURE |= {f for name, f in vars(operator).items() if isinstance(f, types.BuiltinFunctionType) and not name.startswith("_")} - {
    *(
        getattr(operator, name)
        for name in dir(operator)
        if name.startswith("i") and name not in ("index", "invert", "is_", "indexOf")
    ),
    operator.is_,
    operator.is_not,
    operator.setitem,
    operator.delitem,
    operator.call if hasattr(operator, "call") else operator.setitem,
}
PURE |= {itertools.chain, itertools.product, itertools.repeat, itertools.islice, itertools.accumulate, itertools.zip_longest}
PURE |= {itertools.combinations, itertools.combinations_with_replacement, itertools.permutations, itertools.pairwise}
PURE |= {itertools.count, itertools.cycle, itertools.compress}
PURE |= {dict.fromkeys, itertools.chain.from_iterable, int.from_bytes, bytes.fromhex, str.maketrans}
PURE |= {operator.itemgetter, operator.attrgetter}
PURE |= {os.fspath, collections.OrderedDict, collections.deque, functools.partial, types.SimpleNamespace}
PURE |= {e for e in vars(builtins).values() if isinstance(e, type) and issubclass(e, BaseException)}

_READING = {
    list: "index count copy __len__ __contains__ __getitem__ __iter__ __reversed__ __add__ __mul__ __eq__ __ne__",
    tuple: "index count __len__ __contains__ __getitem__ __iter__ __add__ __mul__ __eq__ __ne__",
    dict: "get keys values items copy __len__ __contains__ __getitem__ __iter__ __eq__ __ne__ __or__",
    set: "copy union intersection difference symmetric_difference issubset issuperset isdisjoint __len__ __contains__ __iter__",
    collections.deque: "index count copy __len__ __contains__ __getitem__ __iter__",
    types.MappingProxyType: "get keys values items copy __len__ __contains__ __getitem__ __iter__",
}
_WRITING = {
    list: "append extend insert pop remove clear sort reverse __setitem__ __delitem__ __iadd__ __init__",
    dict: "setdefault update pop popitem clear __setitem__ __delitem__ move_to_end __ior__ __init__",
    set: "add discard remove pop clear update intersection_update difference_update symmetric_difference_update __init__",
    types.GeneratorType: "send throw close __next__ __iter__",
    collections.deque: "append appendleft extend extendleft pop popleft remove clear rotate insert reverse __setitem__ __init__",
}
READS: dict[type, frozenset[str]] = {cls: frozenset(names.split()) for cls, names in _READING.items()}
WRITES: dict[type, frozenset[str]] = {cls: frozenset(names.split()) for cls, names in _WRITING.items()}


def method_kind(owner: Any, name: str) -> str | None:
    """What a method of one of Python's own objects does: "reads", "writes", or None where that isn't known."""
    cls = type(owner)
    if cls in SCALARS or ((cls is tuple or cls is frozenset) and name != "__hash__"):  # which may come from addresses
        return "reads"
    for base in cls.__mro__:
        if name in READS.get(base, ()):
            return "reads"
        if name in WRITES.get(base, ()):
            return "writes"
    return None
