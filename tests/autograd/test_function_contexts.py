"""Custom Functions: names, defaults, marks, what backward and jvp are given."""

import pytest

import flambeau as torch
from flambeau.autograd import Function, forward_ad


class Double(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2


def test_the_node_is_called_after_the_function():
    y = Double.apply(torch.ones(2, requires_grad=True))
    assert type(y.grad_fn).__name__ == y.grad_fn.name() == "DoubleBackward"
    assert type(y.grad_fn) is Double._backward_cls
    assert isinstance(y.grad_fn, torch.autograd.graph.Node)
    with pytest.raises(TypeError, match="not callable"):
        y.grad_fn(torch.ones(2))


def test_nodes_of_operators_are_callable():
    x = torch.ones(3, requires_grad=True)
    node = (x * 3).grad_fn
    gradient, nothing = node(torch.ones(3))
    assert gradient.tolist() == [3, 3, 3] and nothing is None
    with pytest.raises(TypeError, match="expected 1 arguments, got 2 instead"):
        node(torch.ones(3), torch.ones(3))
    with pytest.raises(TypeError, match="argument 0 is not a Variable"):
        node(1)


def test_defaults_reach_setup_context():
    class Power(Function):
        @staticmethod
        def forward(x, exponent=3):
            return x**exponent

        @staticmethod
        def setup_context(ctx, inputs, output):
            x, ctx.exponent = inputs
            ctx.save_for_backward(x)

        @staticmethod
        def backward(ctx, gradient):
            (x,) = ctx.saved_tensors
            return gradient * ctx.exponent * x ** (ctx.exponent - 1), None

    x = torch.tensor(2.0, requires_grad=True)
    assert torch.autograd.grad(Power.apply(x), x)[0] == 12


def test_marks():
    class Wrong(Double):
        @staticmethod
        def forward(ctx, x):
            y = x * 2
            ctx.mark_dirty(y)
            return y

    class Two(Double):
        @staticmethod
        def forward(ctx, x):
            x.add_(1)
            ctx.mark_dirty(x)
            return x, x * 2

    x = torch.ones(2, requires_grad=True)
    with pytest.warns(UserWarning, match="that was not an input"):
        Wrong.apply(x)
    with pytest.raises(RuntimeError, match="cannot return more than one Tensor"):
        Two.apply((x * 1)[:])
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad has been used"):
        Two.apply(x)


def test_backward_runs_without_gradients():
    seen = []

    class Two(Function):
        @staticmethod
        def forward(ctx, x):
            other = x * 3
            ctx.mark_non_differentiable(other)
            ctx._materialize_non_diff_grads = False
            return x * 2, other

        @staticmethod
        def backward(ctx, first, second):
            seen.append((first.tolist(), second))
            return first

    x = torch.ones(2, requires_grad=True)
    y, _ = Two.apply(x)
    torch._C._functions.UndefinedGrad()(y).sum().backward()
    assert seen == [([0, 0], None)]


def test_jvp_gets_zeros_and_what_was_saved_for_it():
    class Product(Function):
        @staticmethod
        def forward(ctx, x, factor, y):
            ctx.factor = factor
            ctx.save_for_backward(x)
            ctx.save_for_forward(x, y)
            return x * y * factor

        @staticmethod
        def jvp(ctx, x_rate, factor_rate, y_rate):
            x, y = ctx.saved_tensors
            assert factor_rate is None
            return (x_rate * y + x * y_rate) * ctx.factor

    with forward_ad.dual_level():
        x = forward_ad.make_dual(torch.tensor(2.0), torch.tensor(1.0))
        made = Product.apply(x, 4, torch.tensor(3.0))
        assert forward_ad.unpack_dual(made).tangent == 12


def test_jvp_of_views_and_writes():
    class View(Function):
        @staticmethod
        def forward(ctx, x):
            return x.view_as(x)

        @staticmethod
        def jvp(ctx, rate):
            return rate * 1

    class Written(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_dirty(x)
            return x.mul_(2)

        @staticmethod
        def jvp(ctx, rate):
            return rate * 2

    class Right(Written):
        @staticmethod
        def jvp(ctx, rate):
            return rate.mul_(2)

    with forward_ad.dual_level():

        def moving():
            return forward_ad.make_dual(torch.ones(2), torch.ones(2))

        with pytest.raises(RuntimeError, match="jvp is not returning a view"):
            View.apply(moving())
        with pytest.raises(RuntimeError, match="must modify the corresponding gradient inplace"):
            Written.apply(moving())
        x = moving()
        assert Right.apply(x) is x
        assert forward_ad.unpack_dual(x).tangent.tolist() == [2, 2]


def test_a_tangent_is_copied_unless_it_lies_as_the_value_does():
    value, rate = torch.randn(5)[:4], torch.randn(4)
    with forward_ad.dual_level():
        moved = forward_ad.unpack_dual(forward_ad.make_dual(value, rate)).tangent
        moved *= 0
        assert rate.any() and forward_ad._current_level == 0
        alike = torch.randn(4)
        assert forward_ad.unpack_dual(forward_ad.make_dual(torch.ones(4), alike)).tangent is alike
    assert forward_ad._current_level == -1


def test_deep_backward_inside_backward():
    class Deep(Function):
        @staticmethod
        def forward(ctx, x):
            with torch.enable_grad():
                ctx.x = x.detach().requires_grad_() - 1
            return ctx.x.detach()

        @staticmethod
        def backward(ctx, gradient):
            if ctx.x >= 0:
                with torch.enable_grad():
                    Deep.apply(ctx.x).sum().backward()
            return gradient

    x = torch.tensor(300.0, requires_grad=True)
    Deep.apply(x).sum().backward()
    assert x.grad == 1


def test_forward_and_backward_may_be_plain_functions() -> None:
    class Doubled(torch.autograd.Function):
        def forward(ctx, x):
            return x * 2

        def backward(ctx, gradient):
            return gradient * 2

    x = torch.ones(2, requires_grad=True)
    Doubled.apply(x).sum().backward()
    assert x.grad.tolist() == [2, 2]
    Doubled.forward = lambda ctx, x: x * 3
    assert Doubled.apply(x).tolist() == [3, 3]
    with pytest.raises(RuntimeError, match="non-static forward method"), pytest.warns(DeprecationWarning):
        Doubled()(x)
