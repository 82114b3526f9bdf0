"""The names of steps that programs read off the graph: overloads have numbers, several steps that are one the name of it."""

import pytest

import flambeau as torch

F = torch.nn.functional


def made() -> torch.Tensor:
    return torch.tensor([[1.0, 2.0, 3.0], [2.0, 3.0, 1.0], [3.0, 1.0, 2.0]], requires_grad=True) * 1


@pytest.mark.parametrize(
    "name, call",
    [
        ("FillBackward2", lambda x: x.fill_(0)),
        ("FillBackward3", lambda x: x.fill_(torch.tensor(2.0))),
        ("FillBackward0", lambda x: torch.fill(x, 0)),
        ("FillBackward1", lambda x: torch.fill(x, torch.tensor(2.0))),
        ("ZeroBackward0", lambda x: x.zero_()),
        ("UniformBackward0", lambda x: x.uniform_()),
        ("NormalBackward0", lambda x: x.normal_()),
        ("BernoulliBackward2", lambda x: x.bernoulli_(0.5)),
        ("BernoulliBackward1", lambda x: x.bernoulli_(torch.ones(3, 3))),
        ("RandomBackward0", lambda x: x.random_(0, 5)),
        ("RandomBackward1", lambda x: x.random_(5)),
        ("RandomBackward2", lambda x: x.random_()),
        ("ExponentialBackward0", lambda x: x.exponential_()),
        ("GeometricBackward0", lambda x: x.geometric_(0.5)),
        ("RreluWithNoiseBackward0", F.rrelu),
        ("RreluWithNoiseBackward1", lambda x: F.rrelu_(x)),
        ("CopysignBackward0", lambda x: torch.copysign(x, x)),
        ("CopysignBackward1", lambda x: torch.copysign(x, 2)),
        ("SqueezeBackward4", lambda x: torch.quantile(x, 0.5)),
        ("SqueezeBackward4", lambda x: x[0] @ x),
        ("SqueezeBackward4", lambda x: torch.quantile(x, torch.tensor([0.5, 0.2]), dim=1)),
        ("MulBackward1", torch.trapezoid),
        ("DivBackward1", lambda x: torch.trapezoid(x, torch.arange(3))),
        ("CumsumBackward0", torch.cumulative_trapezoid),
        ("UnsafeViewBackward0", lambda x: torch.kron(x, x)),
        ("ViewBackward0", lambda x: torch.inner(x[0], x[0])),
        ("ViewBackward0", lambda x: torch.linalg.multi_dot([x, x[0]])),
        ("DiagonalBackward0_copy", torch.diag),
        ("Im2ColBackward0", lambda x: F.unfold(x[None], 2)),
        ("AddBackward0", lambda x: F.hinge_embedding_loss(x, x, reduction="none")),
        ("SubBackward0", lambda x: F.poisson_nll_loss(x, x, reduction="none")),
        ("AddBackward0", lambda x: F.gaussian_nll_loss(x, x, x.detach(), full=True, reduction="none")),
        ("MulBackward0", lambda x: F.gaussian_nll_loss(x, x, x.detach(), reduction="none")),
        ("DivBackward0", lambda x: F.multilabel_soft_margin_loss(x, x, reduction="none")),
        ("LinalgInvExBackward0", lambda x: torch.linalg.matrix_power(x, -1)),
        ("CopyBackwards", lambda x: torch.linalg.matrix_power(x, 0)),
        ("MmBackward0", lambda x: torch.linalg.matrix_power(x, 2)),
        ("MmBackward0", lambda x: F.scaled_dot_product_attention(x, x, x)),
    ],
)
def test_names_of_steps(name, call):
    assert type(call(made()).grad_fn).__name__ == name


def test_what_is_overwritten_gets_no_gradient():
    for write in (lambda x: x.fill_(0), lambda x: x.zero_(), lambda x: x.random_(5)):
        x = torch.ones(3, requires_grad=True)
        write(x * 1).sum().backward()
        assert x.grad.tolist() == [0, 0, 0]
    value = torch.tensor(2.0, requires_grad=True)
    torch.ones(3).fill_(value).sum().backward()
    assert value.grad.item() == 3


def test_still_rrelu_has_the_gradient_of_its_mean_slope():
    x = torch.tensor([-1.0, 0.0, 2.0], dtype=torch.float64, requires_grad=True)
    F.rrelu(x, 0.1, 0.3).sum().backward()
    assert torch.allclose(x.grad, torch.tensor([0.2, 0.2, 1.0], dtype=torch.float64))


def test_trapezoids_and_quantiles_of_one_row():
    x = made()
    assert torch.cumulative_trapezoid(x, dx=2).tolist() == [[3, 8], [5, 9], [4, 7]]
    kept = torch.quantile(x, torch.tensor([0.5]), dim=0, keepdim=True)
    assert kept.shape == (1, 1, 3) and kept.tolist() == [[[2, 2, 2]]]
    assert torch.quantile(x, 0.5, keepdim=True).shape == (1, 1)


@pytest.mark.parametrize(
    ("apply", "step"),
    [
        (torch.neg, "NegBackward0"),
        (lambda x: 1 - x, "NegBackward0"),
        (torch.nan_to_num, "MulBackward0"),
        (lambda x: torch.where(x > 0, x, 1.0), "WhereBackward0"),
        (lambda x: x.clamp(0, 2), "WhereBackward0"),
        (lambda x: x.select(0, 1), "SelectBackwardBackward0"),
        (lambda x: x[1:], "SliceBackwardBackward0"),
        (lambda x: x.diagonal(), "DiagonalBackwardBackward0"),
        (torch.max, "MaskedFillBackward1"),
        (torch.nanmedian, "MaskedFillBackward1"),
    ],
)
def test_steps_of_recorded_gradients(apply, step):
    x = torch.arange(1.0, 17).reshape(4, 4).requires_grad_()
    (gradient,) = torch.autograd.grad(apply(x).pow(2).sum(), x, create_graph=True)
    assert type(gradient.grad_fn).__name__ == step


@pytest.mark.parametrize(
    ("pool", "step"),
    [
        (F.adaptive_max_pool2d, "AdaptiveMaxPool2DBackwardBackward0"),
        (F.max_pool3d, "MaxPool3DWithIndicesBackwardBackward0"),
        (F.adaptive_max_pool3d, "AdaptiveMaxPool3DBackwardBackward0"),
    ],
)
def test_steps_of_recorded_gradients_of_pooling(pool, step):
    x = torch.rand(1, 2, 4, 4, requires_grad=True)
    (gradient,) = torch.autograd.grad(pool(x, 2).pow(2).sum(), x, create_graph=True)
    assert type(gradient.grad_fn).__name__ == step


def test_views_written_to_unrecorded_start_anew_at_their_base():
    x = torch.ones(4, requires_grad=True)
    view = (x * 1).view(2, 2)
    assert type(view.logical_xor_(torch.ones(2)).grad_fn).__name__ == "AsStridedBackward0"
    view.sum().backward()
    assert x.grad.tolist() == [1, 1, 1, 1]
