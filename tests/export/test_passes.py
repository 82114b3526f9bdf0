"""Passes that record an exported program again, and the program that they make of it."""

from __future__ import annotations

import operator
from collections import OrderedDict
from typing import Any

import pytest

import flambeau as torch
from flambeau._export import utils
from flambeau._export.pass_base import NodeMetadata, _ExportPassBaseDeprecatedDoNotUse
from flambeau._export.passes.replace_view_ops_with_view_copy_ops_pass import (
    ReplaceViewOpsWithViewCopyOpsPass,
    get_view_copy_of_view_op,
    is_view_op,
)
from flambeau._functorch.functorch.experimental import control_flow
from flambeau.export import Dim, export
from flambeau.export._trace import _export
from flambeau.export._tree_utils import is_equivalent, reorder_kwargs
from flambeau.fx.passes.infra.pass_base import PassResult
from flambeau.utils._pytree import tree_structure


class Model(torch.nn.Module):
    """A parameter, a buffer that is written to, a branch, a size and a number that only a run tells."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.tensor(2.0))
        self.register_buffer("count", torch.tensor(0.0))

    def forward(self, x: torch.Tensor, n: torch.Tensor) -> Any:
        """Some of each."""
        self.count.add_(1.0)
        kept = x[: n.item()].view(-1) * x.shape[0]
        return torch.cond(x.sum() > 0, lambda y: y + 1, lambda y: y - 1, (kept * self.weight,)), torch.split(x, 2, dim=1)[0]


X, N = torch.rand(4, 4), torch.tensor(2)


def _program() -> Any:
    return export(Model(), (X, N), dynamic_shapes=({0: Dim.AUTO}, None))


def test_a_pass_that_says_nothing_changes_nothing() -> None:
    """Names, calls, shapes and results."""
    before = _program()
    after = before._transform_do_not_use(_ExportPassBaseDeprecatedDoNotUse())
    told = [
        [(n.op, n.name, str(n.target), str(n.meta.get("val")), n.meta.get("stack_trace")) for n in program.graph.nodes]
        for program in (before, after)
    ]
    assert told[0] == told[1]
    for x in (X, -torch.rand(6, 4)):
        for made, expected in zip(after.module()(x, N), Model()(x, N)):
            torch.testing.assert_close(made, expected)


def test_a_pass_changes_operators_also_in_branches() -> None:
    """The program that it was made of stays."""

    class Doubled(_ExportPassBaseDeprecatedDoNotUse):
        def call_operator(self, op: Any, args: Any, kwargs: Any, meta: NodeMetadata) -> Any:
            made = super().call_operator(op, args, kwargs, meta)
            if op is not torch.ops.aten.add.Tensor:
                return made
            return super().call_operator(torch.ops.aten.mul.Tensor, (made, 2), {}, meta)

    def f(x: torch.Tensor) -> Any:
        return torch.cond(x.sum() > 0, lambda y: y + 1, lambda y: y - 1, (x,)) + 3

    class Plain(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            return f(x)

    program = export(Plain(), (X,))
    changed = program._transform_do_not_use(Doubled())
    torch.testing.assert_close(changed.module()(X), ((X + 1) * 2 + 3) * 2)
    torch.testing.assert_close(program.module()(X), f(X))


def test_views_become_copies() -> None:
    """Each by the operator of its name."""

    class Viewed(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return (x + 4).view(8, 2).t().cos()

    program = export(Viewed(), (X,))._transform_do_not_use(ReplaceViewOpsWithViewCopyOpsPass())
    assert [str(n.target) for n in program.graph.nodes if n.op == "call_function"] == [
        "aten.add.Tensor",
        "aten.view_copy.default",
        "aten.t_copy.default",
        "aten.cos.default",
    ]
    torch.testing.assert_close(program.module()(X), Viewed()(X))
    schema = torch.ops.aten.view.default._schema
    assert is_view_op(schema) and get_view_copy_of_view_op(schema) is torch.ops.aten.view_copy.default
    assert not is_view_op(torch.ops.aten.add.Tensor._schema)
    assert get_view_copy_of_view_op(torch.ops.aten.add_.Tensor._schema) is None


def test_signatures_follow_names() -> None:
    """Of outputs that a pass gives other names."""

    class Sum(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + 1

    def renamed(module: Any) -> PassResult:
        for node in module.graph.nodes:
            if node.op == "call_function":
                node.name += "_changed"
        return PassResult(module, True)

    before = export(Sum(), (X,))
    assert before._transform_do_not_use(renamed).graph_signature.user_outputs == ("add_changed",)
    assert before.graph_signature.user_outputs == ("add",)
    signature = before.graph_signature
    signature.get_replace_hook()(before.graph.output_node().args[0][0], "other", before.graph.output_node())
    assert signature.user_outputs == ("other",)

    def more(module: Any) -> PassResult:
        module.graph.output_node().args = ((*module.graph.output_node().args[0], None),)
        return PassResult(module, True)

    with pytest.raises(ValueError, match="left 2 inputs or outputs of 1"):
        before._transform_do_not_use(more)


def test_export_by_its_inner_name() -> None:
    """Composite operators and writes are there before dispatch only."""

    class Linear(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.nn.functional.linear(x, x).add_(1)

    targets = [[n.target for n in _export(Linear(), (X,), pre_dispatch=early).graph.nodes] for early in (True, False)]
    assert torch.ops.aten.add_.Tensor in targets[0] and torch.ops.aten.add_.Tensor not in targets[1]


def test_containers_of_inputs() -> None:
    """Keywords in their order; dicts of several kinds may be alike."""
    spec = tree_structure(((), {"a": 1, "b": 2}))
    assert list(reorder_kwargs({"b": 2, "a": 3}, spec).items()) == [("a", 3), ("b", 2)]
    with pytest.raises(ValueError, match="kwarg keyword mismatch"):
        reorder_kwargs({"b": 2}, spec)
    one, other = tree_structure({"a": 0, "b": [1]}), tree_structure(OrderedDict(a=0, b=[1]))

    def alike(t1: Any, c1: Any, t2: Any, c2: Any) -> bool:
        return c1 == c2 and (t1 is t2 or {t1, t2} == {dict, OrderedDict})

    assert is_equivalent(one, other, alike) and not is_equivalent(one, other, lambda *x: operator.is_(x[0], x[2]))
    assert not is_equivalent(one, tree_structure(OrderedDict(b=[1], a=0)), alike)


def test_older_names_in_programs() -> None:
    """functorch's cond, and the switch of gradients below torch.set_grad_enabled."""

    class Old(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            torch._C._set_grad_enabled(False)
            y = x.sin()
            torch._C._set_grad_enabled(True)
            return control_flow.cond(y.sum() > 0, lambda y: y + 1, lambda y: y - 1, [y])

    program = export(Old(), (X,))
    torch.testing.assert_close(program.module()(X), X.sin() + 1)
    torch.testing.assert_close(program._transform_do_not_use(_ExportPassBaseDeprecatedDoNotUse()).module()(X), X.sin() + 1)
    assert torch.ops.higher_order.wrap_with_set_grad_enabled in [n.target for n in program.graph.nodes]
    with pytest.raises(TypeError, match="must be bool, not int"):
        torch._C._set_grad_enabled(1)


class Chain(torch.nn.Module):
    """Two results of calls one after another."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> Any:
        """Some arithmetic."""
        d = (x + 1).sin() + y * 2
        return d, d - 1


def test_graphs_are_split_at_nodes_and_put_together_again() -> None:
    """Stretches begin where it is said."""
    traced = torch.fx.symbolic_trace(Chain())
    calls = utils.nodes_filter(traced.graph.nodes, lambda n: n.op.startswith("call"))
    assert [n.name for n in calls] == ["add", "sin", "mul", "add_1", "sub"]
    assert utils.nodes_first(calls) is calls[0] and utils.nodes_first(calls, lambda n: n.name == "zero") is None
    split = utils.sequential_split(traced, lambda n: n.name in ("sin", "sub"))
    assert [n.name for n in split.graph.nodes if n.op == "call_module"] == ["submod_0", "submod_1", "submod_2"]
    assert [n.name for n in split.submod_1.graph.nodes if n.op.startswith("call")] == ["sin", "mul", "add_1"]
    given = torch.rand(3), torch.rand(3)
    torch.testing.assert_close(split(*given), traced(*given))
    utils.nodes_map(list(split.graph.nodes), lambda n: utils.node_inline_(n) if n.op == "call_module" else n)
    assert split.code == traced.code and not list(split.named_children()) and utils.nodes_count(split.graph.nodes, bool) == 8
    torch.testing.assert_close(split(*given), traced(*given))
    with pytest.raises(AssertionError, match="a call of a module was expected"):
        utils.node_inline_(calls[0])


def test_hooks_hear_of_names() -> None:
    """Of each node that uses a node that is called otherwise, before it is."""
    traced = torch.fx.symbolic_trace(Chain())
    heard = []
    with traced._set_replace_hook(lambda old, new, user: heard.append((old.name, new, user.name))):
        for node in traced.graph.nodes:
            if node.op.startswith("call"):
                node.name += "_m"
    assert heard == [
        ("add", "add_m", "sin"),
        ("sin", "sin_m", "add_1"),
        ("mul", "mul_m", "add_1"),
        ("add_1", "add_1_m", "sub"),
        ("add_1", "add_1_m", "output"),
        ("sub", "sub_m", "output"),
    ]
    program = export(Chain(), (X, X))
    module = program.graph_module
    with module._set_replace_hook(program.graph_signature.get_replace_hook()):
        module.graph.output_node().args[0][0].name = "renamed"
    assert program.graph_signature.user_outputs[0] == "renamed"
