"""Cutting a module for a backend; expected texts are PyTorch's."""

import pytest

import flambeau as torch
from flambeau import fx, nn
from flambeau.fx.passes.operator_support import OperatorSupportBase
from flambeau.fx.passes.splitter_base import _SplitterBase, _SplitterSettingBase


class Backend(OperatorSupportBase):
    def is_node_supported(self, submodules, node) -> bool:
        return node.op in ("call_module", "call_function") and node.name not in ("sin", "cos")


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lin, self.act = nn.Linear(2, 2), nn.ReLU()

    def forward(self, x, y):
        a = self.lin(x)
        c = torch.sin(a) + y
        e = torch.cos(self.act(c) * a) + 1
        return e * 2, c, x.shape[0]


def splitter(x, **settings) -> _SplitterBase:
    return _SplitterBase(fx.symbolic_trace(Net()), (x, x), Backend(), _SplitterSettingBase(**settings))


def test_parts_in_turn(capsys) -> None:
    x = torch.randn(2, 2)
    made = splitter(x)
    split = made()
    assert capsys.readouterr().out == "Got 3 acc subgraphs and 3 non-acc subgraphs\n"
    assert [line.strip() for line in split.code.strip().splitlines()] == [
        "def forward(self, x, y):",
        "_run_on_cpu_0 = self._run_on_cpu_0(x)",
        "_run_on_acc_1 = self._run_on_acc_1(x);  x = None",
        "_run_on_cpu_2 = self._run_on_cpu_2(_run_on_acc_1)",
        "_run_on_acc_3 = self._run_on_acc_3(_run_on_cpu_2, y, _run_on_acc_1);  _run_on_cpu_2 = y = _run_on_acc_1 = None",
        "getitem = _run_on_acc_3[0]",
        "getitem_1 = _run_on_acc_3[1];  _run_on_acc_3 = None",
        "_run_on_cpu_4 = self._run_on_cpu_4(getitem);  getitem = None",
        "_run_on_acc_5 = self._run_on_acc_5(_run_on_cpu_4);  _run_on_cpu_4 = None",
        "return (_run_on_acc_5, getitem_1, _run_on_cpu_0)",
    ]
    assert all(torch.equal(a, b) for a, b in zip(split(x, x)[:2], made.module(x, x)[:2]))
    assert made.get_node_submodule_map()["mul"] == "_run_on_acc_3"
    assert list(splitter(x).generate_split_results().submodule_inputs) == [name for name, _ in split.named_children()]


def test_small_parts_and_numbers(capsys) -> None:
    x = torch.randn(2, 2)
    two = splitter(x, min_acc_module_size=2)()
    assert [name for name, _ in two.named_children()] == ["_run_on_cpu_0", "_run_on_acc_1", "_run_on_cpu_2", "_run_on_acc_3"]
    assert "Eliminating acc subgraph because it's smaller than the threshold: 1 < 2\n" in capsys.readouterr().out
    numbers = splitter(x, allow_non_tensor=True)
    assert sorted(n.name for n in numbers.fusions) == ["getattr_1", "getitem"]
    assert [n.name for n in numbers.put_nodes_into_subgraphs()[0].nodes] == ["lin", "getattr_1", "getitem"]
    with pytest.raises(ValueError, match="Cannot fulfill max_acc_splits limit"):
        splitter(x, max_acc_splits=1)()


def test_what_the_backend_does_is_reported(capsys) -> None:
    report = splitter(torch.randn(2, 2)).node_support_preview()
    assert capsys.readouterr().out == report + "\n"
    assert report.startswith("\nSupported node types in the model:\ntorch.nn.modules.linear.Linear: ((torch.float32,), {})\n")
    assert report.endswith(
        "\nUnsupported node types in the model:\ntorch.sin: ((torch.float32,), {})\ntorch.cos: ((torch.float32,), {})\n"
    )
