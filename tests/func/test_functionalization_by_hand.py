"""torch._enable_functionalization and its kin, FunctionalTensor and dispatch_functionalize."""

from __future__ import annotations

import pytest

import flambeau as torch
from flambeau._dispatch.python import enable_crossref_functionalize
from flambeau._subclasses.functional_tensor import FunctionalTensor, FunctionalTensorMode, dispatch_functionalize
from flambeau.fx.experimental.proxy_tensor import make_fx


def by_hand(f, reapply_views=True):
    def wrapped(*inputs):
        given = [torch._to_functional_tensor(x) for x in inputs]
        torch._enable_functionalization(reapply_views=reapply_views)
        try:
            made = f(*given)
        finally:
            torch._disable_functionalization()
        for x, y in zip(inputs, given):
            torch._sync(y)
            new = torch._from_functional_tensor(y)
            if new is not x:
                x.copy_(new)
        torch._sync(made)
        return torch._from_functional_tensor(made)

    return wrapped


def through_a_view(x):
    y = x.view(-1)
    y[0].add_(1)
    return x * y.view(2, 3)


def names(graph):
    return [n.target.overloadpacket.__name__ for n in graph.graph.nodes if hasattr(n.target, "overloadpacket")]


@pytest.mark.parametrize("reapply_views", [False, True])
def test_writes_become_values_and_go_back_to_the_inputs(reapply_views):
    x = torch.arange(6.0).reshape(2, 3)
    y, z = x.clone(), x.clone()
    expected = through_a_view(x)
    with enable_crossref_functionalize():
        torch.testing.assert_close(by_hand(through_a_view, reapply_views)(y), expected)
    torch.testing.assert_close(x, y)
    graph = make_fx(by_hand(through_a_view, reapply_views))(z)
    assert "add_" not in names(graph) and names(graph).count("copy_") == 1
    assert ("view_copy" in names(graph)) is not reapply_views


def test_what_is_known_of_such_tensors():
    x = torch.zeros(3)
    y = torch._to_functional_tensor(x)
    assert torch._is_functional_tensor(y) and not torch._is_functional_tensor(x)
    torch._enable_functionalization()
    try:
        with pytest.raises(RuntimeError, match="nesting"):
            torch._enable_functionalization()
        y.add_(1)
    finally:
        torch._disable_functionalization()
    assert torch._functionalize_has_data_mutation(y) and torch._functionalize_mutation_counter(y) == 1
    torch._sync(y)
    assert torch._from_functional_tensor(y).tolist() == [1, 1, 1] and x.tolist() == [0, 0, 0]


def test_a_function_without_writes():
    x = torch.ones(3)
    assert dispatch_functionalize(lambda a: a.add_(1))(x).tolist() == [2, 2, 2]
    assert x.tolist() == [1, 1, 1]
    with FunctionalTensorMode():
        y = FunctionalTensor.to_functional(x)
        assert isinstance(y, FunctionalTensor) and not isinstance(x, FunctionalTensor)
        y.mul_(3)
        assert FunctionalTensor.from_functional(y).tolist() == [3, 3, 3]
    with pytest.raises(RuntimeError, match="outside"):
        FunctionalTensor.to_functional(x)
