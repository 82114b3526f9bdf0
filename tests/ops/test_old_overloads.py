"""Deprecated overloads, whose factors stand among the tensors: values, gradients, in place. Under PyTorch as well."""

import warnings

import pytest
from implementation import torch

X = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
Y, V, B = X * 2, torch.tensor([1.0, 2.0]), X[None]


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (lambda: torch.add(X, 2, Y), lambda: X + 2 * Y),
        (lambda: X.add(0.5, Y), lambda: X + 0.5 * Y),
        (lambda: X.clone().add_(torch.tensor(2.0), Y), lambda: X + 2 * Y),
        (lambda: torch.add(X, 2, Y, out=torch.empty(0)), lambda: X + 2 * Y),
        (lambda: X.clone().sub_(2, 3), lambda: X - 6),
        (lambda: X.addcmul(2, X, Y), lambda: X + 2 * X * Y),
        (lambda: X.clone().addcdiv_(-2, X, Y), lambda: X - 2 * X / Y),
        (lambda: torch.addmm(2, X, 3, X, Y), lambda: 2 * X + 3 * X @ Y),
        (lambda: X.addmm(2, X, Y), lambda: 2 * X + X @ Y),
        (lambda: X.clone().addmm_(2, 3, X, Y), lambda: 2 * X + 3 * X @ Y),
        (lambda: V.addmv(2, X, V), lambda: 2 * V + X @ V),
        (lambda: X.clone().addr_(2, 3, V, V), lambda: 2 * X + 3 * V.outer(V)),
        (lambda: torch.addbmm(2, X, 3, B, B), lambda: 2 * X + 3 * X @ X),
        (lambda: B.clone().baddbmm_(2, B, B), lambda: 2 * B + B @ B),
    ],
)
def test_values(old, new):
    assert torch.equal(old(), new())


def test_gradient_and_write():
    x, y = X.clone().requires_grad_(), Y.clone().requires_grad_()
    torch.add(x, 3, y).sum().backward()
    assert y.grad.tolist() == [[3, 3], [3, 3]]
    moved = X.clone()
    assert moved.mul_(0.5).add_(2, Y) is moved
    assert moved.tolist() == (X * 0.5 + 2 * Y).tolist()


@pytest.mark.parametrize(
    "call",
    [
        lambda: X.add(2, Y, alpha=3),
        lambda: X.mul(2, Y),
        lambda: X.add(Y, Y, Y),
        lambda: X.addmm(2, 3, 4, X, Y),
        lambda: X.clone().addcdiv_(1, 2, X, Y),
    ],
)
def test_other_surplus_arguments_are_refused(call):
    with pytest.raises(TypeError):
        call()
