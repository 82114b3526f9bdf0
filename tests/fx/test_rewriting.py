"""Patterns, interpreters, transformers and passes over graphs; expected texts are PyTorch's."""

import pytest

import flambeau as torch
import flambeau.nn.functional as F
from flambeau import fx, nn
from flambeau.fx.experimental.normalize import NormalizeArgs
from flambeau.fx.experimental.optimization import fuse, remove_dropout
from flambeau.fx.operator_schemas import normalize_function
from flambeau.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from flambeau.fx.passes.infra.pass_base import PassBase, PassResult
from flambeau.fx.passes.infra.pass_manager import PassManager
from flambeau.fx.passes.operator_support import OperatorSupport
from flambeau.fx.passes.shape_prop import ShapeProp, TensorMetadata
from flambeau.fx.passes.split_module import split_module
from flambeau.fx.passes.split_utils import split_by_tags
from flambeau.fx.passes.utils.matcher_utils import SubgraphMatcher
from flambeau.fx.subgraph_rewriter import replace_pattern_with_filters


def body(module) -> list[str]:
    return [line.strip() for line in module.code.strip().splitlines()]


def sums(x, w1, w2):
    first = torch.cat([torch.neg(w1), w2]).sum()
    second = torch.cat([torch.neg(w1), w2]).sum()
    return x + torch.max(first) + torch.max(second)


def four(x):
    return torch.relu(torch.relu(torch.relu(torch.relu(x))))


def two(x):
    return torch.relu(torch.relu(x))


def test_replacing_a_pattern() -> None:
    traced = fx.symbolic_trace(sums)
    matches = fx.replace_pattern(
        traced, lambda a1, a2: torch.cat([torch.neg(a1), a2]).sum(), lambda w1, w2: torch.stack([w1, w2])
    )
    assert [str(match.anchor) for match in matches] == ["sum_1", "sum_1"]
    assert body(traced) == [
        "def forward(self, x, w1, w2):",
        "stack = torch.stack([w1, w2])",
        "max_1 = torch.max(stack);  stack = None",
        "add = x + max_1;  x = max_1 = None",
        "stack_1 = torch.stack([w1, w2]);  w1 = w2 = None",
        "max_2 = torch.max(stack_1);  stack_1 = None",
        "add_1 = add + max_2;  add = max_2 = None",
        "return add_1",
    ]
    traced.graph.lint()


def test_matches_dont_overlap_and_dont_leak() -> None:
    traced = fx.symbolic_trace(four)
    assert len(SubgraphMatcher(fx.symbolic_trace(two).graph, remove_overlapping_matches=False).match(traced.graph)) == 3
    always = [lambda match, graph, pattern: True]
    done = replace_pattern_with_filters(traced, two, lambda x: torch.sigmoid(x), match_filters=always)
    assert [str(d.replacements) for d in done] == ["[sigmoid]", "[sigmoid_1]"]
    assert body(traced)[1:] == [
        "sigmoid = torch.sigmoid(x);  x = None",
        "sigmoid_1 = torch.sigmoid(sigmoid);  sigmoid = None",
        "return sigmoid_1",
    ]

    def leaking(x):
        a = x.neg()
        return (a + 1) * a

    assert fx.replace_pattern(fx.symbolic_trace(leaking), lambda x: x.neg() + 1, lambda x: x - 5) == []


def test_literals() -> None:
    traced = fx.symbolic_trace(lambda x: F.dropout(x, 0.3) + 1)
    assert replace_pattern_with_filters(traced, lambda x: F.dropout(x, 0.5), lambda x: x) == []
    assert len(replace_pattern_with_filters(traced, lambda x: F.dropout(x, 0.5), lambda x: x, ignore_literals=True)) == 1
    assert body(traced)[1:] == ["add = x + 1;  x = None", "return add"]
    matches = fx.replace_pattern(traced, lambda x, c: x + c, lambda x, c: torch.add(x, c))
    assert body(traced)[1] == "add_1 = torch.add(x, 1);  x = None" and len(matches) == 1


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lin, self.act, self.w = nn.Linear(2, 2), nn.ReLU(), nn.Parameter(torch.ones(2))

    def forward(self, x):
        return self.act(self.lin(x)) + self.w


def test_a_replacement_brings_its_modules() -> None:
    class Pattern(Net):
        def forward(self, x):
            return self.act(self.lin(x))

    class Other(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.new = nn.Linear(2, 2)

        def forward(self, x):
            return self.new(x) * 2

    traced = fx.symbolic_trace(Net())
    fx.replace_pattern(traced, fx.symbolic_trace(Pattern()), fx.symbolic_trace(Other()))
    assert [name for name, _ in traced.named_modules()] == ["", "new"] and traced(torch.ones(1, 2)).shape == (1, 2)


def test_interpreter_and_transformer() -> None:
    net, x = Net(), torch.randn(3, 2)
    seen = []

    class Watching(fx.Interpreter):
        def run_node(self, n):
            seen.append(n.name)
            return super().run_node(n)

    assert torch.equal(Watching(fx.symbolic_trace(net)).run(x), net(x))
    assert seen == ["x", "lin", "act", "w", "add", "output"]
    with pytest.raises(RuntimeError, match=r"(?s)cannot be multiplied.*While executing %lin : \[num_users=1\] = call_module"):
        fx.Interpreter(fx.symbolic_trace(net)).run(torch.ones(1, 3))

    class Other(fx.Transformer):
        def call_function(self, target, args, kwargs):
            return torch.sigmoid(*args) if target is torch.neg else super().call_function(target, args, kwargs)

    assert body(Other(fx.symbolic_trace(lambda x: torch.neg(x) + 1)).transform())[1] == "sigmoid = torch.sigmoid(x);  x = None"


def test_shapes() -> None:
    traced = fx.symbolic_trace(Net())
    ShapeProp(traced).propagate(torch.ones(3, 2))
    assert traced.graph.find_nodes(op="call_module", target="lin")[0].meta["tensor_meta"] == TensorMetadata(
        torch.Size([3, 2]), torch.float32, True, (2, 1), torch.contiguous_format, False, {}
    )


class Two(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.l1, self.l2, self.p = nn.Linear(2, 2), nn.Linear(2, 2), nn.Parameter(torch.ones(2))

    def forward(self, x, y=1):
        a = self.l1(x)
        return (self.l2(torch.relu(a)) + self.p) * y, a


def test_splitting() -> None:
    two_layers, x = Two(), torch.randn(2, 2)
    traced = fx.symbolic_trace(two_layers)
    split = split_module(traced, two_layers, lambda node: int(node.name not in ("l1", "relu")))
    assert body(split) == [
        "def forward(self, x, y = 1):",
        "p = self.p",
        "submod_0 = self.submod_0(x);  x = None",
        "getitem = submod_0[0]",
        "getitem_1 = submod_0[1];  submod_0 = None",
        "submod_1 = self.submod_1(getitem, p, y);  getitem = p = y = None",
        "return (submod_1, getitem_1)",
    ]
    assert all(torch.equal(a, b) for a, b in zip(split(x), two_layers(x)))
    with pytest.raises(RuntimeError, match="cycle exists between partitions!"):
        split_module(traced, two_layers, lambda node: int(node.name == "relu"))
    for node in traced.graph.nodes:
        if node.op not in ("placeholder", "output", "get_attr"):
            node.tag = "a" if node.name in ("l1", "relu") else "b"
    tagged = split_by_tags(traced, ["a", "b"])
    assert body(tagged.b)[1:3] == ["l2 = self.l2(relu);  relu = None", "p = self.p"]
    assert all(torch.equal(a, b) for a, b in zip(tagged(x, 2), two_layers(x, 2)))


def test_partitions() -> None:
    class Functions(OperatorSupport):
        def is_node_supported(self, submodules, node):
            return node.op == "call_function"

    traced = fx.symbolic_trace(lambda x, y: (torch.relu(x) + y).sum() * torch.cos(y) + 1)
    found = CapabilityBasedPartitioner(traced, Functions(), allows_single_node_partition=True)
    groups = found.propose_partitions()
    assert sorted(sorted(n.name for n in group.nodes) for group in groups) == [["add", "relu"], ["add_1", "cos", "mul"]]
    assert body(found.fuse_partitions(groups))[1:] == [
        "fused_1 = self.fused_1(x, y);  x = None",
        "sum_1 = fused_1.sum();  fused_1 = None",
        "fused_0 = self.fused_0(y, sum_1);  y = sum_1 = None",
        "return fused_0",
    ]


def test_passes() -> None:
    class Sigmoids(PassBase):
        def call(self, graph_module):
            changed = False
            for node in graph_module.graph.find_nodes(op="call_function", target=torch.relu):
                node.target, changed = torch.sigmoid, True
            return PassResult(graph_module, changed)

    result = PassManager(passes=[Sigmoids()])(fx.symbolic_trace(two))
    assert result.modified and "torch.sigmoid(x)" in result.graph_module.code
    with pytest.raises(Exception, match="An error occurred when running the 'Sigmoids' pass after the following passes"):
        PassManager(passes=[Sigmoids()])(3)


def test_fusion_and_dropout() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU(), nn.Dropout(0.5)).eval()
    net[1].running_mean.fill_(0.5)
    x = torch.randn(2, 1, 5, 5)
    fused = fuse(net)
    assert [n.name for n in fused.graph.nodes] == ["input_1", "_0", "_2", "_3", "output"]
    torch.testing.assert_close(fused(x), net(x))
    assert [n.name for n in remove_dropout(net).graph.nodes][-2:] == ["_2", "output"]
    with pytest.raises(AssertionError, match="Fusion only for eval!"):
        fuse(net.train())


def test_normal_forms() -> None:
    assert normalize_function(torch.sum, (1, 2), normalize_to_only_use_kwargs=True).kwargs == {
        "input": 1, "dim": 2, "keepdim": False, "dtype": None,
    }  # fmt: skip
    assert normalize_function(len, (1,)) is None
    assert body(NormalizeArgs(fx.symbolic_trace(lambda x: F.relu(x))).transform())[1] == (
        "relu = torch.nn.functional.relu(input = x, inplace = False);  x = None"
    )
