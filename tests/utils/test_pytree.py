"""torch.utils._pytree: what is a container, structures and their text, paths, other trees beside one."""

from __future__ import annotations

import dataclasses
import gc
import importlib
import json
import pickle
import sys
import weakref
from collections import OrderedDict, defaultdict, deque, namedtuple

import pytest

import flambeau as torch
from flambeau.utils import _pytree as pytree

Point = namedtuple("Point", "x y")
TREE = {
    "a": [1, (2, 3)],
    "b": OrderedDict(q=1),
    "c": defaultdict(list, {"z": 1}),
    "d": deque([1, 2], maxlen=5),
    "e": Point(1, 2),
    "n": None,
}
PRINTED = """TreeSpec(dict, ['a', 'b', 'c', 'd', 'e', 'n'], [TreeSpec(list, None, [*,
    TreeSpec(tuple, None, [*,
      *])]),
  TreeSpec(OrderedDict, ['q'], [*]),
  TreeSpec(defaultdict, [<class 'list'>, ['z']], [*]),
  TreeSpec(deque, 5, [*,
    *]),
  TreeSpec(namedtuple, <class 'test_pytree.Point'>, [*,
    *]),
  *])"""


class Pair:
    def __init__(self, a: object, b: object) -> None:
        self.a, self.b = a, b


@pytest.fixture
def pair():
    pytree.register_pytree_node(
        Pair,
        lambda p: ([p.a], p.b),
        lambda children, b: Pair(*children, b),
        serialized_type_name="test.Pair",
        to_dumpable_context=lambda b: {"b": b},
        from_dumpable_context=lambda d: d["b"],
        flatten_with_keys_fn=lambda p: ([(pytree.GetAttrKey("a"), p.a)], p.b),
    )
    yield Pair
    pytree._deregister_pytree_node(Pair)


def test_a_structure_prints_counts_compares_and_travels() -> None:
    leaves, spec = pytree.tree_flatten(TREE)
    assert leaves == [1, 2, 3, 1, 1, 1, 2, 1, 2, None]
    assert repr(spec).replace(f"{__name__}.Point", "test_pytree.Point") == PRINTED
    assert (spec.num_leaves, spec.num_nodes, spec.num_children, spec.type) == (10, 17, 6, dict)
    assert pytree.tree_unflatten(leaves, spec) == TREE and spec.child(4).type is namedtuple
    again = pytree.tree_structure(TREE)
    assert again == spec and hash(again) == hash(spec) and pickle.loads(pickle.dumps(spec)) == spec
    assert pytree.treespec_pprint(spec.child(0)) == "[*, (*, *)]"
    assert pytree.tree_structure(torch.ones(2).max(0)) == pytree.TreeSpec(
        torch.return_types.max, None, [pytree.LeafSpec(), pytree.LeafSpec()]
    )
    assert pytree.tree_leaves([torch.Size((1, 2)), {3}]) == [1, 2, {3}]


def test_json(pair: type) -> None:
    spec = pytree.tree_structure({k: v for k, v in TREE.items() if k != "e"})
    text = pytree.treespec_dumps(spec)
    protocol, schema = json.loads(text)
    assert protocol == 1 and schema["context"] == '["a", "b", "c", "d", "n"]'
    assert schema["children_spec"][2]["context"] == {
        "default_factory_module": "builtins",
        "default_factory_name": "list",
        "dict_context": ["z"],
    }
    assert pytree.treespec_loads(text) == spec
    with pytest.raises(NotImplementedError, match="didn't register a serializated_type_name"):
        pytree.treespec_dumps(pytree.tree_structure(TREE))
    pytree._register_namedtuple(Point, serialized_type_name="test.Point")
    assert pytree.treespec_loads(pytree.treespec_dumps(pytree.tree_structure(TREE))) == pytree.tree_structure(TREE)
    mine = pytree.tree_structure(Pair([1], "x"))
    assert pytree.treespec_dumps(mine).startswith('[1, {"type": "test.Pair", "context": {"b": "x"}, "children_spec": [{')
    assert pytree.treespec_loads(pytree.treespec_dumps(mine)) == mine
    with pytest.raises(ValueError, match=r"Unknown protocol 5. Available protocols: \[1\]"):
        pytree.treespec_dumps(spec, protocol=5)
    with pytest.raises(TypeError, match="Expected `treespec` to be an instance of PyTreeSpec"):
        pytree.treespec_dumps(3)


def test_registering(pair: type) -> None:
    assert [(pytree.keystr(path), leaf) for path, leaf in pytree.tree_leaves_with_path(Pair([7], 0))] == [(".a[0]", 7)]
    with pytest.raises(ValueError, match="is already registered as pytree node"):
        pytree.register_pytree_node(Pair, lambda p: ([], None), lambda children, _: None)
    with pytest.raises(ValueError, match="Both to_dumpable_context and from_dumpable_context"):
        pytree.register_pytree_node(
            type("Other", (), {}), lambda p: ([], None), lambda children, _: None, to_dumpable_context=lambda c: c
        )
    with pytest.warns(FutureWarning, match="_register_pytree_node` is deprecated"), pytest.warns(UserWarning):
        pytree._register_pytree_node(Pair, lambda p: ([p.a, p.b], None), lambda children, _: Pair(*children))
    assert pytree.tree_leaves(Pair(1, 2)) == [1, 2]
    with pytest.raises(ValueError, match="Did not find a flatten_with_keys_fn for type"):
        pytree.tree_flatten_with_path(Pair(1, 2))


def test_dataclasses_and_constants() -> None:
    @dataclasses.dataclass
    class Batch:
        x: int
        y: object = None
        z: int = 4

    @dataclasses.dataclass(frozen=True)
    class Setting:
        value: int

    with pytest.raises(ValueError, match=r"Missing fields in `field_names`: {'z'}"):
        pytree.register_dataclass(Batch, field_names=["x", "y"])
    pytree.register_dataclass(Batch)
    leaves, spec = pytree.tree_flatten(Batch(1))
    assert leaves == [1, 4] and spec.context == [["x", "z"], ["y"]] and spec.unflatten([5, 6]) == Batch(5, None, 6)
    pytree.register_constant(Setting)
    leaves, spec = pytree.tree_flatten([Setting(1), 2])
    assert leaves == [2] and spec.unflatten([3]) == [Setting(1), 3]
    assert spec != pytree.tree_structure([Setting(2), 2])
    with pytest.raises(TypeError, match="non-default `__eq__`"):
        pytree.register_constant(type("Plain", (), {}))


def test_other_trees_are_compared(pair: type) -> None:
    assert pytree.tree_map(lambda a, b: (a, b), {"a": 1, "b": 2}, OrderedDict(b=3, a=4)) == {"a": (1, 4), "b": (2, 3)}
    for tree, other, words in (
        ([1, 2], [1], "Node arity mismatch; expected 2, but got 1"),
        ([1, 2], (1, 2), "Node type mismatch; expected <class 'list'>, but got <class 'tuple'>"),
        ({"a": 1}, {"b": 1}, r"Node keys mismatch; missing key\(s\): {'a'}; extra key\(s\): {'b'}"),
        (Pair(1, 2), Pair(1, 3), "Node context mismatch for custom node type"),
    ):
        with pytest.raises(ValueError, match=words):
            pytree.tree_map(lambda a, b: a, tree, other)
    structure = pytree.tree_structure([0, (1, 2)])
    assert pytree._broadcast_to_and_flatten([1, 2], structure) == [1, 2, 2]
    assert pytree._broadcast_to_and_flatten({"a": 1}, structure) is None


def test_what_was_taken_apart_is_held_no_longer() -> None:
    gc.collect()
    gc.disable()
    try:
        x = torch.ones(2)
        leaves, _ = pytree.tree_flatten([{"a": (x, 1)}])
        watched = weakref.ref(x)
        del x, leaves
        assert watched() is None
    finally:
        gc.enable()


def test_only_some_leaves() -> None:
    tree = [1, "a", 2.0]
    assert pytree.tree_map_only(int, lambda x: x + 1, tree) == [2, "a", 2.0]
    assert pytree.tree_map_only(int | float, lambda x: x * 2, tree) == [2, "a", 4.0]
    assert pytree.tree_map_only(lambda x: x == 1, lambda x: x * 5, tree) == [5, "a", 2.0]
    assert pytree.tree_any_only(int, lambda x: x > 0, tree) and not pytree.tree_all_only(float, lambda x: x > 2, tree)
    with pytest.raises(TypeError, match="Argument must be a type, a tuple of types, or a callable"):
        pytree.map_only(3)


def test_paths_and_the_functions_of_containers() -> None:
    pairs, _ = pytree.tree_flatten_with_path(TREE)
    assert [pytree.keystr(path) for path, _ in pairs] == [
        "['a'][0]",
        "['a'][1][0]",
        "['a'][1][1]",
        "['b']['q']",
        "['c']['z']",
        "['d'][0]",
        "['d'][1]",
        "['e'].x",
        "['e'].y",
        "['n']",
    ]
    assert all(pytree.key_get(TREE, path) == leaf for path, leaf in pairs)
    assert pairs[0][0] == (pytree.MappingKey("a"), pytree.SequenceKey(0))
    assert pytree._dict_flatten_with_keys({"a": 1}) == ([(pytree.MappingKey("a"), 1)], ["a"])
    assert pytree._dict_unflatten([1], ["a"]) == {"a": 1} and pytree._get_node_type(Point(1, 2)) is namedtuple


def test_without_optree_its_pytrees_are_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optree", None)
    monkeypatch.delitem(sys.modules, "flambeau.utils._cxx_pytree", raising=False)
    with pytest.raises(ImportError, match="optional dependency of PyTorch"):
        importlib.import_module("flambeau.utils._cxx_pytree")


def test_a_class_registered_is_told_to_those_who_follow_the_table() -> None:
    class Pair:
        def __init__(self, *parts: int) -> None:
            self.parts = parts

    told: list[type] = []

    def follow(cls: type, *_: object) -> None:
        told.append(cls)

    pytree._nodes_followers.append(follow)
    try:
        pytree.register_pytree_node(Pair, lambda x: (list(x.parts), None), lambda children, _: Pair(*children))
    finally:
        pytree._nodes_followers.remove(follow)
        pytree._deregister_pytree_node(Pair)
    assert told == [Pair]


def test_pytrees_of_optree() -> None:
    pytest.importorskip("optree")
    cxx = importlib.import_module("flambeau.utils._cxx_pytree")

    class Late:
        def __init__(self, *parts: int) -> None:
            self.parts = parts

    pytree.register_pytree_node(Late, lambda x: (list(x.parts), None), lambda children, _: Late(*children))
    tree = {"b": [1, None], "a": (Late(3, 4), Point(5, 6))}
    leaves, _ = cxx.tree_flatten(tree)
    assert leaves == [1, None, 3, 4, 5, 6]
    assert cxx.tree_map(lambda x: x, tree)["a"][0].parts == (3, 4)
    assert cxx.tree_leaves(torch.tensor([[1.0, 2.0]]).max(1))[1].item() == 1
    plain = {"b": [1, None], "a": Point(5, 6)}
    assert cxx.treespec_loads(cxx.treespec_dumps(cxx.tree_structure(plain))) == cxx.tree_structure(plain)
    assert cxx._broadcast_to_and_flatten((1, 2), cxx.tree_structure(([0, 0], 0))) == [1, 1, 2]
    with pytest.raises(NotImplementedError, match="KeyPaths are not yet supported"):
        cxx.tree_flatten_with_path(tree)
    pytree._deregister_pytree_node(Late)
