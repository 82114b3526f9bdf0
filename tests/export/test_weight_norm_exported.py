"""nn.utils' weight norms in exported programs, traces and decompositions."""

from __future__ import annotations

import pytest

import flambeau as torch
from flambeau.export import Dim, export


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("dim", [0, 1, 2, None])
def test_weight_norm_is_an_operator(dim):
    torch.manual_seed(0)
    model = torch.nn.utils.parametrizations.weight_norm(torch.nn.Conv1d(4, 6, 3), dim=dim)
    x, other = torch.randn(2, 4, 9), torch.randn(3, 4, 12)
    program = export(model, (x,), dynamic_shapes=({0: Dim.AUTO, 2: Dim.AUTO},))
    names = [str(n.target) for n in program.graph.nodes if n.op == "call_function"]
    assert names == ["aten._weight_norm.default", "aten.conv1d.default"]
    core = program.run_decompositions()
    names = [str(n.target) for n in core.graph.nodes if n.op == "call_function"]
    assert names == ["aten.linalg_vector_norm.default", "aten.div.Tensor", "aten.mul.Tensor", "aten.convolution.default"]
    traced = torch.jit.trace(model, (x,))
    for run in (program.module(), core.module(), traced):
        torch.testing.assert_close(run(other), model(other))


def test_norm_except_dim_by_its_name():
    v = torch.arange(24.0).reshape(2, 3, 4)
    assert torch.equal(torch.ops.aten.norm_except_dim(v, 2, 1), v.square().sum((0, 2), keepdim=True).sqrt())
    assert torch.ops.aten.norm_except_dim(v, 2, -1).shape == ()
    g = torch.tensor([1.0, 2.0]).reshape(2, 1, 1)
    assert torch.equal(torch.norm_except_dim(torch._weight_norm(v, g), 2, 0).round(decimals=5), g)
