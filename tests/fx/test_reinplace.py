"""torch.fx.passes.reinplace, dead code elimination of operators with effects, and equal calls made one."""

from __future__ import annotations

import pytest

import flambeau as torch
from flambeau._functorch.compile_utils import fx_graph_cse
from flambeau._functorch.fx_minifier import minifier
from flambeau.func import functionalize
from flambeau.fx.experimental.proxy_tensor import make_fx
from flambeau.fx.passes.reinplace import reinplace


def names(graph):
    return [n.target.overloadpacket.__name__ for n in graph.graph.nodes if hasattr(n.target, "overloadpacket")]


def again(f, *args):
    made = reinplace(make_fx(functionalize(f))(*[x.clone() for x in args]), *args)
    torch.testing.assert_close(made(*[x.clone() for x in args]), f(*[x.clone() for x in args]))
    return names(made)


def test_what_nobody_reads_again_is_written_to():
    assert again(lambda x: x.clone().add(1), torch.ones(2)) == ["clone", "add_"]


def test_inputs_and_what_is_read_again_are_left():
    assert again(lambda x: x.add(1), torch.ones(2)) == ["add"]

    def f(x):
        a = x.clone()
        return a.add(1), a.view(-1).mul(2)

    assert again(f, torch.ones(2)) == ["clone", "add", "view", "mul_"]


@pytest.mark.parametrize(
    "f", [lambda x: torch.ge(x.clone(), 0.5), lambda x: x.clone().expand(4, 2).add(1), lambda x: x.clone().add(x.new_ones(3, 2))]
)
def test_other_dtypes_shapes_and_shared_elements_are_left(f):
    assert not any(name.endswith("_") for name in again(f, torch.ones(2)))


def test_writes_through_views_write_again():
    def f(x):
        a = x.clone()
        a.view(-1)[0].view(-1).add_(1)
        return a + a.view(-1)

    found = again(f, torch.ones(4))
    assert "add_" in found and "select_scatter" not in found and "copy_" not in found

    def g():
        a = torch.zeros(4, 4, 4)
        a[:, 2:] = torch.ones(4, 2, 4)
        return a

    found = again(g)
    assert found.count("copy_") == 1 and "slice_scatter" not in found


def test_a_part_that_lies_elsewhere_is_copied():
    def f(x):
        a = x.clone()
        part = a[:, 1][1].add(1)
        return torch.select_scatter(a.as_strided((4,), (4,), 1), part, 0, 0)

    found = again(f, torch.ones(4, 4))
    assert "copy_" in found and "add_" not in found


def test_dead_code_keeps_writes_checks_and_random_numbers():
    def f(x):
        x.add_(1)
        torch.rand(2)
        x * 3
        return x.sin()

    graph = make_fx(f)(torch.ones(2))
    graph.graph.eliminate_dead_code()
    assert [n for n in names(graph) if n != "rand"] == ["add_", "sin"] and "rand" in names(graph)
    nodes = {n.target.overloadpacket.__name__: n for n in graph.graph.nodes if hasattr(n.target, "overloadpacket")}
    assert nodes["add_"].is_impure(impure_random=False) and not nodes["rand"].is_impure(impure_random=False)


def test_equal_calls_are_made_once():
    def f(x):
        return x.cos() + x.cos(), torch.rand_like(x) + torch.rand_like(x), x * 1, x * 1.0

    graph = make_fx(f)(torch.ones(2))
    found = names(torch.fx.GraphModule(graph, fx_graph_cse(graph.graph)))
    assert found.count("cos") == 1 and found.count("rand_like") == 2 and found.count("mul") == 2


def test_minifier_finds_the_call_that_fails():
    def f(x, y):
        a = x.sin()
        return (a * y + a.cos()).relu()

    graph = make_fx(f)(torch.randn(3), torch.randn(3))
    found, inputs = minifier(graph, [torch.randn(3), torch.randn(3)], lambda g, _: "mul" in names(g), lambda *_: None)
    assert names(found) == ["mul"] and len(inputs) == 2
    with pytest.raises(RuntimeError, match="did not fail"):
        minifier(graph, inputs, lambda g, _: False)
