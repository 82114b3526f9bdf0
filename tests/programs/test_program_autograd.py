"""Programs about gradients: the graph, accumulation, detaching, turning it off."""

import pytest
from implementation import torch


def test_a_scalar_function():
    x = torch.tensor(2.0, requires_grad=True)
    y = x**2 + 3 * x + 1
    y.backward()
    assert str(x.grad) == "tensor(7.)"


def test_several_variables():
    a = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    b = torch.tensor([4.0, 5.0, 6.0], requires_grad=True)
    (a * b).sum().backward()
    assert a.grad.tolist() == [4, 5, 6] and b.grad.tolist() == [1, 2, 3]


def test_the_graph_can_be_inspected():
    x = torch.tensor(2.0, requires_grad=True)
    z = (x**2).sum()
    assert str(z.grad_fn).startswith("<SumBackward0 object at 0x")
    ((power, index),) = z.grad_fn.next_functions
    assert power.name() == "PowBackward0" and index == 0
    ((leaf, _),) = power.next_functions
    assert leaf.name() == "torch::autograd::AccumulateGrad" and leaf.variable is x
    assert x.is_leaf and x.grad_fn is None and not z.is_leaf and z.requires_grad


def test_a_gradient_given_by_hand():
    x = torch.randn(3, requires_grad=True)
    y = x * 2
    y.backward(torch.ones_like(y))
    assert x.grad.tolist() == [2, 2, 2]


def test_gradients_accumulate_until_they_are_cleared():
    x = torch.tensor(3.0, requires_grad=True)
    for _ in range(3):
        (x**2).backward()
    assert x.grad.item() == 18
    for _ in range(3):
        x.grad = None
        (x**2).backward()
    assert x.grad.item() == 6
    x.grad.zero_()
    assert x.grad.item() == 0


@pytest.mark.parametrize("set_to_none", [True, False])
def test_zero_grad(set_to_none):
    w = torch.nn.Parameter(torch.ones(2))
    optimizer = torch.optim.SGD([w], lr=0.1)
    (w * 3).sum().backward()
    optimizer.zero_grad(set_to_none=set_to_none)
    assert w.grad is None if set_to_none else w.grad.tolist() == [0, 0]


def test_detach_severs_the_graph_and_shares_memory():
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    y = x**2
    z = y.detach()
    assert not z.requires_grad and z.grad_fn is None and z.data_ptr() == y.data_ptr()
    (y * z).sum().backward()
    assert x.grad.tolist() == [2.0, 16.0]  # z counts as a constant
    assert z.cpu().numpy().tolist() == [1.0, 4.0]


def test_a_frozen_target_network_gets_no_gradient():
    current, target = torch.nn.Linear(4, 2), torch.nn.Linear(4, 2)
    states = torch.randn(5, 4)
    target_q = target(states).max(dim=1).values.detach()
    current_q = current(states).gather(1, torch.zeros(5, 1, dtype=torch.int64)).squeeze(1)
    torch.nn.functional.mse_loss(current_q, target_q).backward()
    assert target.weight.grad is None and current.weight.grad.abs().sum().item() > 0
    assert current.weight.grad[1].abs().sum().item() == 0


def test_no_grad_builds_no_graph():
    x = torch.ones(2, requires_grad=True)
    with torch.no_grad():
        assert not (x * 2).requires_grad and not torch.is_grad_enabled()
        with torch.enable_grad():
            assert (x * 2).requires_grad

    @torch.no_grad()
    def double(value):
        return value * 2

    assert not double(x).requires_grad and torch.is_grad_enabled()
    with torch.inference_mode():
        assert (x * 2).is_inference()


def test_weights_updated_by_hand():
    w = torch.tensor([1.0, 2.0], requires_grad=True)
    (w**2).sum().backward()
    with torch.no_grad():
        w -= 0.25 * w.grad
    assert w.tolist() == [0.5, 1.0] and w.requires_grad and w.is_leaf


def test_requires_grad_in_place():
    w = torch.nn.Parameter(torch.ones(2))
    assert w.requires_grad
    assert w.requires_grad_(False) is w and not (w * 2).requires_grad


def test_retained_graph_and_retained_gradient():
    x = torch.tensor(3.0, requires_grad=True)
    y = x * x
    y.retain_grad()
    z = y * 2
    z.backward(retain_graph=True)
    z.backward()
    assert x.grad.item() == 24 and y.grad.item() == 4


def test_higher_order():
    x = torch.tensor(2.0, requires_grad=True)
    (first,) = torch.autograd.grad(x**3, x, create_graph=True)
    (second,) = torch.autograd.grad(first, x)
    assert first.item() == 12 and second.item() == 12


def test_own_function():
    class Cube(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return grad * 3 * x**2

    x = torch.tensor([1.0, 2.0], dtype=torch.float64, requires_grad=True)
    Cube.apply(x).sum().backward()
    assert x.grad.tolist() == [3, 12]
    assert torch.autograd.gradcheck(Cube.apply, (x,))


def test_jacobian_and_hessian():
    def f(x):
        return (x**2).sum()

    x = torch.tensor([1.0, 2.0])
    assert torch.autograd.functional.jacobian(f, x).tolist() == [2, 4]
    assert torch.autograd.functional.hessian(f, x).tolist() == [[2, 0], [0, 2]]


def test_in_place_write_on_a_view_reaches_the_gradient():
    x = torch.ones(4, requires_grad=True)
    y = x * 1
    y[:2] *= 3
    y.sum().backward()
    assert x.grad.tolist() == [3, 3, 1, 1]
