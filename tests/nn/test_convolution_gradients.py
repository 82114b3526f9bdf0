"""torch.nn.grad: gradients of convolutions as functions."""

from __future__ import annotations

import pytest

import flambeau as torch
from flambeau.nn import functional as F
from flambeau.nn import grad as gradients


@pytest.mark.parametrize("dims", [1, 2, 3])
@pytest.mark.parametrize("options", [{}, {"stride": 2, "padding": 1}, {"dilation": 2}, {"groups": 2}])
def test_they_are_what_the_backward_pass_computes(dims: int, options: dict) -> None:
    torch.manual_seed(0)
    x = torch.randn(2, 4, *(7,) * dims, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(6, 4 // options.get("groups", 1), *(3,) * dims, dtype=torch.float64, requires_grad=True)
    made = getattr(F, f"conv{dims}d")(x, weight, **options)
    upstream = torch.randn_like(made, requires_grad=True)
    expected = torch.autograd.grad(made, (x, weight), upstream)
    of_input = getattr(gradients, f"conv{dims}d_input")(x.shape, weight, upstream, **options)
    of_weight = getattr(gradients, f"conv{dims}d_weight")(x, weight.shape, upstream, **options)
    torch.testing.assert_close((of_input, of_weight), expected)
    of_input.sum().backward()
    assert upstream.grad is not None and weight.grad is not None


def test_shapes_that_do_not_fit_are_refused() -> None:
    x, weight, upstream = torch.ones(2, 4, 7, 7), torch.ones(6, 4, 3, 3), torch.ones(2, 6, 5, 5)
    with pytest.raises(RuntimeError):
        gradients.conv2d_input((2, 4, 8, 8), weight, upstream)
    with pytest.raises(RuntimeError, match=r"to have 4 channels, but got 3 channels instead"):
        gradients.conv2d_input((2, 3, 7, 7), weight, upstream)
    with pytest.raises(RuntimeError):
        gradients.conv2d_weight(x, (5, 4, 3, 3), upstream)
    with pytest.raises(TypeError):
        gradients.conv2d_input(None, weight, upstream)
    assert F.grad is gradients
