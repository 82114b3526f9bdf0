"""Dividing joint graphs: smallest cuts, what is saved, what is computed again."""

from __future__ import annotations

import itertools
import math
import random

import pytest

import flambeau as torch
from flambeau._functorch import partitioners
from flambeau._functorch._aot_autograd.min_cut import Network
from flambeau._functorch.functorch import compile as aot


def smallest(edges, nodes):
    """The smallest cut by trying all."""
    inner = [n for n in nodes if n not in ("s", "t")]
    cuts = []
    for chosen in itertools.product([0, 1], repeat=len(inner)):
        side = {"s", *[n for n, c in zip(inner, chosen) if c]}
        cuts.append(sum(c for a, b, c in edges if a in side and b not in side))
    return min(cuts)


@pytest.mark.parametrize("seed", range(20))
def test_cuts_are_the_smallest(seed):
    chance = random.Random(seed)
    nodes = ["s", "t", *range(6)]
    edges = [(a, b, chance.randint(1, 9)) for a in nodes for b in nodes if a != b and chance.random() < 0.4]
    network = Network()
    for a, b, capacity in edges:
        network.edge(a, b, capacity)
    side = network.reachable("s", "t")
    assert "s" in side and "t" not in side
    assert sum(c for a, b, c in edges if a in side and b not in side) == smallest(edges, nodes)


def test_endless_capacities_have_no_cut():
    network = Network()
    network.edge("s", "a")
    network.edge("a", "t", math.inf)
    with pytest.raises(ValueError, match="finite"):
        network.reachable("s", "t")


def divided(f, *leaves, partition):
    graphs = []
    leaves = [x.detach().requires_grad_() for x in leaves]

    def keep(graph, inputs):
        graphs.append(graph)
        return graph

    made = aot.aot_function(f, aot.make_boxed_compiler(keep), partition_fn=partition)(*leaves)
    torch.autograd.backward(made.sum())
    again = [x.detach().requires_grad_() for x in leaves]
    f(*again).sum().backward()
    for x, y in zip(leaves, again):
        torch.testing.assert_close(x.grad, y.grad)
    return graphs


def saved(graph):
    return len(graph.graph.output_node().args[0]) - 1


def calls(graph):
    return [n.target.overloadpacket.__name__ for n in graph.graph.nodes if hasattr(n.target, "overloadpacket")]


def test_what_is_cheap_is_computed_again():
    def f(x):
        return x.sin().cos().exp()

    x = torch.randn(3, 4)
    forward, backward = divided(f, x, partition=aot.default_partition)
    assert saved(forward) == 3 and calls(backward).count("exp") == 0
    forward, backward = divided(f, x, partition=aot.min_cut_rematerialization_partition)
    assert saved(forward) == 1 and calls(backward).count("exp") == 1


def test_products_and_random_numbers_are_never_computed_again():
    def f(x, y):
        return torch.nn.functional.dropout(x @ y, 0.5).tanh().sin() * 2

    torch.manual_seed(0)
    graphs = []

    def keep(graph, inputs):
        graphs.append(graph)
        return graph

    x, y = torch.randn(3, 3, requires_grad=True), torch.randn(3, 3, requires_grad=True)
    compiled = aot.aot_function(f, aot.make_boxed_compiler(keep), partition_fn=aot.min_cut_rematerialization_partition)
    torch.manual_seed(1)
    got = torch.autograd.grad(compiled(x, y).sum(), [x, y])
    torch.manual_seed(1)
    expected = torch.autograd.grad(f(x, y).sum(), [x, y])
    torch.testing.assert_close(got, expected)
    assert calls(graphs[0]).count("mm") == 1 and calls(graphs[1]).count("mm") == 2  # the two gradients
    assert not any("bernoulli" in name or name == "dropout" for name in calls(graphs[1]))


@pytest.mark.parametrize("keep", [False, True])
def test_an_input_that_is_written_to_is_saved_as_it_was(keep):
    def f(x, w):
        y = x.sin().cos() * w
        x.mul_(2)
        return y

    compiled = aot.aot_function(
        f, aot.nop, keep_inference_input_mutations=keep, partition_fn=aot.min_cut_rematerialization_partition
    )
    got = []
    for g in (f, compiled):
        w, x = torch.ones(3, requires_grad=True), torch.arange(3.0)
        y = g(x, w) * 2
        y.sum().backward()
        got.append((y, x, w.grad))
    torch.testing.assert_close(*got)


def test_parts_of_graphs():
    x, w = torch.randn(2, 3, requires_grad=True), torch.randn(3, 2, requires_grad=True)
    graphs = []

    def keep(joint, inputs, *, num_fwd_outputs):
        graphs.append(joint)
        return aot.default_partition(joint, inputs, num_fwd_outputs=num_fwd_outputs)

    aot.aot_function(lambda x, w: (x @ w).sum(), aot.nop, partition_fn=keep)(x, w)
    results, gradients, *_ = partitioners._extract_fwd_bwd_outputs(graphs[0], num_fwd_outputs=1)
    assert [n.name for n in results] == ["sum_1"] and len(gradients) == 2
    with pytest.raises(AssertionError, match="was invalid, but is output"):
        partitioners._extract_graph_with_inputs_outputs(graphs[0].graph, [], results)
