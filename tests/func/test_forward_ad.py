"""autograd.forward_ad, and what of autograd stands on the transforms."""

from __future__ import annotations

import pytest

import flambeau as torch
from flambeau import nn
from flambeau.autograd import forward_ad, gradcheck, gradgradcheck
from flambeau.autograd.functional import hessian, jacobian, jvp

close = torch.testing.assert_close
torch.manual_seed(0)
X = torch.randn(3, dtype=torch.float64)


def test_dual_tensors():
    with forward_ad.dual_level() as level:
        assert level == 0
        dual = forward_ad.make_dual(X, 3 * X)
        made = forward_ad.unpack_dual(dual * dual.sin())
        close(made.primal, X * X.sin())
        close(made.tangent, 3 * X * (X.sin() + X * X.cos()))
        assert forward_ad.unpack_dual(X).tangent is None and "tangent=" in repr(dual)
        assert float(dual[0]) == float(X[0]) and isinstance(dual, torch.Tensor)
    close(dual + 1, X + 1)
    assert forward_ad.unpack_dual(dual).tangent is None


def test_writes():
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(X, X)
        table = torch.zeros(2, 3, dtype=torch.float64)
        second = table[1]
        table[0] = dual
        second.add_(dual * 2)
        close(forward_ad.unpack_dual(table).tangent, torch.stack([X, 2 * X]))
        close(forward_ad.unpack_dual(table.view(-1)).tangent, torch.cat([X, 2 * X]))
        copy = dual.clone().mul_(2)
        copy[0] = 0
        close(forward_ad.unpack_dual(copy).tangent, torch.tensor([0, 2, 2]) * X)


def test_forward_over_reverse():
    with forward_ad.dual_level():
        x = X.clone().requires_grad_()
        dual = forward_ad.make_dual(x, torch.ones(3, dtype=torch.float64))
        made = forward_ad.unpack_dual(torch.autograd.grad((dual**3).sum(), x)[0])
        close(made.primal, 3 * X**2)
        close(made.tangent, 6 * X)


def test_a_network():
    model = nn.Sequential(
        nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(8, 3), nn.LayerNorm(3)
    )
    x, t = torch.randn(2, 1, 6, 6), torch.randn(2, 1, 6, 6)
    with forward_ad.dual_level():
        tangent = forward_ad.unpack_dual(model(forward_ad.make_dual(x, t))).tangent
    close(tangent, jvp(model, x, t)[1], atol=1e-5, rtol=1e-4)


def test_complex_numbers():
    z = torch.complex(X, 2 * X)
    with forward_ad.dual_level():
        made = forward_ad.unpack_dual(forward_ad.make_dual(z, z).conj() * z.exp()).tangent
    close(made, z.conj() * z.exp())


def nested():
    with forward_ad.dual_level(), forward_ad.dual_level():
        pass


def twice():
    with forward_ad.dual_level():
        forward_ad.make_dual(forward_ad.make_dual(X, X), X)


def of_integers():
    with forward_ad.dual_level():
        forward_ad.make_dual(torch.ones(2, dtype=torch.int64), X[:2])


@pytest.mark.parametrize(
    "call, kind, words",
    [
        (lambda: forward_ad.make_dual(X, X), RuntimeError, "no level exists"),
        (nested, RuntimeError, "Nested forward mode AD"),
        (twice, RuntimeError, "already has a forward gradient at the same level 0"),
        (of_integers, ValueError, "but got: torch.int64"),
        (forward_ad.exit_dual_level, RuntimeError, "Dual level must be a positive number"),
    ],
)
def test_errors(call, kind, words):
    with pytest.raises(kind, match=words):
        call()


def steps(x):
    return (x.sin() * x.flip(0)).cumsum(0)


def test_batched_gradients():
    x = X.clone().requires_grad_()
    y = steps(x)
    weights = torch.randn(4, 3, dtype=torch.float64)
    (made,) = torch.autograd.grad(y, x, weights, is_grads_batched=True, retain_graph=True)
    close(made, torch.stack([torch.autograd.grad(y, x, w, retain_graph=True)[0] for w in weights]))
    with pytest.raises(RuntimeError, match="we interpret the first dimension of each grad_output as the batch dimension"):
        torch.autograd.grad(y, x, weights[0], is_grads_batched=True)


@pytest.mark.parametrize("strategy", ["reverse-mode", "forward-mode"])
def test_vectorized_jacobians(strategy):
    close(jacobian(steps, X, vectorize=True, strategy=strategy), jacobian(steps, X))
    expected = jacobian(lambda a, b: (a * b, a.sum()), (X, 2 * X))
    made = jacobian(lambda a, b: (a * b, a.sum()), (X, 2 * X), vectorize=True, strategy=strategy)
    for row, other in zip(made, expected):
        for block, same in zip(row, other):
            close(block, same)
    square = lambda x: (steps(x) ** 2).sum()
    close(hessian(square, X, vectorize=True, outer_jacobian_strategy=strategy), hessian(square, X))


def test_gradcheck_of_forward_mode_and_batches():
    x = X.clone().requires_grad_()
    assert gradcheck(steps, x, check_forward_ad=True, check_batched_grad=True, check_batched_forward_grad=True)
    assert gradgradcheck(steps, x, check_fwd_over_rev=True, check_batched_grad=True)

    class Wrong(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

        @staticmethod
        def jvp(ctx, t):
            return t * 3

    with pytest.raises(RuntimeError, match="Jacobian computed with forward mode mismatch for output 0 with respect to input 0"):
        gradcheck(Wrong.apply, x, check_forward_ad=True)
