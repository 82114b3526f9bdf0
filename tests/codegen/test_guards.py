"""Guards on dicts: a check says of random changes whether what was looked at is as it was, by tags, by places and by searches."""

from __future__ import annotations

import random
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import pytest

from flambeau.codegen.runtime import dict_tables, guards

pytestmark = pytest.mark.skipif(not guards.available(), reason="this interpreter keeps objects otherwise than guards know")

VALUES = [object(), object(), [1], 1.5, 2.5, "text", 1, None]
NAMES = [f"name{i}" for i in range(9)]


class Own:
    """Whose instances' dicts share a table of keys."""

    def __init__(self, count: int) -> None:
        for name in NAMES[:count]:
            setattr(self, name, VALUES[0])


def _of_instance(count: int = 5) -> dict[Any, Any]:
    made = Own(count)
    _of_instance.kept.append(made)  # type: ignore[attr-defined]
    return made.__dict__


_of_instance.kept = []  # type: ignore[attr-defined]

DICTS: dict[str, Callable[[], dict[Any, Any]]] = {
    "plain": lambda: dict.fromkeys(NAMES[:5], VALUES[0]),
    "of an instance": _of_instance,
    "of another kind of key": lambda: {3: VALUES[1], "name1": 2.5, (1, 2): VALUES[0], "name2": None},
    "large": lambda: {f"other{i}": VALUES[i % 3] for i in range(200)} | dict.fromkeys(NAMES[:5], VALUES[2]),
    "ordered": lambda: OrderedDict((name, VALUES[1]) for name in NAMES[:5]),
    "empty": dict,
}


def _change(r: random.Random, table: dict[Any, Any]) -> None:
    name = r.choice(NAMES)
    match r.randrange(9):
        case 0 | 1 | 2:
            table[name] = r.choice(VALUES)
        case 3:
            table.pop(name, None)
        case 4:
            if table:
                table.popitem()
        case 5:
            entries = list(table.items())
            table.clear()
            table.update(entries)
        case 6:
            entries = list(table.items())
            r.shuffle(entries)
            for key, _ in entries:
                del table[key]
            table.update(entries)
        case 7:
            table.update({f"more{i}": 1 for i in range(30)})
            for i in range(30):
                del table[f"more{i}"]
        case 8:
            setattr(Own(r.randrange(9)), r.choice(NAMES) + "x" * r.randrange(2), 1)


@pytest.mark.parametrize("tags", [False, True])
@pytest.mark.parametrize("kind", list(DICTS))
def test_random_changes_of_a_dict(kind: str, tags: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if tags and not guards.HAS_TAGS:
        pytest.skip("dicts have no tags here")
    monkeypatch.setattr(guards, "HAS_TAGS", tags)
    for seed in range(40):
        r = random.Random(seed)
        table = DICTS[kind]()
        for _ in range(r.randrange(4)):
            _change(r, table)
        wanted = {name: table.get(name, KeyError) for name in r.sample([*NAMES, 3], 4)}
        order = list(table) if r.random() < 0.4 else None
        made = guards.Guards()
        for name in wanted:
            made.item(table, name, f"entry {name}")
        if order is not None:
            made.size_of_dict(table, "size")
            made.order(table)

        def holds(table: Any = table, wanted: Any = wanted, order: Any = order) -> bool:
            same = all(
                table.get(name, KeyError) is value or (type(value) is float and table.get(name) == value)
                for name, value in wanted.items()
            )
            return same and (order is None or list(table) == order)

        check, reasons = made.finish()
        assert check() == guards.ALL_HOLD
        for _ in range(60):
            _change(r, table)
            told = check()
            assert (told < 0) == holds(), (seed, told, reasons[told])
            if told == guards.BY_SEARCH and r.random() < 0.3:
                check, reasons = made.finish()
                assert check() == guards.ALL_HOLD


def test_places_are_found_where_this_interpreter_has_them() -> None:
    assert dict_tables._known
    table = DICTS["plain"]()
    found = dict_tables.Table(table).places({"name1": id(VALUES[0])}, order=False)
    assert found is not None
    assert len(found) == 2


def test_unrelated_changes_need_no_search(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guards, "HAS_TAGS", False)
    kept = Own(4)
    made = guards.Guards()
    made.item(kept.__dict__, "name1", "one")
    made.item(kept.__dict__, "absent", "none")
    check, _ = made.finish()
    kept.name2 = 5  # type: ignore[attr-defined]
    assert check() == guards.ALL_HOLD
    kept.name1 = 5  # type: ignore[attr-defined]
    assert check() >= 0
    kept.name1 = VALUES[0]  # type: ignore[attr-defined]
    assert check() == guards.ALL_HOLD
    kept.absent = 1  # type: ignore[attr-defined]
    assert check() >= 0
