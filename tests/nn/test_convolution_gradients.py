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


def test_kinds_of_convolutions_by_their_arguments():
    kinds = torch._C._ConvBackend
    for n, transposed, dilation, kind in (
        (1, False, 1, "Slow2d"), (1, False, 2, "SlowDilated2d"), (1, True, 2, "SlowTranspose2d"), (2, False, 1, "Slow2d"),
        (3, False, 1, "Slow3d"), (3, False, 2, "SlowDilated3d"), (3, True, 1, "SlowTranspose3d"),
    ):  # fmt: skip
        weight = torch.ones(4, 4, *[3] * n)
        arguments = (weight, None, [1] * n, [0] * n, [dilation] * n, transposed, [0] * n, 1)
        assert torch._C._select_conv_backend(torch.ones(2, 4, *[7] * n), *arguments) is kinds[kind]
        assert torch._C._select_conv_backend(torch.ones(0, 4, *[7] * n), *arguments) == kinds.Empty
    with pytest.raises(RuntimeError, match="Expected 3-dimensional input for 3-dimensional weight"):
        torch._C._select_conv_backend(torch.ones(4, 7), torch.ones(4, 4, 3), None, [1], [0], [1], False, [0], 1)
    assert (str(kinds.Slow2d), int(kinds.MkldnnEmpty)) == ("_ConvBackend.Slow2d", 10)
    with pytest.raises(NotImplementedError, match="use strided tensors"):
        torch.zeros(2, layout=torch._mkldnn)


@pytest.mark.parametrize("groups", [1, 4])
@pytest.mark.parametrize("stride", [1, 2])
def test_weights_of_no_images_of_one_pixel_have_a_gradient(groups, stride):
    x, weight = torch.zeros(0, 4, 1, 1), torch.ones(4, 4 // groups, 1, 1, requires_grad=True)
    torch.nn.functional.conv2d(x, weight, None, stride, groups=groups).sum().backward()
    assert weight.grad.shape == weight.shape and not weight.grad.any()


@pytest.mark.parametrize("groups", [1, 4])
def test_the_gradient_of_no_images_may_have_any_strides(groups):
    x, weight = torch.zeros(0, 4, 5, 5), torch.ones(4, 4 // groups, 2, 2, requires_grad=True)
    y = torch.nn.functional.conv2d(x, weight, None, groups=groups)
    y.backward(torch.zeros(0, 4, 8, 9)[:, :, ::2, 1:8:2])
    assert weight.grad.shape == weight.shape and not weight.grad.any()
