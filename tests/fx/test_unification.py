"""Values that fit patterns with variables, and questions about sizes; expected values are PyTorch's."""

import pytest

import flambeau as torch
from flambeau import fx
from flambeau.fx.experimental import symbolic_shapes as shapes
from flambeau.fx.experimental.unification import Var, isvar, reify, unifiable, unify, var, variables


def test_values_fit_patterns() -> None:
    x, y = var(), var()
    assert str(Var("z")) == "~z" and x != y and Var("q") == Var("q") and isvar(x) and not isvar(3)
    assert unify((1, x), (1, 2), {}) == {x: 2} and unify([1, x], [1, 3], {}) == {x: 3}
    assert unify({"a": x}, {"a": 3}, {}) == {x: 3} and unify({"a": x}, {"b": 3}, {}) is False
    assert unify((x, y), (y, 1), {}) == {x: y, y: 1}
    for u, v in (((x, 1), (2, x)), (1, 2)):
        with pytest.raises(NotImplementedError, match="Could not find signature for _unify: <"):
            unify(u, v, {})
    assert unify(slice(x, 2), slice(1, 2), {}) == {x: 1} and unify((1, 2), (1, 2, 3), {}) is False
    assert reify((x, {"k": [y]}), {x: y, y: 5}) == (5, {"k": [5]})
    with variables(1):
        assert isvar(1) and unify((1, 2), (5, 2), {}) == {1: 5}
    assert not isvar(1)


def test_objects_fit_by_their_attributes() -> None:
    @unifiable
    class Point:
        def __init__(self, a, b) -> None:
            self.a, self.b = a, b

    x = var()
    assert unify(Point(1, x), Point(1, 2), {}) == {x: 2}
    made = reify(Point(1, x), {x: 7})
    assert type(made) is Point and made.b == 7


def test_sizes_are_numbers() -> None:
    assert shapes.guarding_hint_or_throw(3) == shapes.optimization_hint(3, 5) == 3
    assert shapes.has_guarding_hint(3) and shapes.expect_true(True) and not shapes.is_nested_int(3)
    traced = fx.symbolic_trace(lambda x: x.size())
    assert shapes.fx_placeholder_targets(traced) == ["x"] and shapes.find_symbol_binding_fx_nodes(traced.graph) == {}
    x, size, _ = traced.graph.nodes
    assert not shapes.is_accessor_node(size)
    x.meta["val"] = torch.ones(2)
    assert shapes.is_accessor_node(size)
    with pytest.raises(RuntimeError, match=r"torch.Size\(\[3\]\) != torch.Size\(\[2\]\) \(old != new\)"):
        shapes.check_consistent(torch.ones(2), torch.ones(3))
