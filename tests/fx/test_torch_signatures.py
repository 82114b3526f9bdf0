"""Signatures of functions by the schemas of PyTorch's operators, and calls bound to them."""

from __future__ import annotations

from typing import List, Optional  # noqa: UP035

import pytest

import flambeau as torch
from flambeau.fx import PH, symbolic_trace
from flambeau.fx.operator_schemas import get_signature_for_torch_op, normalize_function

T = torch.Tensor


def test_a_signature_for_each_overload() -> None:
    shown = [str(each).replace("flambeau.", "torch.") for each in get_signature_for_torch_op(torch.add)[:2]]
    assert shown[0] == "(input: torch.Tensor, other: torch.Tensor, *, alpha: numbers.Number = 1) -> torch.Tensor"
    assert "other: numbers.Number, alpha: numbers.Number = 1)" in shown[1]
    assert str(get_signature_for_torch_op(torch.conv2d)[1]).count("str = 'valid'") == 1
    (only,) = get_signature_for_torch_op(torch.ops.aten.max.dim)
    assert list(only.parameters) == ["input", "dim", "keepdim"] and only.return_annotation == (T, T)
    assert list(get_signature_for_torch_op(torch.ops.aten.random_)[0].parameters) == ["input", "from", "to", "generator"]
    assert get_signature_for_torch_op(torch.nn.functional.relu) is None
    signatures, schemas = get_signature_for_torch_op(torch.tan, return_schemas=True)
    assert len(signatures) == len(schemas) == 6 and schemas[0].name == "aten::tan"


def test_types_choose_among_overloads() -> None:
    x = torch.ones(2)
    with pytest.raises(RuntimeError, match="schema match was ambiguous"):
        normalize_function(torch.add, (x, x))
    bound = normalize_function(torch.add, (x, 2), {}, (T, int), normalize_to_only_use_kwargs=True)
    assert bound.args == () and bound.kwargs["other"] == 2 and bound.kwargs["alpha"] == 1
    given = normalize_function(torch.conv2d, (x, x), {"padding": "same"}, (T, T), {"padding": str})
    assert given.kwargs == {"bias": None, "stride": [1, 1], "padding": "same", "dilation": [1, 1], "groups": 1}
    assert normalize_function(torch.ops.aten.add.Tensor, (x, 2)).kwargs == {"alpha": 1}
    assert normalize_function(torch.zeros, (2, 3)) is None  # no overload takes two integers


def test_functions_of_python_are_bound_to_their_own_signature() -> None:
    def own(a, b=2):
        return a

    assert normalize_function(own, (1,)).kwargs == {"b": 2}
    assert normalize_function(len, ([],)) is None


def test_concrete_arguments_of_variable_arguments() -> None:
    class Sum(torch.nn.Module):
        def forward(self, *args, **kwargs):
            return args[0] + args[1]

    traced = symbolic_trace(Sum(), concrete_args=(PH, PH))
    assert [node.name for node in traced.graph.find_nodes(op="placeholder")] == ["input_0", "input_1"]
    assert traced(torch.ones(1), torch.ones(1)).item() == 2


def test_what_writes_to_its_arguments_stays() -> None:
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    graph.call_function(torch.ops.aten.add_.Tensor, (x, 1))
    graph.call_function(torch.ops.aten.add.Tensor, (x, 1))
    graph.output(x)
    graph.eliminate_dead_code()
    assert [node.target for node in graph.find_nodes(op="call_function", target=torch.ops.aten.add_.Tensor)] != []
    assert not list(graph.find_nodes(op="call_function", target=torch.ops.aten.add.Tensor))


def test_types_of_schemas_and_of_torchscript_as_python_has_them():
    from flambeau.fx.operator_schemas import _torchscript_type_to_python_type as python_type

    kinds = {a.name: a.type for a in torch.ops.aten.sum.dim_IntList._schema.arguments}
    assert python_type(kinds["self"]) is torch.Tensor and python_type(kinds["keepdim"]) is bool
    assert python_type(kinds["dim"]) == Optional[List[int]]  # noqa: UP006, UP045
    inferred = torch._C._jit_try_infer_type([1.0, 2.0])
    assert inferred.success() and python_type(inferred.type()) == List[float]  # noqa: UP006
