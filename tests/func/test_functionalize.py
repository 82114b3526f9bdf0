"""functionalize: the results of a function that writes in place, and its arguments after it."""

import pytest

import flambeau as torch
from flambeau.func import functionalize, grad, jvp, vmap

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
