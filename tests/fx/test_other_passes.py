"""Common subexpressions, pictures, older managers, types of items; expected texts are PyTorch's."""

import operator
import types

import pytest

import flambeau as torch
from flambeau import fx, nn
from flambeau.fx.experimental.proxy_tensor import make_fx
from flambeau.fx.passes import graph_drawer
from flambeau.fx.passes.annotate_getitem_nodes import annotate_getitem_nodes
from flambeau.fx.passes.dialect.common.cse_pass import CSEPass, get_CSE_banned_ops
from flambeau.fx.passes.pass_manager import PassManager, inplace_wrapper, loop_pass, this_before_that_pass_constraint


def test_common_subexpressions() -> None:
    def function(x):
        a, b = x.cos(), x.cos()
        c = x.clone()
        return (a + a) + (b + b) + c.add_(1) + c.add_(1) + torch.rand_like(x) + torch.rand_like(x)

    traced = make_fx(function)(torch.randn(3))
    result = CSEPass()(traced)
    assert result.modified and [n.name for n in result.graph_module.graph.nodes][:4] == ["x_1", "cos", "clone", "add"]
    targets = [str(n.target) for n in result.graph_module.graph.nodes]
    assert targets.count("aten.cos.default") == 1
    assert targets.count("aten.add_.Tensor") == targets.count("aten.rand_like.default") == 2
    assert torch.ops.aten.rand_like in get_CSE_banned_ops()
    assert not CSEPass()(result.graph_module).modified


class Drawn:
    """What pydot is asked for."""

    def __init__(self, name="", **options) -> None:
        self.name, self.options, self.nodes, self.edges = name, options, [], []

    def add_node(self, node) -> None:
        self.nodes.append(node)

    def add_edge(self, edge) -> None:
        self.edges.append(edge)


@pytest.fixture
def pydot(monkeypatch):
    def node(name, **options):
        return name, options

    made = types.SimpleNamespace(Dot=Drawn, Node=node, Edge=lambda a, b: (a, b))
    monkeypatch.setattr(graph_drawer, "pydot", made)
    monkeypatch.setattr(graph_drawer, "HAS_PYDOT", True)


def test_pictures(pydot) -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lin = nn.Linear(2, 3)

        def forward(self, x, y: int = 2):
            return torch.relu(self.lin(x) * y).flatten(0, 1).sum(dim=-1)

    drawer = graph_drawer.FxGraphDrawer(fx.symbolic_trace(Net()), "net")
    drawn = drawer.get_dot_graph()
    labels = {name: (options["label"], options["fillcolor"]) for name, options in drawn.nodes}
    assert labels == {
        "x": (r"{name=%x|op_code=placeholder\n|target=x\n|num_users=1\n}", '"AliceBlue"'),
        "y": (r"{name=%y|op_code=placeholder\n|target=y\n|args=(2,)|num_users=1\n}", '"AliceBlue"'),
        "lin": (
            r"{name=%lin|op_code=call_module\n\ntorch.nn.modules.linear.Linear\n|in_features: 2\nout_features: 3\n}",
            "LemonChiffon1",
        ),
        "lin.weight": (r"{lin.weight|op_code=get_parametertorch.float32[3, 2]\n}", "Salmon"),
        "lin.bias": (r"{lin.bias|op_code=get_parametertorch.float32[3]\n}", "Salmon"),
        "mul": (r"{name=%mul|op_code=call_function\n|target=_operator.mul\n|num_users=1\n}", "MistyRose2"),
        "relu": (r"{name=%relu|op_code=call_function\n|target=torch.relu\n|num_users=1\n}", "Thistle1"),
        "flatten": (r"{name=%flatten|op_code=call_method\n|target=flatten\n|args=(\l0,\n1,\n)\l|num_users=1\n}", "CadetBlue1"),
        "sum_1": (r"{name=%sum_1|op_code=call_method\n|target=sum\n|kwargs=\{dim: -1,\}|num_users=1\n}", "MistyRose2"),
        "output": (r"{name=%output|op_code=output\n|target=output\n|num_users=0\n}", "PowderBlue"),
    }
    assert ("lin.weight", "lin") in drawn.edges and ("sum_1", "output") in drawn.edges
    assert list(drawer.get_all_dot_graphs()) == ["net"]


def test_pictures_need_pydot(monkeypatch) -> None:
    monkeypatch.setattr(graph_drawer, "HAS_PYDOT", False)
    with pytest.raises(RuntimeError, match="FXGraphDrawer requires the pydot package to be installed"):
        graph_drawer.FxGraphDrawer(fx.symbolic_trace(nn.ReLU()), "net")


def test_items_get_types() -> None:
    def function(a: list[int], b: tuple[int, str], c: dict[str, float], d):
        return a[0], b[1], c["k"], d[0]

    graph = fx.symbolic_trace(function).graph
    annotate_getitem_nodes(graph)
    assert [n.type for n in graph.find_nodes(op="call_function", target=operator.getitem)] == [int, str, float, None]


def test_the_older_manager() -> None:
    def one(x):
        return [*x, 1]

    @inplace_wrapper
    def two(x):
        x.append(2)

    assert PassManager([one, two, loop_pass(one, n_iter=2)])([0]) == [0, 1, 2, 1, 1]
    with pytest.raises(RuntimeError, match="pass schedule constraint violated"):
        PassManager([two, one], [this_before_that_pass_constraint(one, two)])([])
    with pytest.raises(AssertionError, match="Exactly one of `n_iter`or `predicate` must be specified"):
        loop_pass(one)
