"""What a function under a transform may write to: its arguments and what it makes, not what it captured."""

import pytest

import flambeau as torch
from flambeau.func import functional_call, grad, jacfwd, jacrev, jvp, vjp, vmap

X = torch.arange(3.0)
TRANSFORMS = {
    "grad": lambda f: grad(f)(X),
    "vjp": lambda f: vjp(f, X),
    "jvp": lambda f: jvp(f, (X,), (torch.ones(3),)),
    "jacrev": lambda f: jacrev(f)(X),
    "jacfwd": lambda f: jacfwd(f)(X),
    "vmap of grad": lambda f: vmap(grad(f))(torch.ones(2, 3)),
    "grad of vmap": lambda f: grad(lambda x: vmap(f)(x).sum())(torch.ones(2, 3)),
}
WRITES = {
    "add_.Tensor": lambda y, x: y.add_(x),
    "mul_.Tensor": lambda y, x: y.mul_(2),
    "zero_": lambda y, x: y.zero_(),
    "fill_.Scalar": lambda y, x: y.fill_(2.0),
    "copy_": lambda y, x: y.__setitem__(0, 5.0),
    "relu_": lambda y, x: torch.relu_(y),
    "addcmul_": lambda y, x: y[:2].addcmul_(torch.ones(2), torch.ones(2)),
    "unsqueeze_": lambda y, x: y.unsqueeze_(0),
    "detach_": lambda y, x: y.detach_(),
}


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("operator", WRITES)
def test_a_captured_tensor_must_not_be_written_to(transform, operator):
    captured = torch.ones(3)

    def function(x):
        WRITES[operator](captured, x)
        return (captured * x).sum()

    with pytest.raises(RuntimeError) as caught:
        TRANSFORMS[transform](function)
    assert type(caught.value) is RuntimeError
    assert str(caught.value) == (
        "During a grad (vjp, jvp, grad, etc) transform, the function provided attempted to call in-place operation "
        f"(aten::{operator}) that would mutate a captured Tensor. This is not supported; please rewrite the function being "
        "transformed to explicitly accept the mutated Tensor(s) as inputs."
    )
    assert captured.tolist() == [1.0, 1.0, 1.0]
    captured.add_(1)  # outside it may be


@pytest.mark.parametrize("operator", sorted(set(WRITES) - {"unsqueeze_", "detach_", "addcmul_"}))
def test_what_a_function_makes_may_be_written_to(operator):
    def function(x):
        y = torch.ones(3)
        WRITES[operator](y, x)
        return (y * x).sum()

    expected = {
        "add_.Tensor": [1.0, 3.0, 5.0],
        "mul_.Tensor": [2.0] * 3,
        "zero_": [0.0] * 3,
        "fill_.Scalar": [2.0] * 3,
        "copy_": [5.0, 1.0, 1.0],
        "relu_": [1.0] * 3,
    }
    assert grad(function)(X).tolist() == expected[operator]
    assert jacfwd(function)(X).tolist() == expected[operator]


def test_an_inner_transform_refuses_what_the_outer_one_made():
    def outer(x):
        y = torch.ones(3)

        def inner(z):
            y.mul_(2)
            return (y * z).sum()

        return grad(inner)(x).sum()

    with pytest.raises(RuntimeError, match="would mutate a captured Tensor"):
        grad(outer)(X)


def test_arguments_may_be_written_to_and_stay_out_of_the_graph():
    y = torch.ones(3)

    def function(x, y):
        y.add_(x)
        return (x * y).sum()

    assert grad(function)(torch.ones(3), y).tolist() == [3.0, 3.0, 3.0]
    assert y.tolist() == [2.0, 2.0, 2.0] and not y.requires_grad


def test_running_statistics_of_batch_norm():
    module = torch.nn.BatchNorm1d(3)
    parameters = {name: p.detach() for name, p in module.named_parameters()}

    def loss(p, x):
        return functional_call(module, p, (x,)).sum()

    with pytest.raises(RuntimeError, match=r"aten::add_\.Tensor\) that would mutate a captured Tensor"):
        grad(loss)(parameters, torch.ones(4, 3))
    module.eval()
    assert grad(loss)(parameters, torch.ones(4, 3))["bias"].tolist() == [4.0, 4.0, 4.0]


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_no_requires_grad_and_no_backward_inside(transform):
    def asks(x):
        return (x * torch.ones(3).requires_grad_()).sum()

    def goes_back(x):
        (torch.ones(3, requires_grad=True) * 2).sum().backward()
        return x.sum()

    with pytest.raises(RuntimeError, match=r"^You are attempting to call Tensor.requires_grad_\(\)"):
        TRANSFORMS[transform](asks)
    with pytest.raises(RuntimeError, match=r"^backward\(\) called inside a functorch transform."):
        TRANSFORMS[transform](goes_back)


def test_detach_drops_the_tangent():
    assert jacfwd(lambda x: x.detach() * x)(X).diagonal().tolist() == [0.0, 1.0, 2.0]

    def writes(x):
        y = x * 2
        y.detach().add_(x)  # the value only
        y[torch.tensor([0])] = x[:1]
        return y * x

    assert jacfwd(writes)(X).diagonal().tolist() == [0.0, 5.0, 10.0]


def test_derivatives_in_inference_mode():
    with torch.inference_mode():
        x = torch.ones(2)
        assert grad(lambda x: (x**3).sum())(x).tolist() == [3.0, 3.0]
        assert torch.func.hessian(lambda x: (x**3).sum())(x).tolist() == [[6.0, 0.0], [0.0, 6.0]]
