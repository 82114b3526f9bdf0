"""Guards: looks at Python objects, checked by machine code before a captured call is replayed.

A guard is four words: what to look at, and what was there. `Guards` collects them (each once), holds the objects whose addresses
they name, and gives one native function that finds the first that doesn't hold any more. A look costs some nanoseconds: a word is
one load; an entry of a dict is one search. Searches are saved while the dict's version tag stands (CPython 3.11 and 3.12), or,
where there are none, while its table lies where it lay and each key and value that matters is in its old place, one load each.
Stands on codegen.builder, cpython and dict_tables.
"""

from __future__ import annotations

import contextlib
import ctypes
import struct
import sys
from collections import OrderedDict
from collections.abc import Callable
from types import CellType, FunctionType
from typing import Any

from flambeau.codegen.builder import Function, Value, module
from flambeau.codegen.jit import compiled_module
from flambeau.codegen.runtime import dict_tables, state
from flambeau.codegen.runtime.cpython import BYTES_DATA, OBJECT_HEADER, slot_offset
from flambeau.codegen.runtime.launch import METH_NOARGS, definition, new_function

__all__ = ["Guards", "available"]

WORD, NOT_WORD, HALF, ITEM, ELEMENT, VALUE, ITEM_VALUE, ELEMENT_VALUE, TAG, CALL, DICT_OF, TABLE = range(12)
ALL_HOLD, BY_SEARCH = -1, -2  # answers: all hold; all hold, but entries of a dict had to be searched for
GUARD_WORDS = 4
HEAD = 3  # before the guards: how many they are, and the addresses of float and True, which are other ones in every process
SIZE_OF_VARIABLE = OBJECT_HEADER  # PyVarObject.ob_size
ITEMS_OF_LIST = OBJECT_HEADER + 8  # PyListObject.ob_item
USED_OF_DICT, TAG_OF_DICT = OBJECT_HEADER, OBJECT_HEADER + 8  # PyDictObject.ma_used, ma_version_tag (until 3.12)
CONTENTS_OF_CELL = OBJECT_HEADER
FLOAT_BITS = OBJECT_HEADER
HAS_TAGS = sys.version_info < (3, 13)
_SCALARS = (int, float, str, bytes)  # compared by value


def _word(address: int) -> int:
    return ctypes.c_int64.from_address(address).value


def _offset_of(object: Any, part: Any, size: int) -> int | None:
    found = [at for at in range(OBJECT_HEADER, size, 8) if _word(id(object) + at) == id(part)]
    return found[0] if len(found) == 1 else None


def _probe_function() -> dict[str, int] | None:
    """Where a function's fields lie."""

    def probe(a: Any = object(), *, b: Any = object()) -> None:  # noqa: B008 - told apart by identity
        return None

    size = FunctionType.__basicsize__
    parts = {"code": probe.__code__, "defaults": probe.__defaults__, "kwdefaults": probe.__kwdefaults__}
    found = {name: _offset_of(probe, part, size) for name, part in parts.items()}
    return None if None in found.values() else found  # type: ignore[return-value]


def _probe_tag() -> int | None:
    """Where a class has the number that changes with it or a base of it."""

    class Base:
        pass

    class Probe(Base):
        pass

    def halves(look: bool = True) -> list[int]:
        if look:
            getattr(Probe, "absent", None)  # which gives the class a number
        words = ctypes.c_uint32 * (type.__basicsize__ // 4)
        return list(words.from_address(id(Probe)))

    first, again = halves(), halves()
    Base.other = 1  # type: ignore[attr-defined]
    changed, second = halves(False), halves()
    Probe.another = 1  # type: ignore[attr-defined]
    third = halves()
    rows = enumerate(zip(first, again, changed, second, third, strict=True))
    found = [4 * at for at, (a, b, c, d, e) in rows if a == b and a and c == 0 and d and e and len({a, d, e}) == 3]
    return found[0] if len(found) == 1 else None


_function, _tag = _probe_function(), _probe_tag()


def available() -> bool:
    """Whether this interpreter keeps what guards look at where they look for it."""
    if _function is None or _tag is None:
        return False
    sample: list[Any] = [object(), object()]
    cell, table = CellType(sample), {"a": sample}
    holds = (
        _word(id(sample) + SIZE_OF_VARIABLE) == 2
        and _word(_word(id(sample) + ITEMS_OF_LIST) + 8) == id(sample[1])
        and _word(id(cell) + CONTENTS_OF_CELL) == id(sample)
        and _word(id(table) + USED_OF_DICT) == 1
        and struct.unpack("q", struct.pack("d", 2.5))[0] == _word(id(float("2.5")) + FLOAT_BITS)
    )
    if holds and HAS_TAGS:
        before = _word(id(table) + TAG_OF_DICT)
        table["a"] = 1
        holds = _word(id(table) + TAG_OF_DICT) != before
    return holds


def _check_function() -> Function:
    """check(words) -> the index of the first guard that doesn't hold, or ALL_HOLD, or BY_SEARCH."""
    f = Function("fb_guards", [("self", "ptr"), ("nothing", "ptr")], "ptr")
    words = f.at("i64", f.at("i8", f["self"], BYTES_DATA), 0)
    count, of_float, true = (f.load("i64", words, i) for i in range(HEAD))
    guards = f.at("i64", words, HEAD)
    kept, last = f.variable("i64", 0), f.variable("i64", 0)  # a dict whose entries are being compared: its guard, and their end
    at, answer = f.variable("i64", 0), f.variable("i64", ALL_HOLD)

    def fail() -> None:
        f.ret(f.call("ptr", "PyLong_FromLongLong", at.get()))

    def holds(condition: Value) -> None:
        with f.branches(condition) as otherwise:
            otherwise()
            fail()

    def equal(found: Value, wanted: Value, by_value: bool) -> None:
        """The same object, or with by_value an equal scalar of the same type."""
        with f.when(f.address(found).differs(wanted)):
            if not by_value:
                fail()
                return
            with f.when(f.address(found).equals(0)):
                fail()
            expected = f.pointer(wanted)
            kind = f.load("i64", expected, 1)
            with f.when(f.load("i64", found, 1).differs(kind)):
                fail()
            with f.branches(kind.equals(of_float)) as otherwise:  # by the bits: 0.0 isn't -0.0
                with f.when(
                    f.load("i64", f.at("i8", found, FLOAT_BITS)).differs(f.load("i64", f.at("i8", expected, FLOAT_BITS)))
                ):
                    fail()
                otherwise()
                with f.when((f.call("i32", "PyObject_RichCompareBool", found, expected, f.value(2, "i32")) + 0).differs(1)):
                    f.call("void", "PyErr_Clear")
                    fail()

    with f.repeat(lambda: at.get() < count):
        guard = f.at("i64", guards, at.get() * GUARD_WORDS)
        kind, a, b, c = (f.load("i64", guard, i) for i in range(4))
        place = f.pointer(a)
        with f.when(kind.equals(WORD)):
            holds(f.load("i64", place, 0).equals(b))
        with f.when(kind.equals(NOT_WORD)):
            holds(f.load("i64", place, 0).differs(b))
        with f.when(kind.equals(HALF)):
            holds(f.convert(f.load("i32", place, 0), "i64", "zext").equals(b))
        with f.when(kind.equals(VALUE)):
            equal(f.load("ptr", place, 0), b, True)
        for which, by_value in ((ELEMENT, False), (ELEMENT_VALUE, True)):
            with f.when(kind.equals(which)):
                equal(f.load("ptr", f.load("ptr", place, 0), b), c, by_value)
        for which, by_value in ((ITEM, False), (ITEM_VALUE, True)):
            with f.when(kind.equals(which)):
                equal(f.call("ptr", "PyDict_GetItem", place, f.pointer(b)), c, by_value)
        with f.when(kind.equals(TAG)):
            with f.branches(f.load("i64", place, 0).equals(b)) as otherwise:
                at.set(at.get() + c)
                otherwise()
                kept.set(f.address(guard))
                last.set(at.get() + c)
        with f.when(kind.equals(TABLE)):  # the row behind it has more of the table, then come places, then searches
            more = f.at("i64", guard, GUARD_WORDS)
            keys, values = (f.load("i64", f.at("i8", place, part)) for part in (dict_tables.KEYS, dict_tables.VALUES))
            shape, searches, values_then, entries = (f.load("i64", more, i) for i in range(4))
            alike = f.variable("i1", keys.equals(b) & values.equals(values_then))
            with f.when(alike.get()):
                table = f.pointer(keys)
                alike.set(f.load("i64", f.at("i8", table, dict_tables.ENTRIES)).equals(entries))
                found = f.convert(f.load("i32", f.at("i8", table, dict_tables.SHAPE)), "i64", "zext")
                alike.set(alike.get() & found.equals(shape))
            with f.when(alike.get()):
                with f.loop(0, c) as i:
                    row = f.at("i64", guard, (i + 2) * GUARD_WORDS)
                    alike.set(alike.get() & f.load("i64", f.load("ptr", row, 1)).equals(f.load("i64", row, 2)))
            at.set(at.get() + c + 1)
            with f.branches(alike.get()) as otherwise:
                at.set(at.get() + searches)
                otherwise()
                answer.set(f.i64(BY_SEARCH))
        with f.when(kind.equals(CALL)):
            made = f.call("ptr", "PyObject_CallNoArgs", place)
            with f.when(f.address(made).equals(0)):
                f.ret(f.pointer(f.i64(0)))
            f.call("void", "Py_DecRef", made)
            holds(f.address(made).equals(true))
        with f.when(kind.equals(DICT_OF)):
            made = f.call("ptr", "PyObject_GenericGetDict", place, f.pointer(f.i64(0)))
            with f.when(f.address(made).equals(0)):
                f.ret(f.pointer(f.i64(0)))
            f.call("void", "Py_DecRef", made)
            holds(f.address(made).equals(b))
        with f.when(kept.get().differs(0) & at.get().equals(last.get())):
            tagged = f.pointer(kept.get())  # all entries are as they were: the dict's new tag stands for that
            f.store(f.load("i64", f.load("ptr", tagged, 1), 0), tagged, 2)
            kept.set(f.i64(0))
        at.set(at.get() + 1)
    f.ret(f.call("ptr", "PyLong_FromLongLong", answer.get()))
    return f


@compiled_module()
def _native() -> str:
    return module(_check_function())


_checker = 0


def _checker_definition() -> int:
    global _checker
    if not _checker:
        _checker = definition("check", _native().functions()["fb_guards"], METH_NOARGS)
    return _checker


class Guards:
    """What has to be as it was; each method adds a guard, once, for something that is so now.

    Objects named in guards are held, but for tensors and other values that are only compared with what a held object refers to.
    """

    def __init__(self) -> None:
        self.words: dict[tuple[int, int, int, int], str] = {}
        self.tables: dict[int, dict[tuple[int, int, int, int], str]] = {}  # entries of a dict stand together behind its tag
        self.held: dict[int, Any] = {}

    def __len__(self) -> int:
        return len(self.words) + sum(len(table) for table in self.tables.values())

    def hold(self, *objects: Any) -> None:
        """Keep objects alive as long as the guards are."""
        for each in objects:
            self.held[id(each)] = each

    def _add(self, kind: int, a: int, b: int, c: int, why: str) -> None:
        self.words.setdefault((kind, a, b, c), why)

    def _value(self, value: Any, keep: bool) -> bool:
        """Whether a value is compared by value; holds it if it is to be, or must be."""
        scalar = type(value) in _SCALARS
        if scalar or keep:
            self.hold(value)
        return scalar

    def word(self, object: Any, offset: int, why: str) -> None:
        """The word at an object's offset."""
        self.hold(object)
        self._add(WORD, id(object) + offset, _word(id(object) + offset), 0, why)

    def class_of(self, object: Any, why: str) -> None:
        """An object's class, which is held."""
        self.hold(type(object))
        self.word(object, 8, why)

    def is_none(self, object: Any, offset: int, why: str) -> None:
        """Whether the slot at an object's offset is None."""
        self.hold(object)
        found = _word(id(object) + offset)
        self._add(WORD if found == id(None) else NOT_WORD, id(object) + offset, id(None), 0, why)

    def class_state(self, cls: type, why: str) -> bool:
        """Attributes of a class and its bases. False if the interpreter has run out of numbers for it."""
        assert _tag is not None
        with contextlib.suppress(AttributeError):
            type.__getattribute__(cls, "_capture_absent")  # which gives the class a number; its metaclass isn't asked
        found = ctypes.c_uint32.from_address(id(cls) + _tag).value
        if found:
            self.hold(cls)
            self._add(HALF, id(cls) + _tag, found, 0, why)
        return bool(found)

    def item(self, table: dict[Any, Any], key: Any, why: str, keep: bool = True) -> None:
        """What stands in a dict under a key, or that nothing does. Keys are scalars, or objects that compare by identity."""
        self.hold(table, key)
        entries = self.tables.setdefault(id(table), {})
        if dict.__contains__(table, key):  # a class of the program may answer otherwise
            value = dict.__getitem__(table, key)
            kind = ITEM_VALUE if self._value(value, keep) else ITEM
            entries.setdefault((kind, id(table), id(key), id(value)), why)
        else:
            entries.setdefault((ITEM, id(table), id(key), 0), why)

    def dict_of(self, object: Any, table: dict[str, Any]) -> None:
        """Which dict an object's attributes are in."""
        self.hold(object, table)
        self._add(DICT_OF, id(object), id(table), 0, "the dict of an object")

    def order(self, table: dict[Any, Any]) -> None:
        """The keys of a dict and their order; an OrderedDict keeps an order of its own, of which the dict's tag knows nothing."""
        ordered = isinstance(table, OrderedDict)
        read = OrderedDict.keys if ordered else dict.keys
        keys = [id(key) for key in read(table)]
        self.hold(*read(table))

        def ask() -> bool:
            return [id(key) for key in read(table)] == keys

        if ordered:
            self.asked(ask, "the order of a dict")
        else:
            self.hold(table, ask)
            self.tables.setdefault(id(table), {})[CALL, id(ask), 0, 0] = "the order of a dict"

    def is_set(self, object: Any, offset: int, why: str) -> None:
        """Whether a slot of an object holds anything."""
        self.hold(object)
        self._add(NOT_WORD if _word(id(object) + offset) else WORD, id(object) + offset, 0, 0, why)

    def slot(self, object: Any, offset: int, value: Any, why: str, keep: bool = True) -> None:
        """What a slot of an object holds."""
        self.hold(object)
        kind = VALUE if self._value(value, keep) else WORD
        self._add(kind, id(object) + offset, id(value), 0, why)

    def tensor(self, tensor: Any) -> None:
        """A tensor's class, storage, layout, and whether it has a node; a guard before this one holds its place."""
        layout, node = state.words[state.SLOT_LAYOUT], state.words[state.SLOT_NODE]
        self.hold(tensor._layout, type(tensor))
        self._add(WORD, id(tensor) + 8, id(type(tensor)), 0, "the class of a tensor")
        self._add(WORD, id(tensor) + layout, id(tensor._layout), 0, "the layout of a tensor")
        storage, offset = state.words[state.SLOT_STORAGE], state.words[state.SLOT_OFFSET]
        self._add(WORD, id(tensor) + storage, id(tensor._storage), 0, "the memory of a tensor")
        self.hold(tensor._offset)
        self._add(VALUE, id(tensor) + offset, id(tensor._offset), 0, "the memory of a tensor")
        has_node = tensor._node is not None
        self._add(NOT_WORD if has_node else WORD, id(tensor) + node, id(None), 0, "whether a tensor wants a gradient")

    def gradient(self, tensor: Any) -> None:
        """Whether a tensor has a gradient, which is None or a tensor; as for `tensor`, its place is held before."""
        place, found = id(tensor) + slot_offset(type(tensor), "_grad"), tensor._grad
        self._add(WORD if found is None else NOT_WORD, place, id(None), 0, "whether a tensor has a gradient")

    def leaf(self, tensor: Any, node: Any) -> None:
        """A tensor's node, and that it has no hooks or the like."""
        self.hold(node)
        self._add(WORD, id(tensor) + state.words[state.SLOT_NODE], id(node), 0, "where a graph ends")
        self._add(WORD, id(node) + slot_offset(type(node), "extras"), id(None), 0, "hooks of a tensor")

    def size_of_dict(self, table: dict[Any, Any], why: str) -> None:
        """How many entries a dict has."""
        self.word(table, USED_OF_DICT, why)

    def list_items(self, items: list[Any], why: str, keep: bool = True) -> None:
        """The length and the elements of a list."""
        self.word(items, SIZE_OF_VARIABLE, why)
        for i, value in enumerate(items):
            kind = ELEMENT_VALUE if self._value(value, keep) else ELEMENT
            self._add(kind, id(items) + ITEMS_OF_LIST, i, id(value), why)

    def cell(self, cell: CellType, why: str, keep: bool = True) -> None:
        """What a variable of a function around holds."""
        self.hold(cell)
        value = cell.cell_contents
        kind = VALUE if self._value(value, keep) else WORD
        self._add(kind, id(cell) + CONTENTS_OF_CELL, id(value), 0, why)

    def function(self, function: FunctionType, why: str) -> None:
        """A function's code and defaults."""
        assert _function is not None
        for part, at in _function.items():
            self.hold(getattr(function, f"__{part}__"))
            self.word(function, at, why)

    def asked(self, ask: Callable[[], bool], why: str) -> None:
        """A question in Python, whose answer is True."""
        self.hold(ask)
        self._add(CALL, id(ask), 0, 0, why)

    def finish(self) -> tuple[Callable[[], int], list[str]]:
        """The native check, which gives the first guard's index that doesn't hold, ALL_HOLD, or BY_SEARCH; and what each guard is
        for. After BY_SEARCH a new check may be quicker. It doesn't hold what it looks at: keep the Guards with it.
        """
        rows: list[tuple[int, int, int, int]] = []
        reasons: list[str] = []
        for table, entries in self.tables.items():  # they come first: what is only compared is alive while its place holds it
            if HAS_TAGS:
                rows.append((TAG, table + TAG_OF_DICT, -1, len(entries)))  # the entries are compared once before a tag counts
                reasons.append("")
            else:
                entries = self._in_places(table, entries, rows, reasons)
            rows += entries
            reasons += entries.values()
        rows += self.words
        reasons += self.words.values()
        head = len(rows), id(float), id(True)
        words = struct.pack(f"{HEAD + GUARD_WORDS * len(rows)}q", *head, *(word for row in rows for word in row))
        words = bytes(bytearray(words))  # a block of its own: tags in it are renewed
        return new_function(_checker_definition(), words, None), reasons

    def _in_places(
        self, table: int, entries: dict[tuple[int, int, int, int], str], rows: list[tuple[int, int, int, int]], reasons: list[str]
    ) -> dict[tuple[int, int, int, int], str]:
        """Add the rows for a dict that are compared in place of searches, with these searches behind them; what is left of its
        guards are those for which that can't be done.
        """
        wanted: dict[Any, int] = {}
        rest: dict[tuple[int, int, int, int], str] = {}
        searches: dict[tuple[int, int, int, int], str] = {}
        held = self.held[table]
        place = dict_tables.Table(held)
        for row, why in entries.items():
            if row[0] == CALL:
                (searches if place.holds_order() else rest)[row] = why
            elif row[3] or place.tells_absence():
                wanted[self.held[row[2]]] = row[3]
                searches[row] = why
            else:
                rest[row] = why
        places = place.places(wanted, order=any(row[0] == CALL for row in searches))
        if places is None or not searches:
            return entries
        rows.append((TABLE, table, place.keys, len(places)))
        rows.append((place.shape, len(searches), place.values, place.entries))
        rows += [(WORD, address, word, 0) for address, word in places]
        rows += searches
        reasons += [""] * (2 + len(places))
        reasons += searches.values()
        return rest
