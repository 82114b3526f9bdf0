"""torch.utils.weak: dictionaries by the identity of keys that they don't keep alive."""

from __future__ import annotations

import copy

import pytest

import flambeau as torch
from flambeau.utils.weak import TensorWeakRef, WeakIdKeyDictionary, WeakIdRef, WeakTensorKeyDictionary


def test_keys_are_the_tensors_themselves() -> None:
    x, same = torch.ones(2), torch.ones(2)
    table = WeakTensorKeyDictionary({x: 1})
    assert x in table and same not in table and 3 not in table and len(table) == 1 and next(iter(table)) is x
    assert table[x] == 1 and table.get(same, 7) == 7 and table.setdefault(x, 3) == 1
    table[same] = 2
    assert dict(zip(table.values(), (ref() for ref in table.keyrefs()), strict=True))[2] is same
    assert table == table.copy() == copy.deepcopy(table) and (table | {x: 5})[x] == 5 and table[x] == 1
    assert table.popitem()[0] is same
    del table[x]
    assert len(table) == 0
    with pytest.raises(KeyError):
        table[x]
    with pytest.raises(KeyError):
        table.popitem()
    with pytest.raises(TypeError, match="cannot create weak reference to 'int' object"):
        table[3] = 1


def test_an_entry_goes_with_its_key() -> None:
    x = torch.ones(2)
    table, reference, identity = WeakIdKeyDictionary(), TensorWeakRef(x), WeakIdRef(x)
    table[x] = "kept"
    assert reference() is x and identity == WeakIdRef(x) and hash(identity) == id(x)
    del x
    assert reference() is None and len(table) == 0 and list(table) == []
    with pytest.raises(AssertionError, match=r"expected torch\.Tensor, got <class 'int'>"):
        TensorWeakRef(3)


def test_a_dict_is_joined_from_either_side():
    one, two = torch.ones(1), torch.ones(1)
    weak = WeakIdKeyDictionary({one: 1})
    for joined in ({two: 2, one: 3} | weak, weak | {two: 2}):
        assert type(joined) is WeakIdKeyDictionary and joined[one] == 1 and joined[two] == 2


def test_entries_come_from_mappings_pairs_and_names_all_or_none():
    class Broken:
        def keys(self):
            return ["a", "b"]

        def items(self):
            yield one, 9
            raise KeyError("b")

    one = torch.ones(1)
    weak = WeakIdKeyDictionary()
    weak.update({one: 1})
    weak.update([(one, weak[one] + 1)])
    weak.update()
    assert weak[one] == 2
    with pytest.raises(KeyError):
        weak.update(Broken())
    assert weak[one] == 2
    with pytest.raises(TypeError, match="weak reference"):
        weak.update(name=1)
