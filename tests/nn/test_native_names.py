"""torch._C._nn: losses with their reduction as a number, and sizes for upsampling. Values were recorded from PyTorch."""

import pytest

import flambeau as torch
from flambeau import _C

X, Y = torch.tensor([0.2, 0.7]), torch.tensor([0.0, 1.0])


@pytest.mark.parametrize(("name", "expected"), [
    ("mse_loss", [0.04, 0.09]), ("l1_loss", [0.2, 0.3]), ("smooth_l1_loss", [0.02, 0.045]), ("huber_loss", [0.02, 0.045]),
    ("soft_margin_loss", [0.6931, 0.4032])])
def test_losses(name, expected):
    loss, expected = getattr(_C._nn, name), torch.tensor(expected)
    for made, wanted in ((loss(X, Y), expected), (loss(X, Y, 1), expected.mean()), (loss(X, Y, 2), expected.sum())):
        torch.testing.assert_close(made, wanted, atol=1e-4, rtol=0)


def test_losses_of_the_namespace():
    torch.testing.assert_close(torch.hinge_embedding_loss(X, 2 * Y - 1), torch.tensor([0.8, 0.7]))
    torch.testing.assert_close(torch.kl_div(X, torch.ones(2), 2), torch.tensor(-0.9))
    torch.testing.assert_close(_C._nn.binary_cross_entropy(X, Y, None, 2), torch.tensor(0.5798), atol=1e-4, rtol=0)


def test_upsampling():
    x = torch.arange(4.0).reshape(1, 1, 2, 2)
    assert _C._nn.upsample_nearest2d(x, (4, 4))[0, 0, 0].tolist() == [0, 0, 1, 1]
    assert _C._nn.upsample_nearest2d(x, None, (2.0, 2.0)).shape == (1, 1, 4, 4)
    assert _C._nn.upsample_nearest1d(x[0], [4], out=torch.empty(0)).shape == (1, 2, 4)
