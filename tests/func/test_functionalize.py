"""functionalize: the results of a function that writes in place, and its arguments after it."""

import pytest

import flambeau as torch
from flambeau.func import functionalize, grad, jvp, vmap
from flambeau.fx.experimental.proxy_tensor import make_fx

X = torch.arange(6.0).reshape(2, 3)


def through_a_view(x):
    y = x + 1
    y.view(-1).add_(1)
    return y


def into_the_argument(x):
    x.view(-1)[0] = 5.0
    return x * x


@pytest.mark.parametrize("remove", ["mutations", "mutations_and_views"])
def test_results_and_arguments(remove):
    assert functionalize(through_a_view, remove=remove)(X).tolist() == (X + 2).tolist()
    x = X.clone()
    assert functionalize(into_the_argument, remove=remove)(x)[0].tolist() == [25.0, 1.0, 4.0]
    assert x[0].tolist() == [5.0, 1.0, 2.0]
    assert functionalize(lambda d, n=1: {"a": [d["x"] * n]}, remove=remove)({"x": X}, n=3)["a"][0].tolist() == (X * 3).tolist()
    assert functionalize(through_a_view, remove=remove).__name__ == "through_a_view"


def test_with_other_transforms():
    double = functionalize(through_a_view)
    assert vmap(double)(X).tolist() == functionalize(vmap(through_a_view))(X).tolist() == (X + 2).tolist()
    assert grad(lambda x: (double(x) ** 2).sum())(X).tolist() == (2 * (X + 2)).tolist()
    assert functionalize(grad(lambda x: through_a_view(x).sum()))(X).tolist() == torch.ones(2, 3).tolist()
    assert jvp(double, (X,), (X,))[1].tolist() == X.tolist()
    x = X.clone()
    assert vmap(functionalize(into_the_argument))(x)[:, 0].tolist() == [25.0, 25.0]
    assert x[:, 0].tolist() == [5.0, 5.0]


def calls(function, x, remove="mutations"):
    """The operators that a tracer sees; texts are PyTorch's."""
    code = make_fx(functionalize(function, remove=remove))(x).code.strip().split("\n")[1:]
    return [line.strip().partition(";  ")[0].replace("torch.ops.aten.", "") for line in code]


def into_a_row(x):
    y = x.clone().view(-1)
    y[0].fill_(5)
    return y


def through_unbind(x):
    a, b = x.unbind(0)
    a.mul_(2)
    return a + b


def into_out(x):
    out = torch.empty(2, 2)
    torch.add(x, x, out=out)
    return out.relu_()


def test_a_tracer_sees_no_writes():
    x = torch.arange(4.0).view(2, 2)
    assert calls(into_a_row, x) == [
        "clone = clone.default(x_1)",
        "view = view.default(clone, [-1])",
        "select = select.int(view, 0, 0)",
        "fill = fill.Scalar(select, 5)",
        "view_1 = view.default(clone, [-1])",
        "select_scatter = select_scatter.default(view_1, fill, 0, 0)",
        "view_2 = view.default(select_scatter, [2, 2])",
        "view_3 = view.default(view_2, [-1])",
        "select_1 = select.int(view_3, 0, 0)",
        "view_4 = view.default(view_2, [-1])",
        "return view_4",
    ]
    assert calls(through_unbind, x, "mutations_and_views") == [
        "unbind_copy = unbind_copy.int(x_1)",
        "getitem = unbind_copy[0]",
        "getitem_1 = unbind_copy[1]",
        "mul = mul.Tensor(getitem, 2)",
        "select_scatter = select_scatter.default(x_1, mul, 0, 0)",
        "unbind_copy_1 = unbind_copy.int(select_scatter)",
        "getitem_2 = unbind_copy_1[0]",
        "getitem_3 = unbind_copy_1[1]",
        "unbind_copy_2 = unbind_copy.int(select_scatter)",
        "getitem_4 = unbind_copy_2[0]",
        "getitem_5 = unbind_copy_2[1]",
        "add = add.Tensor(getitem_2, getitem_5)",
        "copy_ = copy_.default(x_1, select_scatter)",
        "return add",
    ]
    assert calls(into_out, x) == [
        "empty = empty.memory_format([2, 2], device = device(type='cpu'), pin_memory = False)",
        "add = add.Tensor(x_1, x_1)",
        "relu = relu.default(add)",
        "return relu",
    ]


@pytest.mark.parametrize("function", [into_a_row, through_unbind, into_out, into_the_argument])
@pytest.mark.parametrize("remove", ["mutations", "mutations_and_views"])
def test_the_graph_computes_and_writes_the_same(function, remove):
    expected, given = torch.arange(1.0, 5.0).view(2, 2), torch.arange(1.0, 5.0).view(2, 2)
    graph = make_fx(functionalize(function, remove=remove))(given.clone())
    assert torch.equal(graph(given), function(expected)) and torch.equal(given, expected)


def test_gradients_pass_through_while_somebody_looks():
    def double(x):
        y = x * 2
        y.mul_(3)
        return y

    graph = make_fx(grad(lambda x: functionalize(double)(x).sum()))(torch.ones(2))
    assert graph(torch.ones(2)).tolist() == [6.0, 6.0]
