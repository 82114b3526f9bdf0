"""gradcheck finds wrong rules of every kind, and is content with right ones."""

import pytest

import flambeau as torch
from flambeau.autograd import Function, gradcheck, gradgradcheck
from flambeau.autograd.gradcheck import GradcheckError, get_analytical_jacobian, get_numerical_jacobian


class Twice(Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 3

    @staticmethod
    def jvp(ctx, rate):
        return rate * 3


def real():
    return torch.rand(2, dtype=torch.float64, requires_grad=True)


def number():
    return torch.rand(2, dtype=torch.complex128, requires_grad=True)


@pytest.mark.parametrize("fast", [True, False])
def test_right_rules(fast):
    for make in (real, number):
        x, y = make(), make()
        every = {"check_forward_ad": True, "check_batched_grad": True, "check_batched_forward_grad": True}
        assert gradcheck(lambda a, b: (a * b.exp(), torch.view_as_real(a * 1j)), (x, y), fast_mode=fast, **every)
    assert gradgradcheck(torch.sin, real(), fast_mode=fast, check_fwd_over_rev=True)


@pytest.mark.parametrize("fast", [True, False])
def test_wrong_rules(fast):
    def check(function, x, words, **keywords):
        with pytest.raises(GradcheckError, match=words):
            gradcheck(function, x, fast_mode=fast, **keywords)
        assert not gradcheck(function, x, fast_mode=fast, raise_exception=False, **keywords)

    mismatch = "Jacobian mismatch for output 0 with respect to input 0"
    check(Twice.apply, real(), mismatch)
    check(Twice.apply, number(), f"imaginary part of complex outputs only, {mismatch}")
    forward = {"check_forward_ad": True, "check_backward_ad": False}
    check(Twice.apply, real(), "Jacobian computed with forward mode mismatch", **forward)
    check(Twice.apply, number(), "imaginary part of complex inputs only, Jacobian computed with forward mode", **forward)
    check(lambda x: x.detach(), real(), "Numerical gradient for function expected to be zero")

    class Random(Twice):
        @staticmethod
        def backward(ctx, gradient):
            return gradient * 2 * (1 + 1e-5 * torch.rand(1))

    class Lone(Twice):
        @staticmethod
        def forward(ctx, x):
            ctx.set_materialize_grads(False)
            return x * 2

        @staticmethod
        def backward(ctx, gradient):
            return torch.ones(2, dtype=torch.float64) if gradient is None else gradient * 2

    check(Random.apply, real(), "Backward is not reentrant")
    assert gradcheck(Random.apply, real(), nondet_tol=1e-3, fast_mode=fast)
    check(Lone.apply, real(), "expected|Expected all input grads to be undefined or zero")
    assert gradcheck(Lone.apply, real(), check_undefined_grad=False, fast_mode=fast)

    def shifted(x):
        y = x.clone()
        y.register_hook(lambda gradient: gradient + 1e-2)
        return y

    check(
        shifted,
        torch.ones(1, dtype=torch.float64, requires_grad=True),
        "backward not multiplied by grad_output",
        atol=1e-1,
        check_undefined_grad=False,
    )


@pytest.mark.parametrize("fast", [True, False])
def test_sparse_inputs(fast):
    x = torch.tensor([[0.5, 0], [0, 2]], dtype=torch.float64).to_sparse().requires_grad_()
    assert gradcheck(lambda s: s.to_dense(), x, masked=True, fast_mode=fast)
    assert not gradcheck(lambda s: s.to_dense(), x, masked=False, fast_mode=fast, raise_exception=False)
    with pytest.raises(ValueError, match="Sparse output is not supported"):
        gradcheck(lambda s: s * 2, x, fast_mode=fast)


def test_what_cannot_be_checked():
    with pytest.raises(ValueError, match="at least one input tensor to require gradient"):
        gradcheck(torch.sin, torch.ones(2))
    with pytest.raises(RuntimeError, match="dimension with stride 0"):
        gradcheck(torch.sin, torch.ones(1, dtype=torch.float64).expand(3).requires_grad_())
    with pytest.raises(AssertionError, match="Expected at least one of"):
        gradcheck(torch.sin, real(), check_backward_ad=False)
    ones = torch.ones(1, dtype=torch.float64, requires_grad=True)
    with pytest.raises(AssertionError, match="outputs with the same shape when inputs are perturbed"):
        gradcheck(lambda x: torch.cat([x, x]) if x >= 1 else x, ones)
    with pytest.warns(UserWarning, match="not a double precision"):
        gradcheck(lambda x: x * 1, torch.ones(1, requires_grad=True), atol=1e-1)


def test_jacobians():
    a, b = real(), real()
    with pytest.warns(FutureWarning):
        made = get_numerical_jacobian(lambda xs: 2 * xs[0] + xs[1], (a, b), eps=1e-6)
    assert torch.allclose(made[0], 2 * torch.eye(2, dtype=torch.float64))
    assert torch.allclose(made[1], torch.eye(2, dtype=torch.float64))
    with pytest.warns(FutureWarning):
        jacobians, *flags = get_analytical_jacobian((a, b), 2 * a + b)
    assert jacobians[0].tolist() == [[2, 0], [0, 2]] and flags == [True, True, True]
