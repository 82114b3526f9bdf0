"""torch.vmap and torch.func in exported programs and in graphs of make_fx: what their rules call is recorded."""

from __future__ import annotations

import pytest

import flambeau as torch
import flambeau.nn.functional as F
from flambeau import nn
from flambeau._dynamo.exc import UserError
from flambeau.export import Dim, export
from flambeau.fx.experimental.proxy_tensor import make_fx


class Called(nn.Module):
    def __init__(self, function) -> None:
        super().__init__()
        self.function = function

    def forward(self, *x):
        return self.function(*x)


def products(x, y):
    return torch.vmap(lambda a, b: (a * b).sum() + a.sin())(x, y)


def masked(x):
    def allowed(b, q, k):
        return (k <= q) & (b >= 0)

    of_keys = torch.vmap(allowed, (None, None, 0))
    each = torch.vmap(torch.vmap(of_keys, (None, 0, None)), (0, None, None))
    places = torch.arange(x.shape[1])
    heads = x[:, None]
    return F.scaled_dot_product_attention(heads, heads, heads, each(torch.arange(x.shape[0]), places, places)[:, None])


WEIGHTS = torch.rand(3, 5)
PROGRAMS = {
    "elements": (products, (4, 3), (4, 3)),
    "a product with what is outside": (lambda x: torch.vmap(lambda a: a @ WEIGHTS, in_dims=1, out_dims=1)(x), (4, 6, 3)),
    "nested": (lambda x, y: torch.vmap(torch.vmap(torch.dot, (None, 0)), (0, None))(x, y), (4, 3), (5, 3)),
    "a mask of indices": (masked, (2, 4, 3)),
    "a derivative along a tangent": (lambda x, t: torch.func.jvp(lambda a: a.sin() * a.sum(), (x,), (t,)), (4,), (4,)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_transforms_are_recorded(name):
    function, *shapes = PROGRAMS[name]
    model = Called(function)
    program = export(model, tuple(torch.rand(*s) for s in shapes))
    for run in (program.module(), program.run_decompositions().module()):
        given = [torch.rand(*s) for s in shapes]
        torch.testing.assert_close(run(*given), model(*given))
    assert all(node.users for node in program.graph.find_nodes(op="placeholder"))


def test_sizes_that_a_rule_knows_as_numbers_are_guarded():
    inputs = torch.rand(4, 3), torch.rand(4, 3)
    program = export(Called(products), inputs, dynamic_shapes=(({0: Dim.AUTO}, {0: Dim.AUTO}),))
    with pytest.raises(AssertionError, match=r"Guard failed: x_0.size\(\)\[0\] == 4"):
        program.module()(torch.rand(6, 3), torch.rand(6, 3))
    with pytest.raises(UserError, match="n"):
        export(Called(products), inputs, dynamic_shapes=(({0: Dim("n")}, {0: Dim("n")}),))
    made = make_fx(products, tracing_mode="symbolic")(*inputs)
    assert [str(s.expr) for s in made.shape_env.guards] or all(
        isinstance(n, int) for node in made.graph.find_nodes(op="placeholder") for n in node.meta["val"].shape
    )
