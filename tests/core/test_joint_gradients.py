"""Gradients of pointwise operators: all operands' at once are those of each operand alone."""

import pytest

import flambeau as torch
from flambeau.core.autograd import pointwise_backward
from flambeau.core.operator import variants

CALLS = {
    "mul": lambda x, y, z: x * y,
    "div": lambda x, y, z: x / y,
    "pow": lambda x, y, z: torch.pow(x, y),
    "atan2": lambda x, y, z: torch.atan2(x, y),
    "where": lambda x, y, z: torch.where(x > 1, x * 2, y),
    "addcdiv": lambda x, y, z: torch.addcdiv(x, y, z, value=0.5),
    "lerp by a number": lambda x, y, z: torch.lerp(x, y, 0.3),
    "lerp by a tensor": lambda x, y, z: torch.lerp(x, y, z),
    "smooth_l1_loss": lambda x, y, z: torch.nn.functional.smooth_l1_loss(x, y, reduction="none", beta=0.7),
    "half precision beside single": lambda x, y, z: x.bfloat16() * y / z.half(),
    "complex": lambda x, y, z: torch.polar(x, y).real * z,
}


def operands(kind):
    x, y, z = (torch.rand(6, 4, generator=torch.Generator().manual_seed(k)) + 0.5 for k in range(3))
    if kind == "strided":
        x, y = x.t().contiguous().t(), torch.stack([y, y], -1)[..., 0]
    if kind == "broadcast":
        y, z = y[:1], z[0, 0]
    if kind == "empty":
        x, y, z = x[:0], y[:0], z[:0]
    return [t.detach().requires_grad_() for t in (x, y, z)]


@pytest.mark.parametrize("kind", ["plain", "strided", "broadcast", "empty"])
@pytest.mark.parametrize("name", CALLS)
def test_all_operands_at_once_and_one_by_one(name, kind):
    leaves = operands(kind)
    out = CALLS[name](*leaves)
    g = torch.rand(out.shape, dtype=out.dtype, generator=torch.Generator().manual_seed(9))
    together = torch.autograd.grad(out, leaves, g, retain_graph=True, allow_unused=True)
    recorded = torch.autograd.grad(out, leaves, g, retain_graph=True, allow_unused=True, create_graph=True)
    for leaf, made, other in zip(leaves, together, recorded):
        if made is None:
            assert other is None
            continue
        (alone,) = torch.autograd.grad(out, leaf, g, retain_graph=True)
        assert made.dtype == alone.dtype == leaf.dtype and made.stride() == alone.stride()
        torch.testing.assert_close(made, alone, rtol=0, atol=0)
        torch.testing.assert_close(made, other.detach(), rtol=2e-6, atol=1e-6)


def test_saved_numbers_and_tensors_in_any_order():
    """What is saved may begin with a number: 2 ** y beside a tensor, or a weight among tensors."""
    x, y = (torch.tensor([1.5, 2.0], requires_grad=True) for _ in range(2))
    out = torch.addcmul(x, x, y, value=3) * torch.pow(2, y)
    out.sum().backward()
    a, b = x.detach().double(), y.detach().double()
    torch.testing.assert_close(x.grad.double(), (1 + 3 * b) * 2**b)
    torch.testing.assert_close(y.grad.double(), 3 * a * 2**b + (a + 3 * a * b) * 2**b * 0.6931471805599453)


def test_calls_with_numbers_are_recorded_and_differentiated_in_one_go(monkeypatch):
    """Keyword numbers that are not at their defaults take the quick way like others; their values aren't part of what is kept."""

    def weighted(value):
        return torch.addcmul(x, y, z, value=value)

    x, y, z = operands("plain")
    torch.autograd.grad(weighted(0.5).sum(), (x, y, z))
    made = {}
    with monkeypatch.context() as patched:
        patched.setattr(variants, "general", None)  # what calls that were not seen before go through
        patched.setattr(pointwise_backward.Gradient, "__call__", None)
        for value in (0.5, 2.0, -1.5):
            out = weighted(value)
            made[value] = torch.autograd.grad(out.sum(), (x, y, z))
            assert type(out.grad_fn).__name__ == "AddcmulBackward0"
    for value, (first, second, third) in made.items():
        assert first.eq(1).all()
        torch.testing.assert_close(second, value * z.detach())
        torch.testing.assert_close(third, value * y.detach())


def test_subclasses_see_each_gradient():
    """An operand that overrides gets its operators as before."""

    class Tagged(torch.Tensor):
        pass

    x = torch.tensor([1.0, 2.0]).as_subclass(Tagged).requires_grad_()
    y = torch.tensor([3.0, 4.0], requires_grad=True)
    (x * y).sum().backward()
    assert x.grad.tolist() == [3.0, 4.0] and y.grad.tolist() == [1.0, 2.0]
