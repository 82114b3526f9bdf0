"""Gradual typing of graphs, and functions written anew before they are traced."""

from __future__ import annotations

import operator

import pytest

import flambeau as torch
from flambeau.fx import GraphModule, symbolic_trace
from flambeau.fx.experimental.graph_gradual_typechecker import GraphTypeChecker, Refine, broadcast_types
from flambeau.fx.experimental.refinement_types import Equality
from flambeau.fx.experimental.rewriter import RewritingTracer
from flambeau.fx.experimental.unification import Var
from flambeau.fx.experimental.unify_refinements import infer_symbolic_types_single_pass
from flambeau.fx.tensor_type import Dyn, TensorType


def _checked(module: torch.nn.Module, *types: object) -> GraphModule:
    traced = symbolic_trace(module)
    for node, kind in zip(traced.graph.find_nodes(op="placeholder"), types):
        node.type = kind
    GraphTypeChecker({}, traced).type_check()
    return traced


class Add(torch.nn.Module):
    def forward(self, x, y):
        return torch.add(x, y)


class Layers(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.pool = torch.nn.Conv2d(3, 6, 5), torch.nn.MaxPool2d(2, 2)
        self.linear, self.average = torch.nn.Linear(14, 9), torch.nn.AdaptiveAvgPool2d((4, None))

    def forward(self, x):
        return torch.flatten(self.average(self.linear(self.pool(self.conv(x)))), 1)


class Reshape(torch.nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.sizes = sizes

    def forward(self, x):
        return torch.reshape(x, self.sizes)


def test_sizes_follow_from_layers() -> None:
    traced = _checked(Layers(), TensorType((4, 3, 32, 32)))
    kinds = {node.name: node.type for node in traced.graph.nodes}
    assert kinds["conv"] == TensorType((4, 6, 28, 28))
    assert kinds["pool"] == TensorType((4, 6, 14, 14))
    assert kinds["linear"] == TensorType((4, 6, 14, 9))
    assert kinds["average"] == TensorType((4, 6, 4, 9))
    assert kinds["output"] == TensorType((4, 216))
    runs = Layers()(torch.rand(4, 3, 32, 32))
    assert tuple(runs.shape) == kinds["output"].__args__


def test_unknown_sizes_stay_unknown_and_the_less_precise_type_wins() -> None:
    traced = _checked(Add(), TensorType((1, 2, Dyn)), TensorType((1, 2, 3)))
    assert next(iter(traced.graph.find_nodes(op="output"))).type == TensorType((1, 2, Dyn))
    assert broadcast_types(TensorType((1, 2, 3, Dyn)), TensorType((2, 3, 4))) == (
        TensorType((1, 2, 3, Dyn)),
        TensorType((1, 2, 3, 4)),
    )


@pytest.mark.parametrize(
    ("module", "kinds"),
    [
        (Add(), [TensorType((1, 2, 3, Dyn)), TensorType((1, 2, 3))]),
        (Layers(), [TensorType((4, 4, 32, 32))]),
        (Layers(), [TensorType((3, 32, 32))]),
        (Reshape([1, 2, 3]), [TensorType((1, 5))]),
        (Reshape([2, 3]), [TensorType((2, 6))]),
        (Reshape([1, 2, -1]), [TensorType((1, 5))]),
    ],
)
def test_contradictions_are_type_errors(module: torch.nn.Module, kinds: list[object]) -> None:
    with pytest.raises(TypeError):
        _checked(module, *kinds)


def test_what_has_no_rule_is_said() -> None:
    with pytest.raises(RuntimeError, match="No inference rule registered for class"):
        _checked(torch.nn.Sequential(torch.nn.Softmax(1)), Dyn)


def test_unknown_sizes_get_names_and_equal_ones_the_same() -> None:
    traced = _checked(Add(), TensorType((1, 2)), TensorType((Dyn, 2)))
    refine = Refine(traced)
    refine.refine()
    assert refine.constraints == [Equality(Var(0), Var(1)), Equality(2, 2)]
    infer_symbolic_types_single_pass(traced)
    kinds = [node.type for node in traced.graph.nodes]
    assert kinds[1] == kinds[2] == kinds[3]


def test_asserts_and_annotations_are_traced() -> None:
    class Checked(torch.nn.Module):
        def forward(self, x: torch.Tensor, n: int, m: int):
            assert n == m, "sizes differ"
            y: TensorType((2, 2)) = torch.relu(x)
            return y + factor

    factor = 3.0
    tracer = RewritingTracer()
    graph = tracer.trace(Checked())
    traced = GraphModule(tracer.root, graph)
    assert any(node.target is torch._assert for node in graph.nodes)
    assert next(node for node in graph.nodes if node.target is torch.relu).type == TensorType((2, 2))
    assert any(node.target is operator.add and node.args[1] == 3.0 for node in graph.nodes)
    with pytest.raises(AssertionError, match="sizes differ"):
        traced(torch.ones(2, 2), 1, 2)
