"""Graphs of operators below autograd, recorded by make_fx; expected texts are PyTorch's."""

import pytest

import flambeau as torch
import flambeau.nn.functional as F
from flambeau import nn
from flambeau.fx.experimental.proxy_tensor import decompose, get_proxy_mode, make_fx

aten = torch.ops.aten


def lines(function, *args, **options) -> list[str]:
    return [line.strip() for line in make_fx(function, **options)(*args).code.strip().splitlines()[1:]]


def test_operators_of_a_function() -> None:
    def function(x, y):
        return {"a": x @ y.t(), "b": [x.sum(0), (y,)]}

    x, y = torch.randn(2, 3), torch.randn(2, 3)
    traced = make_fx(function)(x, y)
    assert traced.code == (
        "\n\n\ndef forward(self, x_1, y_1):\n"
        "    t = torch.ops.aten.t.default(y_1)\n"
        "    mm = torch.ops.aten.mm.default(x_1, t);  t = None\n"
        "    sum_1 = torch.ops.aten.sum.dim_IntList(x_1, [0]);  x_1 = None\n"
        "    return {'a': mm, 'b': [sum_1, (y_1,)]}\n    "
    )
    given, own = traced(x * 2, y), function(x * 2, y)
    assert torch.equal(given["a"], own["a"]) and torch.equal(given["b"][0], own["b"][0])
    (node,) = traced.graph.find_nodes(op="call_function", target=aten.mm.default)
    assert node.meta["val"].shape == (2, 2) and node.meta["tensor_meta"].stride == (2, 1)


def test_results_of_several_tensors_and_writes() -> None:
    x = torch.randn(2, 3)
    assert lines(lambda x: F.softmax(x, -1).max(1), x) == [
        "_softmax = torch.ops.aten._softmax.default(x_1, -1, False);  x_1 = None",
        "max_1 = torch.ops.aten.max.dim(_softmax, 1);  _softmax = None",
        "getitem = max_1[0]",
        "getitem_1 = max_1[1];  max_1 = None",
        "return (getitem, getitem_1)",
    ]
    assert lines(lambda x: x.relu_().add_(1), x.clone()) == [
        "relu_ = torch.ops.aten.relu_.default(x_1);  x_1 = None",
        "add_ = torch.ops.aten.add_.Tensor(relu_, 1);  relu_ = None",
        "return add_",
    ]

    def fills(x):
        y = torch.zeros(3)
        y[0] = x.sum()
        return y

    assert lines(fills, x) == [
        "zeros = torch.ops.aten.zeros.default([3], device = device(type='cpu'), pin_memory = False)",
        "sum_1 = torch.ops.aten.sum.default(x_1);  x_1 = None",
        "select = torch.ops.aten.select.int(zeros, 0, 0)",
        "copy_ = torch.ops.aten.copy_.default(select, sum_1);  select = sum_1 = copy_ = None",
        "return zeros",
    ]


def test_parameters_and_tensors_from_outside_are_attributes() -> None:
    net, x = nn.Linear(3, 4), torch.randn(2, 3)
    traced = make_fx(lambda x: F.relu(net(x)))(x)
    assert [n.name for n in traced.graph.nodes] == [
        "x_1", "_param_constant0", "t", "_param_constant1", "addmm", "relu", "detach", "output",
    ]  # fmt: skip
    assert traced._param_constant0 is net.weight and torch.equal(traced(x * 3), F.relu(net(x * 3)))
    assert lines(lambda x: x + torch.tensor(2.0), x)[:2] == [
        "_tensor_constant0 = self._tensor_constant0",
        "lift_fresh_copy = torch.ops.aten.lift_fresh_copy.default(_tensor_constant0);  _tensor_constant0 = None",
    ]
    assert make_fx(net)(x).code.strip().startswith("def forward(self, arg0_1):")


def test_gradients_are_recorded() -> None:
    def gradient(x):
        x = x.detach().requires_grad_()
        return torch.autograd.grad((x * x).sum(), x)[0]

    x = torch.randn(2, 3)
    traced = make_fx(gradient)(x)
    assert (
        "ones_like = torch.ops.aten.ones_like.default(sum_1, pin_memory = False, memory_format = torch.preserve_format)"
        in traced.code
    )
    assert "_tensor_constant" not in traced.code and torch.equal(traced(x + 1), 2 * (x + 1))


def test_decompositions() -> None:
    x, table = torch.randn(2, 3), {aten._softmax.default: lambda x, dim, half: x.exp() / x.exp().sum(dim, keepdim=True)}
    expected = ["exp", "exp_1", "sum_1", "div"]
    names = [n.name for n in make_fx(lambda x: F.softmax(x, 1), decomposition_table=table)(x).graph.nodes]
    assert names[1:-1] == expected
    with decompose(table):
        assert [n.name for n in make_fx(lambda x: F.softmax(x, 1))(x).graph.nodes][1:-1] == expected
    assert get_proxy_mode() is None


def test_containers_and_tensors_without_values() -> None:
    traced = make_fx(lambda d: d["a"] * 2, tracing_mode="fake")({"a": torch.randn(3)})
    assert "d_1, = fx_pytree.tree_flatten_spec([d], self._in_spec)" in traced.code
    assert torch.equal(traced({"a": torch.ones(3)}), torch.full((3,), 2.0))


@pytest.mark.parametrize("read", [lambda x: x.sum().item() * x, lambda x: x if x.sum() > 0 else -x])
def test_numbers_that_depend_on_inputs_are_refused(read) -> None:
    with pytest.raises(RuntimeError, match=r"get value out of a tracing tensor with aten\._local_scalar_dense\.default"):
        make_fx(read)(torch.ones(2))


def test_modes_that_are_refused() -> None:
    with pytest.raises(AssertionError, match="tracing_mode must be real/fake/symbolic, got nope"):
        make_fx(torch.sin, tracing_mode="nope")
    with pytest.raises(NotImplementedError, match="trace below autograd"):
        make_fx(torch.sin, pre_dispatch=True)


def test_several_results_that_are_written_to():
    def f(x):
        low, high = torch.empty(4), torch.empty(4)
        torch.aminmax(x, dim=0, out=(high, low))
        return high

    graph = make_fx(f)(torch.arange(8.0).reshape(2, 4))
    assert torch.ops.aten.aminmax.out in [n.target for n in graph.graph.nodes]
    assert graph(torch.arange(8.0).reshape(2, 4)).tolist() == [0, 1, 2, 3]


def test_copy_has_the_geometry_of_the_first_argument():
    copy = torch.ops.aten.copy.default
    for shape, stride, made in (((2, 2), (5, 1), (5, 1)), ((2, 2), (1, 2), (1, 2)), ((2, 2), (0, 1), (2, 1))):
        x = torch.empty_strided(shape, stride)
        assert copy(x, torch.ones(2, 2)).stride() == made
    assert copy(torch.zeros(2, dtype=torch.int32), torch.ones(1)).dtype is torch.int32
