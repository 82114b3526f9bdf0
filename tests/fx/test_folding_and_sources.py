"""Folded constants, partitions by source, named patterns, types of tensors; expected texts are PyTorch's."""

import flambeau as torch
import flambeau.nn.functional as F
from flambeau import fx, nn
from flambeau.fx.experimental.const_fold import get_unique_attr_name_in_module, split_const_subgraphs
from flambeau.fx.passes.utils.matcher_with_name_node_map_utils import SubgraphMatcherWithNameNodeMap
from flambeau.fx.passes.utils.source_matcher_utils import check_subgraphs_connected, get_source_partitions
from flambeau.fx.tensor_type import Dyn, TensorType, is_consistent, is_more_precise


def body(module) -> list[str]:
    return [line.strip() for line in module.code.strip().splitlines()]


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Parameter(torch.rand(2, 2)), nn.Parameter(torch.rand(2, 2))
        self.register_buffer("c", torch.rand(2, 2))
        self.lin = nn.Linear(2, 2)

    def forward(self, x, y):
        w = self.a + self.b
        return self.lin(x) + torch.relu(w) * self.c, w @ y


def test_constants_are_folded_at_the_first_call() -> None:
    net, x = Net(), torch.rand(2, 2)
    folded = split_const_subgraphs(net)
    assert body(folded) == [
        "def forward(self, x, y):",
        "_fx_const_folded_attrs = self._FX_CONST_FOLDED_ATTRS",
        "getitem = _fx_const_folded_attrs[0]",
        "getitem_1 = _fx_const_folded_attrs[1];  _fx_const_folded_attrs = None",
        "lin = self.lin(x);  x = None",
        "add_1 = lin + getitem;  lin = getitem = None",
        "matmul = getitem_1 @ y;  getitem_1 = y = None",
        "return (add_1, matmul)",
    ]
    assert body(folded.const_subgraph_module)[1:] == [
        "a_1 = self.a",
        "b_1 = self.b",
        "c_1 = self.c",
        "add = a_1 + b_1;  a_1 = b_1 = None",
        "relu = torch.relu(add)",
        "mul = relu * c_1;  relu = c_1 = None",
        "return (mul, add)",
    ]
    assert not folded.has_folding_been_run
    assert all(torch.equal(a, b) for a, b in zip(folded(x, x), net(x, x)))
    with torch.no_grad():
        net.a.zero_()  # too late
    assert folded.has_folding_been_run and not torch.equal(folded(x, x)[1], net(x, x)[1])


def test_what_is_not_folded() -> None:
    folded = split_const_subgraphs(fx.symbolic_trace(Net()), skip_folding_node_fn=lambda node: node.target is torch.relu)
    assert "relu = torch.relu(_fx_const_folded_attrs)" in body(folded)
    alone = split_const_subgraphs(nn.Sequential(nn.ReLU()))
    assert alone.const_subgraph_module is None and torch.equal(alone(torch.ones(1)), torch.ones(1))
    assert get_unique_attr_name_in_module(folded, "lin") == "lin_1"


def test_partitions_by_source() -> None:
    traced = fx.symbolic_trace(nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 2)))
    for node in traced.graph.find_nodes(op="call_module"):
        node.meta["source_fn_stack"] = [(node.name, type(traced.get_submodule(node.target)))]
    found = get_source_partitions(traced.graph, [nn.Linear, nn.ReLU])
    first, second = found[nn.Linear]
    assert [n.name for n in first.nodes] == ["_0"] and [n.name for n in first.input_nodes] == ["input_1"]
    assert [n.name for n in second.output_nodes] == ["_2"] and second.params == []
    assert check_subgraphs_connected(first, found[nn.ReLU][0]) and not check_subgraphs_connected(first, second)
    assert get_source_partitions(traced.graph, [nn.ReLU], lambda node: False) == {nn.ReLU: []}


def test_patterns_that_name_their_nodes() -> None:
    def pattern(x, w):
        linear = F.linear(x, w)
        return F.relu(linear), {"linear": linear}

    target = fx.symbolic_trace(lambda a, b: F.relu(F.linear(a, b)) * 2)
    (match,) = SubgraphMatcherWithNameNodeMap(fx.symbolic_trace(pattern)).match(target.graph)
    assert [node.name for node in match.name_node_map.values()] == ["linear"]
    assert match.name_node_map["linear"].graph is target.graph


def test_types_of_tensors() -> None:
    assert str(TensorType((1, Dyn))) == "TensorType[(1, Dyn)]" and TensorType[1, 2] == TensorType((1, 2))
    assert is_consistent(TensorType((1, Dyn)), TensorType((1, 2))) and not is_consistent(TensorType((1,)), TensorType((1, 2)))
    assert is_more_precise(TensorType((1, 2)), TensorType((1, Dyn)))
    assert not is_more_precise(TensorType((1, Dyn)), TensorType((1, 2)))
